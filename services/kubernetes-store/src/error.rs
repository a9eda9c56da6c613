//! Why the API server did not do what was asked.

use crate::bounded::AnswerError;
use latchkey_cluster_store::StoreError;
use latchkey_reason::{ReasonCode as _, reason_codes};
use std::path::PathBuf;

reason_codes! {
    /// Why the API server did not do what was asked.
    pub enum ApiCode {
        /// The kubeconfig cannot be used.
        KubeconfigUnusable = "kubeconfig-unusable":
            "give a kubeconfig with one https server, its certificate authority, and a client certificate or a token: no plugins, no proxies";
        /// Nobody answers, or the connection breaks.
        Unreachable = "api-server-unreachable":
            "see that the API server runs and is reached at the kubeconfig's address; nodes ask again";
        /// The answer did not come in time.
        TooSlow = "api-server-too-slow":
            "see whether the API server and its etcd are overloaded or without quorum; nodes ask again";
        /// 401: who asks is not known.
        NotAuthenticated = "api-server-knows-us-not":
            "renew the certificate or token in the kubeconfig: the API server does not accept it";
        /// 403: who asks may not do that.
        Forbidden = "api-server-forbids":
            "give the service the rights of Latchkey's chart; the message names what is missing";
        /// 404 where the resource itself is not known.
        ResourceUnknown = "api-resource-unknown":
            "install the custom resource definitions of Latchkey's chart";
        /// 409, again and again.
        Conflict = "api-conflict":
            "others write the same object all the time: find out who does";
        /// 410: the watch has to begin anew, which it does.
        Expired = "api-watch-expired":
            "nothing has to be done: the records are listed anew";
        /// 429: too many requests.
        TooManyRequests = "api-server-throttles":
            "raise the API server's limits for the service's user, or let fewer machines ask at once; nodes ask again";
        /// 5xx.
        ServerError = "api-server-failed":
            "look into the API server's log: etcd without quorum is the usual reason; nodes ask again";
        /// 422 and other refusals of what was written.
        Invalid = "api-server-refused-object":
            "the custom resource definitions or an admission policy do not fit this release: install its chart";
        /// Half an answer, or one that is none.
        AnswerUnusable = "api-answer-unusable":
            "see what stands between the service and the API server: its answer is cut off, too large or no answer";
        /// This machine and the API server do not agree about the time.
        ClocksDiffer = "api-clocks-differ":
            "set the clocks of this service's machine and of the control planes (NTP); nodes ask again";
        /// An object that the service needs is missing.
        DocumentMissing = "api-document-missing":
            "create the ConfigMap that is named, with the key that is named";
        /// There are more objects than a cluster can have.
        TooManyObjects = "api-too-many-objects":
            "remove the objects that no service made";
        /// The store is being closed.
        Closed = "api-store-closed":
            "nothing has to be done: the service is stopping";
    }
}

/// The failure of one request: `about` names the object.
pub(crate) fn failed(about: &str, error: &kube::Error) -> StoreError {
    let code = code_of(error);
    elsewhere(about, code, one_line(&chain(error)))
}

/// A failure with these words.
pub(crate) fn elsewhere(about: &str, code: ApiCode, detail: impl Into<String>) -> StoreError {
    StoreError::Elsewhere { path: PathBuf::from(about), reason: code.reason(), detail: detail.into() }
}

/// Whether the API server is away, or has too much to do: then other requests would fail as well, and are better left alone for a while.
pub fn is_overload(error: &StoreError) -> bool {
    let codes = [ApiCode::Unreachable, ApiCode::TooSlow, ApiCode::TooManyRequests, ApiCode::ServerError];
    matches!(error, StoreError::Elsewhere { reason, .. } if codes.iter().any(|code| code.as_str() == reason.code))
}

pub(crate) fn code_of(error: &kube::Error) -> ApiCode {
    match error {
        kube::Error::Api(status) => match status.code {
            401 => ApiCode::NotAuthenticated,
            403 => ApiCode::Forbidden,
            404 => ApiCode::ResourceUnknown,
            408 | 504 => ApiCode::TooSlow,
            409 => ApiCode::Conflict,
            410 => ApiCode::Expired,
            429 => ApiCode::TooManyRequests,
            400..=499 => ApiCode::Invalid,
            500..=599 => ApiCode::ServerError,
            _ => ApiCode::AnswerUnusable,
        },
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) | kube::Error::LinesCodecMaxLineLengthExceeded => {
            ApiCode::AnswerUnusable
        }
        // It began: what breaks then is the network, or our own bound on it.
        error if is_half_an_answer(error) => ApiCode::AnswerUnusable,
        _ => ApiCode::Unreachable,
    }
}

/// Whether the API server said that there is one already, or another than thought.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Whether the API server said that there is none.
pub(crate) fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

fn is_half_an_answer(error: &kube::Error) -> bool {
    sources(error).any(|source| {
        let of_http = |error: &hyper::Error| error.is_parse() || error.is_incomplete_message();
        source.is::<AnswerError>() || source.downcast_ref().is_some_and(of_http)
    })
}

fn sources<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// The error and what caused it, each once.
fn chain(error: &kube::Error) -> String {
    let mut words: Vec<String> = Vec::new();
    for source in sources(error) {
        let said = source.to_string();
        if !words.iter().any(|word| word.contains(&said)) {
            words.push(said);
        }
    }
    words.join(": ")
}

/// What the API server says goes to logs and terminals.
pub(crate) fn one_line(text: &str) -> String {
    const MOST: usize = 512;
    text.chars().take(MOST).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
