//! The kernel's command line: measured, but whoever starts the machine may have written it.
#![no_main]

use latchkey_agent::platform::config::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    if let Err(fault) = Config::parse(line) {
        assert!(!fault.code().is_empty());
        assert!(!fault.to_string().is_empty());
    }
});
