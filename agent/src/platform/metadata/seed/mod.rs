//! Metadata on a volume that is attached to the machine: `NoCloud`'s seed and `OpenStack`'s config drive.
//!
//! The files are those that cloud-init reads there
//! (`docs.cloud-init.io/en/latest/reference/datasources/nocloud.html`, `…/configdrive.html`). Only such volumes count: a seed
//! that a server is asked for (`ds=nocloud;s=http://…`) is not fetched.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use smol::future::FutureExt as _;

use super::cloud::MAX_JSON;
use super::{InstanceMetadata, MAX_BYTES, MetadataError, openstack};
use crate::platform::volume::{Label, VolumeError, read_file};

/// A kind of volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seed {
    /// `user-data` is the document, and must be there; `meta-data` may have a name.
    NoCloud,
    /// `openstack/latest/user_data` is the document, if the operator gave one; `meta_data.json` beside it must be there.
    ConfigDrive,
}

impl Seed {
    /// Its word on the kernel command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NoCloud => "nocloud",
            Self::ConfigDrive => "config-drive",
        }
    }

    pub(super) fn label(self) -> Label {
        match self {
            Self::NoCloud => Label::Cidata,
            Self::ConfigDrive => Label::Config2,
        }
    }

    fn document(self) -> &'static [&'static str] {
        match self {
            Self::NoCloud => &["user-data"],
            Self::ConfigDrive => &["openstack", "latest", "user_data"],
        }
    }

    fn about(self) -> &'static [&'static str] {
        match self {
            Self::NoCloud => &["meta-data"],
            Self::ConfigDrive => &["openstack", "latest", "meta_data.json"],
        }
    }

    /// What the volume on this device says, if it says it in this time. It is read on a thread of its own.
    pub(super) async fn read_within(
        self,
        patience: Duration,
        device: PathBuf,
    ) -> Result<Option<InstanceMetadata>, MetadataError> {
        let path = device.display().to_string();
        let late = async {
            smol::Timer::after(patience).await;
            let late = format!("not within {} s", patience.as_secs());
            let source = io::Error::new(io::ErrorKind::TimedOut, late).into();
            Err(MetadataError::Volume { device: path, source })
        };
        smol::unblock(move || self.read(&device)).or(late).await
    }

    fn read(self, device: &Path) -> Result<Option<InstanceMetadata>, MetadataError> {
        let failed = |source| MetadataError::Volume { device: device.display().to_string(), source };
        let missing =
            |file: &[&str]| MetadataError::NoFile { device: device.display().to_string(), file: file.join("/") };
        let volume = File::open(device).map_err(|error| failed(error.into()))?;
        let document = read_file(&volume, self.document(), MAX_BYTES).map_err(failed)?;
        if self == Self::NoCloud && document.is_none() {
            return Err(missing(self.document()));
        }
        let metadata = InstanceMetadata::given(document)?;
        if InstanceMetadata::names_its_node(metadata.as_ref()) {
            return Ok(metadata);
        }
        let name = match read_file(&volume, self.about(), MAX_JSON) {
            // A volume that has only the label of a config drive.
            Ok(None) if self == Self::ConfigDrive => return Err(missing(self.about())),
            Ok(about) => about.and_then(|about| self.instance_name(&about)),
            // As with a metadata server: what is too long for a name is passed over.
            Err(VolumeError::TooLarge { .. }) => None,
            Err(error) => return Err(failed(error)),
        };
        Ok(InstanceMetadata::named(metadata, name.as_deref()))
    }

    fn instance_name(self, about: &[u8]) -> Option<String> {
        match self {
            Self::NoCloud => local_hostname(about),
            Self::ConfigDrive => openstack::hostname(about).ok().flatten(),
        }
    }
}

/// `local-hostname` in `NoCloud`'s `meta-data`, which is YAML: JSON (which is YAML, too), else a line of its own, at its beginning
/// and once, with a plain or quoted value. What is written in another way is passed over.
pub fn local_hostname(about: &[u8]) -> Option<String> {
    /// Of all that is there.
    #[derive(Deserialize)]
    struct About {
        #[serde(rename = "local-hostname")]
        local_hostname: Option<String>,
    }
    if about.trim_ascii_start().starts_with(b"{") {
        return serde_json::from_slice::<About>(about).ok()?.local_hostname;
    }
    let text = str::from_utf8(about).ok()?;
    let mut values = text.lines().filter_map(|line| line.strip_prefix("local-hostname:"));
    let value = values.next().filter(|_| values.next().is_none())?;
    // A comment begins behind a space.
    let value = value.split_once(" #").map_or(value, |(value, _)| value).trim();
    let quoted = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    Some(quoted.unwrap_or(value).to_owned())
}

#[cfg(test)]
mod tests;
