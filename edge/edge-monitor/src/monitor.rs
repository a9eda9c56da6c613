//! A monitor at work: who it is, a number, a session, and again.

use std::time::Duration;

use latchkey_connection_limits::Backoff;
use latchkey_edge_service::AccountSection;
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus_client::Client;
use latchkey_service_runtime::log_limiter::LogLimiter;
use mqtt_proto::v3::Connect;
use smol::Timer;
use smol::future::FutureExt as _;

use crate::birth::Identity;
use crate::broker::{Broker, BrokerError};
use crate::follow::{follow, seed};
use crate::latest::Latest;
use crate::mqtt::{BrokerUrl, OpenError, open};
use crate::node::{Fault, News, Node};
use crate::number::{Numbers, Store, StoreError};
use crate::session::{Clock, SessionError, carry};

/// The longest pause before a broker that is away is tried again, milliseconds: one that is back hears a birth within five seconds.
const AWAY_MS: u64 = 4000;
/// The same for one that refuses us, which somebody has to change.
const REFUSED_MS: u64 = 60_000;
/// A session that lasted so long was a good one: pauses begin anew after it.
const GOOD: Duration = Duration::from_secs(10);

/// What a monitor is made of.
#[derive(Debug)]
pub struct Monitor<S> {
    /// The centre.
    pub client: Client,
    /// Who it is there and at the broker.
    pub account: AccountSection,
    /// The cluster that it monitors.
    pub cluster: Uuid,
    /// The way to the broker.
    pub broker: Broker,
    /// Numbers of connections.
    pub numbers: Numbers<S>,
}

/// Why a session did not begin, or ended.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Broker(#[from] BrokerError),
    #[error("{0}")]
    Open(#[from] OpenError),
    #[error("no number for the connection: {0}")]
    Number(#[from] StoreError),
    #[error("the account: {0}")]
    Account(String),
    #[error("{0}")]
    Session(#[from] SessionError),
}

impl Failure {
    /// Whether somebody has to change something.
    const fn is_refusal(&self) -> bool {
        matches!(self, Self::Session(SessionError::Fault(Fault::Refused(_) | Fault::NoCommands)) | Self::Account(_))
    }
}

/// Why a session was ended on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The program was asked to end.
    Stopped,
    /// The centre says that this monitor is another one.
    Moved,
}

/// How long to wait after failures.
struct Pauses {
    away: Backoff,
    refused: Backoff,
    /// What was said last, to say it once.
    told: Option<String>,
}

impl<S: Store> Monitor<S> {
    /// Works until `stop` is ready, and says farewell to the broker then.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let known = Latest::new(None);
        let (client, cluster) = (self.client.clone(), self.cluster);
        let following = async { match follow(&client, cluster, &known).await {} };
        self.publish(&known, stop).or(following).await;
    }

    /// The same for who hears from somebody else who this monitor is: nothing is published while that is not known.
    pub async fn publish(mut self, known: &Latest<Option<Identity>>, stop: impl Future<Output = ()>) {
        let stopping = Latest::new(false);
        let stop = async {
            stop.await;
            stopping.set(true);
            std::future::pending::<()>().await;
        };
        self.work(known, &stopping).or(stop).await;
    }

    async fn work(&mut self, known: &Latest<Option<Identity>>, stopping: &Latest<bool>) {
        let clock = Clock::start();
        let away = Backoff::new(seed()).up_to(AWAY_MS);
        let refused = Backoff::new(seed()).up_to(REFUSED_MS);
        let mut pauses = Pauses { away, refused, told: None };
        let mut last_url = None;
        let stopped = || stopping.wait(|stopping| stopping.then_some(()));
        loop {
            let identity = async { Some(known.wait(Clone::clone).await) };
            let stop = async {
                stopped().await;
                None
            };
            let Some(identity) = stop.or(identity).await else { return };
            let began = clock.now().elapsed;
            let end = async {
                known.wait(|known| (known.as_ref() != Some(&identity)).then_some(())).await;
                End::Moved
            };
            let end = async {
                stopped().await;
                End::Stopped
            }
            .or(end);
            let failure = match self.session(&identity, &mut last_url, clock, end).await {
                Ok(End::Stopped) => return,
                Ok(End::Moved) => {
                    tracing::info!(was = %identity.address, "This monitor has another address, or none");
                    continue;
                }
                Err(failure) => failure,
            };
            let pause = pauses.after(&failure, clock.now().elapsed.saturating_sub(began));
            let waited = async {
                Timer::after(pause).await;
            };
            let other = async {
                known.wait(|known| (known.as_ref() != Some(&identity)).then_some(())).await;
            };
            waited.or(stopped()).or(other).await;
        }
    }

    /// One session: from the way to the broker to its end.
    async fn session(
        &mut self,
        identity: &Identity,
        last_url: &mut Option<BrokerUrl>,
        clock: Clock,
        end: impl Future<Output = End>,
    ) -> Result<End, Failure> {
        let mut end = std::pin::pin!(end);
        let ready = async {
            let route = self.broker.find(&self.client, last_url).await?;
            let stream = open(&route).await?;
            // The last step before it is used: a broker that is away uses up no numbers.
            let taken = self.numbers.take().await?;
            if let Some(error) = &taken.unsaved {
                tracing::warn!(%error, number = taken.number.number(), "The connection's number is not kept");
            }
            Ok((route, stream, taken.number))
        };
        let ready = async { ready.await.map(Ok) };
        let ended = async { Ok(Err(end.as_mut().await)) };
        let (route, stream, number) = match ended.or(ready).await {
            Ok(Ok(ready)) => ready,
            Ok(Err(end)) => return Ok(end),
            Err(failure) => return Err(failure),
        };
        let (mut node, connect) = Node::connect(identity.clone(), number, clock.now()).map_err(SessionError::from)?;
        let connect = self.with_account(connect)?;
        let ignored = LogLimiter::new();
        let tell = |news: News| match news {
            News::Born { again } => {
                tracing::info!(address = %identity.address, broker = %route.url, number = number.number(), again, "Born");
            }
            News::Ignored(why) => {
                if let Some(left_out) = ignored.write_now() {
                    tracing::warn!(%why, left_out, "A message was ignored");
                }
            }
        };
        Ok(carry(stream, &mut node, connect, clock, end, tell).await?)
    }

    /// Name and password, as they are now.
    fn with_account(&self, mut connect: Connect) -> Result<Connect, Failure> {
        let password = self.account.password().map_err(Failure::Account)?;
        connect.username = Some(self.account.principal.as_str().into());
        // The packet's own copy is wiped with it.
        connect.password = Some(bytes::Bytes::from_owner(Secret(password)));
        Ok(connect)
    }
}

