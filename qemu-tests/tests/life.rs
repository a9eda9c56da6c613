//! The life of nodes on real kernels, TPMs and disks: what the project promises, and what attackers try.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use latchkey_agent::life::replay;
use latchkey_qemu_tests::build;
use latchkey_qemu_tests::cluster::Services;
use latchkey_qemu_tests::fleet::{Fleet, MEMBER, Plan, STEP, VERSION, WAITS};
use latchkey_qemu_tests::operator::Outcome;
use latchkey_qemu_tests::vm::Vm;

/// A fleet whose first node is a member and whose services run.
fn cluster(name: &str, words: &str, then: &str) -> (Fleet, Services, Vm) {
    let fleet = Fleet::with(name, words, then).unwrap();
    let (services, first) = fleet.found_cluster(fleet.machine("node-1").unwrap()).unwrap();
    (fleet, services, first)
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
    let (fleet, services, first) = cluster("born", "", "echo OS up");
    assert_eq!(std::fs::read_to_string(fleet.path("admin.conf")).unwrap().trim(), "admin of the test cluster");
    let mut second = joined(&fleet, "node-2");
    let written = data(&second, "cluster-step");
    assert_ne!(written, data(&first, "cluster-step"), "each node has its own disk");

    // Every boot prints what its life machine saw and did; the same machine comes to the same end from that alone.
    for node in [&first, &second] {
        let replayed = replay(&node.console().text()).unwrap();
        assert!(replayed.ended && replayed.effects.last().unwrap() == "leave", "{replayed:?}");
        let at = |effect: &str| replayed.effects.iter().position(|did| did == effect).unwrap();
        assert!(at("lock") < at("format-disk"));
    }

    second.restart().unwrap();
    second.expect(MEMBER, STEP).unwrap();
    assert_eq!(data(&second, "start-member"), written);
    for node in [&first, &second] {
        let peak = node.console().value("leave: peak memory ").unwrap();
        let kilobytes: u32 = peak.trim_end_matches(" kB").parse().unwrap();
        assert!(kilobytes <= 6000, "the agent took {peak} in stage 1");
    }
    let replayed = replay(&second.console().text()).unwrap();
    assert!(replayed.effects.contains(&"open-disk".into()), "{replayed:?}");
    assert!(services.join.stop().unwrap().success());
    assert!(services.keys.stop().unwrap().success());
}

#[test]
fn after_boot_the_agent_is_gone_and_the_os_cannot_get_the_key() {
    let then = "
for pid in /proc/[0-9]*; do readlink $pid/exe; done | grep -q latchkey && echo OS agent is there || echo OS agent is gone
netstat -ltn | grep -q :9000 && echo OS port is open || echo OS port is closed
ls /run/latchkey/handover.json 2>/dev/null && echo OS hand-over is there || echo OS hand-over is gone
grep 'logon *latchkey:' /proc/keys | grep -qv '^[0-9a-f]* *[^ ]*i' && echo OS key is in a keyring || echo OS key is in no keyring
service=$(sed 's/.*latchkey.join_service=\\([^ ]*\\).*/\\1/' /proc/cmdline)
pin=$(sed 's/.*latchkey.join_service_key=\\([^ ]*\\).*/\\1/' /proc/cmdline)
uuid=$(sed 's/CRYPT-LUKS2-//; s/-state//; s/\\(........\\)\\(....\\)\\(....\\)\\(....\\)/\\1-\\2-\\3-\\4-/' /sys/class/block/dm-0/dm/uuid)
/usr/bin/thief $service $pin $uuid
echo OS up";
    let thief = std::fs::read(build::guest("thief").unwrap()).unwrap();
    let fleet =
        Fleet::planned("gone", Plan { then, programs: vec![("/usr/bin/thief", thief)], ..Plan::default() }).unwrap();
    let (_services, _first) = fleet.found_cluster(fleet.machine("node-1").unwrap()).unwrap();
    let second = joined(&fleet, "node-2");
    second.expect("OS up", STEP).unwrap();
    for line in ["agent is gone", "port is closed", "hand-over is gone", "key is in no keyring"] {
        assert!(second.console().contains(&format!("OS {line}")), "{line}\n{}", second.console().text());
    }
    assert!(!second.console().contains("THIEF got the key"), "{}", second.console().text());
    for role in ["rejoin", "join"] {
        let why = second.console().value(&format!("THIEF refused {role}: ")).unwrap();
        assert!(why.starts_with("lock-refused"), "{why}");
    }
}

