//! Volumes that stock tools make, and what becomes of them when their bytes are changed or cut.

use std::fs;
use std::sync::LazyLock;

use latchkey_test_support::volume::Maker;
use proptest::prelude::*;

use super::*;

const SECTOR: usize = 2048;
const PRIMARY: usize = 16 * SECTOR;
const LIMIT: usize = 16 * 1024;
const FILES: &[(&str, &str)] = &[
    ("user-data", "of the operator"),
    ("meta-data", "local-hostname: edge-7\n"),
    ("openstack/latest/user_data", "deep"),
    ("openstack/latest/a-name-that-is-longer-than-any-old-one.json", "long"),
    ("empty", ""),
];
const DEEP: &[&str] = &["openstack", "latest", "user_data"];
const LONG: &[&str] = &["openstack", "latest", "a-name-that-is-longer-than-any-old-one.json"];
const MAKERS: [Maker; 9] = [
    Maker::Fat(12),
    Maker::Fat(16),
    Maker::Fat(32),
    // As cloud-localds and Nova call it.
    Maker::Genisoimage(&["-joliet", "-rock"]),
    Maker::Genisoimage(&["-joliet"]),
    Maker::Genisoimage(&["-rock"]),
    Maker::Xorriso(&["-J", "-r"]),
    Maker::Xorriso(&["-r"]),
    Maker::Xorriso(&["-J"]),
];

fn made(maker: Maker, label: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("volume");
    maker.make(&path, label, files);
    fs::read(path).unwrap()
}

fn read(volume: &Vec<u8>, path: &[&str]) -> Result<Option<String>, VolumeError> {
    Ok(read_file(volume, path, LIMIT)?.map(|content| String::from_utf8(content).unwrap()))
}

#[test]
fn files_of_volumes_that_stock_tools_make_are_read_under_their_names() {
    for maker in MAKERS {
        let volume = made(maker, "cidata", FILES);
        for (path, content) in
            [(&["user-data"][..], "of the operator"), (DEEP, "deep"), (LONG, "long"), (&["empty"], "")]
        {
            assert_eq!(read(&volume, path).unwrap().as_deref(), Some(content), "{maker:?} {path:?}");
        }
        for missing in [&["user_data"][..], &["user-data", "x"], &["openstack"], &["openstack", "latest", "x"], &["."]]
        {
            assert_eq!(read(&volume, missing).unwrap(), None, "{maker:?} {missing:?}");
        }
    }
}

#[test]
fn labels_are_known_in_both_cases_and_whole() {
    for maker in MAKERS {
        for (label, is_cidata, is_config) in [
            ("cidata", true, false),
            ("CIDATA", true, false),
            ("config-2", false, true),
            ("CONFIG-2", false, true),
            ("cidata2", false, false),
            ("xcidata", false, false),
        ] {
            let volume = made(maker, label, FILES);
            let is_of = (Label::Cidata.is_of(&volume), Label::Config2.is_of(&volume));
            assert_eq!(is_of, (is_cidata, is_config), "{maker:?} {label}");
        }
    }
}

#[test]
fn a_volume_without_long_names_has_no_such_file() {
    let plain = made(Maker::Genisoimage(&[]), "cidata", &[("user-data", "x"), ("name", "y")]);
    assert!(Label::Cidata.is_of(&plain));
    assert_eq!(read(&plain, &["user-data"]).unwrap(), None);
    assert_eq!(read(&plain, &["name"]).unwrap().as_deref(), Some("y"), "a name that the old form can say");
}

#[test]
fn a_file_larger_than_is_read_is_refused_and_one_in_many_clusters_is_whole() {
    let content: String = (0..LIMIT).map(|index| char::from(b'a' + u8::try_from(index / 700 % 26).unwrap())).collect();
    for maker in MAKERS {
        let volume = made(maker, "cidata", &[("most", &content), ("more", &(content.clone() + "x"))]);
        assert_eq!(read(&volume, &["most"]).unwrap().as_deref(), Some(content.as_str()), "{maker:?}");
        let error = read(&volume, &["more"]).unwrap_err();
        assert_eq!(error.to_string(), "more has 16385 bytes, at most 16384 are read", "{maker:?}");
    }
}

