//! The join service's credentials: a client certificate by the cluster's own authority, over a key that is made here.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_cluster_store::certificate::key_of_pem;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData as _};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::ApiServer;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::stock::{Conditions, Scope};

/// Where kubeadm's API servers listen.
pub(crate) const KUBEADM_PORT: u16 = 6443;
/// Who the join service is to the API server, as the chart's values call it.
pub(crate) const SERVICE: &str = "latchkey:join-service";
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// How long the certificate is good: as long as those that kubeadm makes.
const LIFETIME: Duration = Duration::from_hours(365 * 24);
/// How long its issue may take; the controller manager issues some twenty a second.
const ISSUED: Duration = Duration::from_mins(2);
/// Requests for certificates, in the API.
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const PAUSE: Duration = Duration::from_millis(250);
const APPROVED: Approved = Approved {
    r#type: "Approved",
    status: "True",
    reason: "MadeByLatchkey",
    message: "latchkey made this request, for the join service",
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Named<'a>,
    spec: RequestSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Approval>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    #[serde(flatten)]
    made: Option<Made>,
}

/// The API server's own marks of an object: who writes with both writes to that object alone, as it was then.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Made {
    uid: String,
    resource_version: String,
}

#[derive(Deserialize)]
struct Answer {
    metadata: Made,
}

#[derive(Serialize)]
struct Approval {
    conditions: [Approved; 1],
}

#[derive(Serialize)]
struct Approved {
    r#type: &'static str,
    status: &'static str,
    reason: &'static str,
    message: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestSpec {
    request: String,
    signer_name: &'static str,
    usages: [&'static str; 2],
    expiration_seconds: u64,
}

#[derive(Deserialize)]
struct Posted {
    metadata: Identity,
    #[serde(default)]
    status: Status,
}

/// Which object it is: another one of the same name has another.
#[derive(Deserialize, PartialEq, Eq)]
struct Identity {
    uid: String,
}

#[derive(Default, Deserialize)]
struct Status {
    /// Base64 of PEM.
    certificate: Option<String>,
    #[serde(default)]
    conditions: Conditions,
}

/// How the API server is reached, as the operator's kubeconfig says it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Reach {
    server: String,
    certificate_authority_data: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls_server_name: Option<String>,
}

/// A kubeconfig with one of each.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Kubeconfig<'a> {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    kind: &'static str,
    clusters: [Entry<'a, Cluster<'a>>; 1],
    users: [Entry<'a, User<'a>>; 1],
    contexts: [Entry<'a, Context<'a>>; 1],
    current_context: &'a str,
}

#[derive(Serialize)]
struct Entry<'a, T> {
    name: &'a str,
    #[serde(flatten)]
    of: T,
}

#[derive(Serialize)]
struct Cluster<'a> {
    cluster: &'a Reach,
}

#[derive(Serialize)]
struct User<'a> {
    user: Certified<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Certified<'a> {
    client_certificate_data: &'a str,
    client_key_data: &'a str,
}

#[derive(Serialize)]
struct Context<'a> {
    context: Pair<'a>,
}

#[derive(Serialize)]
struct Pair<'a> {
    cluster: &'a str,
    user: &'a str,
}

