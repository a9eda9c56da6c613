//! A volume for metadata, from whoever attached it: its label, and files that are looked for on it. The first byte of the input says
//! whether the rest is a FAT volume from its first byte on, or an ISO 9660 one from its first descriptor on.
#![no_main]

use latchkey_agent::platform::metadata::{local_hostname, openstack_hostname};
use latchkey_agent::platform::volume::{Label, read_file};
use libfuzzer_sys::fuzz_target;

const PATHS: [&[&str]; 4] =
    [&["user-data"], &["meta-data"], &["openstack", "latest", "user_data"], &["openstack", "latest", "meta_data.json"]];
const LIMIT: usize = 4096;
/// Before the descriptors of ISO 9660.
const SYSTEM_AREA: usize = 16 * 2048;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let volume = if kind % 2 == 0 { bytes.to_vec() } else { [&[0; SYSTEM_AREA], bytes].concat() };
    assert!(!(Label::Cidata.is_of(&volume) && Label::Config2.is_of(&volume)));
    for path in PATHS {
        let Ok(Some(content)) = read_file(&volume, path, LIMIT) else { continue };
        assert!(content.len() <= LIMIT);
        let _ = (local_hostname(&content), openstack_hostname(&content));
    }
});
