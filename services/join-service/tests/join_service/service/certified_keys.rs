//! Machines that quote with an attestation key which a cloud certified, and what that cloud's authority revoked, read while the
//! service runs.

use crate::service::api_server::{MAPS, moved_into};
use crate::service::rig::{Answer, Machine, Rig, Service, TIME, hex, join_request, policy};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_api::v1::{JoinTicket, Role};
use latchkey_api_server_rig::ApiServer;
use latchkey_channel::message::{Evidence, Identity};
use latchkey_channel::{Attester, ChannelError, Kind, Kinds, PeerReason, ProofError, ProofRequest, Purpose};
use latchkey_tpm::wire::{Curve, PublicKey};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, IsCa, KeyIdMethod, KeyPair,
    PublicKeyData, RevokedCertParams, SerialNumber, SignatureAlgorithm, date_time_ymd,
};
use serde_json::json;
use std::fs;
use std::sync::Arc;

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";
const SERIAL: u64 = 78;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn list(by: &Authority, serials: &[u64]) -> Vec<u8> {
    list_until(by, serials, 2999)
}

fn list_until(by: &Authority, serials: &[u64], year: i32) -> Vec<u8> {
    let revoked = serials.iter().map(|serial| RevokedCertParams {
        serial_number: SerialNumber::from(*serial),
        revocation_time: date_time_ymd(2025, 1, 1),
        reason_code: None,
        invalidity_date: None,
    });
    let params = CertificateRevocationListParams {
        this_update: date_time_ymd(2025, 1, 1),
        next_update: date_time_ymd(year, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: revoked.collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    params.signed_by(by).unwrap().der().to_vec()
}

struct EccKey(Vec<u8>);

impl PublicKeyData for EccKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

/// A machine whose attestation key has a certificate.
#[derive(Clone)]
struct Certified {
    machine: Machine,
    certificate: Vec<u8>,
}

impl Certified {
    fn by(authority: &Authority, machine: Machine) -> Self {
        let PublicKey::Ecc { point, .. } = &machine.tpm().ak_public().key else { panic!("an ECC key") };
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::ExplicitNoCa;
        params.serial_number = Some(SerialNumber::from(SERIAL));
        let certificate = params.signed_by(&EccKey(point.uncompressed(Curve::P256).unwrap()), authority).unwrap();
        Self { certificate: certificate.der().to_vec(), machine }
    }
}

impl Attester for Certified {
    fn kinds(&self) -> Kinds {
        self.machine.kinds()
    }

    fn identity(&self, _: Kind) -> Result<Identity, ProofError> {
        Ok(Identity::Tpm(self.machine.tpm().identity().with_ak_certificate(self.certificate.clone()).unwrap()))
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        self.machine.prove(request)
    }
}

fn join(service: &Service, attester: impl Attester + 'static) -> Result<JoinTicket, Answer> {
    let request = join_request(DISK, "worker-1", Role::Unspecified);
    let attester = Arc::new(attester);
    service.call_with(attester, Purpose::Join, async |client| client.issue_join_ticket(&request, TIME).await)
}

/// What a machine is known by whose attestation key is certified.
fn ak_digest(machine: &Certified) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, &machine.machine.tpm().ak_public().marshal()).as_ref())
}

/// The line that says so.
fn assert_refused(service: &mut Service, attester: impl Attester + 'static, code: &str) -> String {
    match join(service, attester) {
        Err(Answer::Refused(ChannelError::PeerRefused(
            PeerReason::TpmNotTrusted | PeerReason::VerifierUnavailable,
        ))) => {}
        other => panic!("{:?}", other.map(|_| "a ticket")),
    }
    service.next_line(&["refused", code])
}

/// A cluster that lets in what this authority certified, if its list does not name it.
fn rig(cloud: &Authority) -> Rig {
    let mut rig = Rig::new(&[&Machine::new()]);
    let rule = json!({
        "kind": "ak-chain", "roots": [cloud.pem()], "purpose": "if-there", "revocation_list": "demanded",
    });
    rig.directory.write_policy(&policy(&json!([rule])).to_string()).unwrap();
    fs::create_dir_all(rig.path("collateral/tpm")).unwrap();
    rig.config["collateral"] = json!("collateral");
    rig
}

