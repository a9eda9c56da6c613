//! What mirrors can do to us.

use std::fs;
use std::path::Path;
use std::time::Duration;

use latchkey_kubernetes::fetch::{FetchCode, FetchError, Fetched, Fetcher, Limits, Origin, is_lost};
use latchkey_kubernetes::{Download, Sha256};

use latchkey_test_support::mirror::{
    Answer, Mirror, answers, breaks_after, never_ends, says, serves, stalls_after, trickles,
};

const FILE: &[u8] = &[b'k'; 100_000];
const LIE: &[u8] = &[b'l'; 100_000];

pub(crate) fn wanted(content: &[u8]) -> Download {
    Download { file: "kubelet-1".into(), url: None, sha256: Sha256::of(content), max_bytes: content.len() as u64 + 10 }
}

/// Long enough for a busy machine, but for what a test is about.
fn limits() -> Limits {
    Limits { connect: Duration::from_mins(1), silence: Duration::from_mins(1), whole: Duration::from_mins(2) }
}

fn fetch(mirror: &Mirror, into: &Path, limits: Limits) -> Result<Fetched, FetchError> {
    let origin = Origin::parse(&mirror.address).unwrap();
    Fetcher::new(origin, limits).unwrap().fetch(&wanted(FILE), into, &mut |_| ())
}

/// What comes of a mirror that gives these answers, how many it was asked for, and what lies in the directory afterwards.
fn with(answers: Vec<Answer>, limits: Limits) -> (Result<Fetched, FetchError>, Vec<String>, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let mirror = Mirror::new(answers);
    let result = fetch(&mirror, directory.path(), limits);
    if let Ok(Fetched { path, .. }) = &result {
        assert_eq!(fs::read(path).unwrap(), FILE);
    }
    (result, mirror.requests(), names(directory.path()))
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn refused(answers: Vec<Answer>, limits: Limits) -> (FetchCode, String, Vec<String>) {
    let (result, _, names) = with(answers, limits);
    let error = result.unwrap_err();
    (error.code(), error.to_string(), names)
}

fn ranges(requests: &[String]) -> Vec<Option<&str>> {
    let range = |request: &'_ str| -> Option<usize> { request.to_lowercase().find("range: bytes=") };
    requests.iter().map(|request| range(request).map(|at| request[at + 7..].lines().next().unwrap())).collect()
}

#[test]
fn a_file_that_is_right_gets_its_name_and_nothing_else_stays() {
    let (result, requests, names) = with(vec![serves(FILE)], limits());
    assert!(!result.unwrap().was_there);
    assert_eq!(names, ["kubelet-1"]);
    assert!(requests[0].starts_with("GET /kubelet-1 HTTP/1.1\r\n"), "{requests:?}");
}

#[test]
fn a_file_that_the_disk_cannot_read_any_more_is_got_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubelet-1");
    // Nothing is mapped at address 0, and the kernel says so as a disk does of a bad sector.
    std::os::unix::fs::symlink("/proc/self/mem", &file).unwrap();
    assert!(is_lost(&fs::read(&file).unwrap_err()));
    let mirror = Mirror::new(vec![serves(FILE)]);
    assert!(!fetch(&mirror, directory.path(), limits()).unwrap().was_there);
    assert_eq!(fs::read(&file).unwrap(), FILE);
    assert!(!file.is_symlink());
}

