//! Archives that nobody of ours wrote.

use std::fs;

use latchkey_centre_site::Layout;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::centre::backup::manifest::{LARGEST, MOST, NAME, needed};
use crate::codes::CommandCode;

/// One file of a tar: header and contents.
type File = (tar::Header, Vec<u8>);

/// An archive in memory that can be made wrong in one way before it is written.
struct Hostile {
    manifest: Manifest,
    files: Vec<File>,
    /// Bytes behind the end of the tar.
    after: Vec<u8>,
}

impl Hostile {
    /// What every centre has, and one repository; nothing is wrong yet.
    fn new() -> Self {
        let mut members: Vec<(String, Vec<u8>)> =
            needed().iter().map(|of| (of.name(), of.name().into_bytes())).collect();
        members.push(("git/bdb13634-0b3d-4e38-a065-9d88c12ee78d.bundle".into(), vec![7; 5000]));
        let listed = members.iter().map(|(name, bytes)| listing(name, bytes)).collect();
        let manifest = Manifest::new("1970-01-01T00:00:00Z".into(), "1970-01-01T00:00:01Z".into(), "R".into(), listed);
        let files = members.into_iter().map(|(name, bytes)| (plain(&name, bytes.len() as u64), bytes)).collect();
        Self { manifest, files, after: Vec::new() }
    }

    fn tar(&self) -> Vec<u8> {
        let text = serde_json::to_vec(&self.manifest).unwrap();
        let mut archive = tar::Builder::new(Vec::new());
        archive.append(&plain(NAME, text.len() as u64), text.as_slice()).unwrap();
        for (header, bytes) in &self.files {
            archive.append(header, bytes.as_slice()).unwrap();
        }
        let mut tar = archive.into_inner().unwrap();
        tar.extend(&self.after);
        tar
    }

    /// The archive with another list.
    fn listing(change: impl FnOnce(&mut Vec<Listed>)) -> Self {
        let mut hostile = Self::new();
        change(&mut hostile.manifest.members);
        hostile
    }

    /// The archive with another last file.
    fn last(change: impl FnOnce(&mut File)) -> Self {
        let mut hostile = Self::new();
        change(hostile.files.last_mut().unwrap());
        hostile
    }
}

fn listing(name: &str, bytes: &[u8]) -> Listed {
    Listed { name: name.into(), size: bytes.len() as u64, sha256: hex::encode(ring::digest::digest(&SHA256, bytes)) }
}

fn plain(name: &str, size: u64) -> tar::Header {
    header(name, size).unwrap()
}

fn packed(tar: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(tar).unwrap();
    encoder.finish().unwrap()
}

/// Reads what stands in a file: how often something was handed over, and how it ended.
fn tried(folder: &TempDir, bytes: &[u8]) -> (usize, Result<Manifest, CommandError>) {
    let path = folder.path().join("backup");
    fs::write(&path, bytes).unwrap();
    let mut handed = 0;
    let outcome = read(&path, &|_| Ok(()), &mut |_, content| {
        handed += 1;
        copy(content, &mut io::sink()).map(drop).map_err(|error| damaged(error.to_string()))
    });
    (handed, outcome)
}

/// Why an archive is refused; nothing but a refusal of backups will do.
#[track_caller]
fn refusal(hostile: &Hostile) -> String {
    refusal_of(&packed(&hostile.tar()))
}

#[track_caller]
fn refusal_of(bytes: &[u8]) -> String {
    let error = tried(&TempDir::new().unwrap(), bytes).1.unwrap_err();
    assert_eq!(error.code, CommandCode::CentreBackupDamaged.into(), "{error:?}");
    error.what + &error.because.join(" ")
}

#[test]
fn one_in_which_nothing_is_wrong_is_read() {
    let good = Hostile::new();
    let (handed, outcome) = tried(&TempDir::new().unwrap(), &packed(&good.tar()));
    assert_eq!((handed, outcome.unwrap()), (good.files.len(), good.manifest));
}

