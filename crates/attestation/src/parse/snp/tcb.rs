//! Versions of what runs below a guest: `TCB_VERSION`, 8 bytes, whose order depends on the processor's generation.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How the eight bytes are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcbLayout {
    /// Milan to Siena: boot loader, TEE, four reserved, SNP, microcode.
    BeforeTurin,
    /// Turin: FMC, boot loader, TEE, SNP, three reserved, microcode.
    Turin,
}

/// The security version of each part. In JSON an object; a part that is absent is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tcb {
    /// The secure processor's boot loader.
    pub bootloader: u8,
    /// The operating system of the secure processor.
    pub tee: u8,
    /// SNP firmware.
    pub snp: u8,
    /// Microcode of all cores.
    pub microcode: u8,
    /// Firmware of the FMC; Turin alone has it.
    pub fmc: u8,
}

impl Tcb {
    /// The older of both, part by part.
    #[must_use]
    pub fn lowest(&self, other: &Self) -> Self {
        Self {
            bootloader: self.bootloader.min(other.bootloader),
            tee: self.tee.min(other.tee),
            snp: self.snp.min(other.snp),
            microcode: self.microcode.min(other.microcode),
            fmc: self.fmc.min(other.fmc),
        }
    }

    /// Reads the eight bytes. Reserved ones count for nothing: the certificate beside them says which parts there are.
    pub fn parse(bytes: [u8; 8], layout: TcbLayout) -> Self {
        match (layout, bytes) {
            (TcbLayout::BeforeTurin, [bootloader, tee, _, _, _, _, snp, microcode]) => {
                Self { bootloader, tee, snp, microcode, fmc: 0 }
            }
            (TcbLayout::Turin, [fmc, bootloader, tee, snp, _, _, _, microcode]) => {
                Self { bootloader, tee, snp, microcode, fmc }
            }
        }
    }

    /// The first part that is below `floor`, in the order of the start: its name, what it is and what it had to be at least.
    pub fn below(&self, floor: &Self) -> Option<(&'static str, u8, u8)> {
        let pairs = self.parts().into_iter().zip(floor.parts());
        pairs.map(|((name, is), (_, least))| (name, is, least)).find(|(_, is, least)| is < least)
    }

    fn parts(self) -> [(&'static str, u8); 5] {
        [
            ("FMC", self.fmc),
            ("boot loader", self.bootloader),
            ("TEE", self.tee),
            ("SNP firmware", self.snp),
            ("microcode", self.microcode),
        ]
    }
}

/// `boot loader 3, TEE 0, SNP firmware 8, microcode 115`; FMC first, where there is one.
impl fmt::Display for Tcb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without_fmc = usize::from(self.fmc == 0);
        for (position, (name, version)) in self.parts().into_iter().skip(without_fmc).enumerate() {
            write!(f, "{}{name} {version}", if position == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
