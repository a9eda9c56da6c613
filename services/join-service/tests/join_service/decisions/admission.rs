//! Who is let in, as what, and one control plane at a time.

use crate::decisions::{disk_of, ek, given, join, name_of, not_denied, now};
use latchkey_cluster_store::{BootSeen, Enrolment, NameRule, Recorded};
use latchkey_join_service::decision::{Ask, Damage, JoinAsk, Refusal, Rules, State};

#[test]
fn a_lease_ends_by_itself_after_ten_minutes() {
    let rules = Enrolment::workers_and([ek(0), ek(1)]);
    let mut state = State::default();
    let first = state.admit(&given(&rules), ek(0), join(0), BootSeen::default(), now(0)).unwrap();
    let plan = state.conclude(&given(&rules), &first, &not_denied(first.ek()), (1, None), now(0)).unwrap();
    assert!(state.commit(&first, plan.record.map(Recorded::fake), now(0)).is_some());
    assert_eq!(
        state.admit(&given(&rules), ek(1), join(1), BootSeen::default(), now(599)).unwrap_err(),
        Refusal::LeaseHeld
    );
    let _second = state.admit(&given(&rules), ek(1), join(1), BootSeen::default(), now(600)).unwrap();
    assert_eq!(
        state.admit(&given(&rules), ek(0), join(0), BootSeen::default(), now(601)).unwrap_err(),
        Refusal::LeaseHeld
    );
}

#[test]
fn a_worker_and_a_control_plane_that_comes_back_with_its_disk_have_no_turn() {
    let rules = Enrolment::workers_and([ek(0)]);
    let mut state = State::default();
    for (tpm, has_turn) in [(0, true), (1, false)] {
        let admitted = state.admit(&given(&rules), ek(tpm), join(tpm), BootSeen::default(), now(0)).unwrap();
        let plan = state.conclude(&given(&rules), &admitted, &not_denied(admitted.ek()), (1, None), now(0)).unwrap();
        let turn = state.commit(&admitted, plan.record.map(Recorded::fake), now(0));
        assert_eq!(turn.is_some(), has_turn, "TPM {tpm}");
    }
    let back = state.admit(&given(&rules), ek(0), Ask::Rejoin(disk_of(0)), BootSeen::default(), now(1)).unwrap();
    assert!(state.commit(&back, None, now(1)).is_none());
}

/// One that died without a word. Whether it is dead, only the operator knows.
#[test]
fn removing_a_dead_control_plane_lets_the_next_one_join_at_once() {
    let rules = Enrolment::workers_and([ek(0), ek(1)]);
    let mut state = State::default();
    let first = state.admit(&given(&rules), ek(0), join(0), BootSeen::default(), now(0)).unwrap();
    let plan = state.conclude(&given(&rules), &first, &not_denied(first.ek()), (1, None), now(0)).unwrap();
    let record = plan.record.map(Recorded::fake).unwrap();
    state.commit(&first, Some(record.clone()), now(0));
    state.reload([record], Damage::new(), now(1));
    assert_eq!(
        state.admit(&given(&rules), ek(1), join(1), BootSeen::default(), now(2)).unwrap_err(),
        Refusal::LeaseHeld
    );
    state.reload([], Damage::new(), now(3));
    let _second = state.admit(&given(&rules), ek(1), join(1), BootSeen::default(), now(3)).unwrap();
}

/// The first one's keys come late, when the second has the lease: it gets nothing.
#[test]
fn a_request_that_lost_its_lease_while_waiting_for_keys_gets_no_ticket() {
    let rules = Enrolment::workers_and([ek(0), ek(1)]);
    let mut state = State::default();
    let late = state.admit(&given(&rules), ek(0), join(0), BootSeen::default(), now(0)).unwrap();
    let _second = state.admit(&given(&rules), ek(1), join(1), BootSeen::default(), now(600)).unwrap();
    assert_eq!(
        state.conclude(&given(&rules), &late, &not_denied(late.ek()), (1, None), now(601)).unwrap_err(),
        Refusal::LeaseHeld
    );
    state.abandon(late);
    assert!(state.is_leased(now(601)), "the second one's lease is its own");
}

