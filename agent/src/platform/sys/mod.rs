//! System calls that need care: sockets of the kernel, and the calls that need unsafe code.

pub(super) mod bind_device;
pub(super) mod netlink_socket;
pub(crate) mod resize_partition;
pub(super) mod sev_guest_ioctl;
