//! Where components come from.

use latchkey_mirror::Address;
use std::path::PathBuf;

use super::error::FetchError;
use crate::component::Download;

/// Where components come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A folder that has the files under their names.
    Folder(PathBuf),
    /// An address, HTTP or HTTPS, below which they are under their names.
    Mirror(String),
    /// The addresses that the version table has.
    Official,
}

impl Origin {
    /// A folder, or the address of a mirror.
    pub fn parse(text: &str) -> Result<Self, FetchError> {
        if !text.contains("://") {
            return Ok(Self::Folder(text.into()));
        }
        Address::try_from(text.to_owned()).map_err(FetchError::Origin)?;
        Ok(Self::Mirror(text.trim_end_matches('/').to_owned()))
    }

    /// The address or path of a file.
    pub(super) fn place(&self, wanted: &Download) -> Result<String, FetchError> {
        Ok(match self {
            Self::Folder(folder) => folder.join(&wanted.file).display().to_string(),
            Self::Mirror(address) => format!("{address}/{}", wanted.file),
            Self::Official => wanted.url.clone().ok_or_else(|| FetchError::NoAddress(wanted.file.clone()))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_is_of_http_and_everything_without_an_address_is_a_folder() {
        assert_eq!(Origin::parse("https://m/a/").unwrap(), Origin::Mirror("https://m/a".into()));
        assert_eq!(Origin::parse("../parts").unwrap(), Origin::Folder("../parts".into()));
        for text in ["file:///etc", "ftp://m", "https://", "https://user:secret@m/", "https://m/?a", "HTTPS://m"] {
            assert!(matches!(Origin::parse(text), Err(FetchError::Origin(_))), "{text}");
        }
    }
}