#[test]
fn who_does_not_hold_the_lease_is_not_admitted_to_the_keys() {
    let rules = Enrolment::workers_and([ek(0), ek(1)]);
    let mut state = State::default();
    let _first = state.admit(&given(&rules), ek(0), join(0), BootSeen::default(), now(0)).unwrap();
    assert_eq!(
        state.admit(&given(&rules), ek(1), join(1), BootSeen::default(), now(1)).unwrap_err(),
        Refusal::LeaseHeld
    );
}

/// The rules change while the keys are on their way.
#[test]
fn that_another_machine_is_not_shut_out_lets_nobody_in() {
    let rules = Enrolment::workers_and([]);
    let mut state = State::default();
    let admitted = state.admit(&given(&rules), ek(0), join(0), BootSeen::default(), now(0)).unwrap();
    let refusal = state.conclude(&given(&rules), &admitted, &not_denied(ek(1)), (1, None), now(0)).unwrap_err();
    assert_eq!(refusal, Refusal::Denied);
}

#[test]
fn who_became_a_control_plane_without_the_lease_asks_again() {
    let mut state = State::default();
    let admitted =
        state.admit(&given(&Enrolment::workers_and([])), ek(0), join(0), BootSeen::default(), now(0)).unwrap();
    let refusal = state
        .conclude(&given(&Enrolment::workers_and([ek(0)])), &admitted, &not_denied(ek(0)), (1, None), now(1))
        .unwrap_err();
    assert_eq!(refusal, Refusal::RoleDenied);
}

#[test]
fn who_became_a_worker_meanwhile_gets_nothing_of_a_control_plane_s_turn() {
    let mut state = State::default();
    let admitted =
        state.admit(&given(&Enrolment::workers_and([ek(0)])), ek(0), join(0), BootSeen::default(), now(0)).unwrap();
    let refusal = state
        .conclude(&given(&Enrolment::workers_and([])), &admitted, &not_denied(admitted.ek()), (1, None), now(1))
        .unwrap_err();
    assert_eq!(refusal, Refusal::RoleDenied);
}

#[test]
fn a_name_that_is_kept_for_a_tpm_is_nobody_elses_even_before_it_comes() {
    let mut rules = Enrolment::workers_and([ek(0)]);
    rules.pinned[0].name = Some(name_of(1).parse().unwrap());
    assert_eq!(
        State::default().admit(&given(&rules), ek(1), join(1), BootSeen::default(), now(0)).unwrap_err(),
        Refusal::NameTaken
    );
}

#[test]
fn names_from_the_tpm_are_names() {
    let mut rules = Enrolment::workers_and([]);
    rules.default.name = NameRule::FromEk;
    let mut state = State::default();
    let ask = Ask::Join(JoinAsk { disk: disk_of(0), name: "not a name".into(), role: None });
    let admitted = state.admit(&given(&rules), ek(0x5a), ask, BootSeen::default(), now(0)).unwrap();
    let plan = state.conclude(&given(&rules), &admitted, &not_denied(admitted.ek()), (1, None), now(0)).unwrap();
    assert_eq!(plan.grant.name.as_str(), "node-5a5a5a5a5a5a");
}

/// Services of the release before may give the same.
#[test]
fn while_nothing_is_given_a_machine_has_its_name_and_its_disk_and_nobody_gets_another() {
    let (gives, gives_not) =
        (given(&Enrolment::workers_and([])), Rules { gives: false, ..Enrolment::workers_and([]).into() });
    let mut state = State::default();
    let first = state.admit(&gives, ek(1), join(1), BootSeen::default(), now(0)).unwrap();
    let plan = state.conclude(&gives, &first, &not_denied(ek(1)), (1, None), now(0)).unwrap();
    state.commit(&first, plan.record.map(Recorded::fake), now(0));
    let mut code = |tpm, ask| state.admit(&gives_not, ek(tpm), ask, BootSeen::default(), now(1)).err();
    let with_another_disk = Ask::Join(JoinAsk { disk: disk_of(3), name: name_of(1), role: None });
    assert_eq!([code(2, join(2)), code(1, with_another_disk)], [Some(Refusal::NotUpgraded); 2]);
    assert_eq!([code(1, join(1)), code(1, Ask::Rejoin(disk_of(1)))], [None; 2]);
}
