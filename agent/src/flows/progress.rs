//! Progress of the boot, to everybody who follows it.

use std::sync::{Arc, Mutex, PoisonError};

use latchkey_api::grpc::{Replies, Status};
use latchkey_api::v1::{InitEvent, Progress, init_event};
use smol::channel::{Receiver, Sender, TrySendError, bounded};
use smol::future::FutureExt as _;

/// How many lines a slow follower may lag before it misses some.
const LAG: usize = 256;
/// How many lines a late follower is shown from before it came.
const PAST: usize = 64;
/// How many follow at once.
const FOLLOWERS: usize = 8;

/// Sends lines to all followers. Cloning is cheap; all clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Broadcast(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    past: Vec<Progress>,
    followers: Vec<Sender<Progress>>,
}

impl Broadcast {
    /// Tells everybody. Never waits: a follower that does not read misses lines.
    pub(crate) fn tell(&self, step: &str, detail: &str, elapsed_ms: u64) {
        let line = Progress { step: step.into(), detail: detail.into(), elapsed_ms };
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.past.len() == PAST {
            state.past.remove(0);
        }
        state.past.push(line.clone());
        state.followers.retain(|follower| !matches!(follower.try_send(line.clone()), Err(TrySendError::Closed(_))));
    }

    /// Everything that was told lately, and all that will be. `None` if too many follow already.
    pub(crate) fn follow(&self) -> Option<Receiver<Progress>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.followers.retain(|follower| !follower.is_closed());
        if state.followers.len() >= FOLLOWERS {
            return None;
        }
        let (sender, receiver) = bounded(LAG);
        for line in &state.past {
            // Cannot be full: LAG exceeds PAST.
            let _ = sender.try_send(line.clone());
        }
        state.followers.push(sender);
        Some(receiver)
    }
}

/// Passes progress on until `work` ends.
pub(crate) async fn follow_until<T>(
    work: impl Future<Output = T>,
    progress: &Receiver<Progress>,
    replies: &mut Replies<InitEvent>,
) -> Result<T, Status> {
    enum Next<T> {
        Line(Progress),
        Done(T),
    }
    let mut work = std::pin::pin!(work);
    loop {
        let line = async {
            match progress.recv().await {
                Ok(line) => Next::Line(line),
                Err(_) => std::future::pending().await,
            }
        };
        match line.or(async { Next::Done(work.as_mut().await) }).await {
            Next::Line(line) => send(replies, line).await?,
            Next::Done(result) => {
                while let Ok(line) = progress.try_recv() {
                    send(replies, line).await?;
                }
                return Ok(result);
            }
        }
    }
}

async fn send(replies: &mut Replies<InitEvent>, line: Progress) -> Result<(), Status> {
    replies.send(&InitEvent { event: Some(init_event::Event::Progress(line)) }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_follower_sees_the_past_and_a_slow_one_holds_nobody_up() {
        let broadcast = Broadcast::default();
        broadcast.tell("network", "10.0.2.15", 12);
        let late = broadcast.follow().unwrap();
        for at in 0..1000 {
            broadcast.tell("step", "x", at);
        }
        assert_eq!(late.try_recv().unwrap().step, "network");
        assert_eq!(late.len(), LAG - 1);
    }

    #[test]
    fn followers_are_bounded_and_gone_ones_make_room() {
        let broadcast = Broadcast::default();
        let mut held = (0..FOLLOWERS).map(|_| broadcast.follow().unwrap()).collect::<Vec<_>>();
        assert!(broadcast.follow().is_none());
        held.pop();
        assert!(broadcast.follow().is_some());
    }
}
