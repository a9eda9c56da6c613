//! The authorities that a bootstrap command carries.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_service_runtime::pem::{self, PemError};

/// The most bytes of them: people copy the command.
const MOST: usize = 8192;

/// The authorities of a centre's certificate, for machines that do not know them yet: PEM, lines of base64 between lines that
/// begin and end with hyphens, so that no line of it ends a here-document of [`Authorities::MARK`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorities(String);

/// Why a file of authorities cannot stand in a command.
#[derive(Debug, thiserror::Error)]
pub enum AuthoritiesError {
    /// It cannot be read, or has no certificate.
    #[error(transparent)]
    File(#[from] PemError),
    /// Nobody copies that much.
    #[error(
        "its certificates are {0} bytes of PEM, and the bootstrap command takes {MOST}; name those of the centre alone"
    )]
    TooLarge(usize),
}

impl Authorities {
    /// What ends the here-document.
    pub const MARK: &'static str = "END_OF_AUTHORITIES";

    /// The certificates of a PEM file; what else stands in it is left out.
    ///
    /// # Errors
    /// [`AuthoritiesError`].
    pub fn read(path: &Path) -> Result<Self, AuthoritiesError> {
        let mut text = String::new();
        for certificate in pem::certificates(path)? {
            text += "-----BEGIN CERTIFICATE-----\n";
            let encoded = STANDARD.encode(certificate);
            for line in encoded.as_bytes().chunks(64) {
                text.extend(line.iter().copied().map(char::from));
                text.push('\n');
            }
            text += "-----END CERTIFICATE-----\n";
        }
        if text.len() > MOST { Err(AuthoritiesError::TooLarge(text.len())) } else { Ok(Self(text)) }
    }

    /// PEM, each line with its end.
    pub fn pem(&self) -> &str {
        &self.0
    }
}
