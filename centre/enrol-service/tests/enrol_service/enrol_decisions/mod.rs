//! Whose cluster it is, decided on values.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use latchkey_attestation::reference::{ManifestName, Source};
use latchkey_attestation::validate::AdmittedImage;
use latchkey_attestation::{Digest, EkDigest};
use latchkey_cluster_store::registration::{
    Admitted, Invitation, InvitationHash, InvitationToken, NamePattern, RegistrationRule, Rules, Wanted,
};
use latchkey_enrol_service::decision::{
    self, By, Candidate, CentresNames, Decision, Record, Records, Refusal, Said, Waiting,
};
use latchkey_factory_plus::{ClusterName, Uuid};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const NOW: u64 = 1_800_000_000;
const DAY: u64 = 24 * 60 * 60;

fn ek(number: u8) -> EkDigest {
    EkDigest::from_hex(&format!("{number:02x}").repeat(32)).unwrap()
}

fn disk(number: u8) -> latchkey_keys::Uuid {
    format!("f1f1f1f1-0000-4000-8000-0000000000{number:02x}").parse().unwrap()
}

fn name(text: &str) -> ClusterName {
    text.parse().unwrap()
}

fn image(version: &str) -> AdmittedImage {
    AdmittedImage {
        manifest: ManifestName::new("edge").unwrap(),
        serial: 3,
        source: Source::Predicted,
        name: "edge-node".to_owned(),
        version: version.parse().unwrap(),
        machine: "test".to_owned(),
    }
}

/// A machine with TPM, disk and lock of this number.
fn machine(number: u8, image: &AdmittedImage) -> Candidate<'_> {
    let lock = Digest([number; 32]);
    Candidate { ek: ek(number), lock, image, policy_sha256: "aa", disk: disk(number), invitation: None }
}

fn rules(rules: Vec<RegistrationRule>) -> Rules {
    Rules { rules, ..Rules::of(Uuid::from_random([1; 16]), "fplus-edge") }
}

fn rule(per_day: u32) -> RegistrationRule {
    RegistrationRule {
        name: "line".to_owned(),
        eks: None,
        manifest: ManifestName::new("edge").unwrap(),
        image: None,
        minimum_version: "1.2.0".parse().unwrap(),
        cluster_names: NamePattern::try_from("Line_{n}".to_owned()).unwrap(),
        per_day,
    }
}

const fn only(rules: &Rules) -> Said<'_> {
    static NOT_ASKED: CentresNames = CentresNames::new();
    Said { rules, invitation: None, admitted: None, names: &NOT_ASKED }
}

/// Decides where a centre says of these names that they are taken (folded), and of all others that they are free.
fn decide_beside(
    taken: &[&str],
    records: &Records,
    said: &Said<'_>,
    candidate: &Candidate<'_>,
    now: u64,
) -> Result<Decision, Refusal> {
    let mut names = CentresNames::new();
    loop {
        let said = Said { names: &names, ..said.clone() };
        match decision::decide(records, &said, candidate, Uuid::random(), now)? {
            Decision::Ask(name) if taken.contains(&name.folded().as_str()) => names.taken(&name),
            Decision::Ask(name) => names.free(name),
            decided => return Ok(decided),
        }
    }
}

/// The same where all names are free.
fn decide(records: &Records, said: &Said<'_>, candidate: &Candidate<'_>, now: u64) -> Result<Decision, Refusal> {
    decide_beside(&[], records, said, candidate, now)
}

fn invitation(seed: u8, cluster: &str) -> (InvitationHash, Invitation) {
    let hash = InvitationToken::read(&[seed; 32]).unwrap().hash();
    (hash, Invitation::new(hash, Wanted::called(name(cluster)), NOW - 10, NOW + 10))
}

/// Decides, and writes what was decided.
fn settle(records: &mut Records, said: &Said<'_>, candidate: &Candidate<'_>, now: u64) -> Result<Decision, Refusal> {
    let decision = decide(records, said, candidate, now);
    if let Ok(Decision::New(record)) = &decision {
        records.put((**record).clone());
    }
    decision
}

