//! Tokens, addresses and names, by which kubelets get their certificates.

use crate::decisions::{boot, disk_of, ek, given, join, name_of, not_denied, now};
use latchkey_cluster_store::{BootSeen, Change, Enrolment, Outcome, Recorded, TicketRecord, TpmBoot};
use latchkey_join_service::decision::{Ask, Damage, JoinAsk, Refusal, ReportAsk, Rules, State};
use latchkey_kubelet_certificates::{CLIENT_SIGNER, CertificateRefusal, Posted, Reading, Reserved, TOKEN_GROUP, read};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use std::net::IpAddr;

/// A worker that joined with a ticket, as it is on record.
fn joined(state: &mut State, number: u8, token: &str, at: u64) {
    joined_by(&Enrolment::workers_and([]), state, number, token, at);
}

/// The same of a control plane, which holds the lease then.
fn control_plane_joined(state: &mut State, number: u8, token: &str, at: u64) {
    joined_by(&Enrolment::workers_and([ek(number)]), state, number, token, at);
}

fn joined_by(rules: &Enrolment, state: &mut State, number: u8, token: &str, at: u64) {
    // Each join is of a boot of its own.
    let seen = BootSeen { boot: boot(u32::try_from(at).unwrap()), ..BootSeen::default() };
    let admitted = state.admit(&given(rules), ek(number), join(number), seen, now(at)).unwrap();
    let ticket = TicketRecord::new(token, now(at).unix + 900);
    let plan =
        state.conclude(&given(rules), &admitted, &not_denied(admitted.ek()), (1, Some(&ticket)), now(at)).unwrap();
    state.commit(&admitted, plan.record.map(Recorded::fake), now(at));
}

fn reserved() -> Reserved {
    Reserved::new(["10.96.0.0/12".parse().unwrap()], ["api.plant.example", "192.0.2.10"])
}

fn reported(state: &mut State, number: u8, address: [u8; 4]) -> Vec<IpAddr> {
    reported_at(state, number, address, 1)
}

fn reported_at(state: &mut State, number: u8, address: [u8; 4], at: u64) -> Vec<IpAddr> {
    let report = ReportAsk { disk: disk_of(number), outcome: Outcome::Succeeded, addresses: vec![address.into()] };
    let record = state.report(&reserved(), ek(number), &report, TpmBoot::default(), now(at)).unwrap();
    state.commit_report(Recorded::fake(record.clone()));
    record.addresses
}

#[test]
fn an_address_is_the_machines_that_said_it_first_and_is_said_once_for_each_ticket() {
    let mut state = State::default();
    joined(&mut state, 0, "aaaaaa", 0);
    joined(&mut state, 1, "bbbbbb", 0);
    let (one, other) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    assert_eq!(reported(&mut state, 0, one), [IpAddr::from(one)]);
    assert!(reported(&mut state, 1, one).is_empty(), "it is another machine's");
    assert!(reported(&mut state, 1, other).is_empty(), "its ticket is over");
    joined(&mut state, 1, "cccccc", 1);
    assert_eq!(reported(&mut state, 1, other), [IpAddr::from(other)]);
    assert_eq!(reported(&mut state, 0, other), [IpAddr::from(one)], "what it said stays");
}

#[test]
fn a_token_is_of_the_last_ticket_and_of_one_machine() {
    let mut state = State::default();
    joined(&mut state, 0, "aaaaaa", 0);
    assert_eq!(state.ticket_holder("aaaaaa", now(0)), Some(ek(0)));
    joined(&mut state, 0, "bbbbbb", 0);
    assert_eq!(state.ticket_holder("aaaaaa", now(0)), None, "a later ticket took its place");
    // By chance, or by hand: nobody's while both count, and the other's once one is over.
    joined(&mut state, 1, "bbbbbb", 600);
    assert_eq!(state.ticket_holder("bbbbbb", now(600)), None);
    assert_eq!(state.ticket_holder("bbbbbb", now(900 + 300)), Some(ek(1)));
}

