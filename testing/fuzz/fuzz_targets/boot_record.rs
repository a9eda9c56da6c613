//! The record of a boot, replayed through the life of a node. However wrong the events, the machine opens no disk before
//! the lock.
#![no_main]

use latchkey_agent::lifecycle::replay;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|log: &str| {
    let Ok(replayed) = replay(log) else { return };
    let at = |name: &str| replayed.effects.iter().position(|effect| effect.starts_with(name));
    if let Some(open) = at("open-disk").or(at("format-disk")) {
        assert!(at("lock").is_some_and(|lock| lock < open), "{:?}", replayed.effects);
    }
});
