//! The key service over mutual TLS: one connection, kept, and made anew when it is gone.

use super::KeyError;
use crate::config::KeyServiceConfig;
use futures_rustls::TlsConnector;
use latchkey_api::grpc::{Channel, Code, Limits, Status};
use latchkey_api::v1::{GetDataKeyRequest, KeysClient};
use latchkey_keys::{KeyId, KeyLength, Secret};
use latchkey_service_runtime::pem::{PemError, authorities, certificates, private_key};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use smol::future::FutureExt;
use smol::lock::Mutex;
use smol::net::TcpStream;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// For one key, a new connection included: less than a node waits for its ticket.
const WITHIN: Duration = Duration::from_secs(5);

pub(super) struct Remote {
    address: String,
    name: ServerName<'static>,
    tls: TlsConnector,
    connection: Mutex<Option<Connection>>,
}

#[derive(Clone)]
struct Connection {
    client: KeysClient,
    number: u64,
}

impl Remote {
    pub(super) fn new(config: &KeyServiceConfig) -> Result<Self, PemError> {
        let unusable = |path: &std::path::Path, problem: &dyn fmt::Display| PemError::Content {
            path: path.to_owned(),
            problem: problem.to_string(),
        };
        let identity = (certificates(&config.certificate)?, private_key(&config.private_key)?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| unusable(&config.ca, &error))?
            .with_root_certificates(authorities(&config.ca)?)
            .with_client_auth_cert(identity.0, identity.1)
            .map_err(|error| unusable(&config.certificate, &error))?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        // Every connection shows its certificate.
        tls.resumption = Resumption::disabled();
        let name = ServerName::try_from(config.server_name.clone());
        let name = name.map_err(|_| unusable(&config.ca, &"`key_service.server_name` is no DNS name or address"))?;
        let tls = TlsConnector::from(Arc::new(tls));
        Ok(Self { address: config.address.clone(), name, tls, connection: Mutex::new(None) })
    }

    pub(super) async fn fetch(&self, id: KeyId, version: u32) -> Result<(Secret<32>, u32), KeyError> {
        let request = GetDataKeyRequest { key_id: id.to_string(), length: KeyLength::DEFAULT.bytes(), version };
        let late = async {
            smol::Timer::after(WITHIN).await;
            Err(KeyError::Unavailable(format!("no answer within {} s", WITHIN.as_secs())))
        };
        self.ask(&request).or(late).await
    }

    async fn ask(&self, request: &GetDataKeyRequest) -> Result<(Secret<32>, u32), KeyError> {
        let connection = self.connection(None).await?;
        let mut answer = connection.client.get_data_key(request, WITHIN).await;
        // A connection that rested may be gone without anybody having noticed: once more on a new one.
        if answer.as_ref().is_err_and(|status| status.code() == Code::Unavailable) {
            let fresh = self.connection(Some(connection.number)).await?;
            answer = fresh.client.get_data_key(request, WITHIN).await;
        }
        let mut answer = answer.map_err(|status| key_error(&status))?;
        let version = answer.version;
        let key = Secret::from_slice(&answer.take_data_key());
        match key {
            Ok(key) if version != 0 && (request.version == 0 || request.version == version) => Ok((key, version)),
            _ => Err(KeyError::Refused("the key service answered with another key than was asked for".to_owned())),
        }
    }

    /// The connection, made anew if there is none, or if it is the one that failed.
    async fn connection(&self, failed: Option<u64>) -> Result<Connection, KeyError> {
        let mut slot = self.connection.lock().await;
        let number = slot.as_ref().map_or(0, |connection| connection.number);
        if let Some(connection) = slot.as_ref().filter(|_| failed != Some(number)) {
            return Ok(connection.clone());
        }
        *slot = None;
        let connection = Connection { client: self.connect().await?, number: number.wrapping_add(1) };
        *slot = Some(connection.clone());
        Ok(connection)
    }

    async fn connect(&self) -> Result<KeysClient, KeyError> {
        let address = &self.address;
        let unavailable = |error: &dyn fmt::Display| KeyError::Unavailable(format!("{address}: {error}"));
        let stream = TcpStream::connect(address.as_str()).await.map_err(|error| unavailable(&error))?;
        drop(stream.set_nodelay(true));
        let stream = self.tls.connect(self.name.clone(), stream).await.map_err(|error| unavailable(&error))?;
        let (channel, driver) = Channel::open(stream, Limits::default()).await.map_err(|error| unavailable(&error))?;
        let connection = async {
            if let Err(error) = driver.await {
                tracing::warn!(%error, "The connection to the key service ended");
            }
        };
        smol::spawn(connection).detach();
        tracing::info!(address, "Connected to the key service");
        Ok(KeysClient::new(channel))
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("address", &self.address).finish_non_exhaustive()
    }
}

fn key_error(status: &Status) -> KeyError {
    match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted | Code::Cancelled | Code::Internal => {
            KeyError::Unavailable(status.to_string())
        }
        _ => KeyError::Refused(status.to_string()),
    }
}
