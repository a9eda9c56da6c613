//! One event of a log.

use std::fmt;

use crate::bank::{AlgorithmId, Bank};
use crate::mr::Mr;

/// An event: what a register was extended with, and what the extender says that it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<'a> {
    /// Position in the log, from 0; the header counts, as `tpm2_eventlog` does.
    pub index: usize,
    /// Byte at which it begins.
    pub offset: usize,
    /// The register; `None` for an informational event of none (`0xffffffff`).
    pub register: Option<Register>,
    /// What kind of thing was measured.
    pub kind: EventType,
    /// One digest for each bank.
    pub digests: Vec<(AlgorithmId, &'a [u8])>,
    /// The event's own data: sometimes what was measured, sometimes only a name for it.
    pub data: &'a [u8],
}

impl<'a> Event<'a> {
    /// The digest that `bank` was extended with.
    pub fn digest(&self, bank: Bank) -> Option<&'a [u8]> {
        self.digests.iter().find(|(algorithm, _)| *algorithm == bank.algorithm()).map(|(_, digest)| *digest)
    }

    /// The PCR it is about; `None` in the log of a confidential machine.
    pub fn pcr(&self) -> Option<u8> {
        match self.register? {
            Register::Pcr(pcr) => Some(pcr),
            Register::Mr(_) | Register::Unknown(_) => None,
        }
    }

    /// The measurement register of a confidential machine it is about; `None` in a TPM's log.
    pub fn mr(&self) -> Option<Mr> {
        match self.register? {
            Register::Pcr(_) | Register::Unknown(_) => None,
            Register::Mr(mr) => Some(mr),
        }
    }

    /// The PCR this event extends; informational events extend none.
    pub fn extends(&self) -> Option<u8> {
        if self.extends_any() { self.pcr() } else { None }
    }

    /// The measurement register this event extends; informational events extend none.
    pub fn extends_mr(&self) -> Option<Mr> {
        if self.extends_any() { self.mr() } else { None }
    }

    /// Whether it extends a register of either kind.
    pub(crate) fn extends_any(&self) -> bool {
        let extends = matches!(self.register, Some(Register::Pcr(_) | Register::Mr(_)));
        extends && self.kind != EventType::NO_ACTION
    }
}

/// What an event of a log is about. A log has events of one kind of register only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Register {
    /// A TPM's PCR, 0 to 23.
    Pcr(u8),
    /// A confidential machine's measurement register.
    Mr(Mr),
    /// A number in a TPM's log that no PCR has: such an event extends nothing.
    Unknown(u32),
}

/// `TCG_EVENTTYPE` (PFP 1.05, section 10.4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventType(pub u32);

macro_rules! event_types {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        impl EventType {
            $(#[doc = concat!("`", $text, "`.")] pub const $name: Self = Self($code);)*

            /// The specification's name.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some($text),)*
                    _ => None,
                }
            }

            /// The type that the specification calls so.
            pub fn of_name(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

event_types! {
    PREBOOT_CERT = 0x0000_0000, "EV_PREBOOT_CERT";
    POST_CODE = 0x0000_0001, "EV_POST_CODE";
    NO_ACTION = 0x0000_0003, "EV_NO_ACTION";
    SEPARATOR = 0x0000_0004, "EV_SEPARATOR";
    ACTION = 0x0000_0005, "EV_ACTION";
    EVENT_TAG = 0x0000_0006, "EV_EVENT_TAG";
    S_CRTM_CONTENTS = 0x0000_0007, "EV_S_CRTM_CONTENTS";
    S_CRTM_VERSION = 0x0000_0008, "EV_S_CRTM_VERSION";
    CPU_MICROCODE = 0x0000_0009, "EV_CPU_MICROCODE";
    PLATFORM_CONFIG_FLAGS = 0x0000_000a, "EV_PLATFORM_CONFIG_FLAGS";
    TABLE_OF_DEVICES = 0x0000_000b, "EV_TABLE_OF_DEVICES";
    COMPACT_HASH = 0x0000_000c, "EV_COMPACT_HASH";
    IPL = 0x0000_000d, "EV_IPL";
    IPL_PARTITION_DATA = 0x0000_000e, "EV_IPL_PARTITION_DATA";
    NONHOST_CODE = 0x0000_000f, "EV_NONHOST_CODE";
    NONHOST_CONFIG = 0x0000_0010, "EV_NONHOST_CONFIG";
    NONHOST_INFO = 0x0000_0011, "EV_NONHOST_INFO";
    OMIT_BOOT_DEVICE_EVENTS = 0x0000_0012, "EV_OMIT_BOOT_DEVICE_EVENTS";
    POST_CODE2 = 0x0000_0013, "EV_POST_CODE2";
    EFI_VARIABLE_DRIVER_CONFIG = 0x8000_0001, "EV_EFI_VARIABLE_DRIVER_CONFIG";
    EFI_VARIABLE_BOOT = 0x8000_0002, "EV_EFI_VARIABLE_BOOT";
    EFI_BOOT_SERVICES_APPLICATION = 0x8000_0003, "EV_EFI_BOOT_SERVICES_APPLICATION";
    EFI_BOOT_SERVICES_DRIVER = 0x8000_0004, "EV_EFI_BOOT_SERVICES_DRIVER";
    EFI_RUNTIME_SERVICES_DRIVER = 0x8000_0005, "EV_EFI_RUNTIME_SERVICES_DRIVER";
    EFI_GPT_EVENT = 0x8000_0006, "EV_EFI_GPT_EVENT";
    EFI_ACTION = 0x8000_0007, "EV_EFI_ACTION";
    EFI_PLATFORM_FIRMWARE_BLOB = 0x8000_0008, "EV_EFI_PLATFORM_FIRMWARE_BLOB";
    EFI_HANDOFF_TABLES = 0x8000_0009, "EV_EFI_HANDOFF_TABLES";
    EFI_PLATFORM_FIRMWARE_BLOB2 = 0x8000_000a, "EV_EFI_PLATFORM_FIRMWARE_BLOB2";
    EFI_HANDOFF_TABLES2 = 0x8000_000b, "EV_EFI_HANDOFF_TABLES2";
    EFI_VARIABLE_BOOT2 = 0x8000_000c, "EV_EFI_VARIABLE_BOOT2";
    EFI_GPT_EVENT2 = 0x8000_000d, "EV_EFI_GPT_EVENT2";
    EFI_HCRTM_EVENT = 0x8000_0010, "EV_EFI_HCRTM_EVENT";
    EFI_VARIABLE_AUTHORITY = 0x8000_00e0, "EV_EFI_VARIABLE_AUTHORITY";
    EFI_SPDM_FIRMWARE_BLOB = 0x8000_00e1, "EV_EFI_SPDM_FIRMWARE_BLOB";
    EFI_SPDM_FIRMWARE_CONFIG = 0x8000_00e2, "EV_EFI_SPDM_FIRMWARE_CONFIG";
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "event type {:#010x}", self.0),
        }
    }
}

impl fmt::Debug for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
