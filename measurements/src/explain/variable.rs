//! UEFI variables: Secure Boot's state and keys, boot options, and which key admitted an image.

use latchkey_boot_formats::firmware_guid::GLOBAL_VARIABLE;
use latchkey_boot_formats::{Cursor, Guid};

use super::guid::Named;
use super::text::Text;
use crate::event::EventType;

/// `UEFI_VARIABLE_DATA` (PFP 1.05, section 10.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable<'a> {
    vendor: Guid,
    /// The variable's name.
    pub name: Text,
    /// The variable's value.
    pub value: &'a [u8],
}

impl<'a> Variable<'a> {
    /// The variable in an event's data; `None` when it is none.
    ///
    /// shim before 15.3 logs a few bytes more than the structure has; they belong to no field and say nothing.
    pub fn parse(data: &'a [u8]) -> Option<Self> {
        let mut fields = Cursor::new(data);
        let vendor = fields.guid()?;
        let characters = usize::try_from(fields.u64()?).ok()?;
        let length = usize::try_from(fields.u64()?).ok()?;
        let name = Text::utf16(fields.take(characters.checked_mul(2)?)?)?;
        let value = fields.take(length)?;
        (fields.remaining() <= MAX_SLACK).then_some(Self { vendor, name, value })
    }

    /// Secure Boot as this variable states it; `None` when it is another variable.
    pub fn secure_boot(&self) -> Option<bool> {
        let is_it = self.vendor == GLOBAL_VARIABLE && self.name.raw() == "SecureBoot";
        is_it.then_some(self.value == [1])
    }

    pub(super) fn describe(&self, kind: EventType) -> String {
        if let Some(enabled) = self.secure_boot() {
            return format!("Secure Boot is {}", if enabled { "enabled" } else { "disabled" });
        }
        let Self { vendor, name, value } = self;
        let vendor = Named(*vendor);
        let length = value.len();
        if kind == EventType::EFI_VARIABLE_AUTHORITY {
            return format!("admitted by {vendor} {name}, {length} bytes");
        }
        let detail = self.boot_option().or_else(|| self.boot_order()).or_else(|| self.signatures());
        match detail {
            Some(detail) => format!("{name}: {detail}"),
            None if value.is_empty() => format!("{vendor} {name}: empty"),
            None => format!("{vendor} {name}: {length} bytes"),
        }
    }

    /// `EFI_LOAD_OPTION` (UEFI 2.10, section 3.1.3) of `Boot0000` and the like.
    fn boot_option(&self) -> Option<String> {
        let number = self.name.raw().strip_prefix("Boot")?;
        if number.len() != 4 || !number.chars().all(|c| c.is_ascii_hexdigit()) {
            return None;
        }
        let mut fields = Cursor::new(self.value);
        let (_attributes, path_length) = (fields.u32()?, fields.u16()?);
        let mut units = Vec::new();
        loop {
            match fields.array::<2>()? {
                [0, 0] => break,
                unit => units.extend(unit),
            }
        }
        let path = fields.take(usize::from(path_length)).and_then(super::device_path::describe);
        let label = Text::utf16(&units).map_or_else(|| "unnamed".to_owned(), |text| text.to_string());
        Some(path.map_or_else(|| label.clone(), |path| format!("{label}, {path}")))
    }

    fn boot_order(&self) -> Option<String> {
        let (numbers, odd) = self.value.as_chunks::<2>();
        if self.name.raw() != "BootOrder" || !odd.is_empty() {
            return None;
        }
        let numbers = numbers.iter().take(MAX_BOOT_ORDER).map(|number| format!("{:04X}", u16::from_le_bytes(*number)));
        Some(numbers.collect::<Vec<_>>().join(", "))
    }

    /// `EFI_SIGNATURE_LIST`s (UEFI 2.10, section 32.4.1): how many certificates and hashes.
    fn signatures(&self) -> Option<String> {
        if !["PK", "KEK", "db", "dbx", "dbt", "dbr"].contains(&self.name.raw()) || self.value.is_empty() {
            return None;
        }
        let mut fields = Cursor::new(self.value);
        let mut count = 0_usize;
        while !fields.is_empty() {
            let _kind = fields.take(16)?;
            let list = usize::try_from(fields.u32()?).ok()?;
            let header = usize::try_from(fields.u32()?).ok()?;
            let each = usize::try_from(fields.u32()?).ok().filter(|&size| size > 0)?;
            fields.take(header)?;
            let signatures = list.checked_sub(28)?.checked_sub(header)?;
            fields.take(signatures)?;
            count += signatures / each;
        }
        let noun = if count == 1 { "certificate or hash" } else { "certificates and hashes" };
        Some(format!("{count} {noun}, {} bytes", self.value.len()))
    }
}

const MAX_BOOT_ORDER: usize = 64;
const MAX_SLACK: usize = 8;
