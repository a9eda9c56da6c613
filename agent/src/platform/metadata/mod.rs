//! Instance metadata: what the owner or host of this machine says about it.
//!
//! Nothing here is measured, so nothing here is a fact: a name and a role are requests the join service may refuse, a
//! peer is an address to try, and the hash of the init secret only decides who may *ask* this node to found a cluster
//! (the asker, too, verifies the node). Sources are a closed list: a new one is a change of this module, reviewed as such.

mod azure_ready;
mod cloud;
mod detect;
mod document;
mod error;
mod fw_cfg;
mod http;
mod openstack;
mod seed;
mod smbios;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cloud::Cloud;
use detect::{Found, detect};
use seed::Seed;

pub use document::{COSTS, InitSecretHash, InstanceMetadata, MAX_PEERS};
pub use error::{MetadataCode, MetadataError};
pub use http::{HttpError, answer_body};
pub use openstack::hostname as openstack_hostname;
pub use seed::local_hostname;
pub use smbios::oem_string;

use super::devices::{self, BlockDevice, Wanted};

use latchkey_node_config::MetadataSource;

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
        MetadataSource::Nocloud => Found::Volume(Seed::NoCloud),
        MetadataSource::ConfigDrive => Found::Volume(Seed::ConfigDrive),
        MetadataSource::Auto => detect(Path::new("/sys"))?,
        MetadataSource::None => Found::Nothing,
    }))
}

/// One source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled(Found);

impl Settled {
    /// Whether the source is a volume.
    pub fn is_volume(self) -> bool {
        matches!(self.0, Found::Volume(_))
    }

    /// The volume that metadata are on, waiting for it until the time is over; `None` of a source that is none.
    pub async fn volume(self, timeout: Duration) -> Result<Option<BlockDevice>, MetadataError> {
        match self.0 {
            Found::Volume(seed) => Ok(Some(devices::find(&Wanted::Volume(seed.label()), timeout).await?)),
            Found::Cloud(_) | Found::Qemu | Found::Nothing => Ok(None),
        }
    }

    /// Reads the metadata of this instance, from the volume if that is what they are on; `None` if the source has none. Clouds are
    /// asked over the network.
    pub async fn fetch(self, volume: Option<&BlockDevice>) -> Result<Option<InstanceMetadata>, MetadataError> {
        match (self.0, volume) {
            (Found::Cloud(cloud), _) => cloud.fetch().await,
            (Found::Volume(seed), Some(volume)) => seed.read_within(cloud::PATIENCE, volume.path()).await,
            (Found::Qemu, _) => Qemu::default().fetch(),
            (Found::Nothing | Found::Volume(_), _) => Ok(None),
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
            Found::Volume(seed) => seed.name(),
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

#[cfg(test)]
mod tests {
    use super::super::devices::DeviceError;
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
        assert_eq!(smol::block_on(none.fetch(None)).unwrap(), None);
        assert_eq!(smol::block_on(none.report_ready()), None);
    }

    #[test]
    fn a_volume_that_does_not_appear_is_waited_for_and_named() {
        for (source, label) in [(MetadataSource::Nocloud, "cidata"), (MetadataSource::ConfigDrive, "config-2")] {
            let settled = settle(source).unwrap();
            assert!(settled.is_volume());
            let error = smol::block_on(settled.volume(Duration::from_millis(20))).unwrap_err();
            assert_eq!(error.code().as_str(), "metadata-volume-missing");
            assert!(error.to_string().contains(label), "{error}");
        }
        let ambiguous = DeviceError::Ambiguous { wanted: "x".into(), candidates: "y".into(), state: false };
        assert_eq!(MetadataError::from(ambiguous).code().as_str(), "metadata-volume-ambiguous");
        assert_eq!(smol::block_on(settle(MetadataSource::Aws).unwrap().volume(Duration::ZERO)).unwrap(), None);
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