#[test]
fn a_lie_is_refused_and_not_kept() {
    let (code, text, names) = refused(vec![serves(LIE)], limits());
    assert_eq!(code, FetchCode::HashDiffers);
    assert!(text.contains(&Sha256::of(LIE).to_string()) && text.contains(&Sha256::of(FILE).to_string()), "{text}");
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn a_connection_that_breaks_is_continued_where_it_broke() {
    let piece = format!("Content-Length: 40000\r\nContent-Range: bytes 60000-99999/{}\r\n", FILE.len());
    let second = answers("206 Partial Content", &piece, &FILE[..20_000]);
    let (result, requests, names) = with(vec![breaks_after(60_000, FILE), second, serves(FILE)], limits());
    assert!(!result.unwrap().was_there);
    assert_eq!(ranges(&requests), [None, Some("bytes=60000-"), Some("bytes=80000-")]);
    assert_eq!(names, ["kubelet-1"]);
}

#[test]
fn what_one_run_left_the_next_one_continues() {
    let directory = tempfile::tempdir().unwrap();
    let short = Limits { silence: Duration::from_millis(300), ..limits() };
    let error = fetch(&Mirror::new(vec![stalls_after(30_000, FILE)]), directory.path(), short).unwrap_err();
    assert_eq!(error.code(), FetchCode::TooSlow);
    assert_eq!(names(directory.path()), [".kubelet-1.part"]);
    let mirror = Mirror::new(vec![serves(FILE)]);
    fetch(&mirror, directory.path(), limits()).unwrap();
    assert_eq!(ranges(&mirror.requests()), [Some("bytes=30000-")]);
    assert_eq!(names(directory.path()), ["kubelet-1"]);
}

#[test]
fn a_whole_file_on_its_way_is_not_asked_for_again() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(".kubelet-1.part"), FILE).unwrap();
    let mirror = Mirror::new(vec![]);
    fetch(&mirror, directory.path(), limits()).unwrap();
    assert_eq!(fs::read(directory.path().join("kubelet-1")).unwrap(), FILE);
}

#[test]
fn what_is_left_of_another_file_is_thrown_away() {
    for size in [10, 100_000, 100_009, 200_000] {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(".kubelet-1.part"), vec![b'x'; size]).unwrap();
        fetch(&Mirror::new(vec![serves(FILE), serves(FILE)]), directory.path(), limits()).unwrap();
        assert_eq!(names(directory.path()), ["kubelet-1"]);
    }
}

#[test]
fn a_server_that_answers_a_piece_with_everything_or_another_piece_is_understood() {
    let everything = answers("200 OK", &format!("Content-Length: {}\r\n", FILE.len()), FILE);
    let (result, ..) = with(vec![breaks_after(60_000, FILE), everything], limits());
    assert!(result.is_ok());
    for headers in ["Content-Range: bytes 0-99999/100000\r\n", "Content-Range: nonsense\r\n", ""] {
        let piece = answers("206 Partial Content", &format!("Content-Length: 100000\r\n{headers}"), FILE);
        let (result, requests, _) = with(vec![breaks_after(60_000, FILE), piece, serves(FILE)], limits());
        assert!(result.is_ok(), "{headers}");
        assert_eq!(ranges(&requests), [None, Some("bytes=60000-"), None]);
    }
}

#[test]
fn a_server_that_always_breaks_off_is_given_up() {
    let cuts = (0..6).map(|_| breaks_after(0, FILE)).collect();
    let (result, requests, _) = with(cuts, limits());
    let error = result.unwrap_err();
    assert_eq!((error.code(), requests.len()), (FetchCode::Interrupted, 5));
    assert!(error.to_string().contains("interrupted 5 times, the last time after 0 bytes"), "{error}");
}

#[test]
fn a_server_that_says_nothing_more_is_not_waited_for() {
    let short = Limits { silence: Duration::from_millis(200), ..limits() };
    let (code, text, names) = refused(vec![stalls_after(60_000, FILE)], short);
    assert_eq!((code, names), (FetchCode::TooSlow, vec![".kubelet-1.part".to_owned()]));
    assert!(text.ends_with("nothing came in 0.2 seconds"), "{text}");
    let silent: Answer = Box::new(|_, mut stream| drop(std::io::Read::read(&mut stream, &mut [0])));
    let (code, text, _) = refused(vec![silent], short);
    assert_eq!(code, FetchCode::TooSlow, "{text}");
}

#[test]
fn a_server_that_sends_one_byte_at_a_time_has_an_end() {
    let short = Limits { whole: Duration::from_millis(500), ..limits() };
    let (code, text, _) = refused(vec![trickles()], short);
    assert_eq!(code, FetchCode::TooSlow);
    assert!(text.ends_with("not done in 0.5 seconds"), "{text}");
}