#[test]
fn a_name_chooses_no_place() {
    for name in [
        "../centre.json",
        "/etc/passwd",
        "secrets/../../x.password",
        "secrets/.x.password",
        "secrets/a/b.keytab",
        "secrets//x.keytab",
        "secrets/x",
        "./centre.json",
        "centre.json/",
        "git/../x.bundle",
        "git/BDB13634-0b3d-4e38-a065-9d88c12ee78d.bundle",
        "git/{bdb13634-0b3d-4e38-a065-9d88c12ee78d}.bundle",
        "config-db/data/../data",
        "secrets/a\0.password",
        "secrets/\u{1b}[2J.password",
        "",
    ] {
        let said = refusal(&Hostile::listing(|members| members.push(listing(name, b""))));
        assert!(said.contains("a centre has no file") && !said.contains('\u{1b}'), "{name:?}: {said}");
    }
    let long = format!("secrets/{}.password", "x".repeat(1000));
    let said = refusal(&Hostile::listing(|members| members.push(listing(&long, b""))));
    assert!(said.len() < 300, "{said}");
}

#[test]
fn the_list_is_what_every_centre_has_once_and_within_bounds() {
    let said = refusal(&Hostile::listing(|members| members.push(members[0].clone())));
    assert!(said.contains("twice"), "{said}");
    // A backup of before centres had an enrol service.
    Hostile::listing(|members| members.retain(|listed| !listed.name.contains("enrol"))).manifest.check().unwrap();
    for missing in 0..needed().len() {
        let said = refusal(&Hostile::listing(|members| drop(members.remove(missing))));
        assert!(said.contains("is missing"), "{said}");
    }
    for size in [(1 << 20) + 1, u64::MAX] {
        let said = refusal(&Hostile::listing(|members| members[0].size = size));
        assert!(said.contains("is the most"), "{said}");
    }
    let empty = "git/bdb13634-0b3d-4e38-a065-9d88c12ee78e.empty";
    let said = refusal(&Hostile::listing(|members| members.push(listing(empty, b"x"))));
    assert!(said.contains("0 is the most"), "{said}");
    let many = |members: &mut Vec<Listed>| members.resize(MOST + 1, listing("x", b""));
    assert!(refusal(&Hostile::listing(many)).contains("more than"));

    let mut other = Hostile::new();
    other.manifest.schema = 2;
    assert!(refusal(&other).contains("schema 2"));
}

#[test]
fn nothing_is_read_of_what_is_not_wanted() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("backup");
    fs::write(&path, packed(&Hostile::new().tar())).unwrap();
    let refused = read(&path, &|_| Err(damaged("not wanted")), &mut |_, _| panic!("it reads"));
    assert!(refused.unwrap_err().what.contains("not wanted"));
}

#[test]
fn a_manifest_is_bounded_before_it_is_read() {
    let mut archive = tar::Builder::new(Vec::new());
    archive.append(&plain(NAME, LARGEST + 1), io::repeat(b' ').take(LARGEST + 1)).unwrap();
    assert!(refusal_of(&packed(&archive.into_inner().unwrap())).contains("more than"));
    for text in ["", "{", "[]", "{\"schema\":1}", "{\"schema\":\"1\"}", "\u{1b}[2J"] {
        let mut archive = tar::Builder::new(Vec::new());
        archive.append(&plain(NAME, text.len() as u64), text.as_bytes()).unwrap();
        let said = refusal_of(&packed(&archive.into_inner().unwrap()));
        assert!(said.contains(NAME) && !said.contains('\u{1b}'), "{said}");
    }
}

#[test]
fn nothing_but_a_plain_file_is_a_file() {
    use tar::EntryType as Kind;
    for kind in [
        Kind::Symlink,
        Kind::Link,
        Kind::Directory,
        Kind::Fifo,
        Kind::Char,
        Kind::Block,
        Kind::GNUSparse,
        Kind::GNULongName,
        Kind::GNULongLink,
        Kind::XHeader,
        Kind::XGlobalHeader,
        Kind::Continuous,
    ] {
        let said = refusal(&Hostile::last(|(header, _)| {
            header.set_entry_type(kind);
            if matches!(kind, Kind::Symlink | Kind::Link) {
                header.set_link_name("/etc/passwd").unwrap();
            }
            header.set_cksum();
        }));
        assert!(said.contains("no plain file"), "{kind:?}: {said}");
    }
}

