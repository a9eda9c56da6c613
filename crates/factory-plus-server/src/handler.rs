//! What a service implements.

use crate::message::{Answer, Request};
use http::Method;
use std::time::Duration;

/// What a service does with requests.
pub trait Handler: Send + Sync + 'static {
    /// What a request needs before it is handled. Asked before anything of the body is read; HEAD is asked for as GET. `path` is as
    /// it came, so compare whole paths, or decode them by [`crate::segments`] first: what is not recognised needs authentication.
    fn terms(&self, method: &Method, path: &str) -> Terms {
        let _ = (method, path);
        Terms::authenticated()
    }

    /// Answers a request.
    fn handle(&self, request: Request) -> impl Future<Output = Answer> + Send;
}

/// Who may have a request handled. What each caller may do is for the handler to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Who is authenticated.
    Authenticated,
    /// Anybody; whoever says who he is must prove it.
    Optional,
    /// Anybody; what is said of who it is, is not looked at.
    Open,
}

/// What a request needs before it is handled, and how much it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub(crate) access: Access,
    pub(crate) body: Option<u64>,
    pub(crate) time: Option<Duration>,
}

impl Terms {
    /// Only for whoever is authenticated.
    pub const fn authenticated() -> Self {
        Self::of(Access::Authenticated)
    }

    /// For anybody; whoever sends an `Authorization` must be authenticated by it, and is the caller then.
    pub const fn optional() -> Self {
        Self::of(Access::Optional)
    }

    /// For anybody: the caller is always [`crate::Caller::Anonymous`].
    pub const fn open() -> Self {
        Self::of(Access::Open)
    }

    /// With a body of so many bytes at most, instead of the configured limit.
    #[must_use]
    pub const fn body_limit(self, bytes: u64) -> Self {
        Self { body: Some(bytes), ..self }
    }

    /// With so much time from the head to the end of the response, instead of the configured one.
    #[must_use]
    pub const fn time(self, time: Duration) -> Self {
        Self { time: Some(time), ..self }
    }

    const fn of(access: Access) -> Self {
        Self { access, body: None, time: None }
    }
}
