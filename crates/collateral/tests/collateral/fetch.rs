//! What mirrors of AMD's key distribution service, and directories, can do to us.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use latchkey_attestation::fake_amd::{Change, FakeAmd};
use latchkey_attestation::parse::{SigningKey, SnpProduct, SnpReport};
use latchkey_attestation::verify::CollateralFile;
use latchkey_collateral::fetch::{FetchError, Fetched, Fetcher, LIMITS, Origin, State};
use latchkey_mirror::Limits;
use latchkey_test_support::mirror::{Answer, Mirror, answers, breaks_after, never_ends, says, stalls_after, trickles};
use tempfile::TempDir;

const NOW: u64 = 1_795_000_000;
const DAY: u64 = 86_400;

/// What the service has for one chip: chain, list, certificate; and the chip's report.
struct Site {
    amd: FakeAmd,
    files: [Vec<u8>; 3],
    report: SnpReport,
}

impl Site {
    fn new(product: SnpProduct, version: u32) -> Self {
        Self::of(FakeAmd::new(product), version, |_| ())
    }

    fn of(amd: FakeAmd, version: u32, change: impl FnOnce(&mut Change)) -> Self {
        let guest = amd.guest(SigningKey::Vcek, version, change);
        let [ask, ark, _, list] = sections(&amd);
        let list = list.lines().nth(1).unwrap();
        let list = base64::engine::general_purpose::STANDARD.decode(list).unwrap();
        let report = SnpReport::parse(&guest.report).unwrap();
        Self { amd, files: [(ask + &ark).into_bytes(), list, guest.vcek.unwrap()], report }
    }

    fn fetch(&self, origin: Origin, limits: Limits, to: &Path, now: u64) -> Result<Vec<Fetched>, FetchError> {
        let roots = self.amd.roots().to_vec();
        let fetcher = Fetcher::new(origin, limits).unwrap().with_fake_roots(roots);
        fetcher.fetch_snp(&self.report, Some(SnpProduct::Milan), to, now)
    }

    /// Code and text of the failure with a mirror that gives these answers. Nothing was written.
    fn refused(&self, answers: Vec<Answer>, limits: Limits, now: u64) -> (&'static str, String) {
        let to = TempDir::new().unwrap();
        let mirror = Mirror::new(answers);
        let error = self.fetch(Origin::parse(&mirror.address).unwrap(), limits, to.path(), now).unwrap_err();
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0, "{error}");
        (error.reason().code, error.to_string())
    }

    /// The same, where only the answer at this position is not what it should be.
    fn but(&self, position: usize, answer: Answer) -> Vec<Answer> {
        let mut all: Vec<_> = self.files.iter().map(|file| serves(file)).collect();
        all[position] = answer;
        all.truncate(3);
        all
    }

    fn with(&self, position: usize, file: &[u8]) -> (&'static str, String) {
        self.refused(self.but(position, serves(file)), LIMITS, NOW)
    }
}

/// ASK, ARK, ASVK and list, each as PEM.
fn sections(amd: &FakeAmd) -> [String; 4] {
    let text = String::from_utf8(amd.chain.clone()).unwrap();
    let ends: Vec<_> = text.match_indices("-----END").map(|(at, _)| at + text[at..].find('\n').unwrap() + 1).collect();
    let begins = [0, ends[0], ends[1], ends[2]];
    std::array::from_fn(|position| text[begins[position]..ends[position]].to_owned())
}

fn serves(file: &[u8]) -> Answer {
    answers("200 OK", &format!("Content-Length: {}\r\n", file.len()), file)
}

fn states(fetched: &[Fetched]) -> Vec<State> {
    fetched.iter().map(|one| one.state).collect()
}

