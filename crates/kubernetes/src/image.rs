//! A container image, and how it is pinned: by the digest that registries know it by, by the hash of an archive of it, or both.

use std::fmt;

use latchkey_mirror::Address;
use serde::Deserialize;

use crate::component::Download;
use crate::hash::Sha256;
use crate::role::Roles;

/// Longest name and longest tag (OCI Distribution Specification, "Pulling manifests": 128 for a tag).
const MAX_TEXT: usize = 128;

/// A container image of a release.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// Registry and repository, such as `registry.k8s.io/pause`.
    name: Repository,
    /// Its tag.
    tag: Tag,
    /// `sha256:` and what its manifest, or its list of manifests, hashes to [it is pinned by its archive alone].
    digest: Option<ImageDigest>,
    /// A file of it [it comes from a registry].
    archive: Option<Archive>,
    /// Which nodes run it [all].
    #[serde(default)]
    roles: Roles,
}

/// What an image is called: registry, repository and tag.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Reference {
    name: Repository,
    tag: Tag,
}

/// An archive of an image, as `ctr images import` takes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// Its official address [none: it comes from a folder or a mirror].
    url: Option<Address>,
    /// The hash of the file.
    sha256: Sha256,
    /// No more bytes of it are read.
    max_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct Repository(String);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct Tag(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct ImageDigest(Sha256);

impl Image {
    /// Registry and repository.
    pub fn name(&self) -> &str {
        &self.name.0
    }

    /// Its tag.
    pub fn tag(&self) -> &str {
        &self.tag.0
    }

    /// `NAME:TAG`
    pub fn reference(&self) -> Reference {
        Reference { name: self.name.clone(), tag: self.tag.clone() }
    }

    /// What its manifest, or its list of manifests, hashes to.
    pub fn digest(&self) -> Option<Sha256> {
        self.digest.map(|digest| digest.0)
    }

    /// Which nodes run it.
    pub const fn roles(&self) -> &Roles {
        &self.roles
    }

    /// Whether anything pins it.
    pub(crate) const fn is_pinned(&self) -> bool {
        self.digest.is_some() || self.archive.is_some()
    }

    /// What its archive is called in folders and on mirrors: `NAME-TAG.tar`, without registry and directories.
    pub fn file(&self) -> String {
        format!("{}-{}.tar", self.name().rsplit('/').next().unwrap_or_default(), self.tag())
    }

    /// What pins it: the hash of its archive, or else its digest.
    pub fn pin(&self) -> Option<Sha256> {
        self.archive.as_ref().map(|archive| archive.sha256).or(self.digest())
    }

    /// The file to get, if the table has its hash.
    pub fn download(&self) -> Option<Download> {
        let archive = self.archive.as_ref()?;
        Some(Download {
            file: self.file(),
            url: archive.url.as_ref().map(|url| url.as_str().to_owned()),
            sha256: archive.sha256,
            max_bytes: archive.max_bytes,
        })
    }
}

impl Reference {
    /// Registry and repository.
    pub fn name(&self) -> &str {
        &self.name.0
    }

    /// Its tag.
    pub fn tag(&self) -> &str {
        &self.tag.0
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name(), self.tag())
    }
}

/// `REGISTRY/REPOSITORY:TAG`
impl TryFrom<String> for Reference {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts = text.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'));
        let (name, tag) = parts.ok_or_else(|| format!("{text:?} has no tag, as in registry.k8s.io/pause:3.10.1"))?;
        Ok(Self { name: name.to_owned().try_into()?, tag: tag.to_owned().try_into()? })
    }
}

impl TryFrom<String> for Repository {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
        let begins =
            |part: &str| part.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let is_name = |name: &str| begins(name) && name.bytes().all(inner) && !name.contains("..");
        let (registry, path) = text.split_once('/').unwrap_or_default();
        let (host, port) = registry.split_once(':').unwrap_or((registry, "443"));
        let registry = is_name(host) && (host.contains('.') || host == "localhost") && port.parse::<u16>().is_ok();
        if registry && text.len() <= MAX_TEXT && path.split('/').all(is_name) {
            Ok(Self(text))
        } else {
            let shown: String = text.chars().take(MAX_TEXT).collect();
            Err(format!("{shown:?} is no image like registry.k8s.io/pause: registry and repository, in small letters"))
        }
    }
}

impl TryFrom<String> for Tag {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if begins && text.len() <= MAX_TEXT && text.bytes().all(inner) {
            Ok(Self(text))
        } else {
            let shown: String = text.chars().take(MAX_TEXT).collect();
            Err(format!("{shown:?} is no tag: 1 to {MAX_TEXT} letters, digits, '_', '-' and '.'"))
        }
    }
}

impl TryFrom<String> for ImageDigest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let hash = text.strip_prefix("sha256:").ok_or("a digest begins with sha256:")?;
        Ok(Self(Sha256::try_from(hash.to_owned())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(name: &str, tag: &str, more: &str) -> Result<Image, serde_json::Error> {
        serde_json::from_str(&format!(r#"{{"name": "{name}", "tag": "{tag}"{more}}}"#))
    }

    #[test]
    fn names_are_those_of_registries() {
        let pause = image("registry.k8s.io/pause", "3.10.1", "").unwrap();
        assert_eq!(pause.reference().to_string(), "registry.k8s.io/pause:3.10.1");
        assert!(!pause.is_pinned());
        assert!(image("localhost:5000/a/b-c", "v1", "").is_ok());
        for name in [
            "pause",
            "/pause",
            "registry.k8s.io/",
            "registry.k8s.io/../x",
            "registry.k8s.io//x",
            "Registry.k8s.io/x",
            "a.b/x y",
            "a.b:x/y",
        ] {
            assert!(image(name, "1", "").is_err(), "{name}");
        }
        for tag in ["", ".1", "-1", "a:b", "a/b"] {
            assert!(image("registry.k8s.io/pause", tag, "").is_err(), "{tag}");
        }
    }

    #[test]
    fn a_reference_has_a_tag() {
        let reference = |text: &str| Reference::try_from(text.to_owned());
        for text in ["registry.k8s.io/pause:3.10.1", "localhost:5000/a/b:v1"] {
            assert_eq!(reference(text).unwrap().to_string(), text);
        }
        for text in ["registry.k8s.io/pause", "localhost:5000/a", "pause:3.10.1", "a.b/c:", "a.b/c@sha256:1", ""] {
            assert!(reference(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_archive_is_named_after_the_image_and_its_tag() {
        let hash = "0".repeat(64);
        let archive = format!(r#", "archive": {{"sha256": "{hash}", "max_bytes": 7}}"#);
        let coredns = image("registry.k8s.io/coredns/coredns", "v1.12.1", &archive).unwrap();
        assert_eq!(coredns.download().unwrap().file, "coredns-v1.12.1.tar");
        let digest = format!(r#", "digest": "sha256:{hash}""#);
        assert!(image("a.b/c", "1", &digest).unwrap().is_pinned());
        assert!(image("a.b/c", "1", &digest.replace("sha256:", "")).is_err());
    }
}
