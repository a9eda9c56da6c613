//! Derivations pinned to values computed with Python's `hmac` and `hashlib`: if one of these changes, disks in the
//! field no longer open.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use latchkey_keys::{ClusterId, KeyId, KeyLength, KeyRelease, KeyVersion, MasterSecret, Secret};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// Answers for every key, without a decision.
struct FakeRelease(KeyId, u32);

impl KeyRelease for FakeRelease {
    fn key_id(&self) -> KeyId {
        self.0
    }

    fn key_version(&self) -> Option<KeyVersion> {
        KeyVersion::new(self.1)
    }
}

/// Version 1 is 00..1f, version 2 (current) is 32 times ff.
fn master() -> MasterSecret {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("master.json");
    let one = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let two = "ff".repeat(32);
    let json = format!(
        r#"{{"schema":1,"current":2,"secrets":[{{"version":1,"secret":"{one}"}},{{"version":2,"secret":"{two}"}}]}}"#
    );
    fs::write(&path, json).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    MasterSecret::load(&path).unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    hex::decode(text).unwrap()
}

#[test]
fn data_keys_equal_the_independent_computation() {
    let disk = "state-disk/f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    let table = [
        (disk, 1, 32, "74f97a653202a969d586c4ab30541f2a63e0388d9144ce4424651de64d050914"),
        (disk, 2, 32, "2500b9aca06bdbe0e642944c552680e0fd2ef29106789e60586881e05a0c29f8"),
        (disk, 0, 32, "2500b9aca06bdbe0e642944c552680e0fd2ef29106789e60586881e05a0c29f8"),
        (disk, 1, 16, "5fba383e7ac8632b3f7ccacb4b0fe9a8"),
        (
            disk,
            1,
            64,
            "93c3017128a4ba9e7e065be04ec69f67518c397a5d6fd6f778bbe1abd91c6059\
             fc8db32dee597c72bc387b5ffae5534dfebf51b1b4bdbde021e1119f3191fa21",
        ),
        (
            "state-disk/ffffffff-ffff-ffff-ffff-ffffffffffff",
            1,
            32,
            "f63524455f587e119651c484b1fd0d61fc9d6e187dbc38e153383f4ea292c399",
        ),
        ("measurement-secret", 1, 32, "489a0fdeadd44c57d50650f8755d6687a84705a8290ebc7bed7f51e23f1ce9a8"),
        ("measurement-secret", 0, 32, "f46e422e34a93b08bf73736bd8a18d4d16f7ac0fbfbe23be1e10ace88b7391d2"),
        ("secrets-at-rest", 1, 32, "58c5fcfea3289b07be2182e79a80056ba92c950ae86b9f3c2e9dca2ff8f3c2a9"),
        ("secrets-at-rest", 0, 32, "59ca9f47a12a8d5d64ba4fc56ee4ab22b3d1e6d8c206c5c6e82de5a540f06a4a"),
    ];
    let master = master();
    for (id, version, length, expected) in table {
        let derived =
            master.derive(&FakeRelease(id.parse().unwrap(), version), KeyLength::new(length).unwrap()).unwrap();
        assert_eq!(derived.key.expose(), unhex(expected), "{id} version {version} length {length}");
        assert_eq!(derived.version.number(), if version == 0 { 2 } else { version });
    }
}

#[test]
fn a_version_that_does_not_exist_gives_no_key() {
    let error = master().derive(&FakeRelease(KeyId::MeasurementSecret, 3), KeyLength::DEFAULT).unwrap_err();
    assert!(error.to_string().contains("has no version 3"), "{error}");
}

#[test]
fn cluster_id_and_lock_equal_the_independent_computation() {
    let secret =
        Secret::from_slice(&unhex("489a0fdeadd44c57d50650f8755d6687a84705a8290ebc7bed7f51e23f1ce9a8")).unwrap();
    let salt = core::array::from_fn(|index| 0x40 + u8::try_from(index).unwrap());
    let id = ClusterId::derive(&secret, &salt).unwrap();
    assert_eq!(id.to_string(), "022bf40cc641ae1f8e37ce15c3ade80208a601026ce78ad3ea7e6e325dde30e6");
    assert_eq!(hex::encode(id.locked_pcr15()), "a0ceab7bcebc60aa8c177356e10d7291f4b90bdebcb1e3b0d23713ea73fa9598");
}

/// The formula alone, with a value measured on another implementation.
#[test]
fn pcr_15_after_a_known_lock_event() {
    let id: ClusterId = "e7fd5a0e36fb56d69807aa36e68aee24438c1bf8766780b6106150f35b7aacba".parse().unwrap();
    assert_eq!(hex::encode(id.locked_pcr15()), "f75516d57d358d6acd9c5e6e5c74b910ca7da9ddbc7935d0707c9b71656b968d");
}

#[test]
fn cluster_ids_are_read_strictly() {
    for text in ["", "e7", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64)] {
        assert!(text.parse::<ClusterId>().is_err(), "{text:?}");
    }
}
