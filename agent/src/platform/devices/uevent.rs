//! The kernel's announcements of devices.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, netlink};
use smol::Async;

use super::DeviceError;
use crate::platform::sys::netlink_socket;

/// The multicast group the kernel itself speaks in; udev's daemon uses 2.
const KERNEL_GROUP: u32 = 1;
/// The kernel builds a message in a buffer of 2048 bytes (`UEVENT_BUFFER_SIZE`).
const MAX_MESSAGE: usize = 8192;

/// Hears about devices from the moment it is opened.
#[derive(Debug)]
pub(super) struct Listener {
    socket: Async<OwnedFd>,
}

impl Listener {
    pub(super) fn open() -> Result<Self, DeviceError> {
        let open = || Async::new(netlink_socket::open(Some(netlink::KOBJECT_UEVENT), KERNEL_GROUP)?);
        open().map(|socket| Self { socket }).map_err(|source| DeviceError::Events { source })
    }

    /// Waits until a block device appears or changes. `false` when the time is over.
    pub(super) async fn block_device_within(&self, time: Duration) -> Result<bool, DeviceError> {
        let deadline = Instant::now() + time;
        loop {
            let message = smol::future::or(async { self.message().await.map(Some) }, async {
                smol::Timer::at(deadline).await;
                Ok(None)
            });
            match message.await.map_err(|source| DeviceError::Events { source })? {
                None => return Ok(false),
                Some(message) if concerns_block_device(&message) => return Ok(true),
                Some(_) => {}
            }
        }
    }

    async fn message(&self) -> io::Result<Vec<u8>> {
        let receive = |socket: &OwnedFd| netlink_socket::receive::<MAX_MESSAGE>(socket, RecvFlags::DONTWAIT);
        match self.socket.read_with(receive).await {
            // Too many at once for the buffer: some are lost, so look again.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                Ok(ANY_BLOCK_DEVICE.into())
            }
            result => result,
        }
    }
}

const ANY_BLOCK_DEVICE: &[u8] = b"change@\0ACTION=change\0SUBSYSTEM=block\0";

/// A message is `ACTION@PATH`, then `KEY=VALUE` strings, all ended by zeros (kernel `lib/kobject_uevent.c`).
fn concerns_block_device(message: &[u8]) -> bool {
    let has = |wanted: &[u8]| message.split(|byte| *byte == 0).any(|field| field == wanted);
    has(b"SUBSYSTEM=block") && (has(b"ACTION=add") || has(b"ACTION=change"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_block_devices_that_appear_or_change_count() {
        assert!(concerns_block_device(b"add@/devices/vda\0ACTION=add\0DEVPATH=/devices/vda\0SUBSYSTEM=block\0"));
        assert!(concerns_block_device(ANY_BLOCK_DEVICE));
        assert!(!concerns_block_device(b"remove@/x\0ACTION=remove\0SUBSYSTEM=block\0"));
        assert!(!concerns_block_device(b"add@/x\0ACTION=add\0SUBSYSTEM=net\0"));
        assert!(!concerns_block_device(b"add@/x\0ACTION=add\0XSUBSYSTEM=block\0"));
        assert!(!concerns_block_device(b""));
    }

    #[test]
    fn a_device_the_kernel_announces_is_heard() {
        let listener = latchkey_test_support::block_on(async { Listener::open().unwrap() });
        // Writing an action here makes the kernel announce it (Documentation/ABI/testing/sysfs-uevent).
        let announced = std::fs::read_dir("/sys/class/block")
            .unwrap()
            .any(|entry| std::fs::write(entry.unwrap().path().join("uevent"), "change").is_ok());
        if !announced {
            latchkey_test_support::skip("announcing a device needs root, a writable /sys and a block device");
            return;
        }
        assert!(latchkey_test_support::block_on(listener.block_device_within(Duration::from_secs(30))).unwrap());
    }

    #[test]
    fn the_listener_gives_up_at_its_time() {
        latchkey_test_support::block_on(async {
            let listener = Listener::open().unwrap();
            // Devices may well appear on a busy machine; then it waits again.
            while listener.block_device_within(Duration::from_millis(10)).await.unwrap() {}
        });
    }
}
