//! The boot stub, systemd-stub: which one it is, what it measures, and what it hands to the kernel.

use std::ops::Range;

use crate::pe::{Headers, Image, Section};

use super::PredictError;

/// The version of systemd-stub, as far as measurements depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StubVersion {
    /// 252, as in Debian 12 (bookworm).
    V252,
    /// 257, as in Debian 13 (trixie).
    V257,
}

impl StubVersion {
    /// The stub inside `image`, by its `.sdmagic` section: `#### LoaderInfo: systemd-stub 252.39-1~deb12u2 ####`.
    ///
    /// # Errors
    /// [`PredictError::NoStub`], [`PredictError::UnknownStub`]: what another version measures is not guessed.
    pub fn of(image: &Image<'_>) -> Result<Self, PredictError> {
        Self::named_by(image.section(".sdmagic").ok_or(PredictError::NoStub)?)
    }

    /// The same from the content of that section.
    pub(super) fn named_by(magic: &[u8]) -> Result<Self, PredictError> {
        let text = std::str::from_utf8(magic).map_err(|_| PredictError::NoStub)?.trim_end_matches('\0');
        let info = text.strip_prefix("#### LoaderInfo: ").and_then(|rest| rest.strip_suffix(" ####"));
        let info = info.ok_or(PredictError::NoStub)?;
        let version = info.strip_prefix("systemd-stub ").unwrap_or_default();
        match version.split(|c: char| !c.is_ascii_digit()).next() {
            Some("252") => Ok(Self::V252),
            Some("257") => Ok(Self::V257),
            _ => Err(PredictError::UnknownStub(latchkey_reason::printable(info).take(80).collect())),
        }
    }

    /// systemd's major version.
    pub const fn number(self) -> u16 {
        match self {
            Self::V252 => 252,
            Self::V257 => 257,
        }
    }

    /// The sections that are measured into PCR 11, in this order: each one's name, then its content.
    pub(super) const fn measured_sections(self) -> &'static [&'static str] {
        match self {
            Self::V252 => &[".linux", ".osrel", ".cmdline", ".initrd", ".splash", ".dtb", ".pcrpkey"],
            Self::V257 => {
                &[".linux", ".osrel", ".cmdline", ".initrd", ".ucode", ".splash", ".dtb", ".uname", ".sbat", ".pcrpkey"]
            }
        }
    }

    /// Whether the sections are measured into a TDX guest's RTMR 2, too: by the protocol of confidential machines, beside the TPM
    /// where there is one. systemd-stub does since 256 (systemd pull requests 30996, and 31939 for "both").
    pub const fn measures_confidential(self) -> bool {
        match self {
            Self::V252 => false,
            Self::V257 => true,
        }
    }

    /// Sections with which what is measured or handed over depends on more than the image.
    pub(super) const fn refused_sections(self) -> &'static [&'static str] {
        match self {
            Self::V252 => &[],
            // Which profile is booted is chosen from outside; device trees and firmware by what hardware is there.
            Self::V257 => &[".profile", ".dtbauto", ".hwids", ".efifw"],
        }
    }

    /// Sections that come to the initramfs as files in `/.extra`, in this order.
    pub(super) const fn extra_files(self) -> &'static [(&'static str, &'static str)] {
        const SIGNATURE: (&str, &str) = (".pcrsig", "tpm2-pcr-signature.json");
        const KEY: (&str, &str) = (".pcrpkey", "tpm2-pcr-public-key.pem");
        match self {
            Self::V252 => &[SIGNATURE, KEY],
            Self::V257 => &[SIGNATURE, KEY, (".osrel", "os-release")],
        }
    }

    /// A section whose content comes before the initrd.
    pub(super) const fn first_in_initrd(self) -> Option<&'static str> {
        match self {
            Self::V252 => None,
            Self::V257 => Some(".ucode"),
        }
    }
}

/// Where the content of section `name` is as the stub finds it in memory; `None` without the section, or when it is empty.
///
/// # Errors
/// [`PredictError::SectionTwice`], [`PredictError::SectionLargerInMemory`].
pub(super) fn content(image: &Headers, name: &'static str) -> Result<Option<Range<u64>>, PredictError> {
    let mut found = image.sections.iter().filter(|section| section.name == name);
    let Some(section) = found.next() else { return Ok(None) };
    if found.next().is_some() {
        return Err(PredictError::SectionTwice(name));
    }
    let Section { virtual_size, raw_size, raw_offset, .. } = *section;
    // The rest would be zeros in memory. No tool makes such sections of files.
    if virtual_size > raw_size {
        return Err(PredictError::SectionLargerInMemory(name));
    }
    let start = u64::from(raw_offset);
    Ok((virtual_size > 0).then_some(start..start + u64::from(virtual_size)))
}