#[test]
fn what_belongs_to_a_report_is_got_by_amds_paths_and_lies_there_readable_by_all() {
    let chip = "c1".repeat(64);
    for (product, version, key) in [
        (SnpProduct::Milan, 2, format!("/vcek/v1/Milan/{chip}?blSPL=03&teeSPL=00&snpSPL=08&ucodeSPL=115")),
        (SnpProduct::Genoa, 3, format!("/vcek/v1/Genoa/{chip}?blSPL=03&teeSPL=00&snpSPL=08&ucodeSPL=115")),
        (
            SnpProduct::Turin,
            5,
            format!("/vcek/v1/Turin/{}?fmcSPL=01&blSPL=03&teeSPL=00&snpSPL=08&ucodeSPL=115", &chip[..16]),
        ),
    ] {
        let site = Site::new(product, version);
        let to = TempDir::new().unwrap();
        let mirror = Mirror::new(site.files.iter().map(|file| serves(file)).collect());
        let origin = Origin::parse(&format!("{}/", mirror.address)).unwrap();
        let fetched = site.fetch(origin, LIMITS, &to.path().join("amd"), NOW).unwrap();
        assert_eq!(states(&fetched), [State::Written; 3]);
        let asked: Vec<_> = mirror.requests().iter().map(|head| head.split(' ').nth(1).unwrap().to_owned()).collect();
        assert_eq!(asked, [format!("/vcek/v1/{product}/cert_chain"), format!("/vcek/v1/{product}/crl"), key]);
        for (one, content) in fetched.iter().zip(&site.files) {
            assert_eq!(&fs::read(&one.path).unwrap(), content);
            assert_eq!(fs::metadata(&one.path).unwrap().permissions().mode() & 0o7777, 0o644);
        }
        assert_eq!(fs::read_dir(to.path().join("amd/snp")).unwrap().count(), 3);
    }
}

