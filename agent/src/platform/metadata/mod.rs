//! Instance metadata: what the owner or host of this machine says about it.
//!
//! Nothing here is measured, so nothing here is a fact: a name and a role are requests the join service may refuse, a
//! peer is an address to try, and the hash of the init secret only decides who may *ask* this node to found a cluster
//! (the asker, too, verifies the node). Sources are a closed list: a new one is a change of this module, reviewed as such.

mod azure_ready;
mod cloud;
mod detect;
mod document;
mod fw_cfg;
mod http;
mod smbios;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use cloud::{Cloud, CloudError};
use detect::{Found, detect};

pub use document::{COSTS, InitSecretHash, InstanceMetadata, MAX_PEERS};
pub use smbios::oem_string;

use latchkey_node_config::MetadataSource;
use latchkey_reason::reason_codes;

/// The most bytes of metadata read.
pub const MAX_BYTES: usize = 16 * 1024;

/// QEMU: the `fw_cfg` file `opt/latchkey/metadata.json`, else the SMBIOS string `latchkey.metadata=JSON`.
///
/// `-fw_cfg name=opt/latchkey/metadata.json,file=…` needs the kernel's `qemu_fw_cfg` module;
/// `-smbios type=11,value=latchkey.metadata={…}` (or `path=FILE`) needs none, and holds what fits in one string.
#[derive(Debug)]
pub struct Qemu {
    sysfs: PathBuf,
}

impl Default for Qemu {
    fn default() -> Self {
        Self { sysfs: "/sys".into() }
    }
}

impl Qemu {
    fn fetch(&self) -> Result<Option<InstanceMetadata>, MetadataError> {
        let bytes = match fw_cfg::read(&self.sysfs)? {
            Some(bytes) => Some(bytes),
            None => smbios::read(&self.sysfs)?,
        };
        bytes.map(|bytes| InstanceMetadata::parse(&bytes)).transpose()
    }
}

/// Where metadata come from, once that is settled: the configuration's word, or what the machine says it is.
pub fn settle(source: MetadataSource) -> Result<Settled, MetadataError> {
    Ok(Settled(match source {
        MetadataSource::Qemu => Found::Qemu,
        MetadataSource::Aws => Found::Cloud(Cloud::Aws),
        MetadataSource::Gcp => Found::Cloud(Cloud::Gcp),
        MetadataSource::Azure => Found::Cloud(Cloud::Azure),
        MetadataSource::Openstack => Found::Cloud(Cloud::OpenStack),
        MetadataSource::Hetzner => Found::Cloud(Cloud::Hetzner),
        MetadataSource::Auto => detect(Path::new("/sys"))?,
        MetadataSource::None => Found::Nothing,
    }))
}

/// One source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled(Found);

impl Settled {
    /// Reads the metadata of this instance; `None` if the source has none. Clouds are asked over the network.
    pub async fn fetch(self) -> Result<Option<InstanceMetadata>, MetadataError> {
        match self.0 {
            Found::Cloud(cloud) => cloud.fetch().await,
            Found::Qemu => Qemu::default().fetch(),
            Found::Nothing => Ok(None),
        }
    }

    /// Tells the cloud that this machine is up, if it wants to be told; and what became of it.
    pub async fn report_ready(self) -> Option<String> {
        if self.0 != Found::Cloud(Cloud::Azure) {
            return None;
        }
        Some(match azure_ready::report().await {
            Ok(()) => "Azure knows that this machine is up".to_owned(),
            Err(error) => format!("Azure was not told that this machine is up: {error}"),
        })
    }
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Found::Cloud(cloud) => cloud.name(),
            Found::Qemu => "qemu",
            Found::Nothing => "none",
        })
    }
}

/// At most [`MAX_BYTES`] of a file; `None` if it does not exist.
fn read_bounded(path: &Path, limit: usize) -> Result<Option<Vec<u8>>, MetadataError> {
    use io::Read as _;
    let failed = |source| MetadataError::Unreadable { path: path.display().to_string(), source };
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.map_err(failed)?,
    };
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > limit { Err(MetadataError::TooLarge { limit }) } else { Ok(Some(bytes)) }
}

