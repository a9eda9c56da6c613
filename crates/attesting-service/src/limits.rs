//! Bounds on what peers can take, as a section `limits` of a configuration file.

use latchkey_connection_limits::Rate;
use latchkey_service_runtime::config::{ConfigFileError, check_range};
use latchkey_service_runtime::connections::ConnectionLimits;
use serde::Deserialize;
use std::time::Duration;

/// Bounds on what peers can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections at a time, handshaking ones included; when all are taken, whoever has shown least of the network that holds
    /// most gives way. A quarter is only for networks that nodes came from before. Default 1024.
    pub connections: u32,
    /// The same from one IP address (one /64 of IPv6). Default 32.
    pub connections_per_address: u32,
    /// Handshakes that begin, in the long run; what is above waits for its turn. Default 30000.
    pub connections_per_minute: u32,
    /// How many may come at once after a pause. Default 2000.
    pub connection_burst: u32,
    /// New connections from one IP address, in the long run; 16 times that from its /24 (/48 of IPv6). What is above is closed
    /// before TLS begins. Default 600.
    pub connections_per_minute_per_address: u32,
    /// How many of these may come at once after a pause. Default 60.
    pub connection_burst_per_address: u32,
    /// Seconds from the TCP connection to its first byte. Default 3.
    pub first_byte_seconds: u32,
    /// Seconds from the first byte to the last verdict: a slow discrete TPM takes some. Default 30.
    pub handshake_seconds: u32,
    /// Seconds that running calls get to end after SIGTERM or SIGINT. Default 10.
    pub shutdown_seconds: u32,
    /// Seconds for which a part of the directory may be unusable, with older content in its place, before `/healthz`
    /// answers 503. Default 300.
    pub stale_seconds: u32,
    /// Threads that verify evidence and answer; 0 is one per processor, at most 16. Default 0.
    pub threads: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_per_address: 32,
            connections_per_minute: 30_000,
            connection_burst: 2000,
            connections_per_minute_per_address: 600,
            connection_burst_per_address: 60,
            first_byte_seconds: 3,
            handshake_seconds: 30,
            shutdown_seconds: 10,
            stale_seconds: 300,
            threads: 0,
        }
    }
}

impl Limits {
    /// Threads to serve with.
    pub fn thread_count(&self) -> usize {
        const MOST: usize = 16;
        let processors = std::thread::available_parallelism().map_or(1, usize::from).min(MOST);
        usize::try_from(self.threads).ok().filter(|threads| *threads > 0).unwrap_or(processors)
    }

    /// Those that connections are held to.
    pub fn of_connections(&self) -> ConnectionLimits {
        ConnectionLimits {
            total: self.connections,
            per_host: self.connections_per_address,
            host_rate: Rate {
                per_minute: self.connections_per_minute_per_address,
                burst: self.connection_burst_per_address,
            },
            handshake_rate: Rate { per_minute: self.connections_per_minute, burst: self.connection_burst },
            first_byte: Duration::from_secs(self.first_byte_seconds.into()),
        }
    }

    /// That no value switches a protection off, or the service.
    ///
    /// # Errors
    /// [`ConfigFileError::OutOfRange`].
    pub fn check(&self) -> Result<(), ConfigFileError> {
        let rates = (1, 10_000_000);
        check_range("limits.connections", self.connections, (1, 100_000))?;
        check_range("limits.connections_per_address", self.connections_per_address, (1, 100_000))?;
        check_range("limits.connections_per_minute", self.connections_per_minute, rates)?;
        check_range("limits.connection_burst", self.connection_burst, rates)?;
        check_range("limits.connections_per_minute_per_address", self.connections_per_minute_per_address, rates)?;
        check_range("limits.connection_burst_per_address", self.connection_burst_per_address, rates)?;
        check_range("limits.first_byte_seconds", self.first_byte_seconds, (1, 60))?;
        check_range("limits.handshake_seconds", self.handshake_seconds, (1, 300))?;
        check_range("limits.shutdown_seconds", self.shutdown_seconds, (1, 300))?;
        check_range("limits.stale_seconds", self.stale_seconds, (1, 86_400))?;
        check_range("limits.threads", self.threads, (0, 256))
    }
}
