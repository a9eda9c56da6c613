//! Disks as others write and read them.

#![expect(clippy::unwrap_used, reason = "a test rig that cannot be built fails the test")]

mod cryptsetup;
mod foreign;
