//! Fields of messages, checked before anything uses them.

use latchkey_api::v1::Components;
use latchkey_disk::NodeName;
use latchkey_keys::{Secret, Uuid};

use crate::cluster::MAX_COMPONENT_LIST;

/// More than any minor version has, in bytes.
const MAX_MINOR: usize = 16;

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

/// What a cluster has of Kubernetes, where somebody says it: a version and a list, both short enough to be handed over.
pub(super) fn components(named: Option<Components>) -> Result<Option<Box<Components>>, String> {
    let Some(named) = named else { return Ok(None) };
    let version = &named.kubernetes_version;
    if !(1..=MAX_MINOR).contains(&version.len()) || !version.chars().all(|c| c.is_ascii_graphic()) {
        return Err("the components' kubernetes_version is no minor version like 1.34".into());
    }
    let length = named.list.len();
    if !(1..=MAX_COMPONENT_LIST).contains(&length) {
        return Err(format!(
            "the components' list has {length} bytes; it has at least 1, and at most {MAX_COMPONENT_LIST}"
        ));
    }
    Ok(Some(Box::new(named)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_named_by_a_version_and_a_list_that_a_hand_over_has_room_for() {
        let named = |version: &str, length| {
            components(Some(Components { kubernetes_version: version.into(), list: vec![b'x'; length] }))
        };
        assert_eq!(components(None), Ok(None));
        assert!(named("1.35", MAX_COMPONENT_LIST).unwrap().is_some());
        for (version, length) in
            [("", 1), ("1.35\n", 1), (&*"1".repeat(17), 1), ("1.35", 0), ("1.35", MAX_COMPONENT_LIST + 1)]
        {
            assert!(named(version, length).is_err(), "{version:?} {length}");
        }
    }

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