#[test]
fn a_node_says_where_it_serves_soon_after_its_ticket_and_never_later() {
    let mut state = State::default();
    let (one, other) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    joined(&mut state, 0, "aaaaaa", 0);
    // Its report was lost. Whoever has taken the machine over by then says nothing that counts.
    assert!(reported_at(&mut state, 0, one, 900 + 900).is_empty());
    joined(&mut state, 0, "bbbbbb", 2000);
    assert_eq!(reported_at(&mut state, 0, one, 2000 + 900 + 899), [IpAddr::from(one)]);
    // A new ticket leaves it its address until its report says another.
    joined(&mut state, 0, "cccccc", 5000);
    joined(&mut state, 1, "dddddd", 5000);
    assert!(reported_at(&mut state, 1, one, 5001).is_empty(), "it is still the other machine's");
    assert_eq!(reported_at(&mut state, 0, other, 5001), [IpAddr::from(other)]);
    joined(&mut state, 1, "eeeeee", 6000);
    assert_eq!(reported_at(&mut state, 1, one, 6001), [IpAddr::from(one)]);
}

#[test]
fn a_worker_is_never_called_like_the_api_server_nor_serves_at_its_address() {
    let rules = |enrolment: Enrolment| Rules { reserved: reserved(), ..enrolment.into() };
    let ask = |name: &str| Ask::Join(JoinAsk { disk: disk_of(0), name: name.to_owned(), role: None });
    let admit = |rules: &Rules, name: &str| {
        State::default().admit(rules, ek(0), ask(name), BootSeen::default(), now(0)).map(drop)
    };
    let workers = rules(Enrolment::workers_and([]));
    for name in [
        "api.plant.example",
        "192.0.2.10",
        "10.96.0.1",
        "127.0.0.1",
        "kubernetes",
        "kubernetes.default.svc",
        "localhost",
    ] {
        assert_eq!(admit(&workers, name), Err(Refusal::NameReserved), "{name}");
    }
    assert_eq!(admit(&workers, "edge-1"), Ok(()));
    // A control plane may be where the API server is found, and no service.
    let controls = rules(Enrolment::workers_and([ek(0)]));
    assert_eq!(admit(&controls, "api.plant.example"), Ok(()));
    assert_eq!(admit(&controls, "kubernetes"), Err(Refusal::NameReserved));

    let mut state = State::default();
    joined(&mut state, 0, "aaaaaa", 0);
    joined(&mut state, 1, "bbbbbb", 0);
    assert!(reported(&mut state, 0, [192, 0, 2, 10]).is_empty());
    assert!(reported(&mut state, 1, [10, 96, 0, 1]).is_empty());
}

/// What the kubelet of this machine gets with this token.
fn used(state: &State, number: u8, token: &str, at: u64) -> Result<(), CertificateRefusal> {
    let groups = ["system:bootstrappers", TOKEN_GROUP, "system:authenticated"].map(str::to_owned);
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{}", name_of(number)));
    let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let posted = Posted {
        uid: "uid-1",
        signer: CLIENT_SIGNER,
        username: &format!("system:bootstrap:{token}"),
        groups: &groups,
        usages: &["digital signature", "client auth"].map(str::to_owned),
        pem: request.as_bytes(),
        decided: false,
    };
    let Reading::Client(ask) = read(&posted) else { panic!("it is a kubelet's request") };
    state.use_ticket(&ask, &ek(number), false, now(at)).map(drop)
}

#[test]
fn a_control_plane_s_ticket_is_good_as_long_as_its_lease() {
    let mut state = State::default();
    control_plane_joined(&mut state, 0, "aaaaaa", 0);
    joined(&mut state, 1, "bbbbbb", 0);
    let ended = Err(CertificateRefusal::TicketLeaseEnded);
    assert_eq!(used(&state, 0, "aaaaaa", 599), Ok(()));
    assert_eq!(used(&state, 0, "aaaaaa", 600), ended);
    assert_eq!(used(&state, 0, "aaaaaa", 601), ended);
    assert_eq!(used(&state, 1, "bbbbbb", 601), Ok(()), "a worker has no lease");

    // The lease is another's now, and lasts.
    control_plane_joined(&mut state, 2, "cccccc", 601);
    assert!(state.is_leased(now(602)));
    assert_eq!(used(&state, 0, "aaaaaa", 602), ended);
    assert_eq!(used(&state, 2, "cccccc", 602), Ok(()));

    // A ticket of its own begins the time anew.
    control_plane_joined(&mut state, 0, "dddddd", 1201);
    assert_eq!(used(&state, 0, "dddddd", 1201 + 599), Ok(()));
    assert_eq!(used(&state, 2, "cccccc", 1202), ended);
}

