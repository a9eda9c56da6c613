//! Configuration files: bounded, closed JSON.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Far more than any service's configuration needs.
pub const MAX_FILE_SIZE: u64 = 1024 * 1024;

/// Why a configuration file gives no configuration. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    /// The file cannot be read.
    #[error("Cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The file is larger than any sensible one.
    #[error("{} is larger than {MAX_FILE_SIZE} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Not JSON of the closed schema; the message names field, line and column.
    #[error("{}: {why}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What the parser found, and where.
        why: String,
    },
    /// A schema this program does not know.
    #[error("`schema` is {got}; this program knows schema {known}")]
    Schema {
        /// The one it knows.
        known: u32,
        /// What the file says.
        got: u32,
    },
    /// What is for this machine alone would be open to the network.
    #[error("`{field}` is {got}, which is not a loopback address; use 127.0.0.1 or [::1]")]
    NotLoopback {
        /// The field.
        field: &'static str,
        /// What the file says.
        got: SocketAddr,
    },
    /// Nobody is asked who he is there.
    #[error(
        "`admin_listen` is {got}, which is not a loopback address, and nobody is asked who he is there; use 127.0.0.1 or [::1], and \
         for other machines the section `metrics`: an address with a certificate, and a token or an authority of clients"
    )]
    AdminNotLoopback {
        /// What the file says.
        got: SocketAddr,
    },
    /// The metrics would be open to the network.
    #[error("`metrics` demands nothing of whoever asks; name `token_file`, `client_ca` or both")]
    NoCredential,
    /// A number that would switch a protection off, or the service.
    #[error("`{field}` is {got}; it must be between {} and {}", range.0, range.1)]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Smallest and largest value.
        range: (u32, u32),
        /// What the file says.
        got: u32,
    },
}

/// The configuration of a service. What is closed the type says: use `deny_unknown_fields`.
pub trait ConfigFile: DeserializeOwned {
    /// The schema this program knows.
    const SCHEMA: u32;

    /// Why a file is refused: the operator's fault, always.
    type Error: From<ConfigFileError>;

    /// The schema that the file says.
    fn schema(&self) -> u32;

    /// What the types do not say, before anything is opened.
    ///
    /// # Errors
    /// The first value that cannot be meant.
    fn check(&self) -> Result<(), Self::Error>;

    /// Every path in it: where one is relative, it is so to the file's directory.
    fn paths(&mut self) -> Vec<&mut PathBuf>;

    /// Reads the file at `path`, and checks it as a whole.
    ///
    /// # Errors
    /// [`ConfigFileError`], and those of [`Self::check`].
    fn load(path: &Path) -> Result<Self, Self::Error> {
        Self::parse(path, &read(path)?)
    }

    /// The same with the text that stands there, or would.
    ///
    /// # Errors
    /// [`ConfigFileError::Syntax`], [`ConfigFileError::Schema`], and those of [`Self::check`].
    fn parse(path: &Path, text: &[u8]) -> Result<Self, Self::Error> {
        let mut reader = serde_json::Deserializer::from_slice(text);
        let syntax = |why: String| ConfigFileError::Syntax { path: path.to_owned(), why };
        let mut config: Self =
            serde_path_to_error::deserialize(&mut reader).map_err(|error| syntax(error.to_string()))?;
        reader.end().map_err(|error| syntax(error.to_string()))?;
        let (known, got) = (Self::SCHEMA, config.schema());
        if got != known {
            return Err(ConfigFileError::Schema { known, got }.into());
        }
        config.check()?;
        let directory = path.parent().unwrap_or(Path::new(""));
        for named in config.paths() {
            *named = directory.join(&*named);
        }
        Ok(config)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigFileError> {
    let failed = |source| ConfigFileError::Read { path: path.to_owned(), source };
    let mut text = Vec::new();
    File::open(path).map_err(failed)?.take(MAX_FILE_SIZE + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE_SIZE {
        return Err(ConfigFileError::TooLarge { path: path.to_owned() });
    }
    Ok(text)
}

/// Checks an address on which only this machine is served.
///
/// # Errors
/// [`ConfigFileError::NotLoopback`].
pub fn check_loopback(field: &'static str, got: SocketAddr) -> Result<(), ConfigFileError> {
    if got.ip().is_loopback() { Ok(()) } else { Err(ConfigFileError::NotLoopback { field, got }) }
}

/// `/metrics` and `/healthz` for other machines, beside `admin_listen`: over TLS 1.3, for whoever shows what is demanded.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsConfig {
    /// Address and port. Port 0 lets the kernel choose; the READY line says what it chose.
    pub listen: SocketAddr,
    /// PEM: the certificate that is shown, then its intermediates. All files are read anew for each connection.
    pub certificate: PathBuf,
    /// PEM: its private key; no access for anybody but the service's user and root.
    pub private_key: PathBuf,
    /// The bearer token (RFC 6750) that is demanded, 32 to 512 characters; no access for anybody but the service's user and root. This,
    /// or `client_ca`, or both: then both are demanded.
    pub token_file: Option<PathBuf>,
    /// PEM: the authorities of which a client's certificate is demanded. Whoever is signed by these is let in.
    pub client_ca: Option<PathBuf>,
}

impl MetricsConfig {
    /// The paths that the section names, to make them relative to the file's directory.
    pub fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let Self { listen: _, certificate, private_key, token_file, client_ca } = self;
        [certificate, private_key].into_iter().chain(token_file).chain(client_ca)
    }
}

/// Checks the addresses of the admin pages: the plain one is this machine's alone, the other one demands a credential.
///
/// # Errors
/// [`ConfigFileError::AdminNotLoopback`], [`ConfigFileError::NoCredential`].
pub fn check_admin(admin: SocketAddr, metrics: Option<&MetricsConfig>) -> Result<(), ConfigFileError> {
    if !admin.ip().is_loopback() {
        return Err(ConfigFileError::AdminNotLoopback { got: admin });
    }
    match metrics {
        Some(MetricsConfig { token_file: None, client_ca: None, .. }) => Err(ConfigFileError::NoCredential),
        _ => Ok(()),
    }
}

/// Where the admin pages are served, and to whom, in a phrase for `--check`.
pub fn admin_in_words(admin: SocketAddr, metrics: Option<&MetricsConfig>) -> String {
    let for_others = metrics.map_or_else(String::new, |MetricsConfig { listen, token_file, client_ca, .. }| {
        let token = token_file.iter().map(|path| format!("the token in {}", path.display()));
        let certificate = client_ca.iter().map(|path| format!("a certificate by {}", path.display()));
        let shown: Vec<_> = token.chain(certificate).collect();
        format!(", and on {listen} over TLS 1.3 to whoever shows {}", shown.join(" and "))
    });
    format!("serve /metrics and /healthz on {admin}{for_others}")
}

/// Checks a number; both ends of `range` are allowed.
///
/// # Errors
/// [`ConfigFileError::OutOfRange`].
pub fn check_range(field: &'static str, got: u32, range: (u32, u32)) -> Result<(), ConfigFileError> {
    if (range.0..=range.1).contains(&got) { Ok(()) } else { Err(ConfigFileError::OutOfRange { field, range, got }) }
}
