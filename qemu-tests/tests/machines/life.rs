//! The life of nodes on real kernels, TPMs and disks: what the project promises, and what attackers try.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use latchkey_agent::lifecycle::replay;
use latchkey_qemu_tests::build;
use latchkey_qemu_tests::cluster::Services;
use latchkey_qemu_tests::fleet::{Fleet, MEMBER, PAUSED, Plan, STEP, VERSION, WAITS};
use latchkey_qemu_tests::operator::{Outcome, words};
use latchkey_qemu_tests::vm::Vm;
use latchkey_test_support::first;

/// What the OS of each node does when it is up: looks for what the agent may have left, and tries to get the key.
const LOOK_AROUND: &str = "
for pid in /proc/[0-9]*; do readlink $pid/exe; done | grep -q latchkey && echo OS agent is there || echo OS agent is gone
netstat -ltn | grep -q :9000 && echo OS port is open || echo OS port is closed
ls /run/latchkey/handover.json 2>/dev/null && echo OS hand-over is there || echo OS hand-over is gone
grep 'logon *latchkey:' /proc/keys | grep -qv '^[0-9a-f]* *[^ ]*i' && echo OS key is in a keyring || echo OS key is in no keyring
service=$(sed 's/.*latchkey.join_service=\\([^ ]*\\).*/\\1/' /proc/cmdline)
pin=$(sed 's/.*latchkey.join_service_key=\\([^ ]*\\).*/\\1/' /proc/cmdline)
for disk in /sys/class/block/dm-*/dm; do [ $(cat $disk/name) = state ] && uuid=$(cat $disk/uuid); done
uuid=$(echo $uuid | sed 's/CRYPT-LUKS2-//; s/-state//; s/\\(........\\)\\(....\\)\\(....\\)\\(....\\)/\\1-\\2-\\3-\\4-/')
echo OS disk $uuid
/usr/bin/thief $service $pin $uuid
echo OS up";

/// How nodes protect their state disks: an image that says otherwise refuses them before it asks for a key.
const AUTHENTICATED: &str = "latchkey.state_integrity=hmac-sha256";

/// A cluster with its services, and its first node. State disks are authenticated here; without authentication nodes live
/// in `a_node_waits_while_the_join_service_is_down_and_goes_on_when_it_is_back` and in the tests of other files.
struct Site {
    // Before the fleet, whose directory they use.
    services: Services,
    first: Vm,
    fleet: Fleet,
}

impl Site {
    fn new() -> Self {
        let thief = std::fs::read(build::guest("thief").unwrap()).unwrap();
        let programs = vec![("/usr/bin/thief", thief)];
        let fleet =
            Fleet::planned("life", Plan { words: AUTHENTICATED, then: LOOK_AROUND, programs, ..Plan::default() })
                .unwrap();
        let (services, first) = fleet.found_cluster(fleet.machine("node-1").unwrap()).unwrap();
        Self { services, first, fleet }
    }
}

/// One site for all tests, from when the first of them needs it until the last of those that run at the same time ends.
#[derive(Default)]
struct Shared(OnceLock<Site>);

impl Shared {
    fn site(&self) -> &Site {
        self.0.get_or_init(Site::new)
    }
}

/// Every test holds this, so that the site lasts from one to the next.
fn shared() -> Arc<Shared> {
    static SHARED: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
    let mut weak = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    weak.upgrade().unwrap_or_else(|| {
        let shared = Arc::<Shared>::default();
        *weak = Arc::downgrade(&shared);
        shared
    })
}

/// A node that joined by itself.
fn joined(fleet: &Fleet, name: &str) -> Vm {
    let node = fleet.machine(name).unwrap().start().unwrap();
    node.expect(MEMBER, STEP).unwrap();
    node
}

/// The checksum that the OS printed of its data.
fn data(node: &Vm, step: &str) -> String {
    let data = node.console().value(&format!("{step}: data ")).unwrap();
    assert_eq!(data.len(), 64, "{data}");
    data
}

fn code(outcome: &Outcome) -> String {
    format!("status {}: {}{}", outcome.code, outcome.out, outcome.err)
}

