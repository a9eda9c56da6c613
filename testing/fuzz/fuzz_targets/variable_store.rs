//! The variables in a firmware's flash, from whoever built the machine: read, and what follows for Secure Boot predicted.
#![no_main]

use latchkey_measurements::predict::variables::VariableStore;
use latchkey_measurements::predict::{MachineType, SignatureDatabases};
use libfuzzer_sys::fuzz_target;

const ON: &[u8] = br#"{"name": "on", "secure_boot": "on", "variables": "v"}"#;
const OFF: &[u8] = br#"{"name": "off", "secure_boot": "off", "secure_boot_variable": "zero", "variables": "v"}"#;

fuzz_target!(|bytes: &[u8]| {
    let machine = |json| MachineType::from_json(json).expect("a good description").with_variables(Some(bytes));
    let (on, off) = (machine(ON), machine(OFF));
    let Ok(store) = VariableStore::parse(bytes) else {
        assert!(on.is_err() && off.is_err());
        return;
    };
    // A store says one thing or the other, and neither when a database is there twice.
    let databases = SignatureDatabases::of(&store);
    assert_eq!(on.is_ok(), databases.is_ok() && store.secure_boot());
    assert_eq!(off.is_ok(), databases.is_ok() && !store.secure_boot());
    assert!(store.len() <= bytes.len() / 60);
});
