use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use latchkey_factory_plus::manager::RedeemRequest;
use serde_json::json;

use super::*;
use crate::machine::SetupStatus;
use crate::script::Script;

const CLUSTER: Uuid = Uuid::constant("c1c1c1c1-c1c1-41c1-81c1-c1c1c1c1c1c1");
const OTHER: Uuid = Uuid::constant("c2c2c2c2-c2c2-42c2-82c2-c2c2c2c2c2c2");
const CLAIM: u8 = 7;
const MINUTE: u64 = 60_000;

fn status(ready: bool) -> SetupStatus {
    let entry = json!({"ready": ready, "phase": "ready", "since": 0, "updated": 0, "generation": 0});
    SetupStatus::read(&entry).unwrap()
}

fn permit(cluster: Uuid) -> Permit {
    let access = Access { permission: uuids::permission::MANAGE_CLUSTER, target: cluster };
    Permit::of(&[access], cluster).unwrap()
}

fn id(number: u8) -> Uuid {
    Uuid::from_random([number; 16])
}

fn token(number: u8) -> Token {
    Token::from_random([number; 32])
}

/// A link that lasts from 0 to one hour.
fn links() -> Links {
    let mut links = Links::default();
    make(&mut links, 1, 0).result.unwrap();
    links
}

fn make(links: &mut Links, number: u8, now: u64) -> Outcome<Uuid> {
    make_by("anna@EXAMPLE.ORG", links, number, now)
}

fn make_by(by: &str, links: &mut Links, number: u8, now: u64) -> Outcome<Uuid> {
    let script = Script::new("true\n".into());
    let new = NewLink { id: id(number), by, lifetime_ms: LIFETIME_MS, script: &script, replaces_own: false };
    links.make(permit(CLUSTER), Some(&status(true)), &token(number), new, now)
}

fn read(links: &mut Links, now: u64) -> Result<String, LinkError> {
    links.read(&token(1), |_| true, now, "192.0.2.1").result
}

/// The claim of an edge whose secret has this byte throughout.
fn claim(byte: u8) -> Claim {
    Claim::read(&request(byte)).unwrap()
}

fn request(byte: u8) -> RedeemRequest {
    RedeemRequest { claim: URL_SAFE_NO_PAD.encode([byte; CLAIM_BYTES]), cluster: None }
}

fn redeem(links: &mut Links, by: u8, now: u64) -> Result<Claimed, LinkError> {
    links.redeem(&token(1), &claim(by), |_| true, now, "192.0.2.1").result
}

#[test]
fn a_link_may_be_read_until_it_is_redeemed_once() {
    let mut links = links();
    let script = Script::new("true\n".into());
    assert_eq!(read(&mut links, 1).as_deref(), Ok(script.sha256()));
    assert_eq!(read(&mut links, 2).as_deref(), Ok(script.sha256()));
    assert_eq!(redeem(&mut links, CLAIM, 3), Ok(Claimed { cluster: CLUSTER, first: true }));
    assert_eq!(read(&mut links, 4), Err(LinkError::Redeemed { at: 3 }));
    assert_eq!(redeem(&mut links, CLAIM, 5), Ok(Claimed { cluster: CLUSTER, first: false }), "its answer may be lost");
    assert_eq!(redeem(&mut links, 8, 6), Err(LinkError::Taken));
    assert_eq!(redeem(&mut links, CLAIM, 7), Ok(Claimed { cluster: CLUSTER, first: false }));
    assert_eq!(redeem(&mut links, CLAIM, LIFETIME_MS), Err(LinkError::Expired));
    let link = links.record(id(1)).unwrap();
    assert_eq!(link.theft, Some(6));
    let uses: Vec<_> = link.uses.iter().map(|one| (one.at, one.kind)).collect();
    let expected = [
        (1, UseKind::Read),
        (2, UseKind::Read),
        (3, UseKind::Redeemed),
        (4, UseKind::Refused),
        (5, UseKind::RedeemedAgain),
        (6, UseKind::Theft),
        (7, UseKind::RedeemedAgain),
        (LIFETIME_MS, UseKind::Refused),
    ];
    assert_eq!(uses, expected);
    assert_eq!(link.uses[0].from, "192.0.2.1");
    // Later it is as redeemed as before; that somebody revoked it says more.
    let again = read(&mut links, LIFETIME_MS).unwrap_err();
    let said = "this link was redeemed on 1970-01-01T00:00:00Z; ask for a new command on the cluster's page";
    assert_eq!((again.status(), again.to_string().as_str()), (410, said));
    links.revoke(permit(CLUSTER), id(1), "bob", 9).result.unwrap();
    assert_eq!(read(&mut links, LIFETIME_MS), Err(LinkError::Revoked));
}