#[test]
fn two_nodes_are_born_and_one_rejoins_with_its_data_intact() {
    let shared = shared();
    let Site { first, fleet, .. } = shared.site();
    assert_eq!(std::fs::read_to_string(fleet.path("admin.conf")).unwrap().trim(), "admin of the test cluster");
    let mut second = joined(fleet, "born");
    let written = data(&second, "cluster-step");
    assert_ne!(written, data(first, "cluster-step"), "each node has its own disk");

    // Every boot prints what its life machine saw and did; the same machine comes to the same end from that alone.
    for node in [first, &second] {
        let replayed = replay(&node.console().text()).unwrap();
        assert!(replayed.ended && replayed.effects.last().unwrap() == "leave", "{replayed:?}");
        let at = |effect: &str| replayed.effects.iter().position(|did| did == effect).unwrap();
        assert!(at("lock") < at("format-disk"));
    }

    second.restart().unwrap();
    second.expect(MEMBER, STEP).unwrap();
    assert_eq!(data(&second, "start-member"), written);
    for node in [first, &second] {
        let peak = node.console().value("leave: peak memory ").unwrap();
        let kilobytes: u32 = peak.trim_end_matches(" kB").parse().unwrap();
        assert!(kilobytes <= 6000, "the agent took {peak} in stage 1");
    }
    let replayed = replay(&second.console().text()).unwrap();
    assert!(replayed.effects.contains(&"open-disk".into()), "{replayed:?}");
}

#[test]
fn after_boot_the_agent_is_gone_and_the_os_cannot_get_the_key() {
    let shared = shared();
    let second = joined(&shared.site().fleet, "looks-around");
    second.expect("OS up", STEP).unwrap();
    for line in ["agent is gone", "port is closed", "hand-over is gone", "key is in no keyring"] {
        assert!(second.console().contains(&format!("OS {line}")), "{line}\n{}", second.console().text());
    }
    assert!(!second.console().contains("THIEF got the key"), "{}", second.console().text());
    let uuid = second.console().value("OS disk ").unwrap();
    assert!(uuid.len() == 36 && second.console().contains(&format!("disk {uuid}")), "{uuid} is no disk's");
    for role in ["rejoin", "join"] {
        let why = second.console().value(&format!("THIEF refused {role}: ")).unwrap();
        assert!(why.starts_with("lock-refused"), "{why}");
    }
}

#[test]
fn an_impostor_with_a_changed_command_line_is_refused_and_both_sides_say_why() {
    let shared = shared();
    let Site { services, fleet, .. } = shared.site();
    let other = format!("{AUTHENTICATED} latchkey.log=debug");
    let image = fleet.build_image("impostor-image", VERSION, &other).unwrap();
    let tpm = fleet.tpm("impostor").unwrap();
    let impostor = fleet.machine_of("impostor", image.boot(), &tpm).unwrap().start().unwrap();
    impostor.expect("no ticket yet: measurements-refused", STEP).unwrap();
    services.join.console().find(&["image-differs: PCR 11", "its command line or its initrd"], STEP).unwrap();

    // A known node that boots the impostor's image gets no key of its own disk either.
    let mut second = joined(fleet, "fallen");
    second.restart_with(image.boot()).unwrap();
    second.expect("no ticket yet: measurements-refused", STEP).unwrap();
    assert!(!second.console().contains("open-disk: begin"));
}

#[test]
fn a_node_waits_while_the_join_service_is_down_and_goes_on_when_it_is_back() {
    let _shared = shared();
    let fleet = Fleet::new("down").unwrap();
    let (Services { keys, join }, first) = fleet.found_cluster(fleet.machine("node-1").unwrap()).unwrap();
    drop(first);
    assert!(join.stop().unwrap().success());
    let mut second = fleet.machine("node-2").unwrap().start().unwrap();
    second.expect("no ticket yet: join-service-unreachable", STEP).unwrap();
    let join = fleet.join_service(&keys).unwrap();
    second.expect(MEMBER, STEP).unwrap();

    // The same with the key service, whose absence the join service reports, and on the way back in.
    let written = data(&second, "cluster-step");
    assert!(keys.stop().unwrap().success());
    second.restart().unwrap();
    second.expect("no ticket yet: ticket-refused", STEP).unwrap();
    assert!(join.stop().unwrap().success());
    let keys = fleet.key_service().unwrap();
    let _join = fleet.join_service(&keys).unwrap();
    second.expect(MEMBER, STEP).unwrap();
    assert_eq!(data(&second, "start-member"), written);
}

