//! The container images of the programs at an edge: where they come from, and which they are.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The longest prefix.
const LONGEST: usize = 200;

/// The images of the programs at an edge. Registries vanish and tags move, so a site says its own prefix and digests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeImages {
    /// What stands before each image's name: registry and path with a slash at the end, such as
    /// `registry.example.org/latchkey/`.
    #[serde(default = "EdgeImages::default_prefix")]
    pub prefix: String,
    /// Which images they are. One without a digest is known by this release's tag.
    #[serde(default)]
    pub digests: EdgeDigests,
}

/// `sha256:` and 64 hexadecimal digits for each image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct EdgeDigests {
    /// The operator of keys, which redeems links, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub krb_keys: Option<String>,
    /// Edge Sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_sync: Option<String>,
    /// Edge Monitor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_monitor: Option<String>,
}

/// A program at an edge that has an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeProgram {
    /// The operator of keys.
    KrbKeys,
    /// Edge Sync.
    EdgeSync,
    /// Edge Monitor.
    EdgeMonitor,
}

/// Why images are refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ImagesError {
    /// No prefix.
    #[error(
        "`images.prefix` is {0:?}; small letters, digits, dots, hyphens, underscores, colons and slashes make one, with a slash \
         at its end"
    )]
    Prefix(String),
    /// No digest.
    #[error("`images.digests.{0}` is {1:?}; it is written as sha256: and 64 small hexadecimal digits")]
    Digest(EdgeProgram, String),
}

impl EdgeProgram {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::KrbKeys, Self::EdgeSync, Self::EdgeMonitor];

    /// The image's name behind the prefix; also the program's file name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KrbKeys => "krb-keys",
            Self::EdgeSync => "edge-sync",
            Self::EdgeMonitor => "edge-monitor",
        }
    }
}

impl fmt::Display for EdgeProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Default for EdgeImages {
    fn default() -> Self {
        Self { prefix: Self::default_prefix(), digests: EdgeDigests::default() }
    }
}

impl EdgeDigests {
    /// The one of a program's image.
    pub fn of(&self, program: EdgeProgram) -> Option<&str> {
        match program {
            EdgeProgram::KrbKeys => self.krb_keys.as_deref(),
            EdgeProgram::EdgeSync => self.edge_sync.as_deref(),
            EdgeProgram::EdgeMonitor => self.edge_monitor.as_deref(),
        }
    }

    /// Says which image a program's is.
    pub fn set(&mut self, program: EdgeProgram, digest: String) {
        let place = match program {
            EdgeProgram::KrbKeys => &mut self.krb_keys,
            EdgeProgram::EdgeSync => &mut self.edge_sync,
            EdgeProgram::EdgeMonitor => &mut self.edge_monitor,
        };
        *place = Some(digest);
    }
}

impl EdgeImages {
    fn default_prefix() -> String {
        "latchkey/".to_owned()
    }

    /// Refuses what is no part of an image's reference.
    ///
    /// # Errors
    /// [`ImagesError`].
    pub fn check(&self) -> Result<(), ImagesError> {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"./:_-".contains(&byte);
        let starts = |part: &str| part.starts_with(|first: char| first.is_ascii_alphanumeric());
        let whole = self.prefix.strip_suffix('/').is_some_and(|path| path.split('/').all(starts));
        let good = whole && self.prefix.len() <= LONGEST && self.prefix.bytes().all(inner);
        if !good && !self.prefix.is_empty() {
            return Err(ImagesError::Prefix(self.prefix.clone()));
        }
        for program in EdgeProgram::ALL {
            if let Some(digest) = self.digests.of(program)
                && !is_digest(digest)
            {
                return Err(ImagesError::Digest(program, digest.to_owned()));
            }
        }
        Ok(())
    }

    /// What a pod names a program's image by: its digest, or this release's tag where none is known.
    pub fn reference(&self, program: EdgeProgram) -> String {
        let (prefix, name) = (&self.prefix, program.name());
        match self.digests.of(program) {
            Some(digest) => format!("{prefix}{name}@{digest}"),
            None => format!("{prefix}{name}:{}", env!("CARGO_PKG_VERSION")),
        }
    }
}

fn is_digest(text: &str) -> bool {
    let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.strip_prefix("sha256:").is_some_and(|digits| digits.len() == 64 && digits.bytes().all(hexadecimal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_takes_a_prefix_and_a_digest() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let text = format!(r#"{{"prefix": "r.example.org:5000/l/", "digests": {{"krb-keys": "{digest}"}}}}"#);
        let images: EdgeImages = serde_json::from_str(&text).unwrap();
        images.check().unwrap();
        assert_eq!(images.reference(EdgeProgram::KrbKeys), format!("r.example.org:5000/l/krb-keys@{digest}"));
        let tag = format!("r.example.org:5000/l/edge-sync:{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(images.reference(EdgeProgram::EdgeSync), tag);
        assert_eq!(serde_json::from_str::<EdgeImages>("{}").unwrap(), EdgeImages::default());
    }

    #[test]
    fn what_is_no_reference_is_refused() {
        for prefix in
            ["a", "/", "A/", "a b/", "a/$(x)/", "-a/", "a//", "https://a/", &format!("{}/", "a".repeat(LONGEST))]
        {
            let images = EdgeImages { prefix: prefix.to_owned(), ..EdgeImages::default() };
            assert!(matches!(images.check(), Err(ImagesError::Prefix(_))), "{prefix}");
        }
        EdgeImages { prefix: String::new(), ..EdgeImages::default() }.check().unwrap();
        for digest in ["", "latest", &format!("sha256:{}", "0".repeat(63)), &format!("sha256:{}", "A".repeat(64))] {
            let mut images = EdgeImages::default();
            images.digests.set(EdgeProgram::EdgeMonitor, digest.to_owned());
            let told = images.check().unwrap_err().to_string();
            assert!(told.contains("`images.digests.edge-monitor`"), "{told}");
        }
    }
}