#[test]
fn each_way_to_fail_says_another_thing() {
    assert_eq!(Permit::of(&[], CLUSTER), Err(LinkError::Forbidden));
    let of_other = Access { permission: uuids::permission::MANAGE_CLUSTER, target: OTHER };
    assert_eq!(Permit::of(&[of_other], CLUSTER), Err(LinkError::Forbidden));
    let mut links = links();
    assert_eq!(links.read(&token(9), |_| true, 1, "").result, Err(LinkError::Unknown));
    assert_eq!(links.read(&token(1), |_| false, 1, "").result, Err(LinkError::NotReady));
    assert_eq!(links.redeem(&token(1), &claim(CLAIM), |_| false, 1, "").result, Err(LinkError::NotReady));
    assert_eq!(read(&mut links, LIFETIME_MS), Err(LinkError::Expired));
    assert!(read(&mut links, LIFETIME_MS - 1).is_ok());
    assert_eq!(
        links.revoke(permit(OTHER), id(1), "bob", 2).result,
        Err(LinkError::Unknown),
        "another cluster's permit"
    );
    assert_eq!(links.revoke(permit(CLUSTER), id(1), "bob", 2).result, Ok(()));
    assert_eq!(read(&mut links, 3), Err(LinkError::Revoked));
    assert_eq!(read(&mut links, LIFETIME_MS), Err(LinkError::Revoked));
    let statuses =
        [LinkError::Forbidden, LinkError::NotReady, LinkError::Unknown, LinkError::Expired].map(LinkError::status);
    assert_eq!(statuses, [403, 409, 404, 410]);
}

#[test]
fn a_link_is_made_for_a_cluster_that_is_ready_and_not_for_ever() {
    let script = Script::new("true\n".into());
    let mut links = Links::default();
    let mut tried = |status: Option<&SetupStatus>, lifetime_ms: u64| {
        let new = NewLink { id: id(1), by: "anna", lifetime_ms, script: &script, replaces_own: false };
        links.make(permit(CLUSTER), status, &token(1), new, 0).result
    };
    assert_eq!(tried(None, LIFETIME_MS), Err(LinkError::NotReady));
    assert_eq!(tried(Some(&status(false)), LIFETIME_MS), Err(LinkError::NotReady));
    for lifetime in [0, MINUTE - 1, 24 * 60 * MINUTE + 1, u64::MAX] {
        assert_eq!(tried(Some(&status(true)), lifetime), Err(LinkError::Lifetime));
    }
    assert_eq!(tried(Some(&status(true)), 24 * 60 * MINUTE), Ok(id(1)));
}

#[test]
fn links_are_few_and_old_ones_make_room() {
    let mut links = Links::default();
    for number in 0..16 {
        make(&mut links, number, 0).result.unwrap();
    }
    assert_eq!(make(&mut links, 16, 0).result, Err(LinkError::TooMany));
    // Each hour the ones before are over.
    for number in 16..64 {
        let made = make(&mut links, number, u64::from(number) * LIFETIME_MS);
        assert_eq!((made.result, made.dropped), (Ok(id(number)), vec![]));
    }
    let made = make(&mut links, 64, 64 * LIFETIME_MS);
    assert_eq!((made.result, made.dropped), (Ok(id(64)), vec![id(0)]));
    assert_eq!(links.of(permit(CLUSTER)).count(), MAX_KEPT);
}

#[test]
fn deleting_a_cluster_ends_its_links() {
    let mut links = links();
    assert_eq!(links.revoke_all(OTHER, "the cluster manager", 1), []);
    assert_eq!(links.revoke_all(CLUSTER, "the cluster manager", 1), [id(1)]);
    assert_eq!(read(&mut links, 2), Err(LinkError::Revoked));
    assert_eq!(links.forget(CLUSTER), [id(1)]);
    assert_eq!(read(&mut links, 3), Err(LinkError::Unknown));
}

#[test]
fn who_replaces_links_ends_those_of_its_own_alone() {
    let mut links = links();
    make(&mut links, 2, 1).result.unwrap();
    make_by("bernd@EXAMPLE.ORG", &mut links, 3, 1).result.unwrap();
    assert_eq!(links.revoke_own(permit(OTHER), "anna@EXAMPLE.ORG", 2), []);
    assert_eq!(links.revoke_own(permit(CLUSTER), "anna@EXAMPLE.ORG", 2), [id(1), id(2)]);
    assert_eq!(links.revoke_own(permit(CLUSTER), "anna@EXAMPLE.ORG", 3), [], "those that ended stay as they are");
    assert!(links.record(id(3)).unwrap().is_live(3));
}

