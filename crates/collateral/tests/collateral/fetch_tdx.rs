//! What mirrors of Intel's service can do to us.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use latchkey_attestation::fake_intel::{FakeIntel, Published, field};
use latchkey_collateral::fetch::{FetchError, Fetched, Fetcher, LIMITS, Origin, State};
use latchkey_test_support::mirror::{Answer, Mirror, answers};
use tempfile::TempDir;

const NOW: u64 = 1_795_000_000;
const YEAR: u64 = 365 * 86_400;

/// A file, and the header with who signed it.
type Served = (Vec<u8>, Option<(&'static str, Vec<u8>)>);

/// What the service answers, in the order in which it is asked.
struct Site {
    intel: FakeIntel,
    answers: [Served; 4],
    quote: Vec<u8>,
}

impl Site {
    fn new(change: impl FnOnce(&mut Published)) -> Self {
        let intel = FakeIntel::with(change);
        let file = |name: &str| {
            let mut files = intel.files().iter();
            files.find(|(is, _)| *is == name).unwrap().1.clone()
        };
        let chain = |name: &str| [file(name), file("root.pem")].concat();
        let answers = [
            (file("pck-platform.crl"), Some(("SGX-PCK-CRL-Issuer-Chain", chain("pck-platform.pem")))),
            (file("root.crl"), None),
            (file("tcb.json"), Some(("TCB-Info-Issuer-Chain", chain("tcb-signing.pem")))),
            (file("qe.json"), None),
        ];
        let quote = intel.quote(|_| ());
        Self { intel, answers, quote }
    }

    /// The files of a day later where they are newer.
    fn later(&self) -> [Vec<u8>; 4] {
        ["pck-platform.crl", "root.crl", "tcb.json", "qe.json"].map(|name| {
            let mut files = self.intel.later_files().iter();
            files.find(|(is, _)| *is == name).unwrap().1.clone()
        })
    }

    fn serves(&self) -> Vec<Answer> {
        self.serves_files(&self.answers.each_ref().map(|(file, _)| file.clone()))
    }

    fn serves_files(&self, files: &[Vec<u8>; 4]) -> Vec<Answer> {
        let chains = self.answers.iter().map(|(_, chain)| chain);
        let answer = |(file, chain): (&Vec<u8>, &Option<(_, Vec<u8>)>)| {
            let header = chain.as_ref().map(|(name, pem)| format!("{name}: {}\r\n", encoded(pem)));
            serves(file, &header.unwrap_or_default())
        };
        files.iter().zip(chains).map(answer).collect()
    }

    /// The same, where only the answer at this position is another.
    fn but(&self, position: usize, answer: Answer) -> Vec<Answer> {
        let mut all = self.serves();
        all[position] = answer;
        all
    }

    fn fetch(&self, answers: Vec<Answer>, to: &Path, now: u64) -> Result<Vec<Fetched>, FetchError> {
        let mirror = Mirror::new(answers);
        believe(&self.intel, to);
        let fetcher = Fetcher::new(Origin::parse(&mirror.address).unwrap(), LIMITS).unwrap();
        fetcher.fetch_tdx(&self.quote, to, now)
    }

    /// Code and text of the failure. Nothing was written.
    fn refused(&self, answers: Vec<Answer>, now: u64) -> (&'static str, String) {
        let to = TempDir::new().unwrap();
        let error = self.fetch(answers, to.path(), now).unwrap_err();
        assert_eq!(names(to.path()), [".fake-root"], "{error}");
        (error.reason().code, error.to_string())
    }
}

/// Has a directory say that the fake Intel's root counts.
fn believe(intel: &FakeIntel, directory: &Path) {
    fs::create_dir_all(directory.join("tdx")).unwrap();
    fs::write(directory.join("tdx/.fake-root"), intel.root().to_string()).unwrap();
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory.join("tdx")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// As Intel encodes a chain.
fn encoded(pem: &[u8]) -> String {
    pem.iter().fold(String::new(), |mut text, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' => text.push(char::from(*byte)),
            byte => write!(text, "%{byte:02X}").unwrap(),
        }
        text
    })
}

fn serves(file: &[u8], headers: &str) -> Answer {
    answers("200 OK", &format!("Content-Length: {}\r\n{headers}", file.len()), file)
}

fn states(fetched: &[Fetched]) -> Vec<State> {
    fetched.iter().map(|one| one.state).collect()
}

#[test]
fn what_belongs_to_a_quote_is_got_by_intels_paths_and_verifies_it() {
    let site = Site::new(|_| ());
    let to = TempDir::new().unwrap();
    believe(&site.intel, to.path());
    let mirror = Mirror::new(site.serves());
    let from = Fetcher::new(Origin::parse(&format!("{}/", mirror.address)).unwrap(), LIMITS).unwrap();
    let fetched = from.fetch_tdx(&site.quote, to.path(), NOW).unwrap();
    assert_eq!(states(&fetched), [State::Written; 6]);
    let asked: Vec<_> = mirror.requests().iter().map(|head| head.split(' ').nth(1).unwrap().to_owned()).collect();
    let expected = [
        "/sgx/certification/v4/pckcrl?ca=platform&encoding=der",
        "/IntelSGXRootCA.der",
        "/tdx/certification/v4/tcb?fmspc=b0c06f000000",
        "/tdx/certification/v4/qe/identity",
    ];
    assert_eq!(asked, expected);
    let there = ["pck-platform.crl", "pck-platform.pem", "qe-identity.json", "root.crl", "tcb-b0c06f000000.json"];
    assert_eq!(names(to.path())[1..], [&there[..], &["tcb-signing.pem"]].concat());
    let collateral = latchkey_collateral::read(to.path()).unwrap().processors.tdx.unwrap();
    drop(collateral.verify(&site.quote, &latchkey_attestation::fake_intel::REPORT_DATA, NOW).unwrap());
    assert_eq!(states(&site.fetch(site.serves(), to.path(), NOW).unwrap()), [State::Unchanged; 6]);
    // What somebody damaged is mended.
    fs::write(to.path().join("tdx/qe-identity.json"), b"x").unwrap();
    let mended = site.fetch(site.serves(), to.path(), NOW).unwrap();
    assert_eq!(states(&mended)[5], State::Written);
}

#[test]
fn a_mirror_that_is_behind_takes_nothing_newer_away() {
    let site = Site::new(|_| ());
    let to = TempDir::new().unwrap();
    site.fetch(site.serves(), to.path(), NOW).unwrap();
    let (unchanged, of_file) = (State::Unchanged, ["pck-platform.crl", "root.crl", "tcb-b0c06f000000.json"]);
    let written = states(&site.fetch(site.serves_files(&site.later()), to.path(), NOW).unwrap());
    let only = |state| [unchanged, state, state, unchanged, state, state];
    assert_eq!(written, only(State::Written));
    let behind = states(&site.fetch(site.serves(), to.path(), NOW).unwrap());
    assert_eq!(behind, only(State::NewerThere));
    for (name, content) in of_file.into_iter().zip(site.later()) {
        assert_eq!(fs::read(to.path().join("tdx").join(name)).unwrap(), content, "{name}");
    }
    // One that is newer by its own word alone takes the place of none.
    fs::write(to.path().join("tdx/root.crl"), &Site::new(|_| ()).later()[1]).unwrap();
    let states = states(&site.fetch(site.serves(), to.path(), NOW).unwrap());
    assert_eq!(states[2], State::Written);
}

#[test]
fn a_mirror_that_gives_no_file_or_no_chain_is_refused_with_a_code_of_its_own() {
    let site = Site::new(|_| ());
    let list = site.answers[0].0.clone();
    let header = |value: &str| serves(&list, &format!("SGX-PCK-CRL-Issuer-Chain: {value}\r\n"));
    let chain = encoded(&site.answers[0].1.as_ref().unwrap().1);
    let none = "Content-Length: 0\r\n";
    let cases: Vec<(usize, Answer, &str, &str)> = vec![
        (0, answers("404 Not Found", none, b""), "collateral-missing", "pckcrl?ca=platform&encoding=der is not there"),
        (1, answers("404 Not Found", none, b""), "collateral-missing", "/IntelSGXRootCA.der is not there"),
        (2, answers("404 Not Found", none, b""), "collateral-missing", "tcb?fmspc=b0c06f000000 is not there"),
        (
            3,
            answers("429 Too Many", "Retry-After: 9\r\nContent-Length: 0\r\n", b""),
            "collateral-throttled",
            "9 seconds",
        ),
        (3, answers("200 OK", "Content-Length: 9999999999\r\n", b""), "collateral-too-large", "more than 524288 bytes"),
        (0, serves(&list, ""), "collateral-answer-refused", "the header SGX-PCK-CRL-Issuer-Chain is missing"),
        (0, header(""), "collateral-malformed", "neither a certificate"),
        (
            0,
            header(&format!("{chain}\r\nsgx-pck-crl-issuer-chain: {chain}")),
            "collateral-answer-refused",
            "not there once",
        ),
        (0, header("%4"), "collateral-answer-refused", "has a % without two hexadecimal digits"),
        (0, header("a+b"), "collateral-answer-refused", "not encoded"),
        (0, header(&"a".repeat(17 * 1024)), "collateral-answer-refused", "longer than two certificates"),
        (0, header(&"a".repeat(65 * 1024)), "collateral-unreachable", "pckcrl?ca=platform"),
    ];
    for (number, (position, answer, code, said)) in cases.into_iter().enumerate() {
        let (found, text) = site.refused(site.but(position, answer), NOW);
        assert_eq!(found, code, "case {number}: {text}");
        assert!(text.contains(said), "case {number}: {text}");
    }
    let to = TempDir::new().unwrap();
    let fetcher = Fetcher::new(Origin::Directory(to.path().into()), LIMITS).unwrap();
    let error = fetcher.fetch_tdx(&site.quote, to.path(), NOW).unwrap_err();
    assert_eq!(error.reason().code, "collateral-origin-refused");
    assert!(error.to_string().contains("copy DIR/tdx itself"), "{error}");
}

#[test]
fn a_mirror_that_lies_is_refused_with_the_verifiers_code() {
    let (site, other) = (Site::new(|_| ()), Site::new(|_| ()));
    // Another's root, list, TCB information, identity.
    let root = other.serves().remove(0);
    assert_eq!(site.refused(site.but(0, root), NOW).0, "collateral-root-unknown");
    for position in [1, 3] {
        let (code, text) = site.refused(site.but(position, serves(&other.answers[position].0, "")), NOW);
        assert_eq!(code, "collateral-malformed", "{text}");
    }
    // Another's answer in all.
    assert_eq!(site.refused(other.serves(), NOW).0, "collateral-root-unknown");
    // Files of Intel's that were not asked for.
    for (position, file) in [(1, 3), (3, 1)] {
        let (code, text) = site.refused(site.but(position, serves(&site.answers[file].0, "")), NOW);
        assert_eq!(code, "collateral-not-as-asked", "{text}");
    }
    let elsewhere = Site::new(|published| published.tcb_fmspc = [1; 6]);
    let (code, text) = elsewhere.refused(elsewhere.serves(), NOW);
    assert_eq!(code, "collateral-not-as-asked");
    assert!(
        text.contains("TCB info of FMSPC 010101010101, and TCB info of FMSPC b0c06f000000 was asked for"),
        "{text}"
    );
    let chain = |position: usize| encoded(&site.answers[position].1.as_ref().unwrap().1);
    let signing_twice = format!("SGX-PCK-CRL-Issuer-Chain: {}\r\n", chain(2));
    let (code, text) = site.refused(site.but(0, serves(&site.answers[0].0, &signing_twice)), NOW);
    assert_eq!(code, "collateral-malformed", "{text}");
}

#[test]
fn what_is_revoked_over_or_of_another_quote_is_not_kept() {
    for (change, code) in [
        ((|it| it.platform_revoked = true) as fn(&mut Published), "tdx-certificate-revoked"),
        (|it| it.authority_revoked = true, "tdx-certificate-revoked"),
        (|it| it.status = "Revoked", "tdx-tcb-revoked"),
        (|it| it.tcb_years = [2024, 2025], "tdx-collateral-expired"),
    ] {
        let site = Site::new(change);
        assert_eq!(site.refused(site.serves(), NOW).0, code);
    }
    let mut site = Site::new(|_| ());
    assert_eq!(site.refused(site.serves(), NOW + 5 * YEAR).0, "tdx-collateral-expired");
    site.quote = site.intel.quote(|report| report[field::ATTRIBUTES] |= 1);
    assert_eq!(site.refused(site.serves(), NOW).0, "tdx-debug-allowed");
    site.quote = vec![4; 100];
    assert_eq!(site.refused(Vec::new(), NOW).0, "tdx-quote-malformed");
}
