//! `GetDataKey` as gRPC sees it: asks the gate, writes the audit line, answers.

use crate::callers::{Caller, CallerName};
use crate::config::CallerRule;
use crate::current::Current;
use crate::decision::{Asked, Decision, KeyRefusal};
use crate::metrics::Metrics;
use latchkey_api::grpc::{Request, Status};
use latchkey_api::v1::{GetDataKeyRequest, GetDataKeyResponse, Keys};
use latchkey_service_runtime::log_limiter::LogLimiter;
use latchkey_service_runtime::request_id::RequestIds;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// A connection's other end. Who it is, is asked of the rules in force at each call: a rule that is gone counts at once.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    /// In its verified certificate.
    pub(crate) names: Vec<CallerName>,
}

impl Client {
    pub(crate) fn identify(&self, rules: &[CallerRule]) -> Peer {
        let caller = Caller::identify(rules, &self.names);
        let known = match caller {
            Caller::Known(index) => rules.get(index).map(|rule| &rule.name),
            Caller::Stranger | Caller::Ambiguous => None,
        };
        Peer::new(self.address, caller, known, &self.names)
    }
}

/// What is known about a call's other end.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) caller: Caller,
    /// For the audit line: the rule's name, or what the certificate says when no rule matches.
    pub(crate) label: String,
}

impl Peer {
    /// Names kept of a certificate that no single rule matches.
    const NAMES_IN_LOG: usize = 4;

    fn new(address: SocketAddr, caller: Caller, known: Option<&CallerName>, names: &[CallerName]) -> Self {
        let label = known.map_or_else(
            || {
                // Quoted here, so that a space in a name makes no second name; the whole is quoted by the log.
                let shown = names.iter().take(Self::NAMES_IN_LOG).map(|name| format!("{:?}", name.to_string()));
                format!("unknown({})", shown.collect::<Vec<_>>().join(" "))
            },
            ToString::to_string,
        );
        Self { address, caller, label }
    }
}

#[derive(Debug)]
pub(crate) struct KeyService {
    current: Arc<Current>,
    metrics: Arc<Metrics>,
    ids: RequestIds,
    noise: LogLimiter,
    started: Instant,
}

impl KeyService {
    pub(crate) fn new(current: Arc<Current>, metrics: Arc<Metrics>) -> Self {
        Self { current, metrics, ids: RequestIds::new(), noise: LogLimiter::new(), started: Instant::now() }
    }

    /// One line per call; calls above their rate are told about in fewer lines, which say how many they stand for.
    fn audit(&self, request_id: &str, peer: &Peer, asked: Asked<'_>, decision: &Decision) {
        let line = match decision.outcome {
            Err(KeyRefusal::RateLimited) => self.noise.write_now(),
            _ => Some(0),
        };
        if let Some(left_out) = line {
            write_audit_line(request_id, peer, asked, decision, left_out);
        }
    }
}

impl Keys<Client> for KeyService {
    async fn get_data_key(&self, request: Request<Client, GetDataKeyRequest>) -> Result<GetDataKeyResponse, Status> {
        let begun = Instant::now();
        let GetDataKeyRequest { key_id, length, version } = &request.message;
        let asked = Asked { key_id, length: *length, version: *version };
        let rules = self.current.rules();
        let peer = request.context.identify(rules.callers());
        let decision = rules.decide(peer.caller, asked, self.started.elapsed());
        let request_id = self.ids.next();
        self.audit(&request_id, &peer, asked, &decision);
        self.metrics.call(decision.outcome.as_ref().err(), begun.elapsed());
        match decision.outcome {
            Ok(derived) => {
                Ok(GetDataKeyResponse { data_key: derived.key.expose().to_vec(), version: derived.version.number() })
            }
            Err(refusal) => Err(status(&refusal, &request_id)),
        }
    }
}

/// One line for each call that no handler ever saw, because it does not decode or asks for what is not here; the outcome is its
/// gRPC code. Anybody with a certificate can cause them at will, so their number is bounded.
pub(crate) fn audit_unhandled(current: Arc<Current>) -> impl Fn(&Client, &str, &Status) + Send + Sync + 'static {
    let (ids, noise) = (RequestIds::new(), LogLimiter::new());
    move |client, path, status| {
        if let Some(left_out) = noise.write_now() {
            let peer = client.identify(current.rules().callers());
            let path: String = path.chars().take(MAX_PATH).collect();
            tracing::warn!(
                target: "audit", request_id = ids.next(), caller = peer.label, peer = %peer.address, path,
                outcome = status.code().name(), left_out, "Unhandled call"
            );
        }
    }
}

/// What a line shows of the path of a call, in characters.
const MAX_PATH: usize = 128;

/// On the target `audit`. Neither the key nor any text of the request goes into it.
fn write_audit_line(request_id: &str, peer: &Peer, asked: Asked<'_>, decision: &Decision, left_out: u64) {
    let Asked { length, version, .. } = asked;
    let key_id = decision.key_id.map_or_else(|| "-".to_owned(), |id| id.to_string());
    let class = decision.key_id.map_or("-", |id| id.class().name());
    let Peer { address, label, .. } = peer;
    match &decision.outcome {
        Ok(derived) => tracing::info!(
            target: "audit", request_id, caller = label, peer = %address, class, key_id, length,
            version = derived.version.number(), outcome = "granted", "Data key request"
        ),
        Err(refusal) => tracing::warn!(
            target: "audit", request_id, caller = label, peer = %address, class, key_id, length, version,
            outcome = refusal.code().as_str(), left_out, "Data key request"
        ),
    }
}

fn status(refusal: &KeyRefusal, request_id: &str) -> Status {
    let code = refusal.code();
    let message = format!("{refusal}: {} [{code}, request {request_id}]", code.remedy());
    match refusal {
        KeyRefusal::RateLimited => Status::resource_exhausted(message),
        KeyRefusal::UnknownCaller | KeyRefusal::AmbiguousCaller | KeyRefusal::ClassDenied(_) => {
            Status::permission_denied(message)
        }
        KeyRefusal::BadKeyId(_) | KeyRefusal::BadLength(_) => Status::invalid_argument(message),
        KeyRefusal::UnknownVersion(_) => Status::not_found(message),
        KeyRefusal::Internal => Status::internal(message),
    }
}