#[test]
fn what_is_no_volume_is_said_to_be_none() {
    for bytes in [vec![], vec![0; 511], vec![0; 64 * 1024], vec![0xff; 64 * 1024], b"LUKS\xba\xbe".repeat(10_000)] {
        assert!(!Label::Cidata.is_of(&bytes));
        assert!(read_file(&bytes, &["user-data"], LIMIT).is_err());
    }
}

#[test]
fn one_name_twice_is_refused() {
    for maker in [Maker::Fat(12), Maker::Genisoimage(&["-rock"])] {
        let mut volume = made(maker, "cidata", &[("user-data", "x"), ("user-date", "y")]);
        // The names are in the record of the short name, too: those differ by a number or are not looked at.
        let (from, to): (Vec<u8>, Vec<u8>) = match maker {
            Maker::Fat(_) => (b"t\0e\0\0\0".into(), b"t\0a\0\0\0".into()),
            _ => (b"user-date".into(), b"user-data".into()),
        };
        let at: Vec<_> = (0..volume.len() - from.len()).filter(|&at| volume[at..].starts_with(&from)).collect();
        assert!(!at.is_empty(), "{maker:?}");
        for at in at {
            volume[at..at + to.len()].copy_from_slice(&to);
        }
        assert!(read(&volume, &["user-data"]).unwrap_err().to_string().contains("twice"), "{maker:?}");
    }
}

#[test]
fn places_and_sizes_that_cannot_be_are_refused() {
    let good = made(Maker::Genisoimage(&["-rock"]), "cidata", &FILES[..2]);
    let with = |changes: &[(usize, &[u8])]| {
        let mut volume = good.clone();
        for (at, bytes) in changes {
            volume[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        read(&volume, &["user-data"]).unwrap_err().to_string()
    };
    let root = PRIMARY + 156;
    assert!(with(&[(PRIMARY + 128, &[0, 2])]).contains("another size than 2048"));
    assert!(with(&[(root + 25, &[0])]).contains("no root directory"));
    let large = with(&[(root + 10, &[0xff; 4])]);
    assert!(
        large.starts_with("a directory has 4294967295 bytes") && large.ends_with("make a smaller volume"),
        "{large}"
    );
    with(&[(root + 2, &[0xff; 4])]);
    assert!(with(&[(17 * SECTOR, &[0; 7])]).contains("none of ISO 9660"));
    assert!(with(&[(PRIMARY, &[0])]).contains("none of ISO 9660"), "no primary descriptor");
    // The record of the file: found by its name of the old form, which stands 33 bytes behind its beginning.
    let name = good.windows(8).position(|window| window == b"USER_DAT").unwrap();
    assert!(with(&[(name - 33 + 25, &[1 << 7])]).contains("several extents"));
    assert!(with(&[(name - 33 + 26, &[1])]).contains("several extents"));
    assert!(with(&[(name - 33, &[30])]).contains("a record that is none"));
    with(&[(name - 33 + 2, &[0xff; 4])]);
}

static SMALL: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| [0, 3, 4, 5, 6].map(|index| made(MAKERS[index], "cidata", FILES)).into());

/// Whatever the bytes are, there is an answer, and none is longer than it may be.
fn is_total(volume: &Vec<u8>) {
    let _ = Label::Cidata.is_of(volume);
    for path in [&["user-data"][..], DEEP, LONG, &["empty"]] {
        if let Ok(Some(content)) = read_file(volume, path, 64) {
            assert!(content.len() <= 64);
        }
    }
}

#[test]
fn a_volume_that_is_cut_anywhere_is_read_or_refused() {
    for volume in SMALL.iter() {
        for cut in (0..volume.len()).step_by(509) {
            let cut = volume[..cut].to_vec();
            is_total(&cut);
            if let Ok(Some(content)) = read(&cut, &["user-data"]) {
                assert_eq!(content, "of the operator");
            }
        }
    }
}

proptest! {
    #[test]
    fn no_change_of_a_volume_makes_the_reader_panic(
        which in 0..5_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let mut volume = SMALL[which].clone();
        // Where bytes mean something: zeros are most of a volume.
        let places: Vec<_> = (0..volume.len()).filter(|&at| volume[at] != 0).collect();
        for (index, byte) in changes {
            volume[places[index.index(places.len())]] = byte;
        }
        is_total(&volume);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..4096), at in 0..40_000_usize) {
        let mut volume = vec![0; at];
        volume.extend(bytes);
        is_total(&volume);
    }
}