#[test]
fn recovery_takes_the_right_master_secret_and_no_other() {
    let shared = shared();
    let fleet = &shared.site().fleet;
    let mut second = joined(fleet, "recovered");
    let written = data(&second, "cluster-step");
    second.restart_isolated().unwrap();
    second.expect("recovery: waiting on port 9000", STEP).unwrap();

    let [other, fork] = ["other.json", "fork.json"].map(|name| fleet.path(name));
    fleet.cli(&["secret", "new", &other]).unwrap().success("secret new").unwrap();
    let wrong = fleet.recover(&second, &other).unwrap();
    assert_eq!(wrong.code, 2, "{}", code(&wrong));
    assert_eq!(wrong.json()["error"]["code"], "master-secret-of-another-cluster");
    // Of this cluster, and of a version that was lost by two rotations of one file: the node's disk tells.
    std::fs::copy(fleet.path("master.json"), &fork).unwrap();
    fleet.cli(&["secret", "rotate", &fork]).unwrap().success("secret rotate").unwrap();
    let record = fleet.record_path(&second);
    let kept = std::fs::read(&record).unwrap();
    let mut changed: serde_json::Value = serde_json::from_slice(&kept).unwrap();
    changed["disks"][0]["key_version"] = 2.into();
    std::fs::write(&record, changed.to_string()).unwrap();
    let wrong = fleet.recover(&second, &fork).unwrap();
    assert_eq!(wrong.code, 4, "{}", code(&wrong));
    second.expect("refuse 0 disk-wrong-key", STEP).unwrap();
    std::fs::write(&record, kept).unwrap();
    fleet.recover(&second, &fleet.path("master.json")).unwrap().success("recover").unwrap();
    second.expect(MEMBER, STEP).unwrap();
    assert_eq!(data(&second, "start-member"), written);
}

#[test]
fn a_power_cut_at_any_step_is_survived() {
    let shared = shared();
    let mut node = shared.site().fleet.machine("paused").unwrap().start().unwrap();
    // On a fresh disk: each cut is followed by a boot that is cut at another step. What comes before the lock leaves nothing behind.
    for cut in first(1, &["lock: begin", "modules: begin", "tpm: begin", "network: begin", "join: asking"]) {
        node.expect(cut, STEP).unwrap();
        node.restart().unwrap();
    }
    // A busy machine may have pulled the plug so late that the disk was formatted all the same.
    let (_, line) = node.expect_any(&["format-disk: begin", "open-disk: begin"], STEP).unwrap();
    println!("cut at: {}", line.text);
    node.restart().unwrap();
    node.expect("hand-over: begin", STEP).unwrap();
    node.restart().unwrap();
    // In stage 2: the ticket's work is taken up again with a new ticket for the same disk.
    node.expect(PAUSED, STEP).unwrap();
    node.restart().unwrap();
    node.expect("resume-join", STEP).unwrap();
    node.expect(PAUSED, STEP).unwrap();
    node.type_in("\n").unwrap();
    node.expect("mark-disk: begin", STEP).unwrap();
    node.restart().unwrap();
    // The mark is on the disk, or it is not.
    let (marked, _) = node.expect_any(&[PAUSED, "start-member: begin"], STEP).unwrap();
    if marked == 0 {
        node.type_in("\n").unwrap();
    }
    node.expect(MEMBER, STEP).unwrap();
    let written = data(&node, if marked == 0 { "cluster-step" } else { "start-member" });
    // As a member, at the steps of a rejoin.
    for cut in
        first(2, &["open-disk: begin", "start-member: begin", "rejoin: asking", "lock: begin", "hand-over: begin"])
    {
        node.restart().unwrap();
        node.expect(cut, STEP).unwrap();
    }
    node.restart().unwrap();
    node.expect(MEMBER, STEP).unwrap();
    assert_eq!(data(&node, "start-member"), written);
}

