//! Registers of a TDX guest that boots an image. Where a policy's section `tdx` says `"rtmrs": "manifest"`, the guest's quote must have
//! these values, of the image whose measurements its TPM quotes. RTMR 2 alone does not tell which program made it; RTMR 1 does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::parse::{LaunchDigest, Rtmr, each_once};

/// What a TDX guest of one type of machine has in its registers when the image's kernel runs.
///
/// ```json
/// {"kernel_measures": "tpm", "rtmrs": {"2": "<96 hex digits>"}}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TdxRegisters {
    /// Where the kernel's own measurements go on such a machine.
    pub kernel_measures: KernelMeasures,
    /// SHA-384, 48 bytes each: 1 to 4 registers, none of them zero.
    #[serde(deserialize_with = "each_once")]
    pub rtmrs: BTreeMap<Rtmr, LaunchDigest>,
}

/// Where Linux's EFI stub measures its command line and initrd (PCR 9 of a TPM) in a TDX guest: into the TPM where the firmware has
/// TCG's protocol, else by the protocol of confidential machines (since Linux 6.9; `efi_measure_tagged_event` in
/// `drivers/firmware/efi/libstub/efi-stub-helper.c`). Never into both. Which protocols a firmware has cannot be read off an image, so
/// whoever describes the type of machine says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelMeasures {
    /// Into the TPM alone: RTMR 2 has nothing of the kernel's.
    Tpm,
    /// Into RTMR 2 alone: the firmware shows the kernel no TPM.
    Cc,
}

impl KernelMeasures {
    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tpm => "tpm",
            Self::Cc => "cc",
        }
    }
}

impl TdxRegisters {
    /// A register that nothing extended says nothing of an image: every guest has it.
    pub(super) fn problem(&self) -> Option<String> {
        if self.rtmrs.is_empty() {
            return Some("`tdx.rtmrs` lists no register".to_owned());
        }
        let untouched = self.rtmrs.iter().find(|(_, value)| value.0.iter().all(|&byte| byte == 0));
        untouched.map(|(register, _)| format!("`tdx.rtmrs` has zeros for {register}, as a guest of any image"))
    }
}