#[test]
fn an_impostor_with_a_changed_command_line_is_refused_and_both_sides_say_why() {
    let (fleet, services, _first) = cluster("impostor", "", "echo OS up");
    let image = fleet.build_image("impostor-image", VERSION, "latchkey.log=debug").unwrap();
    let tpm = fleet.tpm("impostor").unwrap();
    let impostor = fleet.machine_of("impostor", image.boot(), &tpm).unwrap().start().unwrap();
    impostor.expect("no ticket yet: measurements-refused", STEP).unwrap();
    let line = services.join.console().expect("image-differs: PCR 11", STEP).unwrap();
    assert!(line.text.contains("its command line or its initrd"), "{}", line.text);

    // A known node that boots the impostor's image gets no key of its own disk either.
    let mut second = joined(&fleet, "node-2");
    second.restart_with(image.boot()).unwrap();
    second.expect("no ticket yet: measurements-refused", STEP).unwrap();
    assert!(!second.console().contains("open-disk: begin"));
}

#[test]
fn a_node_waits_while_the_join_service_is_down_and_goes_on_when_it_is_back() {
    let (fleet, services, _first) = cluster("down", "", "echo OS up");
    let Services { keys, join } = services;
    join.stop().unwrap();
    let mut second = fleet.machine("node-2").unwrap().start().unwrap();
    second.expect("no ticket yet: join-service-unreachable", STEP).unwrap();
    let join = fleet.join_service(&keys).unwrap();
    second.expect(MEMBER, STEP).unwrap();

    // The same with the key service, whose absence the join service reports, and on the way back in.
    let written = data(&second, "cluster-step");
    keys.stop().unwrap();
    second.restart().unwrap();
    second.expect("no ticket yet: ticket-refused", STEP).unwrap();
    join.stop().unwrap();
    let keys = fleet.key_service().unwrap();
    let _join = fleet.join_service(&keys).unwrap();
    second.expect(MEMBER, STEP).unwrap();
    assert_eq!(data(&second, "start-member"), written);
}

#[test]
fn recovery_takes_the_right_master_secret_and_no_other() {
    let (fleet, services, _first) = cluster("recovery", "", "echo OS up");
    let mut second = joined(&fleet, "node-2");
    let written = data(&second, "cluster-step");
    services.join.stop().unwrap();
    second.restart().unwrap();
    second.expect("recovery: waiting on port 9000", STEP).unwrap();

    fleet.cli(&["secret", "new", &fleet.path("other.json")]).unwrap().success("secret new").unwrap();
    let wrong = fleet.recover(&second, &fleet.path("other.json")).unwrap();
    assert_eq!(wrong.code, 4, "{}", code(&wrong));
    second.expect("refuse 0 disk-wrong-key", STEP).unwrap();
    fleet.recover(&second, &fleet.path("master.json")).unwrap().success("recover").unwrap();
    second.expect(MEMBER, STEP).unwrap();
    assert_eq!(data(&second, "start-member"), written);
}

#[test]
fn a_power_cut_at_any_step_is_survived() {
    let (fleet, _services, first) = cluster("power", "", "echo OS up");
    drop(first);
    let mut node = fleet.machine("node-2").unwrap().start().unwrap();
    // On a fresh disk, in the order of a boot: each cut is followed by a boot that is cut one step later.
    let cuts = [
        "modules: begin",
        "tpm: begin",
        "network: begin",
        "join: asking",
        "lock: begin",
        "format-disk: begin",
        "hand-over: begin",
    ];
    for cut in cuts {
        node.expect(cut, STEP).unwrap();
        node.restart().unwrap();
    }
    // In stage 2: the ticket's work is taken up again with a new ticket for the same disk.
    node.expect("cluster-step: begin", STEP).unwrap();
    node.restart().unwrap();
    node.expect("resume-join", STEP).unwrap();
    node.expect("mark-disk: begin", STEP).unwrap();
    node.restart().unwrap();
    node.expect(MEMBER, STEP).unwrap();
    let step = if node.console().contains("start-member: begin") { "start-member" } else { "cluster-step" };
    let written = data(&node, step);
    // As a member, at every step of a rejoin.
    for cut in ["rejoin: asking", "lock: begin", "open-disk: begin", "hand-over: begin", "start-member: begin"] {
        node.restart().unwrap();
        node.expect(cut, STEP).unwrap();
    }
    node.restart().unwrap();
    node.expect(MEMBER, STEP).unwrap();
    assert_eq!(data(&node, "start-member"), written);
}

