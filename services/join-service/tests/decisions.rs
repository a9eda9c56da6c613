//! The decision core under random requests, restarts, failures and rules: what holds whatever happens.
#![expect(clippy::unwrap_used, reason = "constants of the test are well-formed")]

use latchkey_attestation::{EkDigest, FirmwareChange, MeasuredFirmware, PcrValues, Policy};
use latchkey_cluster_store::{
    BootSeen, DefaultRule, DiskState, Enrolment, NameRule, NewDisk, NodeRecord, Outcome, PinnedRule, Recorded, Role,
    RoleRule, TicketRecord, TpmBoot,
};
use latchkey_join_service::decision::{Admitted, Ask, Damage, JoinAsk, LEASE, Now, Refusal, ReportAsk, Rules, State};
use latchkey_keys::Uuid;
use latchkey_kubelet_certificates::Reserved;
use proptest::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

const TPMS: u8 = 4;
const DISKS: u8 = 12;

fn given(rules: &Enrolment) -> Rules {
    rules.clone().into()
}

#[derive(Clone, Debug)]
enum Action {
    Ask {
        tpm: u8,
        disk: u8,
        name: u8,
        role: Option<Role>,
        rejoin: bool,
        /// What PCR 2 holds, and how often the TPM was reset.
        boot: (u8, u32),
    },
    /// The keys for the n-th request under way are there.
    Keys(usize),
    /// They are not.
    NoKeys(usize),
    Report {
        tpm: u8,
        disk: u8,
        succeeded: bool,
        resets: u32,
    },
    Wait(u64),
    /// The service ends, with requests under way, and starts again.
    Restart,
    /// It reads the records anew.
    Reread,
    Rules(Enrolment),
}

fn any_role() -> impl Strategy<Value = RoleRule> {
    prop_oneof![3 => Just(RoleRule::Worker), 2 => Just(RoleRule::ControlPlane), 1 => Just(RoleRule::Refuse), 1 => Just(RoleRule::Hold)]
}

fn any_rules() -> impl Strategy<Value = Enrolment> {
    let pinned = prop::collection::btree_map(0..TPMS, (any_role(), prop::option::of(0..3_u8)), 0..3);
    let new_disk = prop_oneof![3 => Just(NewDisk::Admit), 1 => Just(NewDisk::Refuse)];
    let names = prop_oneof![3 => Just(NameRule::AsRequested), 1 => Just(NameRule::FromEk)];
    (pinned, any_role(), names, new_disk).prop_map(|(pinned, role, name, on_new_disk)| {
        let mut given = BTreeSet::new();
        let pin = |(tpm, (role, name)): (u8, (RoleRule, Option<u8>))| PinnedRule {
            ek_sha256: ek(tpm),
            role,
            name: name.filter(|name| given.insert(*name)).map(|name| name_of(name).parse().unwrap()),
        };
        Enrolment {
            version: 1,
            pinned: pinned.into_iter().map(pin).collect(),
            default: DefaultRule { role, name, on_new_disk },
        }
    })
}

fn any_action() -> impl Strategy<Value = Action> {
    let wish = prop_oneof![Just(None), Just(Some(Role::Worker)), Just(Some(Role::ControlPlane))];
    prop_oneof![
        8 => (0..TPMS, 0..DISKS, 0..6_u8, wish, prop::bool::weighted(0.3), any_boot())
            .prop_map(|(tpm, disk, name, role, rejoin, boot)| Action::Ask { tpm, disk, name, role, rejoin, boot }),
        8 => (0..4_usize).prop_map(Action::Keys),
        2 => (0..4_usize).prop_map(Action::NoKeys),
        3 => (0..TPMS, 0..DISKS, any::<bool>(), 0..6_u32)
            .prop_map(|(tpm, disk, succeeded, resets)| Action::Report { tpm, disk, succeeded, resets }),
        2 => (1..700_u64).prop_map(Action::Wait),
        1 => Just(Action::Restart),
        1 => Just(Action::Reread),
        1 => any_rules().prop_map(Action::Rules),
    ]
}

fn any_boot() -> impl Strategy<Value = (u8, u32)> {
    (prop_oneof![6 => Just(1_u8), 1 => Just(2)], 0..6_u32)
}

/// What a machine shows, under a policy that refuses a change of PCR 2.
fn seen((firmware, resets): (u8, u32)) -> BootSeen {
    static RULE: LazyLock<FirmwareChange> = LazyLock::new(|| {
        let policy = json!({
            "version": 3, "ek_templates": ["ecc-p256"], "ak_algorithms": ["ecdsa-p256-sha256"], "lock": "pcr-15",
            "ak_trust": [{"kind": "pinned-ek", "ek_sha256": [ek(0)]}], "pcrs": {"enforce": [11], "warn": []},
            "firmware_change": {"warn": [], "refuse": [2]},
            "references": [{"manifest": "m", "minimum_version": "1.0.0", "unsigned": "trust-local-file"}],
        });
        Policy::from_json(policy.to_string().as_bytes()).unwrap().firmware_change()
    });
    let pcrs = PcrValues::new([(2, [firmware; 32])].into()).unwrap();
    BootSeen { firmware: MeasuredFirmware::new(&pcrs, &[]), boot: boot(resets), rule: *RULE }
}

