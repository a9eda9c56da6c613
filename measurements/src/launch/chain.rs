//! The digest as the secure processor computes it, page by page.

use ring::digest::{SHA384, digest};

/// Bytes of a page: KVM launches with pages of 4 KiB only.
pub(super) const PAGE: usize = 4096;
/// A SHA-384 digest.
pub(super) type Digest = [u8; 48];

/// GCTX.LD: zero at the start, and after each page the digest of a `PAGE_INFO` with the value before it (56860,
/// `SNP_LAUNCH_UPDATE`, "Layout of the `PAGE_INFO` Structure").
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain(Digest);

/// `PAGE_TYPE` (56860, `SNP_LAUNCH_UPDATE`, "Encodings for the `PAGE_TYPE` Field").
#[derive(Debug, Clone, Copy)]
enum PageType {
    Normal = 1,
    Vmsa = 2,
    Zero = 3,
    Secrets = 5,
    Cpuid = 6,
}

impl Chain {
    pub(super) fn new() -> Self {
        Self([0; 48])
    }

    pub(super) fn digest(self) -> Digest {
        self.0
    }

    /// A page with this content.
    pub(super) fn normal(&mut self, address: u64, page: &[u8; PAGE]) {
        self.normal_of(address, &contents(page));
    }

    /// A page whose content has this digest.
    pub(super) fn normal_of(&mut self, address: u64, contents: &Digest) {
        self.update(PageType::Normal, address, contents);
    }

    /// The first registers of a processor.
    pub(super) fn registers(&mut self, page: &[u8; PAGE]) {
        self.registers_of(&contents(page));
    }

    /// The same by their digest. They are nowhere in the guest's memory; Linux gives `INITIAL_VMSA_GPA`.
    pub(super) fn registers_of(&mut self, contents: &Digest) {
        const INITIAL_VMSA_GPA: u64 = 0xffff_ffff_f000;
        self.update(PageType::Vmsa, INITIAL_VMSA_GPA, contents);
    }

    /// A page of zeros.
    pub(super) fn zero(&mut self, address: u64) {
        self.update(PageType::Zero, address, &NOT_MEASURED);
    }

    /// The page that the secure processor fills with secrets.
    pub(super) fn secrets(&mut self, address: u64) {
        self.update(PageType::Secrets, address, &NOT_MEASURED);
    }

    /// The page with the answers to CPUID, which the secure processor checks.
    pub(super) fn cpuid(&mut self, address: u64) {
        self.update(PageType::Cpuid, address, &NOT_MEASURED);
    }

    fn update(&mut self, kind: PageType, address: u64, contents: &Digest) {
        let mut info = [0; PAGE_INFO];
        info[..48].copy_from_slice(&self.0);
        info[48..96].copy_from_slice(contents);
        info[96..98].copy_from_slice(&0x70_u16.to_le_bytes());
        info[98] = kind as u8;
        // Not an initial migration image, and no permissions for VMPL 1 to 3: zero.
        info[104..].copy_from_slice(&address.to_le_bytes());
        self.0 = sha384(&info);
    }
}

/// The digest of a page's content.
pub(super) fn contents(page: &[u8; PAGE]) -> Digest {
    sha384(page)
}

fn sha384(bytes: &[u8]) -> Digest {
    let mut value = [0; 48];
    value.copy_from_slice(digest(&SHA384, bytes).as_ref());
    value
}

/// CONTENTS is the digest of normal and VMSA pages only: zero pages are zero, the others the secure processor checks itself.
const NOT_MEASURED: Digest = [0; 48];
/// LENGTH, the bytes of this structure, is always 0x70.
const PAGE_INFO: usize = 0x70;
