//! Random requests, restarts, failures and rules: what holds whatever happens.

use crate::decisions::{boot, disk_of, ek, given, name_of, not_denied};
use latchkey_attestation::{EkDigest, FirmwareChange, MeasuredFirmware, PcrValues, Policy};
use latchkey_cluster_store::{
    BootSeen, DefaultRule, DiskState, Enrolment, NameRule, NewDisk, NodeRecord, Outcome, PinnedRule, Recorded, Role,
    RoleRule, TpmBoot,
};
use latchkey_join_service::decision::{Admitted, Ask, Damage, JoinAsk, LEASE, Now, ReportAsk, State};
use latchkey_keys::Uuid;
use latchkey_kubelet_certificates::Reserved;
use proptest::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

const TPMS: u8 = 4;
const DISKS: u8 = 12;

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
        let Ok(plan) =
            self.state.conclude(&given(&self.rules), &admitted, &not_denied(admitted.ek()), (version, None), self.now)
        else {
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