fn boot(reset_count: u32) -> TpmBoot {
    TpmBoot { reset_count, restart_count: 0 }
}

fn ek(tpm: u8) -> EkDigest {
    EkDigest::from_hex(&format!("{tpm:02x}").repeat(32)).unwrap()
}

fn disk_of(disk: u8) -> Uuid {
    format!("0a0a0a0a-0000-4000-8000-{disk:012}").parse().unwrap()
}

fn name_of(name: u8) -> String {
    format!("node-{name}")
}

struct World {
    state: State,
    disk: BTreeMap<EkDigest, NodeRecord>,
    rules: Enrolment,
    under_way: Vec<(EkDigest, Uuid, bool, BootSeen, Admitted)>,
    now: Now,
    /// Who ever got the key of which disk.
    owners: BTreeMap<Uuid, EkDigest>,
    /// Control planes with a ticket and no report, and since when.
    joining: BTreeMap<EkDigest, Duration>,
    epochs: BTreeMap<(EkDigest, Uuid), u64>,
}

impl World {
    fn new(rules: Enrolment) -> Self {
        Self {
            state: State::default(),
            disk: BTreeMap::new(),
            rules,
            under_way: Vec::new(),
            now: Now { unix: 1_800_000_000, uptime: Duration::ZERO },
            owners: BTreeMap::new(),
            joining: BTreeMap::new(),
            epochs: BTreeMap::new(),
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Ask { tpm, disk, name, role, rejoin, boot } => {
                let disk = disk_of(disk);
                let ask =
                    if rejoin { Ask::Rejoin(disk) } else { Ask::Join(JoinAsk { disk, name: name_of(name), role }) };
                self.ask(ek(tpm), ask, seen(boot));
            }
            Action::Keys(at) if at < self.under_way.len() => self.keys(at),
            Action::NoKeys(at) if at < self.under_way.len() => {
                let (.., admitted) = self.under_way.remove(at);
                self.state.abandon(admitted);
            }
            Action::Keys(_) | Action::NoKeys(_) => {}
            Action::Report { tpm, disk, succeeded, resets } => {
                self.report(ek(tpm), disk_of(disk), succeeded, boot(resets));
            }
            Action::Wait(seconds) => {
                self.now.unix += seconds;
                self.now.uptime += Duration::from_secs(seconds);
            }
            Action::Restart => {
                self.under_way.clear();
                self.state = State::new(self.disk.values().cloned().map(Recorded::fake), Damage::new(), self.now);
            }
            Action::Reread => {
                self.state.reload(self.disk.values().cloned().map(Recorded::fake), Damage::new(), self.now);
            }
            Action::Rules(rules) => self.rules = rules,
        }
        self.check();
    }

    fn ask(&mut self, ek: EkDigest, ask: Ask, seen: BootSeen) {
        let leased = self.state.is_leased(self.now);
        let (disk, joins) = (ask.disk(), matches!(ask, Ask::Join(_)));
        match self.state.admit(&given(&self.rules), ek, ask, seen.clone(), self.now) {
            Ok(admitted) => self.under_way.push((ek, disk, joins, seen, admitted)),
            Err(_) => assert_eq!(self.state.is_leased(self.now), leased, "a refusal changes nothing"),
        }
    }

    fn keys(&mut self, at: usize) {
        let (ek, disk, leases, seen, admitted) = self.under_way.remove(at);
        let version = admitted.key_version().max(1);
        let Ok(plan) = self.state.conclude(&given(&self.rules), &admitted, version, None, self.now) else {
            return self.state.abandon(admitted);
        };
        self.check_role(ek, plan.grant.role, leases);
        self.check_machine(ek, &seen);
        if let Some(record) = &plan.record {
            self.disk.insert(ek, record.clone());
        }
        self.state.commit(&admitted, plan.record.map(Recorded::fake), self.now);
        let owner = *self.owners.entry(disk).or_insert(ek);
        assert_eq!(owner, ek, "a disk's key went to two TPMs");
        let epoch = *self.epochs.entry((ek, disk)).or_insert(plan.grant.epoch);
        assert_eq!(epoch, plan.grant.epoch, "a disk keeps its epoch");
        if leases {
            self.joins(ek, plan.grant.role);
        }
    }

    /// Nobody becomes more than the operator's rules, or what they once made of it.
    fn check_role(&self, ek: EkDigest, role: Role, joins: bool) {
        let pinned = self.rules.pinned.iter().find(|rule| rule.ek_sha256 == ek).map(|rule| rule.role);
        let recorded = self.disk.get(&ek).map(|record| record.role);
        let expected = match (pinned, recorded) {
            (Some(pinned), _) if joins => pinned.role(),
            (_, Some(recorded)) => Some(recorded),
            _ => self.rules.default.role.role(),
        };
        assert_eq!(Some(role), expected);
        assert!(!matches!(pinned, Some(RoleRule::Refuse | RoleRule::Hold)));
    }

