//! Whether a file's access list lets anybody else in.
//!
//! With an access list, the group bits of the file mode are the list's mask, not the group's rights (acl(5)). systemd
//! hands credentials to a service that way: owned by root, readable through one entry for the service's user, mode 0440.

use rustix::fs::fgetxattr;
use std::fs::File;

const XATTR: &str = "system.posix_acl_access";

/// Linux, `include/uapi/linux/posix_acl_xattr.h`: `POSIX_ACL_XATTR_VERSION`.
const VERSION: [u8; 4] = 2_u32.to_le_bytes();

/// Tag, permissions and id of one entry: `struct posix_acl_xattr_entry`, little endian.
const ENTRY: usize = 8;

/// A list that lets in one user has five entries.
const MAX_SIZE: usize = VERSION.len() + 8 * ENTRY;

// Linux, `include/uapi/linux/posix_acl.h`.
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const MASK: u16 = 0x10;

/// Whether the file has an access list and nobody but its owner and `user` gets anything from it. `false` when in doubt.
pub(crate) fn admits_only(file: &File, user: u32) -> bool {
    let mut list = [0; MAX_SIZE];
    // A list that does not fit is an error, ERANGE; so is no list, ENODATA.
    let Ok(size) = fgetxattr(file, XATTR, &mut list) else { return false };
    list.get(..size).is_some_and(|list| names_only(list, user))
}

fn names_only(list: &[u8], user: u32) -> bool {
    let Some(entries) = list.strip_prefix(&VERSION) else { return false };
    let (entries, rest) = entries.as_chunks::<ENTRY>();
    let harmless = |[tag, tag2, rights, rights2, id @ ..]: &[u8; ENTRY]| {
        let rights = u16::from_le_bytes([*rights, *rights2]);
        match u16::from_le_bytes([*tag, *tag2]) {
            USER_OBJ | MASK => true,
            USER => rights == 0 || u32::from_le_bytes(*id) == user,
            // The group, named groups, others, and what future kernels may add.
            _ => rights == 0,
        }
    };
    !entries.is_empty() && rest.is_empty() && entries.iter().all(harmless)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: u32 = u32::MAX;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut bytes = VERSION.to_vec();
        for (tag, rights, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(rights.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    /// As systemd makes it for a service that runs as user 61234.
    fn credential() -> [(u16, u16, u32); 5] {
        [(USER_OBJ, 4, NOBODY), (USER, 4, 61234), (4, 0, NOBODY), (MASK, 4, NOBODY), (0x20, 0, NOBODY)]
    }

    #[test]
    fn the_one_user_and_the_owner_are_admitted_and_nobody_else() {
        assert!(names_only(&list(&credential()), 61234));
        assert!(!names_only(&list(&credential()), 61235));
        for other in [(USER, 4, 1000), (4, 4, NOBODY), (8, 4, 100), (0x20, 4, NOBODY), (0x40, 4, 61234)] {
            let mut entries = credential().to_vec();
            entries.push(other);
            assert!(!names_only(&list(&entries), 61234), "{other:?}");
        }
    }

    #[test]
    fn a_malformed_list_admits_nobody() {
        let good = list(&credential());
        assert!(!names_only(&[], 61234));
        assert!(!names_only(&good[..4], 61234));
        assert!(!names_only(&good[..good.len() - 1], 61234));
        assert!(!names_only(&[&[3], &good[1..]].concat(), 61234));
    }
}
