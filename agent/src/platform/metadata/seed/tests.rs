use latchkey_test_support::volume::Maker;

use super::*;

const DOCUMENT: &str = r#"{"version":1,"role":"worker"}"#;
const NAMED: &str = r#"{"version":1,"node_name":"mine"}"#;
const USER_DATA: &str = "openstack/latest/user_data";
const META_DATA: &str = "openstack/latest/meta_data.json";
const ABOUT: &str = r#"{"uuid":"d8e0","hostname":"edge-7.novalocal","meta":{"a":"b"}}"#;
const ISO: Maker = Maker::Genisoimage(&["-joliet", "-rock"]);

fn read(seed: Seed, maker: Maker, files: &[(&str, &str)]) -> Result<Option<InstanceMetadata>, MetadataError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("volume");
    maker.make(&path, seed.label().name(), files);
    seed.read(&path)
}

fn code(result: Result<Option<InstanceMetadata>, MetadataError>) -> &'static str {
    result.unwrap_err().code().as_str()
}

#[test]
fn the_operator_s_document_counts_and_the_volume_s_name_where_that_has_none() {
    for maker in [Maker::Fat(12), ISO] {
        for (seed, document, about, said, name) in [
            (Seed::NoCloud, "user-data", "meta-data", "instance-id: i-1\nlocal-hostname: Edge-7\n", "edge-7"),
            (Seed::ConfigDrive, USER_DATA, META_DATA, ABOUT, "edge-7.novalocal"),
        ] {
            let read = |content| read(seed, maker, &[(document, content), (about, said)]);
            let metadata = read(DOCUMENT).unwrap().unwrap();
            assert_eq!(metadata.node_name.as_deref(), Some(name), "{seed:?} {maker:?}");
            assert!(metadata.role.is_some());
            assert_eq!(read(NAMED).unwrap().unwrap().node_name.as_deref(), Some("mine"));
            assert_eq!(read(" \n").unwrap().unwrap().node_name.as_deref(), Some(name));
            assert_eq!(code(read("#cloud-config\nusers: []\n")), "metadata-invalid");
            let long = format!("{{\"version\":1}}{}", " ".repeat(MAX_BYTES));
            assert_eq!(code(read(&long)), "metadata-too-large");
        }
    }
}

#[test]
fn a_volume_that_lacks_what_it_must_have_is_refused_and_named() {
    let error = read(Seed::NoCloud, ISO, &[("meta-data", "local-hostname: a\n"), ("user_data", DOCUMENT)]).unwrap_err();
    assert_eq!(error.code().as_str(), "metadata-volume-incomplete");
    assert!(error.to_string().ends_with("has no user-data"), "{error}");
    let error = read(Seed::ConfigDrive, Maker::Fat(16), &[(USER_DATA, DOCUMENT)]).unwrap_err();
    assert_eq!(error.code().as_str(), "metadata-volume-incomplete");
    assert!(error.to_string().ends_with("has no openstack/latest/meta_data.json"), "{error}");
    // What need not be there: a document of an instance that was given none, and a name.
    let named = read(Seed::ConfigDrive, ISO, &[(META_DATA, ABOUT)]).unwrap().unwrap();
    assert_eq!((named.node_name.as_deref(), named.role), (Some("edge-7.novalocal"), None));
    assert_eq!(read(Seed::NoCloud, ISO, &[("user-data", DOCUMENT)]).unwrap().unwrap().node_name, None);
}

#[test]
fn a_name_that_is_none_does_not_keep_a_document_from_counting() {
    let long = "a".repeat(MAX_JSON + 1);
    for about in ["", "no JSON", r#"{"hostname":7}"#, r#"{"hostname":"a b"}"#, &long] {
        let metadata = read(Seed::ConfigDrive, ISO, &[(USER_DATA, DOCUMENT), (META_DATA, about)]).unwrap().unwrap();
        assert!(metadata.role.is_some() && metadata.node_name.is_none(), "{about:.20}");
    }
}

#[test]
fn what_is_damaged_or_gone_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("volume");
    assert_eq!(code(Seed::NoCloud.read(&path)), "metadata-unreadable");
    ISO.make(&path, "cidata", &[("user-data", DOCUMENT)]);
    let volume = std::fs::read(&path).unwrap();
    std::fs::write(&path, &volume[..17 * 2048]).unwrap();
    assert_eq!(code(Seed::NoCloud.read(&path)), "metadata-volume-damaged");
    // The size of the root directory (ECMA-119, 8.4.18 and 9.1.4): no metadata could be shortened for it.
    Maker::Genisoimage(&["-rock"]).make(&path, "cidata", &[("user-data", DOCUMENT)]);
    let mut large = std::fs::read(&path).unwrap();
    large[16 * 2048 + 156 + 10..][..4].fill(0xff);
    std::fs::write(&path, &large).unwrap();
    assert_eq!(code(Seed::NoCloud.read(&path)), "metadata-volume-damaged");
    std::fs::write(&path, vec![0; 100_000]).unwrap();
    assert_eq!(code(Seed::NoCloud.read(&path)), "metadata-volume-damaged");
}

#[test]
fn names_in_meta_data_are_found_where_tools_write_them() {
    for (about, name) in [
        ("instance-id: a\nlocal-hostname: edge-7\n", Some("edge-7")),
        ("local-hostname: \"edge-7\"  # of the plant\n", Some("edge-7")),
        ("local-hostname: 'edge-7'\r\n", Some("edge-7")),
        ("{\"instance-id\": \"a\", \"local-hostname\": \"edge-7\"}", Some("edge-7")),
        ("  {\"local-hostname\": 7}", None),
        ("a: b\n  local-hostname: nested\n", None),
        ("#local-hostname: comment\n", None),
        ("local-hostname: one\nlocal-hostname: two\n", None),
        ("hostname: other\n", None),
        ("", None),
    ] {
        assert_eq!(local_hostname(about.as_bytes()).as_deref(), name, "{about:?}");
    }
    assert_eq!(local_hostname(b"local-hostname: \xff\n"), None);
}

#[test]
fn a_volume_that_is_not_read_in_time_is_refused() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("volume");
    // A pipe that nobody writes to cannot be opened, as a drive that does not answer.
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let read = |patience| smol::block_on(Seed::NoCloud.read_within(patience, path.clone()));
    let error = read(Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.code().as_str(), "metadata-unreadable");
    assert!(error.to_string().contains("not within"), "{error}");
    // Lets the reader's thread end.
    let _writer = File::options().read(true).write(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    Maker::Fat(12).make(&path, "cidata", &[("user-data", NAMED)]);
    assert_eq!(read(Duration::from_mins(1)).unwrap().unwrap().node_name.as_deref(), Some("mine"));
}
