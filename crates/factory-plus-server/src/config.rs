//! The section of a service's configuration that says how it is reached: closed JSON, the same in every service.

use crate::auth::gate::GateLimits;
use crate::auth::tokens::TokenLimits;
use crate::connection::pace::Paces;
use crate::connection::tls::TlsFiles;
use latchkey_connection_limits::Rate;
use latchkey_service_runtime::config::{ConfigFileError, MetricsConfig, check_admin, check_range};
use latchkey_service_runtime::connections::ConnectionLimits;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The most addresses to listen on.
const MAX_ADDRESSES: usize = 8;

/// How a service is reached. Unknown fields are refused; relative paths are relative to the file's directory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// Addresses and ports to listen on, 1 to 8. Port 0 lets the kernel choose; the READY line says what it chose.
    pub listen: Vec<SocketAddr>,
    /// Address and port of `/metrics` and `/healthz`, plain HTTP; a loopback address.
    pub admin_listen: SocketAddr,
    /// The same pages for other machines, over TLS and for whoever shows a token or a certificate. Without it there are none.
    pub metrics: Option<MetricsConfig>,
    /// PEM: this service's certificate, then its intermediates. This and `private_key`, or `"insecure": true`.
    pub certificate: Option<PathBuf>,
    /// PEM: its private key; no access for anybody but the service's user and root.
    pub private_key: Option<PathBuf>,
    /// Serve without TLS: passwords and tokens are readable on the way. Only behind something that ends TLS on this machine.
    #[serde(default)]
    pub insecure: bool,
    /// `Cache-Control: max-age` of what GET answers, seconds; without it, nothing is said.
    pub cache_seconds: Option<u32>,
    /// Bounds on what peers can take; each has a default.
    #[serde(default)]
    pub limits: HttpLimits,
}

/// Bounds on what peers can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpLimits {
    /// Connections at a time; when all are taken, whoever has shown least of the network that holds most gives way. A quarter is
    /// only for networks that somebody was authenticated from before. Default 1024.
    pub connections: u32,
    /// The same from one IP address (one /64 of IPv6). Default 256.
    pub connections_per_address: u32,
    /// Connections that begin, in the long run; what is above waits for its turn. Default 60000.
    pub connections_per_minute: u32,
    /// How many may come at once after a pause. Default 2000.
    pub connection_burst: u32,
    /// New connections from one IP address, in the long run; 16 times that from its /24 (/48 of IPv6). Default 6000.
    pub connections_per_minute_per_address: u32,
    /// How many of these may come at once after a pause. Default 600.
    pub connection_burst_per_address: u32,
    /// Seconds from the TCP connection to its first byte. Default 10.
    pub first_byte_seconds: u32,
    /// Seconds from the first byte of a request to the end of its headers, and for the TLS handshake. Default 10.
    pub head_seconds: u32,
    /// Seconds between two requests of a connection. Default 75.
    pub idle_seconds: u32,
    /// Seconds without a byte of a body, or without a byte taken by the peer. Default 30.
    pub stall_seconds: u32,
    /// Seconds from a request's headers to the end of its response, where its handler needs no more. Default 30.
    pub request_seconds: u32,
    /// Bytes of a request's line and headers. Default 32768: a Kerberos ticket may have 16 KiB.
    pub head_bytes: u32,
    /// Bytes of a request's body, where its handler needs no more. Default 100000.
    pub body_bytes: u32,
    /// Failed attempts to authenticate from one IP address, in the long run; 16 times that from its site, 4 times that for one user from
    /// where the user is not known. Default 10.
    pub failures_per_minute: u32,
    /// How many of these at once after a pause; attempts under way count until they are found good, so behind a proxy it must allow
    /// for as many as come at once. Default 50.
    pub failure_burst: u32,
    /// Seconds for which a name and password that were good are good without asking the KDC; 0 asks each time. Default 30.
    pub password_seconds: u32,
    /// Tokens at a time. Default 10000.
    pub tokens: u32,
    /// Tokens at a time of one principal. Default 64.
    pub tokens_per_principal: u32,
    /// Subscriptions of one WebSocket. Default 1024.
    pub subscriptions: u32,
    /// Bytes of a frame that a client sends. Default 65536.
    pub frame_bytes: u32,
    /// Bytes that may wait for a client to read them; whoever reads more slowly is disconnected. Default 16777216.
    pub queue_bytes: u32,
    /// Seconds between two pings of a WebSocket; a client that is silent for two of them is disconnected. Default 30.
    pub ping_seconds: u32,
    /// Seconds that running requests get to end after SIGTERM or SIGINT. Default 10.
    pub shutdown_seconds: u32,
    /// Threads that answer; 0 is one per processor, at most 16. Default 0.
    pub threads: u32,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_per_address: 256,
            connections_per_minute: 60_000,
            connection_burst: 2000,
            connections_per_minute_per_address: 6000,
            connection_burst_per_address: 600,
            first_byte_seconds: 10,
            head_seconds: 10,
            idle_seconds: 75,
            stall_seconds: 30,
            request_seconds: 30,
            head_bytes: 32_768,
            body_bytes: 100_000,
            failures_per_minute: 10,
            failure_burst: 50,
            password_seconds: 30,
            tokens: 10_000,
            tokens_per_principal: 64,
            subscriptions: 1024,
            frame_bytes: 65_536,
            queue_bytes: 16_777_216,
            ping_seconds: 30,
            shutdown_seconds: 10,
            threads: 0,
        }
    }
}

