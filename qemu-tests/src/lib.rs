//! QEMU, swtpm and the real services, as a user sees them.
