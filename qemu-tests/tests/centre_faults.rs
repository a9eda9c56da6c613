//! A cluster manager that is killed at any call, and a hundred clusters at once.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use latchkey_centre_site::Program;
use latchkey_qemu_tests::centre::clusters::ROLES;
use latchkey_qemu_tests::centre::faults::{Calls, Moment, Proxy};
use latchkey_qemu_tests::centre::{Centre, children};
use latchkey_test_support::until_within;
use rustix::process::{Pid, Signal, kill_process};

/// A centre without TLS whose cluster manager reaches the others through proxies, and is started again when it ends, as systemd
/// does.
fn behind_proxies(name: &str) -> (Centre, Calls, Vec<Proxy>) {
    let centre = Centre::prepared(name, true).unwrap();
    let programs = centre.linked_programs("programs").unwrap();
    let (calls, real) = (Calls::default(), centre.programs().join("latchkey-cluster-manager"));
    let (mut proxies, mut words) = (Vec::new(), Vec::new());
    for program in [Program::ConfigDb, Program::Auth, Program::GitServer] {
        let at = centre.parameters.place(program).listen;
        let proxy = Proxy::before(at, &calls).unwrap();
        words.extend(
            ['"', '/'].map(|end| format!("s#localhost:{}{end}#localhost:{}{end}#", at.port(), proxy.address().port())),
        );
        proxies.push(proxy);
    }
    let words = words.join(";");
    let stand_in = programs.join("latchkey-cluster-manager");
    fs::remove_file(&stand_in).unwrap();
    let script = format!(
        "#!/bin/sh\nsed '{words}' \"$2\" >\"$2.proxied\"\ntrap 'kill $child; exit 0' TERM\n\
         while :; do setpriv --pdeathsig KILL '{}' --config \"$2.proxied\" & child=$!; wait $child; done\n",
        real.display()
    );
    fs::write(&stand_in, script).unwrap();
    fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
    let mut centre = centre.with_programs(programs);
    centre.start().unwrap();
    (centre, calls, proxies)
}

/// Kills the cluster manager at every `stride`th call of a set-up and of a deletion, before and after it.
fn killed(name: &str, stride: usize) {
    let (centre, calls, _proxies) = behind_proxies(name);
    let wrapper = centre.child("sh").unwrap();
    let kill = move || {
        for child in children(wrapper).into_iter().filter(|child| child.program == "latchkey-cluster-manager") {
            let _ = kill_process(Pid::from_raw(child.id.try_into().unwrap()).unwrap(), Signal::KILL);
        }
    };
    let (mut kills, mut at) = (0, 0);
    loop {
        let mut fired = false;
        for (moment, word) in [(Moment::Before, "before"), (Moment::After, "after")] {
            let cluster = format!("C{at}_{word}");
            calls.arm(at, moment, kill);
            let uuid = centre.made(&cluster).unwrap();
            fired |= calls.fired();
            kills += usize::from(calls.fired());
            calls.disarm();
            let status = centre.setup_status(&uuid).unwrap();
            for role in ROLES {
                let identity = format!("v2/identity/kerberos/op1{role}%2F{cluster}%40{}", centre.parameters.realm);
                let holder = centre.ask(centre.admin(), "GET", Program::Auth, &identity).unwrap();
                assert_eq!(holder.json(), status[role]["uuid"], "{cluster} {role}");
            }
            calls.arm(at, moment, kill);
            assert!(centre.cluster(&["delete", &uuid]).unwrap().status.success());
            centre.reaches(&uuid, "deleted");
            fired |= calls.fired();
            kills += usize::from(calls.fired());
            calls.disarm();
            for role in ROLES {
                assert!(
                    centre.grants_of(status[role]["uuid"].as_str().unwrap()).unwrap().is_empty(),
                    "{cluster} {role}"
                );
            }
        }
        if !fired {
            break;
        }
        at += stride;
    }
    eprintln!("killed {kills} times, at every {stride}th of {at} calls, before and after each");
    assert!(kills > 0);
}

#[test]
fn a_cluster_manager_killed_at_some_calls_ends_what_it_began() {
    killed("centre-some", 23);
}

#[test]
#[ignore = "minutes: ./dev e2e centre_faults --ignored"]
fn a_cluster_manager_killed_at_any_call_ends_what_it_began() {
    killed("centre-any", 1);
}

#[test]
fn a_hundred_clusters_at_once_are_all_ready() {
    let centre = Centre::started("centre-hundred").unwrap();
    let objects: Vec<_> = (0..100).map(|_| centre.cluster_object().unwrap()).collect();
    let begin = Instant::now();
    for (number, uuid) in objects.iter().enumerate() {
        let status = centre.configure(uuid, &format!("N{number}")).unwrap();
        assert!(status < 300, "{status}");
    }
    let written = begin.elapsed();
    until_within("a hundred clusters", Duration::from_mins(5), Duration::from_millis(200), || {
        let clusters = centre.clusters().ok()?;
        objects.iter().all(|uuid| clusters[uuid]["ready"] == true).then_some(())
    });
    eprintln!("a hundred clusters: written by curl in {written:?}, all ready after {:?}", begin.elapsed());
}
