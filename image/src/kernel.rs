//! Which kernel a file is, and whether modules are made for it.

use latchkey_boot_formats::u16_at;
use latchkey_measurements::pe::{self, Machine};

/// `kernel_version`: "if set to a nonzero value, contains a pointer to a NUL-terminated human-readable kernel version
/// number string, less 0x200" (Documentation/arch/x86/boot.rst).
const VERSION_POINTER: usize = 0x20e;
/// The magic number of the same header.
const MAGIC: (usize, &[u8]) = (0x202, b"HdrS");
/// `__NEW_UTS_LEN`
const MAX_RELEASE: usize = 64;

/// Why a kernel does not go into the image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// It says no release, or is no x86 kernel.
    #[error("kernel: it is no x86 kernel image (vmlinuz) that says which release it is")]
    NoRelease,
    /// Firmware could not start it: it is no PE file for x86-64.
    #[error("kernel: firmware could not start it: it has no EFI stub")]
    NoEfiStub,
    /// A module was built for another kernel.
    #[error("modules: {module} is for kernel {made_for}, the image's kernel is {release}")]
    Foreign {
        /// The module.
        module: String,
        /// The kernel it is for.
        made_for: String,
        /// The kernel of the image.
        release: String,
    },
}

impl KernelError {
    /// What to do, where that is more than to correct what the message names.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoEfiStub => "build the kernel with CONFIG_EFI_STUB=y",
            _ => return None,
        })
    }
}

/// The release, as `uname -r` will say it.
pub(crate) fn release(kernel: &[u8]) -> Result<&str, KernelError> {
    let (at, magic) = MAGIC;
    let header = kernel.get(at..).filter(|rest| rest.starts_with(magic));
    let pointer = header.and_then(|_| u16_at(kernel, VERSION_POINTER));
    let text = pointer.filter(|pointer| *pointer != 0).and_then(|pointer| kernel.get(usize::from(pointer) + 0x200..));
    text.and_then(first_word).ok_or(KernelError::NoRelease)
}

/// Whether firmware, and so the boot stub, can start it: with an EFI stub, a kernel is a PE file.
pub(crate) fn check_efi_stub(kernel: &[u8]) -> Result<(), KernelError> {
    let image = pe::Image::parse(kernel).ok().filter(|image| image.machine == Machine::X86_64);
    image.map(drop).ok_or(KernelError::NoEfiStub)
}

/// The kernel that a module was built for: the first word of its `vermagic`, if it has one.
pub(crate) fn check_module(name: &str, module: &[u8], release: &str) -> Result<(), KernelError> {
    let key = b"\0vermagic=";
    let found = module.windows(key.len()).position(|window| window == key);
    let made_for = found.and_then(|at| first_word(module.get(at + key.len()..)?));
    match made_for {
        Some(made_for) if made_for != release => {
            Err(KernelError::Foreign { module: name.into(), made_for: made_for.into(), release: release.into() })
        }
        _ => Ok(()),
    }
}

fn first_word(text: &[u8]) -> Option<&str> {
    let end = text.iter().take(MAX_RELEASE + 1).position(|byte| matches!(byte, 0 | b' '))?;
    let word = std::str::from_utf8(text.get(..end)?).ok()?;
    (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic())).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(version: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        bytes[0x300..0x300 + version.len()].copy_from_slice(version);
        bytes
    }

    #[test]
    fn the_release_is_the_first_word_of_the_version() {
        assert_eq!(release(&kernel(b"6.1.0-56-cloud-amd64 (builder@debian) #1 SMP\0")), Ok("6.1.0-56-cloud-amd64"));
        for bytes in [vec![], vec![0; 0x300], kernel(b""), kernel(&[b'x'; 100]), kernel("ä ".as_bytes())] {
            assert_eq!(release(&bytes), Err(KernelError::NoRelease));
        }
        let mut far = kernel(b"6.1 ");
        far[0x20e..0x210].copy_from_slice(&u16::MAX.to_le_bytes());
        assert_eq!(release(&far), Err(KernelError::NoRelease));
    }

    #[test]
    fn a_kernel_that_firmware_cannot_start_is_refused() {
        assert_eq!(check_efi_stub(&latchkey_measurements::pe_sample::stub(0)), Ok(()));
        assert_eq!(check_efi_stub(&kernel(b"6.1.0\0")), Err(KernelError::NoEfiStub));
    }

    #[test]
    fn modules_of_another_kernel_are_refused() {
        let module = b"license=GPL\0vermagic=6.1.0-1 SMP preempt\0";
        assert_eq!(check_module("x", module, "6.1.0-1"), Ok(()));
        assert_eq!(check_module("x", b"no modinfo", "6.1.0-1"), Ok(()));
        assert!(matches!(check_module("x", module, "6.1.0-2"), Err(KernelError::Foreign { .. })));
    }
}