#[test]
fn uses_are_kept_up_to_a_bound() {
    let mut links = links();
    for now in 0..100 {
        let from = format!("{}\n{now}", "x".repeat(200));
        links.read(&token(1), |_| true, now, &from).result.unwrap();
    }
    let link = links.record(id(1)).unwrap();
    assert_eq!((link.uses.len(), link.earlier_uses), (MAX_USES, 36));
    assert_eq!(link.uses.back().unwrap().at, 99);
    assert!(link.uses.iter().all(|one| one.from.len() <= 80 && !one.from.contains('\n')));
}

#[test]
fn what_is_stored_is_read_again_and_has_no_token() {
    let mut links = links();
    redeem(&mut links, CLAIM, 1).unwrap();
    let stored = serde_json::to_string(links.record(id(1)).unwrap()).unwrap();
    assert!(!stored.contains(token(1).text().as_str()) && !stored.contains(&hex::encode([1; 32])));
    assert!(!stored.contains(&request(CLAIM).claim) && !stored.contains(&hex::encode([CLAIM; CLAIM_BYTES])));
    let mut again = Links::new(vec![serde_json::from_str(&stored).unwrap()]);
    assert_eq!(again, links);
    assert_eq!(redeem(&mut again, CLAIM, 2), Ok(Claimed { cluster: CLUSTER, first: false }));
    assert!(serde_json::from_str::<Link>(&stored.replacen('{', "{\"extra\":1,", 1)).is_err());
    assert_eq!(format!("{:?}", token(1)), "Token { .. }");
}

#[test]
fn a_token_has_one_text() {
    let text = token(7).text();
    assert_eq!(text.len(), 43);
    assert!(Token::read(&text).unwrap().hash() == token(7).hash());
    for bad in ["", &text[1..], &format!("{}=", &text[..42]), &"é".repeat(21), &format!("{}+", &text[..42])] {
        assert!(Token::read(bad).is_err(), "{bad}");
    }
    // The last character holds four bits; the two others must be zero.
    assert!(Token::read(&format!("{}B", "A".repeat(42))).is_err());
}

#[test]
fn a_claim_has_one_text() {
    let read = |text: String| Claim::read(&RedeemRequest { claim: text, cluster: None }).err();
    let good = request(CLAIM).claim;
    assert_eq!(read(good.clone()), None);
    for bad in
        [String::new(), good[1..].to_owned(), format!("{good}="), format!("{}+", &good[..42]), "x".repeat(1 << 20)]
    {
        assert_eq!(read(bad.clone()), Some(LinkError::Claim), "{bad:.60}");
    }
    assert_eq!(format!("{:?}", claim(CLAIM)), "Claim { cluster: None, .. }");
}

#[test]
fn a_link_of_another_cluster_is_refused_and_stays_good() {
    let mut links = links();
    let mut tried = |cluster, now| {
        let claim = Claim::read(&RedeemRequest { cluster: Some(cluster), ..request(CLAIM) }).unwrap();
        links.redeem(&token(1), &claim, |_| true, now, "").result
    };
    assert_eq!(tried(OTHER, 1), Err(LinkError::OtherCluster));
    assert_eq!(tried(CLUSTER, 2), Ok(Claimed { cluster: CLUSTER, first: true }));
    assert_eq!(tried(OTHER, 3), Err(LinkError::OtherCluster));
    assert_eq!(links.theft(CLUSTER), None);
}

#[test]
fn a_theft_is_told_until_the_link_is_revoked() {
    let mut links = links();
    redeem(&mut links, CLAIM, 1).unwrap();
    assert_eq!(links.theft(CLUSTER), None);
    assert_eq!(redeem(&mut links, 8, 2), Err(LinkError::Taken));
    assert_eq!(redeem(&mut links, 9, 3), Err(LinkError::Taken));
    // Its time being over makes it no less of one.
    assert_eq!((links.theft(CLUSTER), links.theft(OTHER)), (Some(2), None));
    assert_eq!(redeem(&mut links, CLAIM, LIFETIME_MS), Err(LinkError::Expired));
    assert_eq!(links.theft(CLUSTER), Some(2));
    links.revoke(permit(CLUSTER), id(1), "anna", 4).result.unwrap();
    assert_eq!(links.theft(CLUSTER), None);
}
