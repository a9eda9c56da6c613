//! `OpenStack`: what it says of an instance, by its metadata service and on its config drive.
//!
//! `docs.openstack.org/nova/latest/user/metadata.html`. Both have the same two files: `user_data`, which the operator gave the
//! instance or did not, and `meta_data.json`, which each instance has.

use serde::Deserialize;

use super::cloud::{CloudError, MAX_JSON, bytes, get};
use super::http::{HttpError, Server};

const DOCUMENT: &str = "/openstack/latest/user_data";
const ABOUT: &str = "/openstack/latest/meta_data.json";

/// What `meta_data.json` calls the instance.
///
/// # Errors
/// It is no JSON of that kind.
pub fn hostname(about: &[u8]) -> Result<Option<String>, serde_json::Error> {
    /// Of all that is there.
    #[derive(Deserialize)]
    struct About {
        hostname: Option<String>,
    }
    serde_json::from_slice::<About>(about).map(|about| about.hostname)
}

/// The operator's document, from the metadata service.
///
/// A service that does not know an instance yet answers 404 to everything. So that there is no document counts only from one that
/// has `meta_data.json`, and was asked for the document after that.
pub(super) async fn document(server: Server) -> Result<Option<Vec<u8>>, CloudError> {
    if let Some(document) = bytes(server, DOCUMENT, &[]).await? {
        return Ok(Some(document));
    }
    match get(server, ABOUT, &[], MAX_JSON).await {
        // It is there, even if it is more than is read; its name is passed over then.
        Ok(Some(_)) | Err(CloudError::Http(HttpError::TooLong { status: 200 })) => {}
        Ok(None) => return Err(CloudError::Unknown { path: ABOUT }),
        Err(error) => return Err(error),
    }
    bytes(server, DOCUMENT, &[]).await
}

/// What the metadata service calls the instance.
pub(super) async fn instance_name(server: Server) -> Result<Option<String>, CloudError> {
    let about = get(server, ABOUT, &[], MAX_JSON).await?;
    let name = about.map(|answer| hostname(&answer.body)).transpose();
    Ok(name.map_err(|_| CloudError::Answer { path: ABOUT, what: "no JSON with a name" })?.flatten())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use latchkey_test_support::metadata::{FakeServer, Says, nothing};

    use super::super::cloud::Cloud;
    use super::super::{InstanceMetadata, MetadataError};

    const BOTH: &str = r#"{"version":1,"node_name":"mine"}"#;

    fn fetch(server: &FakeServer, patience: u64) -> Result<Option<InstanceMetadata>, MetadataError> {
        let server = super::Server { address: server.address(), name: "169.254.169.254" };
        smol::block_on(Cloud::OpenStack.fetch_from(server, Duration::from_secs(patience)))
    }

    /// One that knows the instance from this question on.
    fn that_knows_it_from(first: u32) -> FakeServer {
        let asked = AtomicU32::new(0);
        FakeServer::new(move |question| -> Says {
            match asked.fetch_add(1, Ordering::Relaxed) {
                before if before < first => nothing(),
                _ if question.contains("user_data") => (200, "", BOTH.into()),
                _ if question.contains("meta_data.json") => (200, "", r#"{"hostname":"edge-7"}"#.into()),
                _ => nothing(),
            }
        })
    }

    #[test]
    fn a_service_that_does_not_know_the_instance_yet_is_asked_again() {
        // Whichever of the questions is the first that it has an answer to.
        for first in 0..5 {
            let server = that_knows_it_from(first);
            let metadata = fetch(&server, 30).unwrap().unwrap();
            assert_eq!(metadata.node_name.as_deref(), Some("mine"), "{first}: {:?}", server.heard());
        }
    }

    #[test]
    fn an_instance_of_which_there_is_more_than_is_read_is_known() {
        // Enough for the name's question, too: in one piece, and of a length that nobody says.
        let about = format!(r#"{{"hostname":"edge-7","meta":"{}"}}"#, "a".repeat(3 * super::MAX_JSON));
        for length in [format!("Content-Length: {}\r\n", about.len()), String::new()] {
            let known = format!("HTTP/1.1 200 OK\r\n{length}\r\n{about}").into_bytes();
            let server = FakeServer::raw(move |question| {
                let none = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
                if question.contains("meta_data.json") { known.clone() } else { none.to_vec() }
            });
            assert_eq!(fetch(&server, 30).unwrap(), None);
            assert_eq!(server.heard().len(), 4);
        }
    }

    #[test]
    fn a_service_that_never_knows_it_is_refused_and_one_that_has_no_document_is_not() {
        let error = fetch(&that_knows_it_from(u32::MAX), 1).unwrap_err();
        assert_eq!(error.code().as_str(), "metadata-server-failed");
        assert!(error.to_string().contains("/openstack/latest/meta_data.json: HTTP status 404"), "{error}");
        let without = FakeServer::of("openstack", None);
        assert_eq!(fetch(&without, 30).unwrap().unwrap().node_name.as_deref(), Some("edge-7.novalocal"));
        // Document, what each instance has, document, name.
        assert_eq!(without.heard().len(), 4);
    }
}
