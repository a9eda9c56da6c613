//! Fields of messages, checked before anything uses them.

use latchkey_disk::NodeName;
use latchkey_keys::{Secret, Uuid};

/// Exactly 32 secret bytes.
pub(super) fn key(field: &str, bytes: &[u8]) -> Result<Secret<32>, String> {
    Secret::from_slice(bytes).map_err(|_| format!("{field} has {} bytes, expected 32", bytes.len()))
}

/// Exactly 32 public bytes.
pub(super) fn salt(field: &str, bytes: &[u8]) -> Result<[u8; 32], String> {
    bytes.try_into().map_err(|_| format!("{field} has {} bytes, expected 32", bytes.len()))
}

/// Counts from 1.
pub(super) fn epoch(epoch: u64) -> Result<u64, String> {
    if epoch == 0 { Err("epoch is 0, and counts from 1".into()) } else { Ok(epoch) }
}

/// The UUID of the disk that waits here.
pub(super) fn same_disk(text: &str, disk: Uuid) -> Result<(), String> {
    if text.parse::<Uuid>().is_ok_and(|uuid| uuid == disk) {
        Ok(())
    } else {
        Err(format!(
            "disk_uuid is not that of this node's disk, {disk}; ask Describe again: the node may have rebooted"
        ))
    }
}

/// An RFC 1123 subdomain: labels of lower-case letters, digits and `-`, joined by dots.
pub(super) fn node_name(name: &str) -> Result<String, String> {
    match name.parse::<NodeName>() {
        Ok(_) => Ok(name.into()),
        Err(_) => {
            Err("a name is made of lower-case letters, digits, `-` and dots, at most 253 characters (RFC 1123)".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotted_names_are_names_and_others_are_not() {
        for good in ["edge-1", "edge-1.plant.example", "a", &"a".repeat(63)] {
            assert!(node_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "a.", "-a", "a-", "A", "a_b", "a b", &"a".repeat(64), &["a"; 130].join(".")] {
            assert!(node_name(bad).is_err(), "{bad}");
        }
    }
}
