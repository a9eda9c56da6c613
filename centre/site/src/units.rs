//! The centre as services of systemd.
