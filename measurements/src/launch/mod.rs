//! Launch digests: what an AMD SEV-SNP machine that QEMU starts will report as its MEASUREMENT, known before it starts.
//!
//! **Nothing is decided by a launch digest.** No verifier here checks a report's signature, so nobody is admitted or refused
//! by one: these are values for manifests and explanations.
//!
//! 1. [`Firmware::parse`] reads an OVMF file and measures its pages.
//! 2. [`KernelHashes`] is what QEMU puts into the firmware's table for a direct boot (`-kernel` with `kernel-hashes=on`).
//! 3. [`SnpGuest::digest`] continues with the pages that the firmware's metadata asks for, and the first registers of
//!    every processor.
//! 4. [`Guests`] does so for every size of guest that a type of machine has, as manifests list them.
//!
//! The order is that of QEMU 9.1 and later with KVM (`target/i386/sev.c`): the firmware, its metadata sections as they are
//! listed, the processors. Other machine monitors have other orders and other registers; see [`Vmm`].
//!
//! Specification: AMD 56860, "SEV Secure Nested Paging Firmware ABI Specification", `SNP_LAUNCH_UPDATE`.

mod chain;
mod cpu;
mod error;
mod firmware;
mod guests;
mod hashes;
mod metadata;
mod vmsa;

pub use cpu::{CpuSignature, UnknownCpuError};
pub use error::LaunchError;
pub use firmware::Firmware;
pub use guests::{CpuName, GuestType, Guests};
pub use hashes::KernelHashes;
pub use metadata::{Section, SectionKind};
pub use vmsa::GuestFeatures;

use std::fmt;
use std::str::FromStr;

use chain::Chain;
use hashes::Table;

/// A machine that QEMU starts with SEV-SNP.
#[derive(Debug, Clone)]
pub struct SnpGuest<'a> {
    /// `-bios`.
    pub firmware: &'a Firmware,
    /// `-smp`: 1 to [`Self::MAX_VCPUS`].
    pub vcpus: u32,
    /// `-cpu`.
    pub cpu: CpuSignature,
    /// What KVM turns on for the guest.
    pub features: GuestFeatures,
    /// What is booted with `-kernel` and `kernel-hashes=on`; `None` when the firmware boots from a disk.
    pub direct_boot: Option<&'a KernelHashes>,
}

impl SnpGuest<'_> {
    /// As many as QEMU's q35 machine can have (`pc_q35_machine_options`).
    pub const MAX_VCPUS: u32 = 4096;

    /// The launch digest: bytes 0x90 to 0xbf of an attestation report (56860, `ATTESTATION_REPORT`).
    ///
    /// # Errors
    /// [`LaunchError`]: no such number of processors, or a direct boot with a firmware that has no page for its hashes.
    pub fn digest(&self) -> Result<[u8; 48], LaunchError> {
        if self.vcpus == 0 || self.vcpus > Self::MAX_VCPUS {
            return Err(LaunchError::VcpuCount { count: self.vcpus, limit: Self::MAX_VCPUS });
        }
        let table = self.direct_boot.map(|hashes| Table::of(self.firmware, hashes)).transpose()?;
        let mut chain = self.firmware.measured().clone();
        for section in self.firmware.sections() {
            measure(&mut chain, section, table.as_ref());
        }
        self.processors(&mut chain);
        Ok(chain.digest())
    }

    /// KVM measures the registers of every processor at the launch's end (`sev_es_sync_vmsa`): the first begins at the
    /// reset vector, all others where the firmware wants them.
    fn processors(&self, chain: &mut Chain) {
        chain.registers(&vmsa::page(vmsa::RESET_VECTOR, self.cpu, self.features));
        if self.vcpus > 1 {
            let others = chain::contents(&vmsa::page(self.firmware.reset_address(), self.cpu, self.features));
            (1..self.vcpus).for_each(|_| chain.registers_of(&others));
        }
    }
}

fn measure(chain: &mut Chain, section: &Section, table: Option<&Table>) {
    match (section.kind, table) {
        (SectionKind::KernelHashes, Some(table)) => chain.normal(section.address.into(), table.page()),
        (SectionKind::Secrets, _) => chain.secrets(section.address.into()),
        (SectionKind::Cpuid, _) => chain.cpuid(section.address.into()),
        (SectionKind::Memory | SectionKind::SvsmCallingArea | SectionKind::KernelHashes, _) => {
            section.pages().for_each(|address| chain.zero(address));
        }
    }
}

/// The machine monitors whose launches are known here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Vmm {
    /// QEMU with KVM.
    #[default]
    Qemu,
}

impl FromStr for Vmm {
    type Err = LaunchError;

    fn from_str(name: &str) -> Result<Self, LaunchError> {
        match name {
            "qemu" => Ok(Self::Qemu),
            other => Err(LaunchError::Vmm(other.to_owned())),
        }
    }
}

impl fmt::Display for Vmm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("qemu")
    }
}