/// Why a section is refused. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum HttpConfigError {
    /// A value out of range, or an admin page for everybody.
    #[error("{0}")]
    Value(#[from] ConfigFileError),
    /// No address, or too many.
    #[error("`listen` has {got} addresses; there must be 1 to {MAX_ADDRESSES}")]
    Addresses {
        /// How many there are.
        got: usize,
    },
    /// Neither TLS nor a word that there is none; or both.
    #[error("name both `certificate` and `private_key`, or else say `\"insecure\": true` to serve without TLS")]
    Security,
}

impl HttpConfig {
    /// Checks the section, before anything is opened.
    ///
    /// # Errors
    /// [`HttpConfigError`].
    pub fn check(&self) -> Result<(), HttpConfigError> {
        let got = self.listen.len();
        if !(1..=MAX_ADDRESSES).contains(&got) {
            return Err(HttpConfigError::Addresses { got });
        }
        check_admin(self.admin_listen, self.metrics.as_ref())?;
        self.tls_files()?;
        if let Some(seconds) = self.cache_seconds {
            check_range("cache_seconds", seconds, (0, 86_400))?;
        }
        Ok(self.limits.check()?)
    }

    /// The paths that the section names, to make them relative to the file's directory.
    pub fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let metrics = self.metrics.iter_mut().flat_map(MetricsConfig::paths);
        self.certificate.iter_mut().chain(self.private_key.iter_mut()).chain(metrics)
    }

    pub(crate) fn tls_files(&self) -> Result<Option<TlsFiles>, HttpConfigError> {
        match (&self.certificate, &self.private_key, self.insecure) {
            (Some(certificate), Some(private_key), false) => {
                Ok(Some(TlsFiles { certificate: certificate.clone(), private_key: private_key.clone() }))
            }
            (None, None, true) => Ok(None),
            _ => Err(HttpConfigError::Security),
        }
    }
}

impl HttpLimits {
    fn check(&self) -> Result<(), ConfigFileError> {
        let (rates, seconds) = ((1, 10_000_000), (1, 300));
        for (field, got, range) in [
            ("limits.connections", self.connections, (1, 100_000)),
            ("limits.connections_per_address", self.connections_per_address, (1, 100_000)),
            ("limits.connections_per_minute", self.connections_per_minute, rates),
            ("limits.connection_burst", self.connection_burst, rates),
            ("limits.connections_per_minute_per_address", self.connections_per_minute_per_address, rates),
            ("limits.connection_burst_per_address", self.connection_burst_per_address, rates),
            ("limits.first_byte_seconds", self.first_byte_seconds, (1, 60)),
            ("limits.head_seconds", self.head_seconds, (1, 60)),
            ("limits.idle_seconds", self.idle_seconds, seconds),
            ("limits.stall_seconds", self.stall_seconds, seconds),
            ("limits.request_seconds", self.request_seconds, seconds),
            ("limits.head_bytes", self.head_bytes, (8192, 262_144)),
            ("limits.body_bytes", self.body_bytes, (1024, 16_777_216)),
            ("limits.failures_per_minute", self.failures_per_minute, (1, 1000)),
            ("limits.failure_burst", self.failure_burst, (1, 1000)),
            ("limits.password_seconds", self.password_seconds, (0, 300)),
            ("limits.tokens", self.tokens, (16, 1_000_000)),
            ("limits.tokens_per_principal", self.tokens_per_principal, (1, 1000)),
            ("limits.subscriptions", self.subscriptions, (1, 4096)),
            ("limits.frame_bytes", self.frame_bytes, (1024, 1_048_576)),
            ("limits.queue_bytes", self.queue_bytes, (65_536, 268_435_456)),
            ("limits.ping_seconds", self.ping_seconds, seconds),
            ("limits.shutdown_seconds", self.shutdown_seconds, seconds),
            ("limits.threads", self.threads, (0, 256)),
        ] {
            check_range(field, got, range)?;
        }
        Ok(())
    }