#[test]
fn no_more_is_read_than_the_table_allows() {
    let (code, text, names) = refused(vec![never_ends()], limits());
    assert_eq!((code, names), (FetchCode::TooLarge, vec![]));
    assert!(text.contains("more than 100010 bytes"), "{text}");
    let says_so = answers("200 OK", "Content-Length: 9999999999\r\n", b"");
    assert_eq!(refused(vec![says_so], limits()).0, FetchCode::TooLarge);
    let chunked =
        answers("200 OK", "Transfer-Encoding: chunked\r\n", &[b"f4240\r\n", &vec![7; 1_000_000][..], b"\r\n"].concat());
    assert_eq!(refused(vec![chunked], limits()).0, FetchCode::TooLarge);
}

#[test]
fn redirects_lead_to_http_and_not_in_circles() {
    let mirror = Mirror::new(vec![serves(FILE)]);
    let there = answers("302 Found", &format!("Location: {}/elsewhere\r\nContent-Length: 0\r\n", mirror.address), b"");
    let (result, ..) = with(vec![there], limits());
    assert!(result.is_ok(), "{result:?}");
    assert!(mirror.requests()[0].starts_with("GET /elsewhere "));
    for location in ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher:x", "//", ""] {
        let away = answers("302 Found", &format!("Location: {location}\r\nContent-Length: 0\r\n"), b"");
        let (code, text, names) = refused(vec![away], limits());
        assert_eq!((code, names), (FetchCode::Unreachable, vec![]), "{location}: {text}");
    }
    let round = || answers("301 Moved Permanently", "Location: /round\r\nContent-Length: 0\r\n", b"");
    let (result, requests, _) = with((0..20).map(|_| round()).collect(), limits());
    let error = result.unwrap_err();
    assert_eq!((error.code(), requests.len()), (FetchCode::Unreachable, 6), "{error}");
    assert!(error.to_string().contains("too many redirects"), "{error}");
}

#[test]
fn answers_that_are_no_file_are_named() {
    for (answer, code, said) in [
        (answers("404 Not Found", "Content-Length: 0\r\n", b""), FetchCode::Missing, "/kubelet-1 is not there"),
        (answers("503 Busy", "Content-Length: 0\r\n", b""), FetchCode::AnswerRefused, "the server answers 503"),
        (answers("204 No Content", "", b""), FetchCode::AnswerRefused, "the server answers 204"),
        (
            answers("206 Partial Content", "Content-Length: 1\r\n", b"x"),
            FetchCode::AnswerRefused,
            "the server answers 206",
        ),
        (says("SSH-2.0-OpenSSH_9.2\r\n"), FetchCode::Unreachable, "/kubelet-1: "),
        (says(""), FetchCode::Unreachable, "/kubelet-1: "),
        (
            says([b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; 1 << 20]].concat()),
            FetchCode::Unreachable,
            "/kubelet-1: ",
        ),
    ] {
        let (found, text, names) = refused(vec![answer], limits());
        assert_eq!(found, code, "{text}");
        assert!(text.contains(said), "{said}: {text}");
        assert!(names.is_empty(), "{names:?}");
    }
    let nobody = Fetcher::new(Origin::Mirror("http://127.0.0.1:1".into()), limits()).unwrap();
    let error = nobody.fetch(&wanted(FILE), tempfile::tempdir().unwrap().path(), &mut |_| ()).unwrap_err();
    assert_eq!(error.code(), FetchCode::Unreachable);
}

#[test]
fn progress_says_what_is_there_and_what_the_server_says_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let mirror = Mirror::new(vec![breaks_after(60_000, FILE), serves(FILE)]);
    let mut seen = Vec::new();
    let fetcher = Fetcher::new(Origin::parse(&mirror.address).unwrap(), limits()).unwrap();
    fetcher.fetch(&wanted(FILE), directory.path(), &mut |step| seen.push((step.got, step.of))).unwrap();
    assert_eq!(seen.first(), Some(&(0, Some(100_000))));
    assert_eq!(seen.last(), Some(&(100_000, Some(100_000))));
    assert!(seen.contains(&(60_000, Some(100_000))) && seen.is_sorted(), "{seen:?}");
}