fn taken_up(decision: Result<Decision, Refusal>) -> Record {
    match decision {
        Ok(Decision::New(record)) => *record,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_invitation_serves_once_in_its_time_for_the_name_that_the_operator_chose() {
    let (mut records, rules, image) = (Records::default(), rules(vec![]), image("1.2.0"));
    let (hash, known) = invitation(7, "Press_4");
    let said = Said { invitation: Some(&known), ..only(&rules) };
    let first = Candidate { invitation: Some(hash), ..machine(1, &image) };
    assert_eq!(decide(&records, &said, &first, NOW + 10), Err(Refusal::InvitationExpired));
    let record = taken_up(settle(&mut records, &said, &first, NOW));
    assert_eq!((record.name.as_str(), record.by), ("Press_4", By::Invitation(hash)));
    assert_eq!((record.ek_sha256, record.disk, record.lock), (ek(1), disk(1), Digest([1; 32])));
    assert_eq!((record.image.version.as_str(), record.policy_sha256.as_str()), ("1.2.0", "aa"));
    // The same machine goes on, with or without it, also when its time is over.
    for (again, now) in [(first.clone(), NOW + 5), (machine(1, &image), NOW + 7 * DAY)] {
        assert_eq!(decide(&records, &only(&rules), &again, now), Ok(Decision::Known(record.cluster)));
    }
    // Its cluster may be on other machines by then, whose keys another link would make void.
    let late = decide(&records, &only(&rules), &machine(1, &image), NOW + 7 * DAY + 1);
    assert_eq!(late, Err(Refusal::LongAgo));
    let second = Candidate { invitation: Some(hash), ..machine(2, &image) };
    assert_eq!(decide(&records, &said, &second, NOW), Err(Refusal::InvitationUsed));
    assert_eq!(decide(&records, &only(&rules), &second, NOW), Err(Refusal::InvitationUsed), "also revoked");
}

#[test]
fn an_invitation_that_is_none_is_refused_even_where_a_rule_speaks_of_the_machine() {
    let (rules, image) = (rules(vec![rule(5)]), image("1.2.0"));
    let (hash, _) = invitation(7, "Press_4");
    let (_, other) = invitation(8, "Press_5");
    let shown = Candidate { invitation: Some(hash), ..machine(1, &image) };
    for said in [only(&rules), Said { invitation: Some(&other), ..only(&rules) }] {
        assert_eq!(decide(&Records::default(), &said, &shown, NOW), Err(Refusal::InvitationUnknown));
    }
}

#[test]
fn a_rule_speaks_of_its_tpms_and_of_recent_images_alone() {
    let of = |rule: RegistrationRule, number: u8, version: &str| {
        let (rules, image) = (rules(vec![rule]), image(version));
        decide(&Records::default(), &only(&rules), &machine(number, &image), NOW)
    };
    assert_eq!(taken_up(of(rule(1), 1, "1.2.0")).name, name("Line_1"));
    let held = Ok(Decision::Hold(Waiting::NotInvited));
    assert_eq!(of(rule(1), 1, "1.1.9"), held);
    assert_eq!(of(RegistrationRule { eks: Some(BTreeSet::from([ek(2)])), ..rule(1) }, 1, "1.2.0"), held);
    assert_eq!(of(RegistrationRule { image: Some("other".to_owned()), ..rule(1) }, 1, "1.2.0"), held);
    let manifest = ManifestName::new("other").unwrap();
    assert_eq!(of(RegistrationRule { manifest, ..rule(1) }, 1, "1.2.0"), held);
    let listed =
        RegistrationRule { eks: Some(BTreeSet::from([ek(1)])), image: Some("edge-node".to_owned()), ..rule(1) };
    assert!(matches!(of(listed, 1, "2.0.0"), Ok(Decision::New(_))));
}

#[test]
fn a_rule_makes_so_many_clusters_a_day_and_the_next_machine_waits() {
    let (mut records, rules, image) = (Records::default(), rules(vec![rule(2)]), image("1.2.0"));
    let names: Vec<_> = [1, 2]
        .map(|number| taken_up(settle(&mut records, &only(&rules), &machine(number, &image), NOW)).name.to_string())
        .into();
    assert_eq!(names, ["Line_1", "Line_2"]);
    let third = |now| decide(&records, &only(&rules), &machine(3, &image), now);
    assert_eq!(third(NOW + DAY - 1), Ok(Decision::Hold(Waiting::QuotaReached)));
    assert_eq!(third(NOW - DAY), Ok(Decision::Hold(Waiting::QuotaReached)), "the clock was set back");
    assert_eq!(taken_up(third(NOW + DAY)).name, name("Line_3"));
    let known = decide(&records, &only(&rules), &machine(1, &image), NOW);
    assert!(matches!(known, Ok(Decision::Known(_))), "who was taken up costs nothing");
}

#[test]
fn the_operators_word_is_for_one_machine_with_one_disk_once() {
    let (mut records, rules, image) = (Records::default(), rules(vec![]), image("1.0.0"));
    let word = Admitted::new(ek(1), disk(1), Wanted::called(name("Press_4")), NOW);
    let said = Said { admitted: Some(&word), ..only(&rules) };
    let held = Ok(Decision::Hold(Waiting::NotInvited));
    assert_eq!(decide(&records, &said, &machine(2, &image), NOW), held);
    let other_disk = Candidate { disk: disk(9), ..machine(1, &image) };
    assert_eq!(decide(&records, &said, &other_disk, NOW), held);
    let record = taken_up(settle(&mut records, &said, &machine(1, &image), NOW));
    assert_eq!(record.by, By::Operator(word.id));
    // It is used then.
    let anew = Candidate { lock: Digest([9; 32]), ..machine(1, &image) };
    assert_eq!(decide(&records, &said, &anew, NOW), Err(Refusal::OtherLock));
}

#[test]
fn a_lock_is_of_one_cluster_and_a_cluster_of_one_machine() {
    let (mut records, rules, image) = (Records::default(), rules(vec![rule(9)]), image("1.2.0"));
    taken_up(settle(&mut records, &only(&rules), &machine(1, &image), NOW));
    let decide = |candidate: Candidate<'_>| decide(&records, &only(&rules), &candidate, NOW);
    assert_eq!(decide(Candidate { lock: Digest([8; 32]), ..machine(1, &image) }), Err(Refusal::OtherLock));
    // Another node of the cluster, and the same node that says it has another disk.
    assert_eq!(decide(Candidate { lock: Digest([1; 32]), ..machine(2, &image) }), Err(Refusal::ClusterOfAnother));
    assert_eq!(decide(Candidate { disk: disk(2), ..machine(1, &image) }), Err(Refusal::ClusterOfAnother));
    // Set up anew, with an empty disk: another cluster.
    let anew = Candidate { lock: Digest([8; 32]), disk: disk(2), ..machine(1, &image) };
    assert!(matches!(decide(anew), Ok(Decision::New(_))));
}

#[test]
fn no_two_clusters_have_one_name() {
    let (mut records, rules, image) = (Records::default(), rules(vec![]), image("1.0.0"));
    for (seed, cluster, taken) in [(1, "Press", false), (2, "PRESS", true), (3, "Press_2", false)] {
        let (hash, known) = invitation(seed, cluster);
        let said = Said { invitation: Some(&known), ..only(&rules) };
        let candidate = Candidate { invitation: Some(hash), ..machine(seed, &image) };
        let decided = settle(&mut records, &said, &candidate, NOW);
        assert_eq!(decided == Err(Refusal::NameTaken), taken, "{cluster}: {decided:?}");
    }
}

#[test]
fn no_name_is_given_that_the_centre_was_not_asked_for_or_that_it_refuses() {
    let (records, image) = (Records::default(), image("1.2.0"));
    let ruled = rules(vec![rule(9)]);
    let unasked = decision::decide(&records, &only(&ruled), &machine(1, &image), Uuid::NIL, NOW);
    assert_eq!(unasked, Ok(Decision::Ask(name("Line_1"))));
    // An answer on another name is none.
    let mut names = CentresNames::new();
    names.free(name("Line_2"));
    let said = Said { names: &names, ..only(&ruled) };
    assert_eq!(decision::decide(&records, &said, &machine(1, &image), Uuid::NIL, NOW), unasked);

    let decided = decide_beside(&["line_1", "line_2"], &records, &only(&ruled), &machine(1, &image), NOW);
    assert_eq!(taken_up(decided).name, name("Line_3"));
    let (hash, known) = invitation(1, "PRESS");
    let nobody = rules(vec![]);
    let said = Said { invitation: Some(&known), ..only(&nobody) };
    let candidate = Candidate { invitation: Some(hash), ..machine(1, &image) };
    assert_eq!(decide_beside(&["press"], &records, &said, &candidate, NOW), Err(Refusal::NameTaken));
}

#[test]
fn a_cluster_that_has_ended_leaves_its_name_and_nothing_else() {
    let (mut records, rules, image) = (Records::default(), rules(vec![rule(9)]), image("1.2.0"));
    let (hash, known) = invitation(1, "Press");
    let invited = |number| Candidate { invitation: Some(hash), ..machine(number, &image) };
    let said = Said { invitation: Some(&known), ..only(&rules) };
    let record = taken_up(settle(&mut records, &said, &invited(1), NOW));
    assert_eq!(records.made().count(), 0, "nobody asks whether a cluster has ended that was not made yet");
    records.put(Record { configured: true, ..record.clone() });
    assert_eq!(records.made().collect::<Vec<_>>(), [record.cluster]);
    records.put(Record { configured: true, ended: true, ..record.clone() });
    assert_eq!(records.made().count(), 0);

    assert_eq!(settle(&mut records, &said, &invited(2), NOW), Err(Refusal::InvitationUsed));
    let known = Ok(Decision::Known(record.cluster));
    assert_eq!(settle(&mut records, &only(&rules), &machine(1, &image), NOW), known);
    let same_lock = Candidate { lock: Digest([1; 32]), ..machine(2, &image) };
    assert_eq!(settle(&mut records, &only(&rules), &same_lock, NOW), Err(Refusal::ClusterOfAnother));
    let (hash, again) = invitation(3, "PRESS");
    let said = Said { invitation: Some(&again), ..only(&rules) };
    let candidate = Candidate { invitation: Some(hash), ..machine(3, &image) };
    assert_eq!(taken_up(settle(&mut records, &said, &candidate, NOW)).name.as_str(), "PRESS");
}

#[test]
fn the_example_of_a_rule_file_is_accepted() {
    let example = Rules::parse(include_bytes!("../../../registration.example.json")).unwrap();
    assert!(example.rules[0].eks.is_some() && example.rules[0].image.is_some());
}

#[test]
fn a_record_is_read_as_it_was_written_and_closed() {
    let image = image("1.2.0");
    let rules = rules(vec![rule(1)]);
    let record = taken_up(decide(&Records::default(), &only(&rules), &machine(1, &image), NOW));
    let json = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&json).unwrap(), record);
    assert!(serde_json::from_str::<Record>(&json.replacen('{', "{\"admin\":true,", 1)).is_err());
}

