//! The bearer token of requests, where the service has one.

use crate::kubeconfig::{TokenFile, TokenSource};
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tower::Service;
use zeroize::Zeroizing;

/// A file with a token is read again after this: whoever writes it anew does so long before the token ends.
const AGAIN: Duration = Duration::from_mins(1);

/// What requests are sent with.
#[derive(Clone)]
pub(crate) struct Authorization(Option<Arc<Token>>);

struct Token {
    file: Option<TokenFile>,
    last: Mutex<(HeaderValue, Instant)>,
}

/// Sends requests with a token.
#[derive(Clone)]
pub(crate) struct Authorized<S> {
    authorization: Authorization,
    inner: S,
}

impl Authorization {
    /// The error says why the token cannot be used.
    pub(crate) fn of(source: Option<TokenSource>) -> Result<Self, String> {
        let Some(source) = source else { return Ok(Self(None)) };
        let (token, file) = source.read()?;
        Ok(Self(Some(Arc::new(Token { file, last: Mutex::new((header(&token)?, Instant::now())) }))))
    }

    pub(crate) const fn before<S>(self, inner: S) -> Authorized<S> {
        Authorized { authorization: self, inner }
    }

    fn header(&self, now: Instant) -> Option<HeaderValue> {
        let token = self.0.as_deref()?;
        let (known, read) = &mut *token.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &token.file
            && now.saturating_duration_since(*read) >= AGAIN
        {
            *read = now;
            match file.read().and_then(|text| header(&text)) {
                Ok(header) => *known = header,
                // The one that is known may be good still.
                Err(why) => tracing::error!(path = %file.path.display(), why, "The file with the token cannot be read"),
            }
        }
        Some(known.clone())
    }
}

fn header(token: &str) -> Result<HeaderValue, String> {
    let text = Zeroizing::new(format!("Bearer {}", token.trim()));
    let mut header = HeaderValue::from_str(&text).map_err(|_| "the token has characters that no token has")?;
    header.set_sensitive(true);
    Ok(header)
}

impl<S, B> Service<Request<B>> for Authorized<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        if let Some(header) = self.authorization.header(Instant::now()) {
            request.headers_mut().insert(AUTHORIZATION, header);
        }
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    fn write(path: &Path, token: &str, mode: u32) {
        let new = path.with_extension("new");
        fs::write(&new, token).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(mode)).unwrap();
        fs::rename(new, path).unwrap();
    }

    #[test]
    fn a_token_that_is_written_anew_is_sent_from_then_on_and_one_that_cannot_be_read_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        write(&path, "first\n", 0o600);
        let authorization = Authorization::of(Some(TokenSource::File(path.clone()))).unwrap();
        let begun = Instant::now();
        let at = |minutes| authorization.header(begun + Duration::from_mins(minutes)).unwrap();
        assert_eq!(at(0), "Bearer first");
        assert!(at(0).is_sensitive());
        write(&path, "second", 0o600);
        assert_eq!(at(0), "Bearer first");
        assert_eq!(at(2), "Bearer second");
        for (minutes, token, mode) in [(4, "third", 0o644), (6, "a\nb", 0o600)] {
            write(&path, token, mode);
            assert_eq!(at(minutes), "Bearer second", "{token}");
        }
        write(&path, "fourth", 0o600);
        assert_eq!(at(8), "Bearer fourth");
    }

    #[test]
    fn a_token_of_the_kubeconfig_is_sent_and_a_wrong_one_refused() {
        let of = |token: &str| Authorization::of(Some(TokenSource::Text(token.to_owned().into())));
        assert_eq!(of("id.secret").unwrap().header(Instant::now()).unwrap(), "Bearer id.secret");
        assert!(of("a\nb").is_err());
        assert!(Authorization::of(None).unwrap().header(Instant::now()).is_none());
    }
}
