//! The file of a master secret, and the text of key ids. What is read is spelt one way only.
#![no_main]

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::LazyLock;

use latchkey_keys::{KeyId, MasterSecret, Uuid};
use libfuzzer_sys::fuzz_target;

/// The reader takes files only, with checked permissions.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let directory = if memory.is_dir() { memory } else { std::env::temp_dir() };
    directory.join(format!("latchkey-fuzz-{}", std::process::id()))
});

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(id) = text.parse::<KeyId>() {
            assert_eq!(id.to_string().to_lowercase(), text.to_lowercase());
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        if let Ok(uuid) = text.parse::<Uuid>() {
            assert_eq!(uuid.to_string().parse(), Ok(uuid));
        }
    }
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&*FILE);
    file.and_then(|mut file| file.write_all(bytes)).expect("a file of our own");
    let loaded = MasterSecret::load(&FILE);
    fs::remove_file(&*FILE).expect("a file of our own");
    match loaded {
        Ok(secret) => assert!(secret.versions().any(|version| version == secret.current())),
        Err(error) => assert!(!error.to_string().contains(char::is_control)),
    }
});
