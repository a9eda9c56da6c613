//! Says in words what an event measured. Total: what cannot be decoded is described by its size.
//!
//! The words come from the log and are safe to print: control, invisible and direction-changing characters are escaped,
//! and long texts cut.

pub mod device_path;
pub(crate) mod firmware;
mod gpt;
mod guid;
pub mod text;
pub mod variable;

use latchkey_boot_formats::{Cursor, Guid};

use crate::bank::Bank;
use crate::check;
use crate::event::{Event, EventType, Register};
use crate::mr::Mr;
use guid::Named;
use text::Text;
use variable::Variable;

/// One line about `event`.
pub fn describe(event: &Event<'_>) -> String {
    let what = decode(event).unwrap_or_else(|| match event.data.len() {
        0 => "no data".to_owned(),
        length @ 1..=16 => format!("{length} bytes: {}", hex::encode(event.data)),
        length => format!("{length} bytes"),
    });
    match event.register {
        Some(Register::Unknown(index)) => format!("for register {index}, which no TPM has: extends nothing; {what}"),
        _ => what,
    }
}

fn decode(event: &Event<'_>) -> Option<String> {
    match event.kind {
        EventType::NO_ACTION => no_action(event.data),
        EventType::SEPARATOR => separator(event),
        EventType::ACTION
        | EventType::EFI_ACTION
        | EventType::POST_CODE
        | EventType::COMPACT_HASH
        | EventType::OMIT_BOOT_DEVICE_EVENTS
        | EventType::NONHOST_INFO
        | EventType::PLATFORM_CONFIG_FLAGS
        | EventType::S_CRTM_CONTENTS
        | EventType::EFI_HCRTM_EVENT
            if Text::utf8(event.data).is_some() =>
        {
            Text::utf8(event.data).map(|text| format!("{text}"))
        }
        EventType::S_CRTM_VERSION => crtm_version(event.data),
        EventType::IPL => ipl(event),
        EventType::EVENT_TAG => tagged(event.data),
        EventType::EFI_VARIABLE_DRIVER_CONFIG
        | EventType::EFI_VARIABLE_BOOT
        | EventType::EFI_VARIABLE_BOOT2
        | EventType::EFI_VARIABLE_AUTHORITY => Some(Variable::parse(event.data)?.describe(event.kind)),
        EventType::EFI_BOOT_SERVICES_APPLICATION
        | EventType::EFI_BOOT_SERVICES_DRIVER
        | EventType::EFI_RUNTIME_SERVICES_DRIVER => image_load(event.data),
        EventType::EFI_GPT_EVENT | EventType::EFI_GPT_EVENT2 => gpt::describe(event.data),
        EventType::POST_CODE2 | EventType::EFI_PLATFORM_FIRMWARE_BLOB2 => firmware::blob2(event.data),
        EventType::POST_CODE | EventType::EFI_PLATFORM_FIRMWARE_BLOB => firmware::blob(event.data),
        EventType::EFI_HANDOFF_TABLES => firmware::tables(event.data),
        EventType::EFI_HANDOFF_TABLES2 => firmware::tables2(event.data),
        _ => None,
    }
}

/// The informational events of PFP 1.05, section 10.4.
fn no_action(data: &[u8]) -> Option<String> {
    let (signature, rest) = data.split_at_checked(16)?;
    let name = Text::utf8(signature)?;
    Some(match rest {
        [locality, padding @ ..] if signature == b"StartupLocality\0" && padding.iter().all(|byte| *byte == 0) => {
            format!("TPM2_Startup from locality {locality}")
        }
        _ if name.raw().starts_with("Spec ID Event") => format!("the log's header, {name}"),
        _ => format!("{name}, {} bytes", rest.len()),
    })
}

/// PFP 1.05, section 10.4: the digest tells whether it is one for an error, whose data is free. Windows' boot manager
/// separates its own measurements with `WBCL`.
fn separator(event: &Event<'_>) -> Option<String> {
    let failed = event.digests.iter().any(|(algorithm, digest)| {
        algorithm.bank().is_some_and(|bank: Bank| bank.digest(&[&check::ERROR_SEPARATOR]) == *digest)
    });
    let text = Text::utf8(event.data);
    match event.data {
        _ if failed => Some(match text {
            Some(text) => format!("the firmware could not measure: {text}"),
            None => "the firmware could not measure".to_owned(),
        }),
        [0, 0, 0, 0] | [0xff, 0xff, 0xff, 0xff] => Some("end of the firmware's measurements".to_owned()),
        b"WBCL" => Some("end of what Windows' boot manager measures here (WBCL)".to_owned()),
        _ => text.map(|text| format!("a separator: {text}")),
    }
}