#[test]
fn init_refuses_a_wrong_secret_and_a_second_operator_and_survives_a_power_cut() {
    let shared = shared();
    let fleet = &shared.site().fleet;
    // Whoever can reach the join service does not wait for an operator.
    let node = fleet.machine("operated").unwrap().isolated().start().unwrap();
    node.expect(WAITS, STEP).unwrap();

    // Somebody who does not know the init secret.
    fleet.cli(&["init-secret", "--out", &fleet.path("guess.secret")]).unwrap().success("init-secret").unwrap();
    let guess = fleet.init_arguments_in(&node, "guess");
    let guess: Vec<String> = guess.iter().map(|argument| argument.replace("init.secret", "guess.secret")).collect();
    let refused = fleet.cli(&words(&guess)).unwrap();
    assert_eq!(refused.code, 4, "{}", code(&refused));
    assert!(
        refused.out.contains("wrong init secret") || refused.err.contains("wrong init secret"),
        "{}",
        code(&refused)
    );

    // Two who know it, at once, each with a cluster of their own: one wins, the other is told.
    let other = fleet.cli_in_background("theirs", &words(&fleet.init_arguments_in(&node, "theirs"))).unwrap();
    let ours = fleet.init_as(&node, "ours").unwrap();
    let other = other.wait(STEP).unwrap();
    let codes = [ours.code, other.code().unwrap_or(-1)];
    assert!(codes.contains(&0) && codes.contains(&4), "{codes:?} {}", code(&ours));
    node.expect(MEMBER, STEP).unwrap();
    drop(node);

    // The first bootstrap is cut in the middle: the disk is given back and `init` goes on with the same cluster.
    let mut node = fleet.machine("paused-founder").unwrap().isolated().start().unwrap();
    node.expect(WAITS, STEP).unwrap();
    let init = fleet.cli_in_background("resumed", &words(&fleet.init_arguments_in(&node, "resumed"))).unwrap();
    node.expect(PAUSED, STEP).unwrap();
    node.restart().unwrap();
    node.expect("reset: failed: bootstrap-unfinished", STEP).unwrap();
    node.wait_exit(STEP).unwrap();
    node.restart().unwrap();
    node.expect(PAUSED, STEP).unwrap();
    node.type_in("\n").unwrap();
    assert_eq!(init.wait(STEP).unwrap().code(), Some(0));
    node.expect(MEMBER, STEP).unwrap();
}

#[test]
fn an_init_that_comes_while_a_node_joins_is_told_so() {
    let shared = shared();
    let fleet = &shared.site().fleet;
    let node = fleet.machine("wanted").unwrap().start().unwrap();
    node.expect("init: waiting on port 9000", STEP).unwrap();
    let arguments = fleet.init_arguments_in(&node, "late");
    let late = fleet.cli(&[&words(&arguments)[..], &["--timeout", "3m"]].concat()).unwrap();
    node.expect(MEMBER, STEP).unwrap();
    // Either flow may have been first; never both, and the node says which it was.
    let won = node.console().contains("accept 0") && node.console().contains("stop-init");
    assert_eq!(late.code == 0, !won, "{}\n{}", code(&late), node.console().text());
    assert_eq!(node.console().lines().iter().filter(|line| line.text.contains("lock: begin")).count(), 1);
}

/// The node's cluster step kills stage 2, as the kernel does when memory runs out.
#[test]
fn a_killed_stage_2_restarts_the_machine_and_the_node_begins_anew() {
    let shared = shared();
    let fleet = &shared.site().fleet;
    let mut node = fleet.machine("killed").unwrap().isolated().start().unwrap();
    node.expect(WAITS, STEP).unwrap();
    // The command waits for the node to come back, and begins anew then.
    let init = fleet.cli_in_background("killed", &words(&fleet.init_arguments_in(&node, "killed"))).unwrap();
    node.expect("OS stage2 137", STEP).unwrap();
    node.expect("hand-over wiped", STEP).unwrap();
    node.expect("stage2-died: stage 2 died (signal)", STEP).unwrap();
    node.wait_exit(STEP).unwrap();
    drop(init);
    node.restart().unwrap();
    node.expect("end-reset bootstrap-unfinished", STEP).unwrap();
    node.wait_exit(STEP).unwrap();
    node.restart().unwrap();
    node.expect("was reset 1 times", STEP).unwrap();
    node.expect(WAITS, STEP).unwrap();
}

#[test]
fn a_failed_cluster_step_gives_the_disk_back_and_stops_after_three_attempts() {
    let shared = shared();
    let fleet = &shared.site().fleet;
    let mut node = fleet.machine("failing").unwrap().isolated().start().unwrap();
    node.expect(WAITS, STEP).unwrap();
    for attempt in 1..=3 {
        let failed = fleet.init_as(&node, "failing").unwrap();
        assert_ne!(failed.code, 0);
        assert!(format!("{}{}", failed.out, failed.err).contains("told to fail"), "{}", code(&failed));
        node.expect("rebooting into a fresh start", STEP).unwrap();
        node.wait_exit(STEP).unwrap();
        node.restart().unwrap();
        if attempt < 3 {
            node.expect(&format!("was reset {attempt} times"), STEP).unwrap();
            node.expect(WAITS, STEP).unwrap();
        }
    }
    node.expect("bootstrap-attempts-exhausted", STEP).unwrap();
}
