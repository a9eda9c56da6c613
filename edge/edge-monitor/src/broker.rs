//! Where the broker is, and whom to believe that he is it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use latchkey_factory_plus::uuids;
use latchkey_factory_plus_client::{CallError, Client, Directory};
use latchkey_service_runtime::pem::{self, PemError};
use rustls::ClientConfig;
use smol::Timer;
use smol::future::FutureExt as _;

use crate::mqtt::{BrokerUrl, BrokerUrlError, Route};

/// How long the directory may take where an earlier answer of it is known.
const PATIENCE: Duration = Duration::from_secs(1);

/// The way to the broker.
#[derive(Debug, Clone)]
pub struct Broker {
    /// Where it is; none asks the directory.
    pub url: Option<BrokerUrl>,
    /// PEM: the authorities of its certificate. Read for each connection, so that they can be exchanged.
    pub authority: Option<PathBuf>,
    /// Whether a URL without TLS is used.
    pub insecure: bool,
}

/// Why there is no way to the broker.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The directory cannot be asked.
    #[error("{0}")]
    Directory(#[from] CallError),
    /// It names none, or several.
    #[error(
        "the directory names {0} URLs of the MQTT broker; it must be one: load the centre's directory dump, or set `broker.url`"
    )]
    NotOne(usize),
    /// It names something else.
    #[error("the directory's URL of the MQTT broker: {0}")]
    Url(#[from] BrokerUrlError),
    /// Plain MQTT.
    #[error(
        "{0} is plain MQTT, which shows the password to everybody on the way: give an mqtts:// URL, or say `\"insecure\": true` \
         where nobody else can read the network"
    )]
    Plain(BrokerUrl),
    /// TLS without authorities.
    #[error("{0} needs authorities to hold its certificate against: name their PEM file in `broker.authority`")]
    NoAuthority(BrokerUrl),
    /// The authorities' file.
    #[error("`broker.authority`: {0}")]
    Authority(#[from] PemError),
    /// TLS cannot be set up.
    #[error("TLS for the broker: {0}")]
    Tls(#[from] rustls::Error),
}

impl Broker {
    /// The way to a broker at `url`.
    ///
    /// # Errors
    /// It is not allowed, or the authorities cannot be read.
    pub fn route(&self, url: &BrokerUrl) -> Result<Route, BrokerError> {
        let tls = match (url.is_secure(), &self.authority) {
            (false, _) if self.insecure => None,
            (false, _) => return Err(BrokerError::Plain(url.clone())),
            (true, None) => return Err(BrokerError::NoAuthority(url.clone())),
            (true, Some(authority)) => Some(Arc::new(tls(authority)?)),
        };
        Ok(Route { url: url.clone(), tls })
    }

    /// The way to the broker as it is now. `last` is the directory's last answer, for when it is away.
    ///
    /// # Errors
    /// [`BrokerError`].
    pub async fn find(&self, client: &Client, last: &mut Option<BrokerUrl>) -> Result<Route, BrokerError> {
        if let Some(url) = &self.url {
            return self.route(url);
        }
        let late = async {
            match last.clone() {
                None => std::future::pending().await,
                Some(url) => {
                    Timer::after(PATIENCE).await;
                    Ok(url)
                }
            }
        };
        let url = match ask(client).or(late).await {
            Err(BrokerError::Directory(error)) => last.clone().ok_or(BrokerError::Directory(error))?,
            other => other?,
        };
        *last = Some(url.clone());
        self.route(&url)
    }
}

async fn ask(client: &Client) -> Result<BrokerUrl, BrokerError> {
    match Directory::of(client).services(uuids::service::MQTT).await?.as_slice() {
        [one] => Ok(one.url.parse()?),
        others => Err(BrokerError::NotOne(others.len())),
    }
}

fn tls(authority: &Path) -> Result<ClientConfig, BrokerError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13])?;
    Ok(builder.with_root_certificates(pem::authorities(authority)?).with_no_client_auth())
}