#[test]
fn each_file_is_the_listed_one() {
    let other = plain("centre.json", 5000);
    assert!(refusal(&Hostile::last(|(header, _)| *header = other)).contains("another file"));
    assert!(refusal(&Hostile::last(|(_, bytes)| bytes[4999] = 8)).contains("not the one"));
    let short = |(header, bytes): &mut File| {
        bytes.truncate(4999);
        header.set_size(4999);
        header.set_cksum();
    };
    assert!(refusal(&Hostile::last(short)).contains("another size"));
    for size in [5001, 1 << 33, u64::MAX] {
        let said = refusal(&Hostile::last(|(header, _)| {
            header.set_size(size);
            header.set_cksum();
        }));
        // The reader of tars adds sizes up, and stops where they do not fit into 64 bits.
        assert!(said.contains(if size == u64::MAX { "to its end" } else { "another size" }), "{size}: {said}");
    }
    assert!(refusal(&Hostile::listing(|members| members[3].sha256 = "0".repeat(64))).contains("not the one"));

    let mut more = Hostile::new();
    more.files.push((plain("more", 1), vec![1]));
    assert!(refusal(&more).contains("does not list"));
    let mut fewer = Hostile::new();
    fewer.files.pop();
    assert!(refusal(&fewer).contains("is missing"));
    let mut swapped = Hostile::new();
    swapped.files.swap(0, 1);
    assert!(refusal(&swapped).contains("another file"));
    let mut followed = Hostile::new();
    followed.after = vec![0; 1 << 20];
    assert!(refusal(&followed).contains("follows"));
}

#[test]
fn one_that_ends_too_soon_is_refused_wherever_it_ends() {
    let (folder, tar) = (TempDir::new().unwrap(), Hostile::new().tar());
    let whole = packed(&tar);
    for end in (0..whole.len()).step_by(3).chain(whole.len() - 20..whole.len()) {
        assert!(tried(&folder, &whole[..end]).1.is_err(), "{end} of {} bytes", whole.len());
    }
    // In a compression that is whole; the tar's two empty blocks may be missing, as some writers leave them out.
    let content = tar.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for end in (0..content).step_by(97) {
        assert!(tried(&folder, &packed(&tar[..end])).1.is_err(), "{end} of {} bytes", tar.len());
    }
}

#[test]
fn a_byte_cannot_be_another_one() {
    let (folder, whole) = (TempDir::new().unwrap(), packed(&Hostile::new().tar()));
    for at in (0..whole.len()).step_by(3) {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        // A bit that decoders ignore may change; what comes out may not.
        if let (_, Ok(manifest)) = tried(&folder, &changed) {
            assert_eq!(manifest, Hostile::new().manifest, "byte {at}");
        }
    }
}

#[test]
fn what_wants_much_memory_is_refused() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(WINDOW + 1).unwrap();
    // Of no size that is told, so that the window is as large as it says.
    encoder.write_all(&Hostile::new().tar()).unwrap();
    encoder.flush().unwrap();
    let said = refusal_of(&encoder.finish().unwrap());
    assert!(said.contains("memory"), "{said}");
}

proptest! {
    #[test]
    fn whatever_a_name_is_its_place_is_within_the_centre(name in "(secrets/|git/|tls/|kdc/|config-db/|)[ -~]{0,50}") {
        let layout = Layout::new("/srv/centre".into());
        if let Some(member) = Member::parse(&name) {
            prop_assert_eq!(member.name(), name.as_str());
            let place = member.place(&layout);
            prop_assert!(place.starts_with(layout.root()));
            prop_assert!(place.components().all(|part| matches!(part, std::path::Component::Normal(_) | std::path::Component::RootDir)));
        }
    }

    #[test]
    fn bytes_of_anybody_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000), whole in any::<bool>()) {
        let bytes = if whole { packed(&bytes) } else { bytes };
        prop_assert!(tried(&TempDir::new().unwrap(), &bytes).1.is_err());
    }
}
