//! QEMU's firmware configuration device, as the kernel shows it.

use std::path::Path;

use super::{MAX_BYTES, MetadataError, read_bounded};

/// Below `/sys`; the name is what `-fw_cfg name=` was given.
const FILE: &str = "firmware/qemu_fw_cfg/by_name/opt/latchkey/metadata.json/raw";

pub(super) fn read(sysfs: &Path) -> Result<Option<Vec<u8>>, MetadataError> {
    read_bounded(&sysfs.join(FILE), MAX_BYTES)
}
