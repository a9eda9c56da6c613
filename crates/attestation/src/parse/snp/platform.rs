//! Two fields of bits: what a host may do with its guest, and what the machine is set to.

use super::report::reserved;
use crate::refusal::Refusal;

/// `POLICY`: fixed when the guest is launched (AMD 56860, chapter "Guest Policy").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestPolicy(u64);

impl GuestPolicy {
    pub(super) fn parse(bits: u64) -> Result<Self, Refusal> {
        if bits & 1 << 17 == 0 {
            return Err(reserved("the inverse of bit 17 of POLICY"));
        }
        if bits >> 26 != 0 {
            return Err(reserved("bits above 25 of POLICY"));
        }
        Ok(Self(bits))
    }

    /// The least version of the firmware's interface that may run the guest: major, minor.
    pub fn abi(self) -> (u8, u8) {
        let [minor, major, ..] = self.0.to_le_bytes();
        (major, minor)
    }

    /// Two threads of a core may run at a time.
    pub fn allows_smt(self) -> bool {
        self.bit(16)
    }

    /// A migration agent may move the guest.
    pub fn allows_migration(self) -> bool {
        self.bit(18)
    }

    /// The host may read and write the guest's memory.
    pub fn allows_debug(self) -> bool {
        self.bit(19)
    }

    /// The guest runs on one socket only.
    pub fn demands_single_socket(self) -> bool {
        self.bit(20)
    }

    /// Memory behind CXL may be used.
    pub fn allows_cxl(self) -> bool {
        self.bit(21)
    }

    /// The host must not see ciphertext of the guest's memory.
    pub fn demands_ciphertext_hiding(self) -> bool {
        self.bit(24)
    }

    fn bit(self, bit: u32) -> bool {
        self.0 >> bit & 1 != 0
    }
}

/// `PLATFORM_INFO`: how the machine is set now (AMD 56860, table `PLATFORM_INFO`). It describes and changes nothing of what else the report
/// means, and each generation of firmware says more there: so whatever is set is read, and a policy decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlatformInfo(u64);

impl PlatformInfo {
    pub(super) fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits that this program has no name for.
    pub fn unknown(self) -> u64 {
        // SMT, TSME, ECC, RAPL off, ciphertext hiding, alias check done, the IOMMU's writes safe (Turin), and TIO.
        const KNOWN: u64 = 0b1111_1111;
        self.0 & !KNOWN
    }

    /// Cores have two threads.
    pub fn smt(self) -> bool {
        self.0 & 1 != 0
    }

    /// The host cannot see ciphertext of guests' memory.
    pub fn hides_ciphertext(self) -> bool {
        self.0 >> 4 & 1 != 0
    }

    /// Memory was looked through for addresses that mean the same cell (`BadRAM`, CVE-2024-21944).
    pub fn aliases_checked(self) -> bool {
        self.0 >> 5 & 1 != 0
    }

    /// The IOMMU's own writes cannot reach guests' memory.
    pub fn iommu_writes_safe(self) -> bool {
        self.0 >> 6 & 1 != 0
    }
}