#[test]
fn init_refuses_a_wrong_secret_and_a_second_operator_and_survives_a_power_cut() {
    let fleet = Fleet::new("operators").unwrap();
    let mut node = fleet.machine("node-1").unwrap().start().unwrap();
    node.expect(WAITS, STEP).unwrap();

    // Somebody who does not know the init secret.
    fleet.cli(&["init-secret", "--out", &fleet.path("guess.secret")]).unwrap().success("init-secret").unwrap();
    let guess: Vec<String> = fleet
        .init_arguments(&node)
        .iter()
        .map(|argument| argument.replace("init.secret", "guess.secret").replace("/cluster", "/guess"))
        .collect();
    let refused = fleet.cli(&guess.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    assert_eq!(refused.code, 4, "{}", code(&refused));
    assert!(
        refused.out.contains("wrong init secret") || refused.err.contains("wrong init secret"),
        "{}",
        code(&refused)
    );

    // Two who know it, at once, each with a cluster of their own: one wins, the other is told.
    let mine = fleet.init_arguments(&node);
    let theirs: Vec<String> =
        mine.iter().map(|a| a.replace("/cluster", "/theirs").replace("admin.conf", "theirs.conf")).collect();
    let strs = |arguments: &[String]| {
        arguments.iter().map(|a| Box::leak(a.clone().into_boxed_str()) as &str).collect::<Vec<_>>()
    };
    let other = fleet.cli_in_background("theirs", &strs(&theirs)).unwrap();
    let ours = fleet.cli(&strs(&mine)).unwrap();
    let other = other.wait(STEP).unwrap();
    let codes = [ours.code, other.code().unwrap_or(-1)];
    assert!(codes.contains(&0) && codes.contains(&4), "{codes:?} {}", code(&ours));
    node.expect(MEMBER, STEP).unwrap();

    // The first bootstrap is cut in the middle: the disk is given back and `init` goes on with the same cluster.
    let fleet = Fleet::new("resume").unwrap();
    let mut node_b = fleet.machine("node-1").unwrap().start().unwrap();
    node_b.expect(WAITS, STEP).unwrap();
    let init = fleet.cli_in_background("init", &strs(&fleet.init_arguments(&node_b))).unwrap();
    node_b.expect("cluster-step: begin", STEP).unwrap();
    node_b.restart().unwrap();
    node_b.expect("reset: failed: bootstrap-unfinished", STEP).unwrap();
    node_b.wait_exit(STEP).unwrap();
    node_b.restart().unwrap();
    assert_eq!(init.wait(STEP * 2).unwrap().code(), Some(0));
    node_b.expect(MEMBER, STEP).unwrap();
    node.kill();
}

#[test]
fn an_init_that_comes_while_a_node_joins_is_told_so() {
    let (fleet, _services, _first) = cluster("late-init", "", "echo OS up");
    let node = fleet.machine("node-2").unwrap().start().unwrap();
    node.expect("init: waiting on port 9000", STEP).unwrap();
    let arguments: Vec<String> = fleet
        .init_arguments(&node)
        .iter()
        .map(|a| a.replace("/cluster", "/late").replace("admin.conf", "late.conf"))
        .collect();
    let late = fleet
        .cli(&[&arguments.iter().map(String::as_str).collect::<Vec<_>>()[..], &["--timeout", "60s"]].concat())
        .unwrap();
    node.expect(MEMBER, STEP).unwrap();
    // Either flow may have been first; never both, and the node says which it was.
    let won = node.console().contains("accept 0") && node.console().contains("stop-init");
    assert_eq!(late.code == 0, !won, "{}\n{}", code(&late), node.console().text());
    assert_eq!(node.console().lines().iter().filter(|line| line.text.contains("lock: begin")).count(), 1);
}

#[test]
fn a_failed_cluster_step_gives_the_disk_back_and_stops_after_three_attempts() {
    let fleet = Fleet::with("failing", "test.fail=1", "echo OS up").unwrap();
    let mut node = fleet.machine("node-1").unwrap().start().unwrap();
    node.expect(WAITS, STEP).unwrap();
    for attempt in 1..=3 {
        let failed = fleet.init(&node).unwrap();
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