#[test]
fn a_certified_machine_joins_until_its_authority_revokes_its_key() {
    let cloud = authority();
    let rig = rig(&cloud);
    let machine = Certified::by(&cloud, Machine::new());
    let mut service = rig.start();
    let refused = assert_refused(&mut service, machine.clone(), "tpm-revocation-list-missing");
    // By this one it could be denied; nobody vouches for the other.
    let identity = ak_digest(&machine);
    assert!(refused.contains(&identity) && refused.contains("attestation-key"), "{refused}");
    assert!(refused.contains(&machine.machine.ek().to_string()), "{refused}");

    let file = rig.path("collateral/tpm/cloud.crl");
    fs::write(&file, list(&cloud, &[])).unwrap();
    service.signal(rustix::process::Signal::HUP);
    service.next_line(&["Configuration reloaded", "collateral"]);
    assert_eq!(join(&service, machine.clone()).unwrap().state_disk_key, rig.key_of(DISK));
    service.next_line(&["granted", &identity, "attestation-key"]);

    // A list that nobody can read leaves in force what was.
    fs::write(&file, "fetched on Monday").unwrap();
    service.signal(rustix::process::Signal::HUP);
    service.next_line(&["cannot be used", "collateral", "cloud.crl"]);
    join(&service, machine.clone()).unwrap();

    fs::write(&file, list(&cloud, &[SERIAL])).unwrap();
    service.signal(rustix::process::Signal::HUP);
    service.next_line(&["Configuration reloaded", "collateral"]);
    assert_refused(&mut service, machine.clone(), "ak-certificate-revoked");

    // A policy that is read anew knows it, too.
    let policy = fs::read_to_string(rig.path("cluster/policy.json"));
    rig.directory.write_policy(&format!("{}\n", policy.unwrap())).unwrap();
    service.signal(rustix::process::Signal::HUP);
    service.next_line(&["Configuration reloaded", "attestation"]);
    assert_refused(&mut service, machine.clone(), "ak-certificate-revoked");

    // A list that is gone would make the key good again.
    fs::remove_file(&file).unwrap();
    service.signal(rustix::process::Signal::HUP);
    service.next_line(&["cannot be used", "collateral", "revoked is gone"]);
    assert_refused(&mut service, machine, "ak-certificate-revoked");
}

/// No directory is named: the services of a cluster in its API server have their collateral there.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_service_in_the_cluster_takes_lists_of_revoked_keys_from_its_api_server() {
    let cloud = authority();
    let mut rig = rig(&cloud);
    rig.config.as_object_mut().unwrap().remove("collateral");
    let server = ApiServer::start();
    let admin = moved_into(&server, &mut rig);
    let machine = Certified::by(&cloud, Machine::new());
    let mut service = rig.start();
    assert_refused(&mut service, machine.clone(), "tpm-revocation-list-missing");

    let object = |key: &str, content: &[u8]| {
        let content = STANDARD.encode(content);
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "latchkey-collateral" },
            "binaryData": { key: content },
        })
    };
    let path = format!("{MAPS}/latchkey-collateral");
    admin.post(MAPS, &object("tpm.cloud.crl", &list(&cloud, &[]))).granted();
    service.next_line(&["Configuration reloaded", "collateral"]);
    assert_eq!(join(&service, machine.clone()).unwrap().state_disk_key, rig.key_of(DISK));

    // What is bad, or gone, leaves in force what was.
    admin.put(&path, &object("tpm.cloud.crl", b"fetched on Monday")).granted();
    service.next_line(&["cannot be used", "collateral", "tpm.cloud.crl"]);
    join(&service, machine.clone()).unwrap();
    admin.put(&path, &object("cloud.crl", &list(&cloud, &[]))).granted();
    service.next_line(&["cannot be used", "begins with none of"]);
    admin.delete(&path, &json!({})).granted();
    service.next_line(&["cannot be used", "latchkey-collateral is gone"]);
    join(&service, machine.clone()).unwrap();

    admin.post(MAPS, &object("tpm.cloud.crl", &list(&cloud, &[SERIAL]))).granted();
    service.next_line(&["Configuration reloaded", "collateral"]);
    assert_refused(&mut service, machine, "ak-certificate-revoked");
    assert!(!service.page("/healthz").1.contains("collateral is stale"));
}

#[test]
fn the_end_of_a_list_of_a_tpms_authority_is_told_in_time() {
    let cloud = authority();
    let rig = rig(&cloud);
    let file = rig.path("collateral/tpm/cloud.crl");
    fs::write(&file, list_until(&cloud, &[], 2100)).unwrap();
    let mut service = rig.start();
    // 2100-01-01.
    assert_eq!(service.metric("collateral_end_seconds"), 4_102_444_800);
    assert!(!service.page("/healthz").1.contains("collateral-ends"));
    fs::write(&file, list_until(&cloud, &[], 2026)).unwrap();
    service.signal(rustix::process::Signal::HUP);
    service.next_line(&["Configuration reloaded", "collateral"]);
    let body = service.page("/healthz").1;
    assert!(body.contains("collateral-ends: the list of what the TPMs' authority"), "{body}");
    assert_refused(&mut service, Certified::by(&cloud, Machine::new()), "tpm-revocation-list-expired");
}

/// Its endorsement key is whatever its program says: the machine on record is the one with the certified key.
#[test]
fn another_endorsement_key_beside_the_certified_key_is_no_other_machine() {
    let cloud = authority();
    let rig = rig(&cloud);
    fs::write(rig.path("collateral/tpm/cloud.crl"), list(&cloud, &[])).unwrap();
    let service = rig.start();
    let first = Certified::by(&cloud, Machine::new());
    join(&service, first.clone()).unwrap();
    let records = || rig.directory.records().unwrap().len();
    let before = records();
    let Certified { machine, certificate } = first;
    let second = Certified { machine: machine.with_another_ek(), certificate };
    // The same name and disk: of another machine they would be taken.
    join(&service, second).unwrap();
    assert_eq!(records(), before);
}
