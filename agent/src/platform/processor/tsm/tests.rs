//! Directories of files as fakes of what the kernel fills.

use super::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::thread;

const REPORT: [u8; 1184] = [7; 1184];

fn both() -> BTreeSet<ProcessorKind> {
    [ProcessorKind::Snp, ProcessorKind::Tdx].into()
}

/// A fake of an entry as the kernel fills it: files, which answer whatever is asked.
fn filled(attributes: &[(&str, &[u8])]) -> (tempfile::TempDir, Entry) {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in attributes {
        fs::write(directory.path().join(name), content).unwrap();
    }
    let entry = Entry(directory.path().to_owned());
    (directory, entry)
}

fn refusal(attributes: &[(&str, &[u8])]) -> String {
    let (_directory, entry) = filled(attributes);
    entry.ask(&both(), 0, &[1; 64]).unwrap_err().to_string()
}

#[test]
fn the_data_go_in_and_report_and_certificates_come_out() {
    let rest: [(&str, &[u8]); 3] = [("provider", b"sev_guest\n"), ("generation", b"1\n"), ("outblob", &REPORT)];
    for (table, shown) in [(Some(&b"table"[..]), &b"table"[..]), (Some(b""), b""), (None, b"")] {
        let table = table.map(|table| ("auxblob", table));
        let (directory, entry) = filled(&[&rest[..], table.as_slice()].concat());
        let evidence = entry.ask(&both(), 0, &[1; 64]).unwrap();
        let evidence = evidence.snp().unwrap();
        assert_eq!((evidence.report(), evidence.certificates()), (&REPORT[..], shown));
        assert_eq!(fs::read(directory.path().join("inblob")).unwrap(), [1; 64]);
    }
}

#[test]
fn a_quote_of_a_tdx_guest_comes_the_same_way_where_the_peer_takes_one() {
    let quote = [4; 5006];
    let (_directory, entry) = filled(&[("provider", b"tdx_guest\n"), ("generation", b"1\n"), ("outblob", &quote)]);
    let evidence = entry.ask(&both(), 0, &[1; 64]).unwrap();
    assert_eq!(evidence.tdx().unwrap().quote(), quote);
    let error = entry.ask(&[ProcessorKind::Snp].into(), 0, &[1; 64]).unwrap_err().to_string();
    assert!(error.contains("tdx_guest") && error.contains("a SEV-SNP report"), "{error}");
}

/// Attributes of Linux' `Documentation/ABI/testing/configfs-tsm`: `privlevel` is written only, `privlevel_floor` is read.
#[test]
fn the_report_is_asked_for_at_the_level_that_the_peer_takes() {
    let rest: [(&str, &[u8]); 5] = [
        ("provider", b"sev_guest\n"),
        ("generation", b"1\n"),
        ("outblob", &REPORT),
        ("privlevel", b""),
        ("privlevel_floor", b"2\n"),
    ];
    for (asked, written) in [(2, "2"), (3, "3")] {
        let (directory, entry) = filled(&rest);
        entry.ask(&both(), asked, &[1; 64]).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("privlevel")).unwrap(), written);
    }
    let (directory, entry) = filled(&rest);
    let error = entry.ask(&both(), 1, &[1; 64]).unwrap_err();
    assert!(matches!(error, TsmError::Level { floor: 2, demanded: 1 }), "{error}");
    let said = error.to_string();
    assert!(said.starts_with("snp-level-not-granted: ") && said.contains("`snp.vmpl`"), "{said}");
    assert!(!directory.path().join("inblob").exists(), "nothing was asked");
    // A kernel that cannot is told of, instead of a report of another level.
    let (_directory, entry) = filled(&rest[..3]);
    let error = entry.ask(&both(), 1, &[1; 64]).unwrap_err().to_string();
    assert!(error.contains("privlevel"), "{error}");
}

#[test]
fn what_is_no_report_is_refused_by_name() {
    let generation: (&str, &[u8]) = ("generation", b"1\n");
    assert!(refusal(&[("provider", b"arm_cca_guest\n")]).contains("arm_cca_guest"));
    assert!(refusal(&[]).contains("provider"));
    let sev = ("provider", &b"sev_guest\n"[..]);
    assert!(refusal(&[sev, generation]).contains("outblob"));
    assert!(refusal(&[sev, generation, ("outblob", &vec![0; 16 * 1024 + 1])]).contains("more than 16384 bytes"));
    assert!(refusal(&[sev, generation, ("outblob", &[0; 1185])]).contains("report is larger"));
    let table = vec![0; 16 * 1024 + 1];
    assert!(refusal(&[sev, generation, ("outblob", &REPORT), ("auxblob", &table)]).contains("auxblob: more than"));
}

const IN_SVSM: [(&str, &[u8]); 7] = [
    ("provider", b"sev_guest\n"),
    ("generation", b"4\n"),
    ("outblob", &REPORT),
    ("auxblob", b"table"),
    ("service_provider", b""),
    ("service_guid", b""),
    ("service_manifest_version", b""),
];

fn ask_svsm(entry: &Entry) -> Result<ProcessorEvidence, TsmError> {
    entry.ask(&[ProcessorKind::SnpSvsm].into(), 0, &[1; 64])
}

