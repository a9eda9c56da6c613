//! Where effects go.

use latchkey_factory_plus::Uuid;

use super::{Answer, Effect};

/// What carries effects out: clients of the configuration database, the authorisation service, the git server and the
/// KDC. What it promises stands at the [module](super).
///
/// A driver keeps a [`Fleet`](super::Fleet), gives it events with a [`Moment`](super::Moment) each, runs a timer for
/// each [`Effect::SetTimer`], and for every other order a task that carries it out and comes back with
/// [`Event::Answer`](super::Event::Answer); orders of different clusters run side by side.
pub trait World {
    /// Carries out an effect for a cluster, within a time limit of its own, and says what became of it.
    fn carry_out(&self, cluster: Uuid, effect: &Effect) -> impl Future<Output = Answer> + Send;
}
