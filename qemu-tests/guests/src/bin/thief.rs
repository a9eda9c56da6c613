//! Test code: what a program of the running OS can try to get the disk's key once the agent is gone. Not part of a release.
//!
//! `thief HOST:PORT KEY-HASH DISK-UUID` asks the join service for the key, with genuine evidence of this very TPM and
//! image, in every role that gives one. Prints `THIEF got the key` or `THIEF refused ROLE: CODE: SENTENCE`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchkey_api::grpc::{Channel, Limits};
use latchkey_api::v1::{JoinClient, RejoinRequest};
use latchkey_channel::{HANDSHAKE_TIME, PinnedKeyVerifier, Purpose, SpkiHash, Terms, TpmAttester};
use latchkey_tpm::device::{AttestingTpm, CharDevice, Tpm};
use latchkey_tpm::wire::EkTemplate;

fn main() {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let [service, pin, disk_uuid] = arguments.as_slice() else { panic!("HOST:PORT KEY-HASH DISK-UUID") };
    let mut hash = [0; 32];
    hex::decode_to_slice(pin.trim_start_matches("sha256:"), &mut hash).expect("a hash");
    let tpm = Tpm::new(CharDevice::open(CharDevice::DEFAULT).expect("a TPM"));
    let attester = Arc::new(Mutex::new(AttestingTpm::new(tpm, EkTemplate::P384H3).expect("an attestation key")));
    for role in [Purpose::Rejoin, Purpose::Join] {
        let attester = Arc::new(TpmAttester::new(Arc::clone(&attester)));
        let terms = Terms { attester, verifier: Arc::new(PinnedKeyVerifier::new([SpkiHash(hash)])) };
        match smol::block_on(attempt(service, role, terms, disk_uuid)) {
            Ok(()) => println!("THIEF got the key"),
            Err(why) => println!("THIEF refused {role}: {why}"),
        }
    }
}

async fn attempt(service: &str, role: Purpose, terms: Terms, disk_uuid: &str) -> Result<(), String> {
    let stream = smol::net::TcpStream::connect(service).await.map_err(|error| error.to_string())?;
    let proven = latchkey_channel::connect(stream, role, terms, HANDSHAKE_TIME)
        .await
        .map_err(|error| format!("{}: {error}", error.code()))?;
    let (channel, driver) = Channel::open(proven, Limits::default()).await.map_err(|error| error.to_string())?;
    let _driver = smol::spawn(driver);
    let request = RejoinRequest { disk_uuid: disk_uuid.into(), ..RejoinRequest::default() };
    let ticket = JoinClient::new(channel).issue_rejoin_ticket(&request, Duration::from_secs(20)).await;
    ticket.map(drop).map_err(|status| status.to_string())
}