/// Gets the join service a certificate: its kubeconfig, with a key that was made here.
pub(crate) async fn issue(api: &ApiServer) -> Result<Zeroizing<Vec<u8>>, CommandError> {
    let cannot = |why: String| {
        CommandError::local(CommandCode::CertificateNotIssued, "the join service has no certificate").because(why)
    };
    let key = KeyPair::generate().map_err(|error| cannot(error.to_string()))?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, SERVICE);
    let request = params.serialize_request(&key).and_then(|request| request.pem());
    let request = request.map_err(|error| cannot(error.to_string()))?;
    // A name that nobody else's request has.
    let digest = ring::digest::digest(&ring::digest::SHA256, request.as_bytes());
    let name = format!("latchkey-join-service-{}", hex::encode(&digest.as_ref()[..8]));
    let mut posted = Request {
        api_version: "certificates.k8s.io/v1",
        kind: "CertificateSigningRequest",
        metadata: Named { name: &name, made: None },
        spec: RequestSpec {
            request: STANDARD.encode(&request),
            signer_name: SIGNER,
            usages: ["digital signature", "client auth"],
            expiration_seconds: LIFETIME.as_secs(),
        },
        status: None,
    };
    let Answer { metadata: made } = api.kubectl().create(&serde_json::to_vec(&posted).unwrap_or_default()).await?;
    let ours = made.identity().ok_or_else(|| cannot("the API server did not say what it made".into()))?;
    // By uid and revision: the name may be another object's by now.
    posted.metadata.made = Some(made);
    posted.status = Some(Approval { conditions: [APPROVED] });
    let approval = serde_json::to_vec(&posted).unwrap_or_default();
    api.kubectl().put_raw(&format!("{REQUESTS}/{name}/approval"), &approval).await?;
    let certificate = issued(api, &name, &ours).await;
    // Whatever became of it, it is of no more use.
    let removed = api.kubectl().delete("certificatesigningrequest", Scope::Cluster, &name).await;
    let certificate = certificate?;
    removed?;
    let issued = STANDARD.decode(&certificate).ok().and_then(|pem| key_of_pem(&String::from_utf8_lossy(&pem)));
    if issued != Some(key.subject_public_key_info()) {
        return Err(cannot("what was issued is no certificate of the key that was made here".to_owned()));
    }
    let reach: Reach = api.kubectl().cluster_of_kubeconfig().await?;
    let pem = Zeroizing::new(key.serialize_pem());
    let encoded = Zeroizing::new(STANDARD.encode(pem.as_bytes()));
    Ok(kubeconfig(&reach, "join-service", &certificate, &encoded))
}

/// The document, of what is base64 of PEM.
pub(crate) fn kubeconfig(reach: &Reach, user: &str, certificate: &str, key: &str) -> Zeroizing<Vec<u8>> {
    let certified = Certified { client_certificate_data: certificate, client_key_data: key };
    let document = Kubeconfig {
        api_version: "v1",
        kind: "Config",
        clusters: [Entry { name: "cluster", of: Cluster { cluster: reach } }],
        users: [Entry { name: user, of: User { user: certified } }],
        contexts: [Entry { name: user, of: Context { context: Pair { cluster: "cluster", user } } }],
        current_context: user,
    };
    Zeroizing::new(serde_json::to_vec_pretty(&document).unwrap_or_default())
}

impl Reach {
    /// Of the API server at `HOST:PORT`, by its authority (PEM): every API server's certificate has this name.
    pub(crate) fn of(address: &str, authority: &str) -> Self {
        Self {
            server: format!("https://{address}"),
            certificate_authority_data: STANDARD.encode(authority),
            tls_server_name: Some("kubernetes".to_owned()),
        }
    }
}

/// `HOST:PORT` of the API server, as the operator's kubeconfig says it.
pub(crate) async fn reached_at(api: &ApiServer) -> Result<String, CommandError> {
    let Reach { server, .. } = api.kubectl().cluster_of_kubeconfig().await?;
    let address = server.strip_prefix("https://").unwrap_or(&server);
    let address = address.split('/').next().unwrap_or_default();
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    Ok(if has_port { address.to_owned() } else { format!("{address}:443") })
}

impl Made {
    /// Which object it is. Without uid or revision the API server would take the approval for any object of the name.
    fn identity(&self) -> Option<Identity> {
        (!self.uid.is_empty() && !self.resource_version.is_empty()).then(|| Identity { uid: self.uid.clone() })
    }
}

/// The certificate (base64 of PEM), once it is there.
async fn issued(api: &ApiServer, name: &str, ours: &Identity) -> Result<String, CommandError> {
    let begun = std::time::Instant::now();
    let failed = |why: String| {
        let what = format!("the certificate request {name} was approved, and no certificate came of it");
        CommandError::new(Exit::Failed, CommandCode::CertificateNotIssued, what).because(why)
    };
    loop {
        let posted: Option<Posted> = api.kubectl().get("certificatesigningrequest", Scope::Cluster, name).await?;
        let Posted { metadata, status } = posted.ok_or_else(|| failed("it is gone".to_owned()))?;
        if metadata != *ours {
            return Err(failed("it is gone, and another one has its name".to_owned()));
        }
        if let Some(certificate) = status.certificate {
            return Ok(certificate);
        }
        if let Some(why) = status.conditions.message_of(&["Failed", "Denied"]) {
            return Err(failed(why.to_owned()));
        }
        if begun.elapsed() > ISSUED {
            return Err(failed(format!("not within {} s", ISSUED.as_secs())));
        }
        smol::Timer::after(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use latchkey_test_support::block_on;
    use tempfile::TempDir;

    use super::*;
    use crate::stock::Stock;

    /// A script that stands in for kubectl and an API server, which signs with a key of its own.
    const STAND_IN: &str = r#"
cd "${0%/*}" || exit 1
case "$*" in
"version "*) echo '{"clientVersion":{"gitVersion":"v1.34.0"}}' ;;
"get --raw /version "*) echo '{"gitVersion":"v1.34.0"}' ;;
"create "*)
    sed 's/.*"request":"\([^"]*\)".*/\1/' | base64 -d >request.pem
    echo '{"metadata":{"name":"made","uid":"u-1","resourceVersion":"7"}}' ;;
