//! Builds the initramfs reproducibly.
