//! Processors that sign, and that no vendor made.
//!
//! A chip's file is what `FakeAmd`'s guest, or `FakeIntel`, writes for another process: what is signed with the data in it (SEV-SNP: the
//! report, 1184 bytes; TDX: header and TD report, 632 bytes), the length of the key (2 bytes, big endian), the key (PKCS #8), and what
//! goes with the signature (SEV-SNP: the host's table of certificates; TDX: what follows the signature in a quote).

use std::io;

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair};

pub(crate) const SNP_REPORT: usize = 1184;
const TDX_SIGNED: usize = 632;

#[derive(Clone, Copy)]
pub(crate) enum Vendor {
    Amd,
    Intel,
}

pub(crate) struct Chip {
    vendor: Vendor,
    report: Vec<u8>,
    key: EcdsaKeyPair,
    rest: Vec<u8>,
}

impl Chip {
    pub(crate) fn parse(vendor: Vendor, file: &[u8]) -> io::Result<Self> {
        let (size, algorithm) = match vendor {
            Vendor::Amd => (SNP_REPORT, &ECDSA_P384_SHA384_FIXED_SIGNING),
            Vendor::Intel => (TDX_SIGNED, &ECDSA_P256_SHA256_FIXED_SIGNING),
        };
        let parts = || {
            let (report, rest) = file.split_at_checked(size)?;
            let (length, rest) = rest.split_first_chunk()?;
            let (key, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
            let key = EcdsaKeyPair::from_pkcs8(algorithm, key, &SystemRandom::new()).ok()?;
            Some(Self { vendor, report: report.to_vec(), key, rest: rest.to_vec() })
        };
        parts().ok_or_else(|| io::Error::other("the chip's file is none"))
    }

    /// The report, or quote, over these 64 bytes.
    pub(crate) fn report(&self, report_data: &[u8]) -> io::Result<Vec<u8>> {
        let mut report = self.report.clone();
        match self.vendor {
            Vendor::Amd => {
                report[0x50..0x90].copy_from_slice(report_data);
                let signature = self.sign(&report[..0x2a0])?;
                for (number, place) in signature.chunks_exact(48).zip([0x2a0, 0x2a0 + 72]) {
                    report[place..place + 48].copy_from_slice(&number.iter().rev().copied().collect::<Vec<_>>());
                }
                Ok(report)
            }
            Vendor::Intel => {
                report[TDX_SIGNED - 64..].copy_from_slice(report_data);
                let signature = self.sign(&report)?;
                let length = u32::try_from(signature.len() + self.rest.len()).map_err(io::Error::other)?;
                Ok([&report[..], &length.to_le_bytes(), &signature, &self.rest].concat())
            }
        }
    }

    /// The host's table of certificates, of a SEV-SNP guest.
    pub(crate) fn table(&self) -> Option<&[u8]> {
        matches!(self.vendor, Vendor::Amd).then_some(self.rest.as_slice())
    }

    fn sign(&self, message: &[u8]) -> io::Result<Vec<u8>> {
        let signature = self.key.sign(&SystemRandom::new(), message).map_err(io::Error::other)?;
        Ok(signature.as_ref().to_vec())
    }
}
