//! A component: a file at an address, and where it, or what is in it, goes on a node.

use latchkey_mirror::Address;
use serde::Deserialize;

use crate::hash::Sha256;
use crate::name::Name;
use crate::role::Roles;

/// Where files of components may go: places of programs, never of configuration.
const PLACES: [&str; 7] =
    ["/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/usr/local/sbin/", "/usr/lib/", "/usr/libexec/", "/opt/cni/bin/"];
/// Longest path.
const MAX_PATH: usize = 120;

/// A component of a release.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// What it is called, such as `kubelet`.
    name: Name,
    /// Its own version.
    version: Name,
    /// Its official address [none: it comes from a folder or a mirror].
    url: Option<Address>,
    /// The hash of the file.
    sha256: Sha256,
    /// No more bytes of it are read.
    max_bytes: u64,
    /// Which nodes carry it [all].
    #[serde(default)]
    roles: Roles,
    /// Where it goes.
    install: Install,
}

/// Where a component goes on a node. All files belong to root, mode 0755.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Install {
    /// The file itself, here.
    File(InstallPath),
    /// Files of it, a tar archive packed with gzip.
    TarGz(Vec<Member>),
}

/// A file in an archive.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its path in the archive, without `./`.
    pub member: String,
    /// Where it goes.
    pub to: InstallPath,
}

/// A path of a program on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct InstallPath(String);

impl InstallPath {
    /// The path, absolute.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its last name.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(_, name)| name)
    }

    /// The directory it is in, without a slash at the end.
    pub fn directory(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(directory, _)| directory)
    }
}

impl TryFrom<String> for InstallPath {
    type Error = String;

    fn try_from(path: String) -> Result<Self, String> {
        let clear = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let plain = |name: &str| !name.is_empty() && name.bytes().all(clear) && !matches!(name, "." | "..");
        let names = path.strip_prefix('/').is_some_and(|names| names.split('/').all(plain));
        if names && path.len() <= MAX_PATH && PLACES.iter().any(|place| path.starts_with(place)) {
            Ok(Self(path))
        } else {
            let shown: String = path.chars().take(MAX_PATH).collect();
            Err(format!("{shown:?} is no path of letters, digits, '-', '_' and '.' below {}", PLACES.join(", ")))
        }
    }
}

/// What there is to get: a file of a component or an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Download {
    /// Its name in folders and on mirrors.
    pub file: String,
    /// Its official address, if it has one.
    pub url: Option<String>,
    /// What it hashes to.
    pub sha256: Sha256,
    /// No more bytes of it are read.
    pub max_bytes: u64,
}

impl Component {
    /// What it is called.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Its own version.
    pub fn version(&self) -> &str {
        self.version.as_str()
    }

    /// Which nodes carry it.
    pub const fn roles(&self) -> &Roles {
        &self.roles
    }

    /// Where it goes.
    pub const fn install(&self) -> &Install {
        &self.install
    }

    /// Every path on a node that it brings.
    pub fn paths(&self) -> impl Iterator<Item = &InstallPath> {
        let (one, several) = match &self.install {
            Install::File(path) => (Some(path), [].as_slice()),
            Install::TarGz(members) => (None, members.as_slice()),
        };
        one.into_iter().chain(several.iter().map(|member| &member.to))
    }

    /// The file to get. Its name in folders and on mirrors is `NAME-VERSION`.
    pub fn download(&self) -> Download {
        Download {
            file: format!("{}-{}", self.name(), self.version()),
            url: self.url.as_ref().map(|url| url.as_str().to_owned()),
            sha256: self.sha256,
            max_bytes: self.max_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_go_where_programs_are_and_nowhere_else() {
        let path = |text: &str| InstallPath::try_from(text.to_owned());
        let bridge = path("/opt/cni/bin/host-local").unwrap();
        assert_eq!((bridge.directory(), bridge.name()), ("/opt/cni/bin", "host-local"));
        let long = format!("/usr/bin/{}", "x".repeat(MAX_PATH));
        for text in [
            "",
            "/",
            "usr/bin/x",
            "/usr/bin/",
            "/usr/bin/../../etc/passwd",
            "/usr/bin/./x",
            "/etc/x",
            "/usr/bin/a b",
            "/usr/bin//x",
            "/usr/bin/x\n",
            "/usr/bin/$x",
            "/usr/binx",
            &long,
        ] {
            assert!(path(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_component_says_where_it_goes_in_one_of_two_ways() {
        let component = |install: &str| {
            let hash = "0".repeat(64);
            let text =
                format!(r#"{{"name": "x", "version": "1", "sha256": "{hash}", "max_bytes": 1, "install": {install}}}"#);
            serde_json::from_str::<Component>(&text)
        };
        let x = component(r#"{"file": "/usr/bin/x"}"#).unwrap();
        assert_eq!(x.paths().map(InstallPath::as_str).collect::<Vec<_>>(), ["/usr/bin/x"]);
        assert_eq!(x.download().file, "x-1");
        let two = r#"{"tar_gz": [{"member": "a", "to": "/usr/bin/a"}, {"member": "b", "to": "/usr/bin/b"}]}"#;
        assert_eq!(component(two).unwrap().paths().count(), 2);
        for install in
            [r"{}", r#"{"file": "/usr/bin/x", "tar_gz": []}"#, r#"{"zip": []}"#, r#"{"tar_gz": [{"member": "a"}]}"#]
        {
            assert!(component(install).is_err(), "{install}");
        }
    }
}