    /// Threads to serve with.
    pub fn thread_count(&self) -> usize {
        const MOST: usize = 16;
        let processors = std::thread::available_parallelism().map_or(1, usize::from).min(MOST);
        usize::try_from(self.threads).ok().filter(|threads| *threads > 0).unwrap_or(processors)
    }

    pub(crate) fn of_connections(&self) -> ConnectionLimits {
        ConnectionLimits {
            total: self.connections,
            per_host: self.connections_per_address,
            host_rate: Rate {
                per_minute: self.connections_per_minute_per_address,
                burst: self.connection_burst_per_address,
            },
            handshake_rate: Rate { per_minute: self.connections_per_minute, burst: self.connection_burst },
            first_byte: seconds(self.first_byte_seconds),
        }
    }

    pub(crate) fn of_gate(&self) -> GateLimits {
        GateLimits {
            tokens: TokenLimits { total: size(self.tokens), per_principal: size(self.tokens_per_principal) },
            wrong: Rate { per_minute: self.failures_per_minute, burst: self.failure_burst },
            remember: seconds(self.password_seconds),
        }
    }

    pub(crate) fn paces(&self) -> Paces {
        Paces {
            idle: seconds(self.idle_seconds),
            head: seconds(self.head_seconds),
            stall: seconds(self.stall_seconds),
            head_bytes: size(self.head_bytes),
        }
    }
}

pub(crate) fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

pub(crate) fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"listen": ["127.0.0.1:0"], "admin_listen": "127.0.0.1:0", "insecure": true}"#;

    fn load(text: &str) -> Result<HttpConfig, String> {
        let config: HttpConfig = serde_json::from_str(text).map_err(|error| error.to_string())?;
        config.check().map_err(|error| error.to_string())?;
        Ok(config)
    }

    #[test]
    fn tls_is_there_or_its_absence_is_said() {
        assert!(load(GOOD).unwrap().tls_files().unwrap().is_none());
        let tls = GOOD.replace("\"insecure\": true", "\"certificate\": \"c.pem\", \"private_key\": \"k.pem\"");
        assert!(load(&tls).unwrap().tls_files().unwrap().is_some());
        for wrong in [
            "\"insecure\": false",
            "\"certificate\": \"c.pem\"",
            "\"private_key\": \"k.pem\", \"insecure\": true",
            "\"certificate\": \"c.pem\", \"private_key\": \"k.pem\", \"insecure\": true",
        ] {
            let error = load(&GOOD.replace("\"insecure\": true", wrong)).unwrap_err();
            assert!(error.contains("insecure"), "{error}");
        }
    }

    #[test]
    fn values_that_switch_a_protection_off_are_refused() {
        for (from, to) in [
            ("[\"127.0.0.1:0\"]", "[]"),
            ("\"admin_listen\": \"127.0.0.1:0\"", "\"admin_listen\": \"0.0.0.0:0\""),
            ("true}", "true, \"debug\": true}"),
            ("true}", "true, \"limits\": {\"connections\": 0}}"),
            ("true}", "true, \"limits\": {\"head_seconds\": 61}}"),
            ("true}", "true, \"limits\": {\"password_seconds\": 301}}"),
            ("true}", "true, \"limits\": {\"connection\": 1}}"),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD, "{from}");
            assert!(load(&text).is_err(), "{text}");
        }
        assert_eq!(load(GOOD).unwrap().limits, HttpLimits::default());
    }
}