#[test]
fn a_directory_with_amds_paths_is_as_good_and_what_lies_there_already_stays() {
    let site = Site::new(SnpProduct::Genoa, 3);
    let (from, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let fetch = || site.fetch(Origin::Directory(from.path().into()), LIMITS, to.path(), NOW);
    assert_eq!(fetch().unwrap_err().reason().code, "collateral-missing");
    let base = from.path().join("vcek/v1/Genoa");
    fs::create_dir_all(&base).unwrap();
    let key = format!("{}?blSPL=03&teeSPL=00&snpSPL=08&ucodeSPL=115", "c1".repeat(64));
    for (name, file) in ["cert_chain", "crl", &key].into_iter().zip(&site.files) {
        fs::write(base.join(name), file).unwrap();
    }
    assert_eq!(states(&fetch().unwrap()), [State::Written; 3]);
    assert_eq!(states(&fetch().unwrap()), [State::Unchanged; 3]);
    // What somebody damaged is mended.
    let damaged = fs::read_dir(to.path().join("snp")).unwrap().next().unwrap().unwrap().path();
    fs::write(damaged, b"x").unwrap();
    assert_eq!(states(&fetch().unwrap()).iter().filter(|state| **state == State::Written).count(), 1);
    fs::write(base.join("crl"), vec![0; 256 * 1024 + 1]).unwrap();
    assert_eq!(fetch().unwrap_err().reason().code, "collateral-too-large");
    fs::remove_file(base.join("crl")).unwrap();
    // A pipe that nobody writes into.
    assert!(std::process::Command::new("mkfifo").arg(base.join("crl")).status().unwrap().success());
    assert_eq!(fetch().unwrap_err().reason().code, "file-unusable");
}

#[test]
fn a_mirror_that_is_behind_takes_no_newer_list_away() {
    let site = Site::new(SnpProduct::Milan, 2);
    let to = TempDir::new().unwrap();
    let fetch = |list: &[u8]| {
        let mirror = Mirror::new(site.but(1, serves(list)));
        states(&site.fetch(Origin::parse(&mirror.address).unwrap(), LIMITS, to.path(), NOW).unwrap())
    };
    assert_eq!(fetch(&site.files[1]), [State::Written; 3]);
    assert_eq!(fetch(&site.amd.later_list), [State::Unchanged, State::Written, State::Unchanged]);
    assert_eq!(fetch(&site.files[1]), [State::Unchanged, State::NewerThere, State::Unchanged]);
    assert_eq!(fs::read(to.path().join("snp/vcek-milan.crl")).unwrap(), site.amd.later_list);
    // One that is newer by its own word alone takes the place of none.
    fs::write(to.path().join("snp/vcek-milan.crl"), &FakeAmd::new(SnpProduct::Milan).later_list).unwrap();
    assert_eq!(fetch(&site.files[1]), [State::Unchanged, State::Written, State::Unchanged]);
}

#[test]
fn a_mirror_that_gives_no_file_is_refused_with_a_code_of_its_own() {
    let site = Site::new(SnpProduct::Milan, 2);
    let none = "Content-Length: 0\r\n";
    let short = Limits { silence: Duration::from_millis(200), ..LIMITS };
    let soon = Limits { whole: Duration::from_millis(500), ..LIMITS };
    let file: &'static [u8] = &[b'k'; 3000];
    let cases: Vec<(Answer, Limits, &str, &str)> = vec![
        (answers("404 Not Found", none, b""), LIMITS, "collateral-missing", "is not there"),
        (
            answers("429 Too Many Requests", "Retry-After: 10\r\nContent-Length: 0\r\n", b""),
            LIMITS,
            "collateral-throttled",
            "429, and wants to be left alone for 10 seconds",
        ),
        (answers("429 Too Many Requests", none, b""), LIMITS, "collateral-throttled", "the server answers 429"),
        (answers("500 Oops", none, b""), LIMITS, "collateral-answer-refused", "the server answers 500"),
        (answers("206 Partial Content", "Content-Length: 1\r\n", b"x"), LIMITS, "collateral-answer-refused", "206"),
        (says("SSH-2.0-OpenSSH_9.2\r\n"), LIMITS, "collateral-unreachable", "/vcek/v1/Milan/"),
        (
            answers("302 Found", "Location: file:///etc/shadow\r\nContent-Length: 0\r\n", b""),
            LIMITS,
            "collateral-unreachable",
            "/vcek/v1/Milan/",
        ),
        (never_ends(), LIMITS, "collateral-too-large", "more than"),
        (answers("200 OK", "Content-Length: 9999999999\r\n", b""), LIMITS, "collateral-too-large", "more than"),
        (breaks_after(1000, file), LIMITS, "collateral-interrupted", "interrupted after 1000 bytes"),
        (stalls_after(1000, file), short, "collateral-too-slow", "nothing came in 0.2 seconds"),
        (trickles(), soon, "collateral-too-slow", "not done in 0.5 seconds"),
        (serves(b"<html>Welcome to the hotel</html>"), LIMITS, "collateral-malformed", "neither a certificate"),
        (serves(b""), LIMITS, "collateral-malformed", "neither a certificate"),
    ];
    for (number, (answer, limits, code, said)) in cases.into_iter().enumerate() {
        // Each of the three files in turn.
        let (found, text) = site.refused(site.but(number % 3, answer), limits, NOW);
        let malformed = code == "collateral-malformed" && found == "snp-certificate-malformed";
        assert!(found == code || malformed, "case {number}: {found}: {text}");
        assert!(text.contains(said) && text.contains("/vcek/v1/Milan/"), "case {number}: {text}");
    }
    let to = TempDir::new().unwrap();
    let nobody = site.fetch(Origin::Mirror("http://127.0.0.1:1".into()), LIMITS, to.path(), NOW).unwrap_err();
    assert_eq!(nobody.reason().code, "collateral-unreachable");
    for text in ["ftp://m", "https://", "https://user:secret@m/", "https://m/?a"] {
        assert_eq!(Origin::parse(text).unwrap_err().reason().code, "collateral-origin-refused", "{text}");
    }
}

#[test]
fn a_mirror_that_lies_is_refused_with_the_verifiers_code() {
    let site = Site::new(SnpProduct::Milan, 2);
    let other = Site::new(SnpProduct::Milan, 2);
    let genoa = Site::new(SnpProduct::Genoa, 3);
    // Another's root; a list of another's; a key of another's authority, and of another report.
    assert_eq!(site.with(0, &other.files[0]).0, "collateral-root-unknown");
    assert_eq!(site.with(1, &other.files[1]).0, "collateral-malformed");
    assert_eq!(site.with(2, &other.files[2]).0, "snp-certificate-untrusted");
    let again = Site::of(site.amd, 2, |_| ());
    assert_eq!(again.with(2, &site.files[2]).0, "snp-signature-invalid");
    // Files of AMD's that were not asked for.
    for (position, file) in [(0, &genoa.files[0]), (0, &again.files[2]), (1, &again.files[0]), (2, &genoa.files[2])] {
        let (code, text) = again.with(position, file);
        assert_eq!(code, "collateral-not-as-asked", "{text}");
    }
    let everything = again.amd.chain.clone();
    assert_eq!(again.with(0, &everything).0, "collateral-not-as-asked");
    // The certificate of another chip, and for other firmware.
    for (place, code) in [(0x1a0, "snp-certificate-of-another-chip"), (0x187, "snp-certificate-of-another-tcb")] {
        let site = Site::of(FakeAmd::new(SnpProduct::Milan), 2, |it| it.report[place] ^= 1);
        assert_eq!(site.with(2, &site.files[2]).0, code);
    }
    let revoked = Site::of(FakeAmd::with(SnpProduct::Milan, |it| it.revoked = true), 2, |_| ());
    assert_eq!(revoked.with(0, &revoked.files[0]).0, "snp-certificate-revoked");
    let all = || again.but(0, serves(&again.files[0]));
    assert_eq!(again.refused(all(), LIMITS, NOW + 5 * 365 * DAY).0, "snp-revocation-list-expired");
    assert_eq!(again.refused(all(), LIMITS, NOW + 20 * 365 * DAY).0, "snp-certificate-expired");
}

#[test]
fn nobody_is_asked_for_a_chip_that_hides_or_a_product_that_nobody_says() {
    let amd = FakeAmd::new(SnpProduct::Milan);
    let of = |change: fn(&mut Change), version, product| {
        let report = SnpReport::parse(&amd.guest(SigningKey::Vcek, version, change).report).unwrap();
        let mirror = Mirror::new(vec![answers("404 Not Found", "", b"")]);
        let fetcher = Fetcher::new(Origin::parse(&mirror.address).unwrap(), LIMITS).unwrap();
        let error = fetcher.fetch_snp(&report, product, Path::new("/nowhere"), NOW).unwrap_err();
        assert!(mirror.requests().is_empty(), "{error}");
        error.reason().code
    };
    let milan = Some(SnpProduct::Milan);
    assert_eq!(of(|it| it.report[0x48] |= 2, 3, milan), "collateral-chip-hidden");
    assert_eq!(of(|it| it.report[0x1a0..0x1e0].fill(0), 3, milan), "collateral-chip-hidden");
    assert_eq!(of(|_| (), 2, None), "collateral-product-unsaid");
}

#[test]
fn of_a_providers_key_chain_and_list_are_got_and_the_certificate_is_the_hosts() {
    let amd = FakeAmd::new(SnpProduct::Genoa);
    let [_, ark, asvk, list] = sections(&amd);
    let chain = asvk + &ark;
    let report = SnpReport::parse(&amd.guest(SigningKey::Vlek, 3, |_| ()).report).unwrap();
    let mirror = Mirror::new(vec![serves(chain.as_bytes()), serves(list.as_bytes())]);
    let to = TempDir::new().unwrap();
    let from = Fetcher::new(Origin::parse(&mirror.address).unwrap(), LIMITS).unwrap();
    let fetched = from.with_fake_roots(amd.roots().to_vec()).fetch_snp(&report, None, to.path(), NOW).unwrap();
    assert_eq!(states(&fetched), [State::Written; 2]);
    let paths = mirror.requests().concat();
    assert!(paths.contains("/vlek/v1/Genoa/cert_chain ") && paths.contains("/vlek/v1/Genoa/crl "), "{paths}");
    let contents: Vec<_> = fetched.iter().map(|one| fs::read(&one.path).unwrap()).collect();
    let files: Vec<_> = contents.iter().map(|content| CollateralFile { name: "x", content }).collect();
    assert!(amd.inventory(&files).check(NOW).all(|verdict| verdict.is_ok()));
}