#[test]
fn an_svsm_is_asked_for_its_tpm_and_its_manifest_comes_out() {
    let (directory, entry) = filled(&[&IN_SVSM[..], &[("manifestblob", b"public area")]].concat());
    let evidence = ask_svsm(&entry).unwrap();
    let ProcessorEvidence::SnpSvsm(svsm) = &evidence else { panic!("{evidence:?}") };
    assert_eq!((svsm.snp().report(), svsm.snp().certificates()), (&REPORT[..], &b"table"[..]));
    assert_eq!(svsm.manifest(), b"public area");
    let written = |name| fs::read_to_string(directory.path().join(name)).unwrap();
    assert_eq!(written("service_provider"), "svsm");
    assert_eq!(written("service_guid"), "c476f1eb-0123-45a5-9641-b4e7dde5bfe3");
    assert_eq!(written("service_manifest_version"), "0");
    assert_eq!(fs::read(directory.path().join("inblob")).unwrap(), [1; 64]);
}

#[test]
fn nobody_asks_an_svsm_unless_the_peer_wants_it() {
    let (directory, entry) = filled(&IN_SVSM);
    assert!(matches!(entry.ask(&both(), 0, &[1; 64]).unwrap(), ProcessorEvidence::Snp(_)));
    assert_eq!(fs::read(directory.path().join("service_provider")).unwrap(), b"");
}

#[test]
fn a_guest_without_an_svsm_is_told_so_and_gives_no_other_report() {
    let rest: [(&str, &[u8]); 3] = [("provider", b"sev_guest\n"), ("generation", b"1\n"), ("outblob", &REPORT)];
    let (directory, entry) = filled(&rest);
    let error = ask_svsm(&entry).unwrap_err();
    assert!(matches!(error, TsmError::NoSvsm { .. }), "{error}");
    assert!(error.to_string().contains("service_provider") && error.to_string().contains("SVSM"), "{error}");
    assert!(!directory.path().join("inblob").exists(), "nothing was asked");
    let (_directory, entry) = filled(&[("provider", b"tdx_guest\n"), ("generation", b"1\n")]);
    assert!(matches!(ask_svsm(&entry).unwrap_err(), TsmError::Provider { .. }));
}

#[test]
fn a_manifest_that_is_missing_or_too_long_is_refused() {
    let (_directory, entry) = filled(&IN_SVSM);
    assert!(ask_svsm(&entry).unwrap_err().to_string().contains("manifestblob"));
    for (length, why) in [(4097, "more than 4096 bytes"), (1025, "manifest is larger")] {
        let manifest = vec![0; length];
        let (_directory, entry) = filled(&[&IN_SVSM[..], &[("manifestblob", &manifest)]].concat());
        let error = ask_svsm(&entry).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_manifest_of_another_generation_than_the_report_is_refused() {
    let (directory, entry) = filled(&IN_SVSM);
    let [generation, manifest] = ["generation", "manifestblob"].map(|name| directory.path().join(name));
    mknodat(CWD, &manifest, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let kernel = thread::spawn(move || {
        // As below: report and first generation were read by then.
        let mut manifest = File::options().write(true).open(&manifest).unwrap();
        fs::write(&generation, "5\n").unwrap();
        manifest.write_all(b"public area").unwrap();
    });
    let error = ask_svsm(&entry).unwrap_err();
    kernel.join().unwrap();
    assert!(matches!(&error, TsmError::Raced { first, then } if first == "4" && then == "5"), "{error}");
}

#[test]
fn a_report_that_somebody_else_asked_for_meanwhile_is_refused() {
    let rest: [(&str, &[u8]); 3] = [("provider", b"sev_guest\n"), ("generation", b"1\n"), ("auxblob", b"")];
    let (directory, entry) = filled(&rest);
    let [generation, report] = ["generation", "outblob"].map(|name| directory.path().join(name));
    mknodat(CWD, &report, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let kernel = thread::spawn(move || {
        // A pipe opens when the other side does: the first generation was read by then.
        let mut report = File::options().write(true).open(&report).unwrap();
        fs::write(&generation, "2\n").unwrap();
        report.write_all(&REPORT).unwrap();
    });
    let error = entry.ask(&both(), 0, &[1; 64]).unwrap_err();
    kernel.join().unwrap();
    assert!(matches!(&error, TsmError::Raced { first, then } if first == "1" && then == "2"), "{error}");
}

/// `mkdir` says so: there is no configfs-tsm (Linux before 6.7), or nobody who answers for a processor.
#[test]
fn a_kernel_without_reports_and_one_without_a_driver_for_them_have_none() {
    let not_made = |errno: Errno| super::not_made(PathBuf::from("report"), errno.into());
    for errno in [Errno::NOENT, Errno::NXIO] {
        assert!(matches!(not_made(errno), TsmError::None { .. }), "{errno}");
    }
    for errno in [Errno::ACCESS, Errno::EXIST, Errno::NOMEM] {
        assert!(matches!(not_made(errno), TsmError::Io { .. }), "{errno}");
    }
}
