//! `latchkey` as its users see it: the command, its output and exit status.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod arguments;
mod authorities;
mod backup;
mod charts;
mod clocks;
mod cloud_keys;
mod collateral;
mod definitions;
mod disk_key;
mod encrypted_guests;
mod firmware;
#[path = "../../../measurements/tests/measurements/firmware.rs"]
mod firmware_sample;
mod half_done;
mod image;
mod init;
mod known_firmware;
mod kubernetes;
mod launch;
mod measure;
mod measure_log;
mod modules;
mod nodes;
mod others_directory;
mod output;
mod real_tpm;
mod reference;
mod registration;
mod revisions;
mod roll;
mod shell;
mod snp;
mod store;
mod store_machines;
mod support;
mod tdx_guests;
mod tdx_registers;
mod terminal;
mod upgrade_rights;
mod upgrade_store;
mod verify;
mod which_machine;
