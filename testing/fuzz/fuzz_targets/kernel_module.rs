//! A kernel module, from whatever package the initramfs is built of.
#![no_main]

use latchkey_initramfs::elf::ModInfo;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(info) = ModInfo::parse(bytes) {
        assert!(!info.name.is_empty() && !info.name.contains(['/', '-', '\n']));
        assert!(info.depends.iter().all(|name| !name.is_empty() && !name.contains(['/', '\n'])));
    }
});