/// The bytes of a password.
struct Secret(zeroize::Zeroizing<String>);

impl AsRef<[u8]> for Secret {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Pauses {
    /// How long to wait after a session that lasted `lasted`. Says why it is over, where that was not said last.
    fn after(&mut self, failure: &Failure, lasted: Duration) -> Duration {
        if lasted >= GOOD {
            self.away.reset();
            self.refused.reset();
            self.told = None;
        }
        let pauses = if failure.is_refusal() { &mut self.refused } else { &mut self.away };
        let pause = Duration::from_millis(pauses.next_ms());
        let said = failure.to_string();
        if self.told.as_ref() != Some(&said) {
            tracing::warn!(%failure, "Not connected; it is tried again");
            self.told = Some(said);
        }
        pause
    }
}

#[cfg(test)]
mod tests {
    use mqtt_proto::v3::ConnectReturnCode;

    use super::*;

    fn pauses() -> Pauses {
        Pauses { away: Backoff::new(3).up_to(AWAY_MS), refused: Backoff::new(5).up_to(REFUSED_MS), told: None }
    }

    #[test]
    fn pauses_grow_and_a_broker_that_is_back_waits_less_than_five_seconds() {
        let mut pauses = pauses();
        let closed = || Failure::Session(SessionError::Closed);
        let first = pauses.after(&closed(), Duration::ZERO);
        assert!(first <= Duration::from_millis(500), "{first:?}");
        let later: Vec<_> = (0..20).map(|_| pauses.after(&closed(), Duration::from_secs(1))).collect();
        assert!(later.iter().all(|pause| *pause <= Duration::from_secs(4)), "{later:?}");
        assert!(later[10..].iter().all(|pause| *pause >= Duration::from_secs(2)), "{later:?}");
        assert!(later.windows(2).any(|pair| pair[0] != pair[1]), "jitter");
        // A session that was good begins anew.
        assert!(pauses.after(&closed(), GOOD) <= Duration::from_millis(500));
    }

    #[test]
    fn who_is_refused_comes_less_often() {
        let mut pauses = pauses();
        let refused = || Failure::Session(Fault::Refused(ConnectReturnCode::NotAuthorized).into());
        let longest = (0..12).map(|_| pauses.after(&refused(), Duration::ZERO)).max().unwrap();
        assert!(longest >= Duration::from_secs(30), "{longest:?}");
        // Other pauses than those of a broker that is away.
        assert!(pauses.after(&Failure::Session(SessionError::Closed), Duration::ZERO) <= Duration::from_millis(500));
    }
}
