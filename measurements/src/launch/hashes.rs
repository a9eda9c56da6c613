//! Direct boot with kernel hashes: QEMU puts digests of kernel, initrd and command line into a measured page, and the
//! firmware boots nothing else.

use latchkey_attestation::Digest;
use latchkey_boot_formats::{Guid, sha256};

use super::chain::PAGE;
use super::error::LaunchError;
use super::firmware::Firmware;
use super::metadata::SectionKind;

/// SHA-256 of what is booted with `-kernel`, `-initrd` and `-append`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelHashes {
    kernel: [u8; 32],
    initrd: [u8; 32],
    command_line: [u8; 32],
}

impl KernelHashes {
    /// Of the whole kernel file (for a unified kernel image, that image), the whole initrd (empty when there is none) and
    /// the command line as given to `-append`.
    ///
    /// # Errors
    /// [`LaunchError::CommandLineNul`]: no command line can have a NUL.
    pub fn of(kernel: &[u8], initrd: &[u8], command_line: &str) -> Result<Self, LaunchError> {
        Self::of_digest(Digest(sha256(&[kernel])), initrd, command_line)
    }

    /// The same with a kernel whose digest is known.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn of_digest(kernel: Digest, initrd: &[u8], command_line: &str) -> Result<Self, LaunchError> {
        if command_line.contains('\0') {
            return Err(LaunchError::CommandLineNul);
        }
        // QEMU hashes the terminating NUL too.
        Ok(Self {
            kernel: kernel.0,
            initrd: sha256(&[initrd]),
            command_line: sha256(&[command_line.as_bytes(), b"\0"]),
        })
    }

    /// The table that QEMU writes (`build_kernel_loader_hashes`): a header with its length, then for each part GUID,
    /// length and digest; zeros up to a multiple of 16 bytes.
    fn table(&self) -> [u8; TABLE_PADDED] {
        let mut table = [0; TABLE_PADDED];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            if let Some(room) = table.get_mut(at..at + bytes.len()) {
                room.copy_from_slice(bytes);
            }
            at += bytes.len();
        };
        put(&TABLE_HEADER.disk_order());
        put(&168_u16.to_le_bytes());
        for (name, digest) in [(COMMAND_LINE, &self.command_line), (INITRD, &self.initrd), (KERNEL, &self.kernel)] {
            put(&name.disk_order());
            put(&50_u16.to_le_bytes());
            put(digest);
        }
        table
    }
}

/// The page with the table where a firmware wants it.
pub(super) struct Table(Box<[u8; PAGE]>);

impl Table {
    /// The firmware says twice where the table is: a page of its metadata, which is measured, and an address of the table
    /// itself, which QEMU writes to. They must agree, or the firmware would look elsewhere.
    pub(super) fn of(firmware: &Firmware, hashes: &KernelHashes) -> Result<Self, LaunchError> {
        let mut sections = firmware.sections().iter();
        let section = sections.find(|section| section.kind == SectionKind::KernelHashes);
        let section = section.ok_or(LaunchError::NoKernelHashes)?;
        let (address, size) = firmware.hash_table().ok_or(LaunchError::NoHashTable)?;
        let misplaced = LaunchError::HashTable { address, size };
        let offset = address.checked_sub(section.address).and_then(|offset| usize::try_from(offset).ok());
        // QEMU refuses a firmware with less room than the table without its padding.
        if usize::try_from(size).is_ok_and(|size| size < TABLE_PADDED) {
            return Err(misplaced);
        }
        let mut page = Box::new([0; PAGE]);
        let room = offset.and_then(|offset| page.get_mut(offset..)?.first_chunk_mut::<TABLE_PADDED>());
        *room.ok_or(misplaced)? = hashes.table();
        Ok(Self(page))
    }

    pub(super) fn page(&self) -> &[u8; PAGE] {
        &self.0
    }
}

/// Header of 18 bytes, three entries of 50, and padding up to a multiple of 16.
const TABLE_PADDED: usize = 176;

// The GUIDs of edk2's `OvmfPkg/AmdSev/BlobVerifierLibSevHashes` and QEMU's `target/i386/sev.c`.
const TABLE_HEADER: Guid = Guid::from_u128(0x9438_d606_4f22_4cc9_b479_a793_d411_fd21);
const COMMAND_LINE: Guid = Guid::from_u128(0x97d0_2dd8_bd20_4c94_aa78_e771_4d36_ab2a);
const INITRD: Guid = Guid::from_u128(0x44ba_f731_3a2f_4bd7_9af1_41e2_9169_781d);
const KERNEL: Guid = Guid::from_u128(0x4de7_9437_abd2_427f_b835_d5b1_72d2_045b);