"replace --raw "*) echo "$3" >path; cat >approved ;;
"get "*)
    openssl x509 -req -in "$(cat which)" -CA ca.pem -CAkey ca.key -set_serial 1 >certificate.pem 2>/dev/null
    echo "{\"metadata\":{\"uid\":\"$(cat uid)\"},\"status\":{\"certificate\":\"$(base64 -w0 certificate.pem)\"}}" ;;
"config view "*) echo '{"server":"https://10.0.0.1:6443","certificate-authority-data":"QQ=="}' ;;
"delete "*) ;;
*) exit 1 ;;
esac
"#;

    /// Asks for credentials where the object of that name has this uid by then, and the certificate is for this request.
    fn ask(uid: &str, which: &str) -> (TempDir, Result<Zeroizing<Vec<u8>>, CommandError>) {
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        let (authority, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let params = CertificateParams::new(Vec::<String>::new()).unwrap();
        let files = [
            ("kubectl", format!("#!/bin/sh\n{STAND_IN}")),
            ("ca.pem", params.self_signed(&authority).unwrap().pem()),
            ("ca.key", authority.serialize_pem()),
            ("other.pem", params.serialize_request(&other).unwrap().pem().unwrap()),
            ("uid", uid.to_owned()),
            ("which", which.to_owned()),
            ("admin.conf", String::new()),
        ];
        for (name, text) in files {
            fs::write(path(name), text).unwrap();
        }
        fs::set_permissions(path("kubectl"), fs::Permissions::from_mode(0o755)).unwrap();
        let issued = block_on(async {
            let kubectl = Stock::new(Some(&path("kubectl")), None).kubectl(&path("admin.conf")).await?;
            issue(&ApiServer::new(kubectl, &path("admin.conf"))).await
        });
        (directory, issued)
    }

    #[test]
    fn what_is_approved_is_the_object_that_was_made() {
        let (directory, issued) = ask("u-1", "request.pem");
        let kubeconfig = String::from_utf8(issued.unwrap().to_vec()).unwrap();
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert!(read("path").starts_with(&format!("{REQUESTS}/latchkey-join-service-")), "{}", read("path"));
        let approved = read("approved");
        for part in [
            r#""uid":"u-1""#,
            r#""resourceVersion":"7""#,
            r#""signerName":"kubernetes.io/kube-apiserver-client""#,
            r#""status":{"conditions":[{"type":"Approved","status":"True""#,
        ] {
            assert!(approved.contains(part), "{part}: {approved}");
        }
        assert!(kubeconfig.contains("10.0.0.1:6443"));
    }

    #[test]
    fn what_was_issued_to_another_object_or_for_another_key_is_not_taken() {
        for (uid, which, why) in [("u-2", "request.pem", "another one has its name"), ("u-1", "other.pem", "the key")] {
            let error = ask(uid, which).1.unwrap_err();
            assert!(error.because.iter().any(|because| because.contains(why)), "{error:?}");
        }
    }

    #[test]
    fn an_object_that_does_not_say_which_it_is_is_approved_by_nobody() {
        for metadata in [r#"{"uid":"u-1"}"#, r#"{"resourceVersion":"7"}"#, r#"{"uid":"","resourceVersion":"7"}"#] {
            let made: Option<Made> = serde_json::from_str(metadata).ok();
            assert!(made.is_none_or(|made| made.identity().is_none()), "{metadata}");
        }
    }
}
