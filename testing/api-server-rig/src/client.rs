//! Requests to the API server, each as it is written.

use crate::Credentials;
use latchkey_test_support::PATIENCE;
use rustls::crypto::ring::default_provider;
use serde_json::Value;
use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::sync::Arc;
use ureq::http::Request;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
use ureq::{Agent, BodyReader};

/// Who asks: by a client certificate, a bearer token, or nobody in particular.
#[derive(Clone)]
pub struct Client {
    base: String,
    agent: Agent,
    token: Option<String>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.base)
    }
}

/// What the API server said.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    body: Value,
    text: String,
}

impl Answer {
    /// The status of HTTP.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Its document; null where it is none.
    pub fn body(&self) -> &Value {
        &self.body
    }

    /// The bytes that it came as, to look for what must not be in them.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The document of a request that was granted.
    ///
    /// # Panics
    /// If it was not.
    #[track_caller]
    pub fn granted(self) -> Value {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.text);
        self.body
    }

    /// The reason of a request that was refused for want of a right, or by a policy.
    ///
    /// # Panics
    /// If it was granted, or failed for another reason.
    #[track_caller]
    pub fn forbidden(self) -> String {
        let denied = self.status == 422 && self.text.contains("ValidatingAdmissionPolicy");
        assert!(self.status == 403 || denied, "{} {}", self.status, self.text);
        self.body["message"].as_str().unwrap_or_default().to_owned()
    }
}

impl Client {
    pub(crate) fn new(base: &str, authority: &str, credentials: Option<&Credentials>, token: Option<String>) -> Self {
        let pem = |text: &str| Certificate::from_pem(text.as_bytes()).expect("a certificate").to_owned();
        let client = credentials.map(|credentials| {
            let key = PrivateKey::from_pem(credentials.key.as_bytes()).expect("a key");
            ClientCert::new_with_certs(&[pem(&credentials.certificate)], key)
        });
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&[pem(authority)]))
            .client_cert(client)
            .unversioned_rustls_crypto_provider(Arc::new(default_provider()))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .proxy(None)
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .timeout_global(Some(PATIENCE));
        Self { base: base.to_owned(), agent: config.build().into(), token }
    }

    /// Sends a request and reads the whole answer. `body` is sent as `content_type` says.
    ///
    /// # Errors
    /// There is no answer: nobody listens, or the connection breaks.
    pub fn send(&self, method: &str, path: &str, content_type: &str, body: Vec<u8>) -> Result<Answer, ureq::Error> {
        let mut response =
            self.agent.run(self.request(method, path).header("content-type", content_type).body(body)?)?;
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string()?;
        Ok(Answer { status, body: serde_json::from_str(&text).unwrap_or_default(), text })
    }

    /// Reads.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        answered(self.send("GET", path, "application/json", Vec::new()))
    }

    /// Creates.
    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        answered(self.send("POST", path, "application/json", body.to_string().into()))
    }

    /// Replaces.
    #[track_caller]
    pub fn put(&self, path: &str, body: &Value) -> Answer {
        answered(self.send("PUT", path, "application/json", body.to_string().into()))
    }

    /// Changes, by a merge patch (RFC 7396).
    #[track_caller]
    pub fn patch(&self, path: &str, body: &Value) -> Answer {
        answered(self.send("PATCH", path, "application/merge-patch+json", body.to_string().into()))
    }

    /// Deletes, with these `DeleteOptions`.
    #[track_caller]
    pub fn delete(&self, path: &str, options: &Value) -> Answer {
        answered(self.send("DELETE", path, "application/json", options.to_string().into()))
    }

    /// What changes, as it does; `path` says of what. It ends a moment before [`PATIENCE`] does.
    ///
    /// # Panics
    /// If it is refused.
    #[track_caller]
    pub fn watch(&self, path: &str) -> Watch {
        let and = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{and}watch=true&timeoutSeconds={}", PATIENCE.as_secs() - 10);
        let request = self.request("GET", &path).body(Vec::new()).expect("a request");
        let response = self.agent.run(request).expect("an answer");
        assert_eq!(response.status().as_u16(), 200, "watch of {path}");
        Watch { what: path, lines: BufReader::new(response.into_body().into_reader()) }
    }

    fn request(&self, method: &str, path: &str) -> ureq::http::request::Builder {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        }
    }
}

/// A stream of changes.
pub struct Watch {
    what: String,
    lines: BufReader<BodyReader<'static>>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({})", self.what)
    }
}

impl Watch {
    /// What `look` finds in an object as it is after a change.
    ///
    /// # Panics
    /// If the stream ends before: names `what` was waited for.
    #[track_caller]
    pub fn find<T>(&mut self, what: &str, mut look: impl FnMut(&Value) -> Option<T>) -> T {
        let mut last = String::new();
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line);
            assert!(matches!(read, Ok(1..)), "no {what} in {}: {read:?}, and last {last}", self.what);
            let event: Value = serde_json::from_str(&line).expect("an event");
            if let Some(found) = look(&event["object"]) {
                return found;
            }
            last = line;
        }
    }
}

#[track_caller]
fn answered(answer: Result<Answer, ureq::Error>) -> Answer {
    answer.expect("an answer of the API server")
}
