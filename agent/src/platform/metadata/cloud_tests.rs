use std::sync::atomic::{AtomicU32, Ordering};

use latchkey_test_support::metadata::{FakeServer, nothing};

use super::*;

const DOCUMENT: &str = r#"{"version":1,"role":"worker"}"#;

fn fetch(cloud: Cloud, server: &FakeServer) -> Result<Option<InstanceMetadata>, MetadataError> {
    smol::block_on(cloud.fetch_from(cloud.server(server.address()), Duration::from_secs(30)))
}

fn name(metadata: Result<Option<InstanceMetadata>, MetadataError>) -> Option<String> {
    metadata.unwrap().unwrap().node_name
}

fn documented(cloud: Cloud, document: Option<&'static str>) -> FakeServer {
    FakeServer::of(cloud.name(), document)
}

const CLOUDS: [(Cloud, &str); 5] = [
    (Cloud::Aws, "ip-10-0-2-15.eu-central-1.compute.internal"),
    (Cloud::Gcp, "edge-7"),
    (Cloud::Azure, "edge-7"),
    (Cloud::OpenStack, "edge-7.novalocal"),
    (Cloud::Hetzner, "edge-7"),
];

#[test]
fn the_operator_s_document_counts_and_the_cloud_s_name_where_that_has_none() {
    for (cloud, named) in CLOUDS {
        let metadata = fetch(cloud, &documented(cloud, Some(DOCUMENT))).unwrap().unwrap();
        assert_eq!(metadata.node_name.as_deref(), Some(named), "{cloud:?}");
        assert!(metadata.role.is_some());
        let own = documented(cloud, Some(r#"{"version":1,"node_name":"mine"}"#));
        assert_eq!(name(fetch(cloud, &own)).as_deref(), Some("mine"));
        assert_eq!(name(fetch(cloud, &documented(cloud, None))).as_deref(), Some(named));
        // What was meant for something else is no document of ours, and not passed over.
        let error = fetch(cloud, &documented(cloud, Some("#cloud-config\nusers: []\n"))).unwrap_err();
        assert_eq!(error.code().as_str(), "metadata-invalid", "{cloud:?}");
    }
}

#[test]
fn user_data_of_azure_may_be_base64_in_lines() {
    // As coreutils' base64 writes it.
    let document = format!(r#"{{"version":1,"node_name":"{}"}}"#, "mine.".repeat(20) + "plant");
    let encoded = STANDARD.encode(&document);
    let lines: String =
        encoded.as_bytes().chunks(76).flat_map(|line| [std::str::from_utf8(line).unwrap(), "\n"]).collect();
    assert!(lines.lines().count() > 1);
    let server = FakeServer::new(move |_| (200, "", lines.clone()));
    assert!(name(fetch(Cloud::Azure, &server)).is_some_and(|name| name.ends_with("mine.plant")));
}

#[test]
fn a_server_that_is_busy_or_away_for_a_moment_is_asked_again() {
    let asked = AtomicU32::new(0);
    let server = FakeServer::new(move |question| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => (429, "Retry-After: 1\r\n", String::new()),
        1 => (503, "", String::new()),
        _ if question.starts_with("GET /hetzner/v1/userdata ") => (200, "", DOCUMENT.into()),
        _ => nothing(),
    });
    assert_eq!(fetch(Cloud::Hetzner, &server).unwrap().unwrap().node_name, None);
    assert_eq!(server.heard().len(), 4);
}

#[test]
fn a_token_that_ended_is_asked_for_again() {
    let asked = AtomicU32::new(0);
    let server = FakeServer::new(move |question| match asked.fetch_add(1, Ordering::Relaxed) {
        1 => (401, "", String::new()),
        _ if question.starts_with("PUT ") => (200, "", "token".into()),
        _ if question.contains("user-data") => (200, "", DOCUMENT.into()),
        _ => nothing(),
    });
    fetch(Cloud::Aws, &server).unwrap().unwrap();
}

#[test]
fn what_will_not_get_better_is_refused_at_once_and_named() {
    let refused = |cloud, status: u16, headers: &'static str, body: &'static str| {
        let server = FakeServer::new(move |_| (status, headers, body.into()));
        let error = fetch(cloud, &server).unwrap_err();
        assert_eq!(server.heard().len(), 1);
        assert_eq!(error.code().as_str(), "metadata-server-failed");
        error.to_string()
    };
    assert!(refused(Cloud::Aws, 403, "", "").contains("aws: /latest/api/token: HTTP status 403"));
    assert!(refused(Cloud::Aws, 404, "", "").contains("404"), "a server of version 1 is not asked");
    assert!(refused(Cloud::Aws, 200, "", "a\r\nHost: b").contains("no token"));
    assert!(refused(Cloud::Gcp, 200, "", DOCUMENT).contains("Metadata-Flavor"));
    assert!(refused(Cloud::Azure, 200, "", "no Base64!").contains("no Base64"));
    assert!(refused(Cloud::Hetzner, 301, "Location: http://elsewhere/\r\n", "").contains("301"));
    let endless: &'static str = "a".repeat(MAX_BYTES + 1).leak();
    assert!(refused(Cloud::OpenStack, 200, "", endless).contains("longer than it may be"));
    let cut = FakeServer::raw(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{".to_vec());
    assert!(fetch(Cloud::Hetzner, &cut).unwrap_err().to_string().contains("not as long as it says"));
}

#[test]
fn a_name_that_is_none_is_passed_over() {
    for said in ["", "a b", "a\nb", "..", "x_y"] {
        let server = FakeServer::new(move |question| {
            let body = if question.contains("hostname") { said } else { DOCUMENT };
            (200, "", body.into())
        });
        assert_eq!(fetch(Cloud::Hetzner, &server).unwrap().unwrap().node_name, None, "{said:?}");
    }
}

#[test]
fn a_server_that_never_answers_is_waited_for_no_longer_than_that() {
    // Of one nobody listens, the other takes every question and says nothing.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [nobody, silent.local_addr().unwrap()] {
        let began = Instant::now();
        let none = smol::block_on(Cloud::Gcp.fetch_from(Cloud::Gcp.server(address), Duration::from_secs(1)));
        assert_eq!(none.unwrap_err().code().as_str(), "metadata-server-failed");
        // Far less than one question may take, and more than a moment.
        assert!((Duration::from_secs(1)..Duration::from_secs(4)).contains(&began.elapsed()));
    }
}

#[test]
fn document_and_name_together_take_no_longer_than_that() {
    let server = FakeServer::new(|question| match question {
        _ if question.contains("userdata") => (200, "", DOCUMENT.into()),
        _ => (503, "", String::new()),
    });
    let began = Instant::now();
    let patience = Duration::from_secs(2);
    let hetzner = Cloud::Hetzner;
    let metadata = smol::block_on(hetzner.fetch_from(hetzner.server(server.address()), patience)).unwrap().unwrap();
    assert!(metadata.role.is_some() && metadata.node_name.is_none());
    assert!(began.elapsed() < 2 * patience);
}

#[test]
fn a_name_that_cannot_be_had_does_not_keep_a_document_from_counting() {
    for (status, body) in [(403, String::new()), (200, "a".repeat(MAX_TEXT + 1)), (301, String::new())] {
        let server = FakeServer::new(move |question| match question {
            _ if question.contains("userdata") => (200, "", DOCUMENT.into()),
            _ => (status, "", body.clone()),
        });
        assert_eq!(fetch(Cloud::Hetzner, &server).unwrap().unwrap().node_name, None);
    }
    // Where the document has one, the cloud is not asked.
    let server = FakeServer::of("hetzner", Some(r#"{"version":1,"node_name":"mine"}"#));
    assert_eq!(name(fetch(Cloud::Hetzner, &server)).as_deref(), Some("mine"));
    assert_eq!(server.heard().len(), 1);
}

/// Asks a metadata server that others made for tests of theirs, such as `amazon-ec2-metadata-mock`: `LATCHKEY_METADATA_SERVER` is a cloud
/// and an address. Prints what it says.
#[test]
#[ignore = "needs the server that LATCHKEY_METADATA_SERVER names: ./dev e2e metadata-server"]
fn a_server_that_others_made_is_asked_for_document_and_name() {
    let said = std::env::var("LATCHKEY_METADATA_SERVER").expect("CLOUD ADDRESS");
    let (cloud, address) = said.split_once(' ').expect("CLOUD ADDRESS");
    let (cloud, _) = CLOUDS.into_iter().find(|(one, _)| one.name() == cloud).expect("a cloud");
    let server = cloud.server(address.parse().expect("HOST:PORT"));
    let end = || Instant::now() + Duration::from_secs(5);
    let document = smol::block_on(patiently(end(), || cloud.document(server))).unwrap();
    let name = smol::block_on(patiently(end(), || cloud.instance_name(server))).unwrap();
    println!("document: {:?}", document.as_deref().map(String::from_utf8_lossy));
    println!("name: {name:?}");
    assert!(document.is_some() && name.is_some());
}