    /// Nobody gets a ticket with other firmware than on record, nor in a boot that was locked.
    fn check_machine(&self, ek: EkDigest, seen: &BootSeen) {
        let Some(record) = self.disk.get(&ek) else { return };
        let recorded = record.firmware.as_ref().and_then(|known| known.measured.pcrs().value(2));
        assert!(recorded.is_none() || recorded == seen.firmware.pcrs().value(2), "{record:?}: {seen:?}");
        assert!(record.tpm.as_ref().is_none_or(|tpm| !tpm.locked || tpm.boot != seen.boot), "{record:?}: {seen:?}");
    }

    fn joins(&mut self, ek: EkDigest, role: Role) {
        if role == Role::ControlPlane {
            for (other, since) in &self.joining {
                assert!(*other == ek || self.now.uptime >= *since + LEASE, "two control planes join at once");
            }
            self.joining.insert(ek, self.now.uptime);
        }
    }

    fn report(&mut self, ek: EkDigest, disk: Uuid, succeeded: bool, boot: TpmBoot) {
        let failed = Outcome::Failed { code: "x".into(), message: String::new() };
        let report =
            ReportAsk { disk, outcome: if succeeded { Outcome::Succeeded } else { failed }, addresses: Vec::new() };
        let Ok(record) = self.state.report(&Reserved::default(), ek, &report, boot, self.now) else { return };
        self.disk.insert(ek, record.clone());
        self.state.commit_report(Recorded::fake(record));
        self.joining.remove(&ek);
    }

    /// What holds at any time.
    fn check(&self) {
        let records: Vec<&NodeRecord> = self.disk.values().collect();
        let names: BTreeSet<_> = records.iter().map(|record| &record.name).collect();
        assert_eq!(names.len(), records.len(), "two nodes have one name");
        let uuids: Vec<Uuid> = records.iter().flat_map(|record| record.uuids()).collect();
        assert_eq!(
            uuids.iter().collect::<BTreeSet<_>>().len(),
            uuids.len(),
            "a disk is on two records, or twice on one"
        );
        for record in records {
            assert_eq!(
                self.state.record(&record.ek_sha256).map(|found| &**found),
                Some(record),
                "memory and disk differ"
            );
            assert!((1..=8).contains(&record.disks.len()));
            let confirmed = record.disks.iter().filter(|disk| disk.state == DiskState::Confirmed).count();
            assert!(confirmed <= 1);
        }
        assert!(self.state.damage().is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_names_disks_and_roles_stay_whose_they_are(
        rules in any_rules(),
        actions in prop::collection::vec(any_action(), 1..120),
    ) {
        let mut world = World::new(rules);
        for action in actions {
            world.act(action);
        }
    }
}

fn now(seconds: u64) -> Now {
    Now { unix: 1_800_000_000 + seconds, uptime: Duration::from_secs(seconds) }
}

fn join(tpm: u8) -> Ask {
    Ask::Join(JoinAsk { disk: disk_of(tpm), name: name_of(tpm), role: None })
}

#[test]
fn a_lease_ends_by_itself_after_ten_minutes() {
    let rules = Enrolment::workers_and([ek(0), ek(1)]);
    let mut state = State::default();
    let first = state.admit(&given(&rules), ek(0), join(0), BootSeen::default(), now(0)).unwrap();
    let plan = state.conclude(&given(&rules), &first, 1, None, now(0)).unwrap();
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
        let plan = state.conclude(&given(&rules), &admitted, 1, None, now(0)).unwrap();
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
    let plan = state.conclude(&given(&rules), &first, 1, None, now(0)).unwrap();
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
    assert_eq!(state.conclude(&given(&rules), &late, 1, None, now(601)).unwrap_err(), Refusal::LeaseHeld);
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
fn who_became_a_control_plane_without_the_lease_asks_again() {
    let mut state = State::default();
    let admitted =
        state.admit(&given(&Enrolment::workers_and([])), ek(0), join(0), BootSeen::default(), now(0)).unwrap();
    let refusal = state.conclude(&given(&Enrolment::workers_and([ek(0)])), &admitted, 1, None, now(1)).unwrap_err();
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
    let plan = state.conclude(&given(&rules), &admitted, 1, None, now(0)).unwrap();
    assert_eq!(plan.grant.name.as_str(), "node-5a5a5a5a5a5a");
}

/// A worker that joined with a ticket, as it is on record.
fn joined(state: &mut State, number: u8, token: &str, at: u64) {
    let rules = Enrolment::workers_and([]);
    // Each join is of a boot of its own.
    let seen = BootSeen { boot: boot(u32::try_from(at).unwrap()), ..BootSeen::default() };
    let admitted = state.admit(&given(&rules), ek(number), join(number), seen, now(at)).unwrap();
    let ticket = TicketRecord::new(token, now(at).unix + 900);
    let plan = state.conclude(&given(&rules), &admitted, 1, Some(&ticket), now(at)).unwrap();
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
