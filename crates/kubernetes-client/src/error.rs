//! Why the API server did not do what was asked.

use crate::bounded::AnswerError;
use kube::runtime::watcher;
use latchkey_reason::reason_codes;

reason_codes! {
    /// Why the API server did not do what was asked.
    pub enum ApiCode {
        /// The kubeconfig cannot be used.
        KubeconfigUnusable = "kubeconfig-unusable":
            "give a kubeconfig with one https server, its certificate authority, and a client certificate or a token: no plugins, no proxies";
        /// Nobody answers, or the connection breaks.
        Unreachable = "api-server-unreachable":
            "see that the API server runs and is reached at the kubeconfig's address; it is tried again";
        /// The answer did not come in time.
        TooSlow = "api-server-too-slow":
            "see whether the API server and its etcd are overloaded or without quorum; it is tried again";
        /// 401: who asks is not known.
        NotAuthenticated = "api-server-knows-us-not":
            "renew the certificate or token in the kubeconfig: the API server does not accept it";
        /// 403: who asks may not do that.
        Forbidden = "api-server-forbids":
            "give who asks the rights of its chart; the message names what is missing";
        /// 404 where the resource itself is not known.
        ResourceUnknown = "api-resource-unknown":
            "install the custom resource definitions of the program's chart";
        /// 409, again and again.
        Conflict = "api-conflict":
            "others write the same object all the time: find out who does";
        /// 410: the watch has to begin anew, which it does.
        Expired = "api-watch-expired":
            "nothing has to be done: the objects are listed anew";
        /// 429: too many requests.
        TooManyRequests = "api-server-throttles":
            "raise the API server's limits for this user, or let fewer ask at once; it is tried again";
        /// 503: it runs, and does not serve.
        Unavailable = "api-server-unavailable":
            "see whether the API server is starting, and whether its etcd has quorum; it is tried again";
        /// 5xx otherwise.
        ServerError = "api-server-failed":
            "look into the API server's log: etcd without quorum is the usual reason; it is tried again";
        /// 422 and other refusals of what was written.
        Invalid = "api-server-refused-object":
            "the custom resource definitions or an admission policy do not fit this release: install its chart, or change what is named";
        /// Half an answer, or one that is none.
        AnswerUnusable = "api-answer-unusable":
            "see what stands between the service and the API server: its answer is cut off, too large or no answer";
        /// There are more objects than a cluster can have.
        TooManyObjects = "api-too-many-objects":
            "remove the objects that nobody needs";
        /// The client is gone.
        Closed = "api-store-closed":
            "nothing has to be done: the program is stopping";
    }
}

/// A request, or a watch, that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{about}: {detail} ({code}); {remedy}", remedy = .code.remedy())]
pub struct ApiError {
    /// The object or the kind that it was about, such as `secrets/NAME`.
    pub about: String,
    /// Its reason code.
    pub code: ApiCode,
    /// What happened: one line, at most 512 characters.
    pub detail: String,
}

impl ApiError {
    /// A failure with these words.
    pub fn new(about: &str, code: ApiCode, detail: &str) -> Self {
        Self { about: about.to_owned(), code, detail: one_line(detail) }
    }
}

/// The failure of one request: `about` names the object.
pub fn failed(about: &str, error: &kube::Error) -> ApiError {
    ApiError::new(about, code_of(error), &words(error))
}

/// The failure of a watch: `about` names the kind.
pub fn watch_failed(about: &str, error: &watcher::Error) -> ApiError {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => failed(about, error),
        watcher::Error::WatchError(status) => failed(about, &kube::Error::Api(status.clone())),
        watcher::Error::NoResourceVersion => ApiError::new(about, ApiCode::AnswerUnusable, &error.to_string()),
    }
}

impl ApiCode {
    /// Whether the API server is away, or has too much to do: then other requests would fail as well, and are better left alone for
    /// a while.
    pub fn is_overload(self) -> bool {
        self.is_unanswered() || [Self::TooManyRequests, Self::ServerError].contains(&self)
    }

    /// Whether nobody serves there. One that throttles who asks, or fails at what it is asked for, does.
    pub fn is_unanswered(self) -> bool {
        [Self::Unreachable, Self::TooSlow, Self::Unavailable].contains(&self)
    }
}

fn code_of(error: &kube::Error) -> ApiCode {
    match error {
        kube::Error::Api(status) => match status.code {
            401 => ApiCode::NotAuthenticated,
            403 => ApiCode::Forbidden,
            404 => ApiCode::ResourceUnknown,
            408 | 504 => ApiCode::TooSlow,
            409 => ApiCode::Conflict,
            410 => ApiCode::Expired,
            429 => ApiCode::TooManyRequests,
            503 => ApiCode::Unavailable,
            400..=499 => ApiCode::Invalid,
            500..=599 => ApiCode::ServerError,
            _ => ApiCode::AnswerUnusable,
        },
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) | kube::Error::LinesCodecMaxLineLengthExceeded => {
            ApiCode::AnswerUnusable
        }
        error if sources(error).any(|source| matches!(source.downcast_ref(), Some(AnswerError::Late))) => {
            ApiCode::TooSlow
        }
        // It began: what breaks then is the network, or our own bound on it.
        error if is_half_an_answer(error) => ApiCode::AnswerUnusable,
        _ => ApiCode::Unreachable,
    }
}

/// Whether the API server said that there is one already, or another than thought.
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Whether the API server said that there is none.
pub fn is_absent(error: &kube::Error) -> bool {
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

/// What the API server said, or the error and what caused it.
fn words(error: &kube::Error) -> String {
    match error {
        // kube would print the whole answer behind it.
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        _ => chain(error),
    }
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

/// What the API server says, for logs and terminals: printable, at most 512 characters.
pub fn one_line(text: &str) -> String {
    const MOST: usize = 512;
    latchkey_reason::printable(text).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever throttles a service, or has its API server fail, is not to have it decide by what it knew.
    #[test]
    fn only_who_does_not_serve_at_all_is_taken_for_nobody() {
        for (code, is_unanswered, is_overload) in [
            (403, false, false),
            (408, true, true),
            (429, false, true),
            (500, false, true),
            (502, false, true),
            (503, true, true),
            (504, true, true),
        ] {
            let status = serde_json::json!({ "status": "Failure", "message": "", "reason": "", "code": code });
            let answered = code_of(&kube::Error::Api(serde_json::from_value(status).unwrap()));
            assert_eq!((answered.is_unanswered(), answered.is_overload()), (is_unanswered, is_overload), "{code}");
        }
        assert!(ApiCode::Unreachable.is_unanswered() && !ApiCode::AnswerUnusable.is_unanswered());
    }
}
