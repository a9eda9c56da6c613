//! What is predicted: a unified kernel image as large as a real one.

use latchkey_image::Uki;

/// Where Debian's package `ovmf` has a firmware with SEV metadata, and `systemd-boot-efi` its boot stub.
pub(crate) const FIRMWARE: &str = "/usr/share/ovmf/OVMF.fd";
pub(crate) const STUB: &str = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";
/// As large as Debian's cloud kernel, and as an initramfs with the agent and what disks and networks need.
const KERNEL: usize = 14_200_000;
const INITRD: usize = 3_500_000;

/// The kernel is another stub with noise: what matters is its size, and the text of the events that it would measure.
pub(crate) fn uki(stub: &[u8]) -> Vec<u8> {
    let noise = |size| (0..size).map(|at: usize| u8::try_from(at * 31 % 251).unwrap_or(0));
    let text = b"Linux initrd\0LOADED_IMAGE::LoadOptions\0";
    let linux: Vec<u8> = stub.iter().copied().chain(noise(KERNEL)).chain(text.iter().copied()).collect();
    let initrd: Vec<u8> = noise(INITRD).collect();
    let (command_line, os_release) = ("console=ttyS0 quiet panic=-1", "ID=test\n");
    let uname = Some("6.1.0-test");
    Uki { stub, linux: &linux, initrd: &initrd, command_line, os_release, uname }.build().expect("parts that fit")
}