/// Only a record that somebody wrote by hand has another's name.
#[test]
fn a_name_on_two_records_decides_nothing_until_one_of_them_is_gone() {
    let mut state = State::default();
    joined(&mut state, 0, "aaaaaa", 0);
    joined(&mut state, 1, "bbbbbb", 0);
    let name = name_of(0);
    let (good, mut other) = (state.record(&ek(0)).unwrap().clone(), (**state.record(&ek(1)).unwrap()).clone());
    other.name = name.parse().unwrap();
    assert!(!state.follow([Change::Recorded(Box::new(Recorded::fake(other.clone())))], now(1)), "to be read anew");
    state.reload([good.clone(), Recorded::fake(other)], Damage::new(), now(1));
    // Neither machine is the node, and no third one becomes it.
    assert_eq!(state.check_name(&name), Err(Refusal::RecordsDamaged));
    assert_eq!(
        (state.check_holder(&ek(0)), state.check_holder(&ek(1))),
        (Err(Refusal::RecordsDamaged), Err(Refusal::RecordsDamaged))
    );
    assert_eq!(state.node_named(&name), None);
    let third = Ask::Join(JoinAsk { disk: disk_of(2), name: name.clone(), role: None });
    let rules = Enrolment::workers_and([]).into();
    let refusal = state.admit(&rules, ek(2), third, BootSeen::default(), now(1)).unwrap_err();
    assert_eq!(refusal, Refusal::RecordsDamaged);
    let files: Vec<_> = state.damage().iter().map(|damaged| (damaged.file.clone(), damaged.why.clone())).collect();
    let names =
        |one: u8, other: u8| (format!("{}.json", ek(one)), format!("the name {name} is also in {}.json", ek(other)));
    assert_eq!(files, [names(0, 1), names(1, 0)]);

    state.reload([good], Damage::new(), now(2));
    assert_eq!((state.check_name(&name), state.node_named(&name)), (Ok(()), Some(ek(0))));
    assert!(state.damage().is_empty());
}

/// Where etcd was restored: what is told now was written before what is known, and that is lost.
#[test]
fn a_record_that_went_back_has_all_of_them_read_anew() {
    let mut state = State::default();
    joined(&mut state, 0, "aaaaaa", 0);
    let record = (**state.record(&ek(0)).unwrap()).clone();
    #[expect(clippy::disallowed_methods, reason = "it stands nowhere")]
    let at = |revision| Recorded::stands_elsewhere(record.clone(), revision);
    let told = |state: &mut State, revision| state.follow([Change::Recorded(Box::new(at(revision)))], now(1));
    assert!(told(&mut state, 1000) && told(&mut state, 1000));
    assert!(!told(&mut state, 40), "to be read anew");
    state.reload([at(40)], Damage::new(), now(2));
    assert!(told(&mut state, 41));
}

/// A node that reports all the time must not have all others wait for its writes.
#[test]
fn a_report_that_says_what_is_on_record_changes_nothing_and_one_that_says_more_does() {
    let mut state = State::default();
    joined(&mut state, 0, "aaaaaa", 0);
    let mut report = ReportAsk { disk: disk_of(0), outcome: Outcome::Succeeded, addresses: Vec::new() };
    let told = |state: &mut State, report: &ReportAsk, at: u64| {
        let record = state.report(&reserved(), ek(0), report, TpmBoot::default(), now(at)).unwrap();
        let is_news = **state.record(&ek(0)).unwrap() != record;
        state.commit_report(Recorded::fake(record.clone()));
        (is_news, record.reported.unwrap().at - now(0).unix)
    };
    assert_eq!(told(&mut state, &report, 1), (true, 1));
    assert_eq!(told(&mut state, &report, 2), (false, 1));
    report.outcome = Outcome::Failed { code: "x".to_owned(), message: "y".to_owned() };
    assert_eq!(told(&mut state, &report, 3), (true, 3));
    assert_eq!(told(&mut state, &report, 4), (false, 3));
    // Another ticket's report is news, whatever it says.
    joined(&mut state, 0, "bbbbbb", 5);
    assert_eq!(told(&mut state, &report, 6), (true, 6));
}
