//! System calls that need care: sockets of the kernel, and the one call that needs unsafe code.

pub(super) mod bind_device;
pub(super) mod netlink_socket;
