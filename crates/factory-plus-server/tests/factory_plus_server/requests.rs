//! Requests and responses, by hand and by curl.

use crate::rig::{UPLOAD, admin, curl, get, rig, rig_with};
use serde_json::json;
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::Duration;

#[test]
fn every_response_may_be_read_across_origins_and_is_not_sniffed() {
    let rig = rig_with(json!({ "cache_seconds": 300 }), json!({}));
    for (request, status) in [(get("/open", ""), 200), (get("/who", ""), 401), (get("/x", &admin()), 404)] {
        let reply = rig.ask(&request);
        assert_eq!(reply.status, status);
        for (name, value) in [
            ("access-control-allow-origin", "*"),
            ("access-control-allow-credentials", "true"),
            ("access-control-expose-headers", "ETag"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{reply:?}");
        }
        let cached = (status == 200).then_some("max-age=300");
        assert_eq!(reply.header("cache-control"), cached);
        assert!(reply.header("x-request-id").is_some());
    }
    let page = rig.ask(&get("/page", ""));
    assert_eq!(page.header("content-security-policy"), Some("default-src 'none'; frame-ancestors 'none'"));
}

#[test]
fn a_preflight_needs_no_authentication() {
    let rig = rig();
    let asked = "Origin: https://ui.example\r\nAccess-Control-Request-Method: PATCH\r\n";
    let list = "Access-Control-Request-Headers: authorization, x-other\r\n";
    let reply = rig.ask(&format!("OPTIONS /who HTTP/1.1\r\nHost: x\r\n{asked}{list}\r\n"));
    assert_eq!((reply.status, reply.header("access-control-max-age")), (204, Some("86400")));
    assert_eq!(reply.header("access-control-allow-headers"), Some("authorization, x-other"));
    assert!(reply.header("access-control-allow-methods").unwrap().contains("PATCH"));
    let strange = "Access-Control-Request-Headers: a;b\r\n";
    let reply = rig.ask(&format!("OPTIONS /who HTTP/1.1\r\nHost: x\r\n{asked}{strange}\r\n"));
    assert!(reply.header("access-control-allow-headers").unwrap().starts_with("Authorization"));
    assert_eq!(rig.ask("OPTIONS /who HTTP/1.1\r\nHost: x\r\n\r\n").status, 401, "no preflight");
}

#[test]
fn head_is_get_without_its_body() {
    let rig = rig();
    let mut wire = rig.connect();
    for _ in 0..2 {
        wire.send(get("/open", "").as_bytes());
        let length = wire.reply().header("content-length").unwrap().to_owned();
        wire.send(b"HEAD /open HTTP/1.1\r\nHost: x\r\n\r\n");
        let head = wire.reply_to(true);
        assert_eq!((head.status, head.header("content-length")), (200, Some(length.as_str())));
        assert_eq!(head.header("etag"), Some("\"x\""));
    }
    wire.send(format!("HEAD /zeros HTTP/1.1\r\nHost: x\r\n{}\r\n", admin()).as_bytes());
    assert_eq!(wire.reply_to(true).status, 200);
    wire.send(get("/open", "").as_bytes());
    assert_eq!(wire.reply().status, 200, "nothing of an endless body came");
}

#[test]
fn json_bodies_are_read_whatever_value_they_are() {
    let rig = rig();
    let put = |kind: &str, body: &str| {
        let length = body.len();
        rig.ask(&format!(
            "PUT /json HTTP/1.1\r\nHost: x\r\n{}Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}",
            admin()
        ))
    };
    for body in ["null", "0", "\"x\"", "{\"a\":[1]}"] {
        let reply = put("application/json", body);
        assert_eq!((reply.status, reply.text().as_str()), (200, body));
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
    assert_eq!(put("application/merge-patch+json; charset=utf-8", "{}").status, 200);
    let refused = put("text/plain", "{}");
    assert!(refused.status == 415 && refused.text().contains("application/json"), "{refused:?}");
    let broken = put("application/json", "{\"a\": }");
    assert!(broken.status == 400 && broken.text().contains("line 1 column 7"), "{broken:?}");
    assert_eq!(broken.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(put("application/json", "").status, 400);
}

#[test]
fn a_body_beyond_its_limit_is_refused_by_its_length_and_by_its_count() {
    let rig = rig();
    let head = format!("PUT /json HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{}", admin());
    let refused = rig.ask(&format!("{head}Content-Length: 100001\r\n\r\n"));
    assert!(refused.status == 413 && refused.text().contains("100000"), "{refused:?}");
    assert_eq!(refused.header("connection"), Some("close"));
    let mut wire = rig.connect();
    wire.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes());
    for _ in 0..11 {
        wire.send(format!("{:x}\r\n{}\r\n", 10_000, " ".repeat(10_000)).as_bytes());
    }
    let refused = wire.reply();
    assert!(refused.status == 413 && refused.text().contains("100000"), "{refused:?}");
    let just = format!("\"{}\"", "x".repeat(99_998));
    let taken = rig.ask(&format!("{head}Content-Length: 100000\r\n\r\n{just}"));
    assert_eq!(taken.status, 200);
}

#[test]
fn a_panic_is_answered_and_ends_nothing() {
    let rig = rig();
    let mut wire = rig.connect();
    wire.send(get("/panic", &admin()).as_bytes());
    let reply = wire.reply();
    assert!(reply.status == 500 && reply.text().contains("X-Request-Id"), "{reply:?}");
    wire.send(get("/open", "").as_bytes());
    assert_eq!(wire.reply().status, 200, "on the same connection");
    assert_eq!(rig.metric("handler_panics_total"), 1);
    assert_eq!((rig.metric("requests_total{status=\"5xx\"}"), rig.metric("request_seconds_count")), (1, 2));
}

#[test]
fn panics_of_terms_and_of_bodies_end_nothing_else() {
    let rig = rig();
    let mut wire = rig.connect();
    wire.send(get("/terms-panic", "").as_bytes());
    assert_eq!(wire.reply().status, 500);
    wire.send(get("/body-panic", &admin()).as_bytes());
    latchkey_test_support::until("the second panic", || (rig.metric("handler_panics_total") == 2).then_some(()));
    latchkey_test_support::until("the end", || (rig.metric("connections") == 0).then_some(()));
    for _ in 0..16 {
        assert_eq!(rig.ask(&get("/open", "")).status, 200, "whichever thread it is");
    }
}

#[test]
fn a_handler_that_takes_too_long_is_answered_for() {
    let reply = rig().ask(&get("/slow", &admin()));
    assert!(reply.status == 503 && reply.text().contains("within 1 s"), "{reply:?}");
}

#[test]
fn running_requests_are_finished_when_the_server_stops() {
    let rig = rig();
    let mut wire = rig.connect();
    let head = format!("POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n{}\r\nab", admin());
    wire.send(head.as_bytes());
    let mut idle = rig.connect();
    idle.send(get("/open", "").as_bytes());
    assert_eq!(idle.reply().status, 200);
    latchkey_test_support::until("the upload", || (rig.metric("connections") == 2).then_some(()));
    latchkey_test_support::until("its caller", || {
        (rig.metric("authenticated_total{means=\"password\"}") == 1).then_some(())
    });
    let running = rig.running;
    let stopping = std::thread::spawn(move || running.stop());
    assert!(idle.is_closed(), "idle connections end at once");
    wire.send(b"cd");
    let reply = wire.reply();
    assert_eq!((reply.status, reply.text().as_str()), (200, "4\n"));
    assert!(wire.is_closed());
    stopping.join().unwrap().unwrap();
}

#[test]
fn curl_gets_puts_and_keeps_its_connection() {
    let rig = rig();
    let Some(mut command) = curl() else { return };
    let urls = [rig.url("/who"), rig.url("/ping"), rig.url("/who")];
    command.args([
        "--user",
        "admin:sécret:word",
        "--write-out",
        "%{num_connects} %{http_code}\n",
        "--output",
        "/dev/null",
    ]);
    for url in &urls {
        command.args(["--output", "/dev/null", url.as_str()]);
    }
    let output = latchkey_test_support::output(&mut command).unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines, "1 200\n0 200\n0 200\n", "{}", String::from_utf8_lossy(&output.stderr));
    let Some(mut head) = curl() else { return };
    let output = latchkey_test_support::output(head.args(["--head", &rig.url("/open")])).unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn curl_uploads_in_chunks_and_waits_to_be_asked_to() {
    let rig = rig();
    let Some(mut command) = curl() else { return };
    let size = 20 * 1024 * 1024;
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(size).unwrap();
    let upload = format!("{}", file.path().display());
    command.args(["--user", "admin:sécret:word", "--request", "POST", "--header", "Transfer-Encoding: chunked"]);
    command.args(["--header", "Expect: 100-continue", "--upload-file", &upload, &rig.url("/upload")]);
    let output = latchkey_test_support::output(&mut command).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{size}\n"));
    let Some(mut command) = curl() else { return };
    command.args(["--user", "admin:sécret:word", "--upload-file", &upload, &rig.url("/json")]);
    command.args(["--write-out", "%{http_code} %{size_upload}", "--header", "Content-Type: application/json"]);
    command.args(["--header", "Expect: 100-continue"]);
    let output = latchkey_test_support::output(&mut command).unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("is the most for this request") && said.ends_with("\n413 0"), "not even sent: {said}");
}

#[test]
fn a_body_streams_through_a_child_process_and_back() {
    let rig = rig();
    let size = 16 * 1024 * 1024;
    assert!(u64::try_from(size).unwrap() <= UPLOAD);
    let mut wire = rig.connect();
    wire.send(format!("POST /cat HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n{}\r\n", admin()).as_bytes());
    let mut writer = wire.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        let piece: Vec<u8> = (0..=255).cycle().take(65_536).collect();
        for _ in 0..size / piece.len() {
            writer.write_all(&piece).unwrap();
        }
    });
    let reply = wire.reply();
    sending.join().unwrap();
    assert_eq!((reply.status, reply.body.len()), (200, size));
    assert!(reply.body.iter().zip((0..=255).cycle()).all(|(got, sent): (&u8, u8)| *got == sent));
}

#[test]
fn whoever_does_not_read_gets_no_more_and_ends_the_child() {
    let rig = rig_with(json!({}), json!({ "stall_seconds": 1 }));
    let mut wire = rig.connect();
    wire.send(get("/zeros", &admin()).as_bytes());
    latchkey_test_support::until("the request", || (rig.metric("requests_total{status=\"2xx\"}") == 1).then_some(()));
    latchkey_test_support::until("the end of the connection", || (rig.metric("connections") == 0).then_some(()));
    let mut all = Vec::new();
    wire.stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    // A reset is an end, too.
    drop(wire.stream.read_to_end(&mut all));
    assert!(all.len() < 32 * 1024 * 1024, "what the kernel's buffers hold: {}", all.len());
}

#[test]
fn what_is_printed_at_the_end_of_a_child_arrives() {
    let Some(mut command) = curl() else { return };
    let rig = rig();
    let mut child = command
        .args(["--user", "admin:sécret:word", "--data-binary", "@-", &rig.url("/cat")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"0000").unwrap();
    let output = latchkey_test_support::finish("curl", child);
    assert_eq!(output.stdout, b"0000");
}