proptest! {
    /// Machines that ask in any order, as often as they like, with crashes before and after each write.
    #[test]
    fn each_machine_has_one_cluster_and_no_rule_makes_too_many(
        calls in prop::collection::vec((0_u8..6, 0_u64..3 * DAY, any::<bool>()), 0..60),
    ) {
        let (mut records, rules, image) = (Records::default(), rules(vec![rule(2)]), image("1.2.0"));
        let mut clusters: BTreeMap<u8, Uuid> = BTreeMap::new();
        let mut now = NOW;
        for (number, pause, crash) in calls {
            now += pause;
            let asked = decide(&records, &only(&rules), &machine(number, &image), now);
            let of_its_own = clusters.get(&number).and_then(|cluster| records.get(*cluster));
            let is_late = of_its_own.is_some_and(|record| now - record.at > 7 * DAY);
            prop_assert_eq!(asked == Err(Refusal::LongAgo), is_late);
            let Ok(decided) = asked else { continue };
            match decided {
                // A crash before the write: nobody was told anything.
                Decision::New(_) if crash => {}
                Decision::New(record) => {
                    prop_assert_eq!(clusters.insert(number, record.cluster), None);
                    records.put(*record);
                }
                Decision::Known(cluster) => prop_assert_eq!(clusters.get(&number), Some(&cluster)),
                Decision::Hold(why) => prop_assert_eq!(why, Waiting::QuotaReached),
                Decision::Ask(name) => prop_assert!(false, "{name} was asked for"),
            }
            let of_the_day = records.iter().filter(|record| record.at + DAY > now).count();
            prop_assert!(of_the_day <= 2);
            let names: BTreeSet<_> = records.iter().map(|record| record.name.folded()).collect();
            prop_assert_eq!(names.len(), records.len());
        }
    }
}
