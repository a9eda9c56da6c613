//! The kernel's command line: measured, but whoever starts the machine may have written it.
#![no_main]

use latchkey_node_config::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    match Config::parse(line) {
        Ok(config) => assert_eq!(Config::parse(config.to_string().as_bytes()).ok(), Some(config)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