/// The instance metadata is not acceptable.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The source is there but cannot be read.
    #[error("instance metadata cannot be read from {path} ({source})")]
    Unreadable {
        /// The file.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is more of it than allowed.
    #[error("instance metadata is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// It is not JSON of our schema.
    #[error("instance metadata is not the JSON of latchkey's version 1 ({0})")]
    Schema(String),
    /// A field has a value it must not have.
    #[error("the instance metadata's {field} is not {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// The machine's SMBIOS table is damaged.
    #[error("the SMBIOS table of this machine is damaged")]
    Smbios,
    /// The cloud's metadata server gave none.
    #[error("metadata of {cloud}: {source}")]
    Cloud {
        /// Which.
        cloud: &'static str,
        /// Why.
        source: CloudError,
    },
}

reason_codes! {
    /// The instance metadata is not acceptable.
    pub enum MetadataCode {
        /// The source is there but cannot be read.
        Unreadable = "metadata-unreadable":
            "check how the machine is started";
        /// There is more of it than allowed.
        TooLarge = "metadata-too-large":
            "shorten the metadata";
        /// It is not of the schema.
        Invalid = "metadata-invalid":
            "correct the metadata";
        /// The machine's SMBIOS table is damaged.
        Smbios = "smbios-damaged":
            "use fw_cfg or latchkey.metadata=none";
        /// The cloud's metadata server gave none.
        Server = "metadata-server-failed":
            "check that the instance may ask its metadata server (on AWS version 2), and that latchkey.metadata names the cloud it runs in";
    }
}

impl MetadataError {
    /// The stable reason code.
    pub fn code(&self) -> MetadataCode {
        match self {
            Self::Unreadable { .. } => MetadataCode::Unreadable,
            Self::TooLarge { .. } => MetadataCode::TooLarge,
            Self::Schema(_) | Self::Field { .. } => MetadataCode::Invalid,
            Self::Smbios => MetadataCode::Smbios,
            Self::Cloud { .. } => MetadataCode::Server,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Sysfs(PathBuf);

    impl Sysfs {
        fn new() -> Self {
            let id = u64::from_ne_bytes(crate::platform::entropy::bytes());
            let sysfs = std::env::temp_dir().join(format!("latchkey-metadata-{id:016x}"));
            fs::create_dir(&sysfs).unwrap();
            Self(sysfs)
        }

        fn with(self, path: &str, bytes: &[u8]) -> Self {
            let file = self.0.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, bytes).unwrap();
            self
        }

        fn fetch(&self) -> Result<Option<InstanceMetadata>, MetadataError> {
            Qemu { sysfs: self.0.clone() }.fetch()
        }
    }

    impl Drop for Sysfs {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    const FW_CFG: &str = "firmware/qemu_fw_cfg/by_name/opt/latchkey/metadata.json/raw";
    const DMI: &str = "firmware/dmi/tables/DMI";

    #[test]
    fn fw_cfg_comes_before_smbios() {
        let smbios = smbios::tests::table(&["latchkey.metadata={\"version\":1,\"node_name\":\"from-smbios\"}"]);
        let sysfs = Sysfs::new().with(DMI, &smbios);
        assert_eq!(sysfs.fetch().unwrap().unwrap().node_name.as_deref(), Some("from-smbios"));
        let sysfs = sysfs.with(FW_CFG, br#"{"version":1,"node_name":"from-fw-cfg"}"#);
        assert_eq!(sysfs.fetch().unwrap().unwrap().node_name.as_deref(), Some("from-fw-cfg"));
    }

    #[test]
    fn a_machine_without_metadata_is_no_failure() {
        assert_eq!(Sysfs::new().fetch().unwrap(), None);
        assert_eq!(Sysfs::new().with(DMI, &smbios::tests::table(&["other=1"])).fetch().unwrap(), None);
        let none = settle(MetadataSource::None).unwrap();
        assert_eq!(smol::block_on(none.fetch()).unwrap(), None);
        assert_eq!(smol::block_on(none.report_ready()), None);
    }

    #[test]
    fn damaged_metadata_does_not_fall_back_to_another_source() {
        let smbios = smbios::tests::table(&["latchkey.metadata={\"version\":1}"]);
        let sysfs = Sysfs::new().with(DMI, &smbios).with(FW_CFG, b"{");
        assert_eq!(sysfs.fetch().unwrap_err().code().as_str(), "metadata-invalid");
    }

    #[test]
    fn endless_metadata_is_refused() {
        let sysfs = Sysfs::new().with(FW_CFG, &vec![b' '; MAX_BYTES + 1]);
        assert_eq!(sysfs.fetch().unwrap_err().code().as_str(), "metadata-too-large");
    }
}