/// PFP 1.05, section 10.4: "a null-terminated UCS-2 string, or a GUID".
fn crtm_version(data: &[u8]) -> Option<String> {
    match (Text::parse(data), <[u8; 16]>::try_from(data)) {
        (Some(text), _) => Some(format!("firmware version {text}")),
        (None, Ok(guid)) => Some(format!("firmware version {}", Named(Guid::from_disk_order(guid)))),
        (None, Err(_)) => None,
    }
}

/// systemd-stub measures for each section of a unified kernel image its name, then its content, both under the section's
/// name; other loaders log what they ran. Which of the two it is, the digest tells (UAPI.5: the name with its NUL).
fn ipl(event: &Event<'_>) -> Option<String> {
    let text = Text::parse(event.data)?;
    let section = text.raw().strip_prefix('.').is_some_and(|name| name.chars().all(|c| c.is_ascii_alphanumeric()));
    let of_stub = event.pcr() == Some(11) || event.mr() == Some(Mr::Rtmr2);
    if !of_stub || !section {
        return Some(format!("{text}"));
    }
    let is_name = event.digests.iter().any(|(algorithm, digest)| {
        algorithm.bank().is_some_and(|bank: Bank| bank.digest(&[text.raw().as_bytes(), &[0]]) == *digest)
    });
    Some(format!("{} of section {text}", if is_name { "name" } else { "content" }))
}

/// `TCG_PCClientTaggedEvent` (PFP 1.05, section 10.4): an id, a size, and here text by the kernel or systemd-stub.
pub(crate) fn tagged_text(data: &[u8]) -> Option<(u32, Text)> {
    let mut fields = Cursor::new(data);
    let id = fields.u32()?;
    let size = usize::try_from(fields.u32()?).ok()?;
    let text = fields.take(size).filter(|_| fields.is_empty()).and_then(Text::parse)?;
    Some((id, text))
}

fn tagged(data: &[u8]) -> Option<String> {
    let (id, text) = tagged_text(data)?;
    Some(match id {
        LINUX_LOAD_OPTIONS => format!("kernel command line ({text})"),
        LINUX_INITRD => format!("initrd ({text})"),
        STUB_INITRD_ADDON => format!("initrd of the boot stub's addon {text}"),
        STUB_UCODE_ADDON => format!("microcode of the boot stub's addon {text}"),
        STUB_DEVICE_TREE_ADDON => format!("device tree of the boot stub's addon {text}"),
        STUB_PROFILE => format!("the boot stub was asked for the image's profile {text}"),
        _ => format!("tag {id:#010x}: {text}"),
    })
}

/// `UEFI_IMAGE_LOAD_EVENT` (PFP 1.05, section 10.2).
fn image_load(data: &[u8]) -> Option<String> {
    let mut fields = Cursor::new(data);
    let (_location, length, _link_time) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let size = usize::try_from(fields.u64()?).ok()?;
    let path = fields.take(size)?;
    let path = match size {
        // What a boot loader hands over itself has no path.
        0 => "memory".to_owned(),
        _ => device_path::describe(path).unwrap_or_else(|| format!("a device path of {size} bytes")),
    };
    Some(format!("{length} bytes from {path}"))
}

/// Linux, `include/linux/efi.h`: `LOAD_OPTIONS_EVENT_TAG_ID`.
const LINUX_LOAD_OPTIONS: u32 = 0x8f3b_22ed;
/// Linux, `include/linux/efi.h`: `INITRD_EVENT_TAG_ID`.
const LINUX_INITRD: u32 = 0x8f3b_22ec;
/// systemd, `src/fundamental/tpm2-pcr.h`: `INITRD_ADDON_EVENT_TAG_ID`.
const STUB_INITRD_ADDON: u32 = 0x49df_fe0f;
/// `UCODE_ADDON_EVENT_TAG_ID`
const STUB_UCODE_ADDON: u32 = 0xdac0_8e1a;
/// `DEVICETREE_ADDON_EVENT_TAG_ID`
const STUB_DEVICE_TREE_ADDON: u32 = 0x6c46_f751;
/// `UKI_PROFILE_EVENT_TAG_ID`
const STUB_PROFILE: u32 = 0x13ae_d6db;
