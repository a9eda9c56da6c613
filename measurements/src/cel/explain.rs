//! Says in words what a record measured, and whether its digests are those of what it says.

use std::fmt;

use super::content::{Content, SystemdEvent};
use super::{Record, Register};
use crate::check::{self, DataCheck};
use crate::explain;

/// One line, safe to print.
pub(super) fn describe(record: &Record) -> String {
    let words = match (&record.content, record.event()) {
        (_, Some(event)) => explain::describe(&event),
        (Content::Systemd(event), _) => systemd(event),
        (Content::Ima { data, .. }, _) => ima(data),
        (Content::PcClient { data, .. }, None) => format!("{} bytes", data.len()),
        (Content::Management, _) => "about the log itself".to_owned(),
        (Content::Other(_), _) => "content that is unknown here".to_owned(),
    };
    match (record.register, &record.content) {
        (Register::Pcr(_), _) => words,
        (Register::Nv(index), Content::Systemd(SystemdEvent { nv_name: Some(name), .. })) => {
            format!("NV index {index:#010x} ({}): {words}", Safe(name))
        }
        (Register::Nv(index), _) => format!("NV index {index:#010x}: {words}"),
    }
}

/// "TPM2 PCR Measurements Made by systemd", the strings of each kind.
fn systemd(event: &SystemdEvent) -> String {
    let text = event.text.as_deref().unwrap_or_default();
    let after = |prefix| Safe(text.strip_prefix(prefix).unwrap_or(text));
    match event.kind.as_deref() {
        Some("phase") => format!("boot phase {}", Safe(text)),
        Some("machine-id") => format!("machine id {}", after("machine-id:")),
        Some("product-id") => format!("product id {}", after("product-id:")),
        Some("filesystem") => file_system(text),
        Some("volume-key") => format!("a key derived from the volume key of {}", after("cryptsetup:")),
        Some("keyslot") => format!("unlocked by {}", after("cryptsetup-keyslot:")),
        Some("dm-verity") => format!("verity image {}", after("verity:")),
        _ if text.is_empty() => "no text".to_owned(),
        _ => format!("{}", Safe(text)),
    }
}

/// Mount point, UUID and label of the file system, UUID, type and label of its partition; many are empty.
fn file_system(text: &str) -> String {
    let mut parts = text.strip_prefix("file-system:").unwrap_or(text).splitn(2, ':');
    let mounted = Safe(parts.next().unwrap_or_default());
    match parts.next().map(|rest| rest.trim_matches(':')).filter(|rest| !rest.is_empty()) {
        Some(rest) => format!("file system at {mounted}: {}", Safe(rest)),
        None => format!("file system at {mounted}, without identity"),
    }
}

/// Linux, `Documentation/security/IMA-templates.rst`: fields, each after its length; the second is the file's name.
fn ima(data: &[u8]) -> String {
    let field = |rest: &mut &[u8]| -> Option<Vec<u8>> {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (field, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        *rest = after;
        Some(field.to_vec())
    };
    let mut rest = data;
    let name = field(&mut rest).and_then(|_| field(&mut rest)).and_then(|name| String::from_utf8(name).ok());
    match name.as_deref().map(|name| name.trim_end_matches('\0')).filter(|name| !name.is_empty()) {
        Some(name) => format!("file {}", Safe(name)),
        None => format!("{} bytes", data.len()),
    }
}

/// Whether the digests are those of what the record has of it.
pub(super) fn data(record: &Record) -> DataCheck {
    match (&record.content, record.event()) {
        (_, Some(event)) => check::data(&event),
        (Content::Systemd(SystemdEvent { kind, text: Some(text), .. }), _) => match kind.as_deref() {
            Some("phase" | "machine-id" | "filesystem" | "product-id" | "nvpcr-init" | "nvpcr-separator") => {
                of(record, text.as_bytes())
            }
            // A key's HMAC, or a kind that is unknown here.
            _ => matches_or_unknown(of(record, text.as_bytes())),
        },
        // Before Linux 5.8 all banks but SHA-1 had its digest, padded; a violation has zeros.
        (Content::Ima { data, .. }, _) => matches_or_unknown(of(record, data)),
        _ => DataCheck::NotOfData,
    }
}

fn of(record: &Record, bytes: &[u8]) -> DataCheck {
    let mut banks = record.digests.iter().filter_map(|(algorithm, digest)| Some((algorithm.bank()?, digest)));
    match banks.find(|(bank, digest)| bank.digest(&[bytes]) != **digest) {
        Some((bank, _)) => DataCheck::Differs(bank),
        None => DataCheck::Matches,
    }
}

fn matches_or_unknown(check: DataCheck) -> DataCheck {
    if check == DataCheck::Matches { check } else { DataCheck::NotOfData }
}

/// Text of the log, escaped and cut.
struct Safe<'a>(&'a str);

impl fmt::Display for Safe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        explain::text::write_safe(f, self.0)
    }
}
