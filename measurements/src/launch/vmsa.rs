//! A processor's first registers, as KVM has them when QEMU launches an SNP guest.

use std::fmt;
use std::str::FromStr;

use super::chain::PAGE;
use super::cpu::CpuSignature;
use super::error::LaunchError;

/// Where the first processor begins: 16 bytes below 4 GiB (AMD APM volume 2, section 14.1.5).
pub(super) const RESET_VECTOR: u32 = 0xffff_fff0;

/// `SEV_FEATURES`: which parts of SEV-SNP the guest runs with (AMD APM volume 2, table B-4, offset 3B0h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestFeatures(u64);

impl GuestFeatures {
    /// `SNPActive`, bit 0: without it the guest is no SNP guest.
    const SNP_ACTIVE: u64 = 1;

    /// # Errors
    /// [`LaunchError::FeaturesWithoutSnp`]: bit 0 is not set.
    pub const fn new(bits: u64) -> Result<Self, LaunchError> {
        if bits & Self::SNP_ACTIVE == 0 { Err(LaunchError::FeaturesWithoutSnp(bits)) } else { Ok(Self(bits)) }
    }

    /// The bits.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// SNP and nothing else: what QEMU asks of KVM unless it is told to ask for more.
impl Default for GuestFeatures {
    fn default() -> Self {
        Self(Self::SNP_ACTIVE)
    }
}

/// Hexadecimal, with or without `0x`.
impl FromStr for GuestFeatures {
    type Err = LaunchError;

    fn from_str(text: &str) -> Result<Self, LaunchError> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let digits = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let bits = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        Self::new(bits.ok_or_else(|| LaunchError::FeaturesMalformed(text.to_owned()))?)
    }
}

impl fmt::Display for GuestFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The save area of a processor that begins at `start` (AMD APM volume 2, table B-4 for the places, section 14.1.3
/// for the values after reset; what differs from those is KVM's and QEMU's).
pub(super) fn page(start: u32, cpu: CpuSignature, features: GuestFeatures) -> [u8; PAGE] {
    let mut area = Area([0; PAGE]);
    for data_segment in [0x00, 0x20, 0x30, 0x40, 0x50] {
        area.segment(data_segment, 0, READABLE_DATA, 0);
    }
    // Code begins in real mode: the selector F000h, and a base that puts the start's upper half there.
    area.segment(0x10, 0xf000, 0x9b, start & 0xffff_0000);
    area.segment(0x60, 0, 0, 0); // GDTR
    area.segment(0x70, 0, 0x82, 0); // LDTR: a local descriptor table
    area.segment(0x80, 0, 0, 0); // IDTR
    area.segment(0x90, 0, 0x8b, 0); // TR: a busy task, which virtualised processors must have
    area.put(0x0d0, &0x1000_u64.to_le_bytes()); // EFER: SVME, which KVM sets for every guest
    area.put(0x148, &0x40_u64.to_le_bytes()); // CR4: MCE, which KVM sets for SEV-ES guests
    area.put(0x158, &0x10_u64.to_le_bytes()); // CR0: ET
    area.put(0x160, &0x400_u64.to_le_bytes()); // DR7
    area.put(0x168, &0xffff_0ff0_u64.to_le_bytes()); // DR6
    area.put(0x170, &0x2_u64.to_le_bytes()); // RFLAGS
    area.put(0x178, &u64::from(start & 0xffff).to_le_bytes()); // RIP
    area.put(0x268, &0x0007_0406_0007_0406_u64.to_le_bytes()); // PAT
    area.put(0x310, &u64::from(cpu.0).to_le_bytes()); // RDX: "DX: CPUID signature"
    area.put(0x3b0, &features.bits().to_le_bytes());
    area.put(0x3e8, &0x1_u64.to_le_bytes()); // XCR0: x87
    area.put(0x408, &0x1f80_u32.to_le_bytes()); // MXCSR
    area.put(0x410, &0x037f_u16.to_le_bytes()); // x87 control word, as QEMU sets it
    area.0
}

/// A data segment that may be written, accessed, present.
const READABLE_DATA: u16 = 0x93;

struct Area([u8; PAGE]);

impl Area {
    /// Selector, attributes, a limit of 64 KiB, base.
    fn segment(&mut self, offset: usize, selector: u16, attributes: u16, base: u32) {
        self.put(offset, &selector.to_le_bytes());
        self.put(offset + 2, &attributes.to_le_bytes());
        self.put(offset + 4, &0xffff_u32.to_le_bytes());
        self.put(offset + 8, &u64::from(base).to_le_bytes());
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}
