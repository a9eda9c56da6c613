//! Services that are killed at any call of the cluster manager, and a hundred clusters at once.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use latchkey_centre_site::Program;
use latchkey_factory_plus::uuids::{application, class};
use latchkey_qemu_tests::centre::clusters::ROLES;
use latchkey_qemu_tests::centre::faults::{Calls, Moment, Proxy};
use latchkey_qemu_tests::centre::{Centre, children};
use latchkey_test_support::{until, until_within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A centre without TLS whose cluster manager reaches the others, and kadmind, through proxies. It and `victims` are started again
/// when they end, as systemd does.
fn behind_proxies(name: &str, victims: &[Program]) -> (Centre, Calls, Vec<Proxy>) {
    let centre = Centre::prepared(name, true).unwrap();
    let programs = centre.linked_programs("programs").unwrap();
    let calls = Calls::default();
    let (mut proxies, mut words) = (Vec::new(), Vec::new());
    for program in [Program::ConfigDb, Program::Auth, Program::GitServer] {
        let at = centre.parameters.place(program).listen;
        let proxy = Proxy::before(at, &calls).unwrap();
        words.extend(
            ['"', '/'].map(|end| format!("s#localhost:{}{end}#localhost:{}{end}#", at.port(), proxy.address().port())),
        );
        proxies.push(proxy);
    }
    let kadmind = Proxy::before(centre.parameters.places.kadmin, &calls).unwrap();
    let realm = centre.layout.krb5_conf();
    words.push(format!("s#{0}#{0}.proxied#g", realm.display()));
    let prepare = format!(
        "sed 's#admin_server = .*#admin_server = {}#' '{1}' >'{1}.proxied'\nsed '{2}' \"$2\" >\"$2.proxied\"",
        kadmind.address(),
        realm.display(),
        words.join(";"),
    );
    proxies.push(kadmind);
    let plain = "cp \"$2\" \"$2.proxied\"".to_owned();
    for (program, prepare) in
        victims.iter().map(|program| (*program, &plain)).chain([(Program::ClusterManager, &prepare)])
    {
        let (stand_in, real) = (programs.join(program.file_name()), centre.programs().join(program.file_name()));
        fs::remove_file(&stand_in).unwrap();
        let script = format!(
            "#!/bin/sh\n{prepare}\ntrap 'kill $child; exit 0' TERM\n\
             while :; do setpriv --pdeathsig KILL '{}' --config \"$2.proxied\" & child=$!; wait $child; done\n",
            real.display()
        );
        fs::write(&stand_in, script).unwrap();
        fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut centre = centre.with_programs(programs);
    centre.start().unwrap();
    (centre, calls, proxies)
}

/// Kills a service of a centre that [`behind_proxies`] started.
fn killer(centre: &Centre, victim: Program) -> impl Fn() + Send + Clone + 'static {
    let wrappers: Vec<u32> =
        centre.children().into_iter().filter(|child| child.program == "sh").map(|child| child.id).collect();
    move || {
        let all = wrappers.iter().flat_map(|wrapper| children(*wrapper));
        for child in all.filter(|child| child.program == victim.file_name()) {
            let _ = kill_process(Pid::from_raw(child.id.try_into().unwrap()).unwrap(), Signal::KILL);
        }
    }
}

/// The principals of a cluster, as its bootstrap makes them: from here on kadmind has to do with it. They may not be there before,
/// since a name that others' principals have is refused.
fn bootstrapped(centre: &Centre, cluster: &str) {
    for role in ROLES {
        let said = centre.kadmin_local(&format!("addprinc -randkey op1{role}/{cluster}")).unwrap();
        assert!(said.contains("created"), "{said}");
    }
}

fn are_enabled(centre: &Centre, cluster: &str, enabled: bool) {
    for role in ROLES {
        assert_eq!(centre.enabled(&format!("op1{role}/{cluster}")).unwrap(), Some(enabled), "{role} of {cluster}");
    }
}

/// One account for each role.
fn has_one_account_per_role(centre: &Centre, cluster: &str, status: &Value) {
    for role in ROLES {
        let identity = format!("v2/identity/kerberos/op1{role}%2F{cluster}%40{}", centre.parameters.realm);
        let holder = until(format_args!("auth to answer for {cluster}"), || {
            centre.ask(centre.admin(), "GET", Program::Auth, &identity).ok().filter(|answer| answer.status == 200)
        });
        assert_eq!(holder.json(), status[role]["uuid"], "{cluster} {role}");
    }
}

/// The accounts of a cluster, as its status names them.
fn accounts(status: &Value) -> BTreeSet<String> {
    ROLES.map(|role| status[role]["uuid"].as_str().unwrap().to_owned()).into()
}

/// No object was made twice, or left: none is of the accounts' class but those that clusters have.
fn are_all_accounts(centre: &Centre, expected: &BTreeSet<String>) {
    let members = until("config-db to tell the accounts", || centre.members(&class::EDGE_SERVICE.to_string()).ok());
    let members: Vec<_> = members.iter().map(|member| member.as_str().unwrap()).collect();
    assert_eq!(members.len(), expected.len(), "{members:?}, where clusters have {expected:?}");
    assert!(members.iter().all(|member| expected.contains(*member)), "{members:?}, where clusters have {expected:?}");
}

/// Asks until the cluster manager says that it heard it, or it is done; and waits for that: nobody need ask again then.
fn decommissioned(centre: &Centre, uuid: &str) {
    let status = Centre::entry(application::EDGE_CLUSTER_SETUP_STATUS, uuid);
    let gone = || {
        let told = centre.ask(centre.admin(), "GET", Program::ConfigDb, &status).unwrap();
        told.status == 200 && told.json()["phase"] == "decommissioned"
    };
    until(format_args!("the decommissioning of {uuid} to be heard"), || {
        (centre.cluster(&["decommission", uuid]).unwrap().status.success() || gone()).then_some(())
    });
    until(format_args!("{uuid} to be decommissioned"), || gone().then_some(()));
}

/// Neither principals nor a repository; accounts and grants are looked at by others.
fn has_nothing_left(centre: &Centre, uuid: &str, cluster: &str) {
    assert_eq!(centre.principals_of(cluster).unwrap(), Vec::<String>::new());
    let repository = centre.layout.repositories().join(uuid);
    assert!(!repository.exists(), "{}", repository.display());
}

fn has_no_grants(centre: &Centre, cluster: &str, status: &Value) {
    for role in ROLES {
        let account = status[role]["uuid"].as_str().unwrap();
        let held = until("auth to tell the grants", || centre.grants_of(account).ok());
        assert!(held.is_empty(), "{cluster} {role}");
    }
}

/// The last call of a set-up may have been the end of who made it: `latchkey cluster` asks the next one.
fn is_back(centre: &Centre) {
    until("the cluster manager to answer", || centre.clusters().ok().filter(Value::is_object));
}

/// Kills a service at every `stride`th outward call of the cluster manager from `first` on, before the call and after it: in a
/// set-up, in a deletion, when the configuration comes back, and in a decommissioning. Another cluster suffers nothing by it.
fn killed(name: &str, victim: Program, first: usize, stride: usize) {
    let victims: &[Program] = if victim == Program::ClusterManager { &[] } else { &[victim] };
    let (centre, calls, _proxies) = behind_proxies(name, victims);
    let kill = killer(&centre, victim);
    let other = centre.made("Other").unwrap();
    let others = accounts(&centre.setup_status(&other).unwrap());
    let (begin, mut kills, mut at) = (Instant::now(), 0, first);
    loop {
        let before = kills;
        for (moment, word) in [(Moment::Before, "before"), (Moment::After, "after")] {
            let cluster = format!("C{at}_{word}");
            let arm = || calls.arm(at, moment, kill.clone());
            let mut disarm = || {
                kills += usize::from(calls.fired());
                calls.disarm();
            };
            arm();
            let uuid = centre.made(&cluster).unwrap();
            disarm();
            let status = until("config-db to tell the status", || centre.setup_status(&uuid).ok());
            has_one_account_per_role(&centre, &cluster, &status);
            let both = &others | &accounts(&status);
            are_all_accounts(&centre, &both);
            bootstrapped(&centre, &cluster);
            is_back(&centre);
            arm();
            assert!(centre.cluster(&["delete", &uuid]).unwrap().status.success());
            centre.reaches(&uuid, "deleted");
            disarm();
            are_enabled(&centre, &cluster, false);
            has_no_grants(&centre, &cluster, &status);
            are_all_accounts(&centre, &both);
            arm();
            assert_eq!(centre.configure(&uuid, &cluster).unwrap(), 201);
            centre.reaches(&uuid, "ready");
            disarm();
            are_enabled(&centre, &cluster, true);
            has_one_account_per_role(&centre, &cluster, &status);
            are_all_accounts(&centre, &both);
            is_back(&centre);
            assert!(centre.cluster(&["delete", &uuid]).unwrap().status.success());
            centre.reaches(&uuid, "deleted");
            arm();
            decommissioned(&centre, &uuid);
            disarm();
            has_nothing_left(&centre, &uuid, &cluster);
            has_no_grants(&centre, &cluster, &status);
            are_all_accounts(&centre, &others);
        }
        if kills == before {
            break;
        }
        at += stride;
    }
    let taken = begin.elapsed();
    eprintln!(
        "{victim:?} killed {kills} times, at every {stride}th of {at} calls, before and after each, in {taken:?}"
    );
    assert!(kills > 0);
}

#[test]
fn a_cluster_manager_killed_at_some_calls_ends_what_it_began() {
    killed("centre-some", Program::ClusterManager, 0, 23);
}

#[test]
#[ignore = "minutes: ./dev e2e centre_faults --ignored"]
fn a_cluster_manager_killed_at_any_call_ends_what_it_began() {
    killed("centre-any", Program::ClusterManager, 0, 1);
}

#[test]
#[ignore = "minutes: ./dev e2e centre_faults --ignored"]
fn a_configuration_database_killed_at_some_calls_loses_nothing() {
    killed("centre-config-db", Program::ConfigDb, 1, 7);
}

#[test]
#[ignore = "minutes: ./dev e2e centre_faults --ignored"]
fn an_auth_killed_at_some_calls_loses_nothing() {
    killed("centre-auth", Program::Auth, 1, 7);
}

#[test]
#[ignore = "minutes: ./dev e2e centre_faults --ignored"]
fn a_git_server_killed_at_some_calls_loses_nothing() {
    killed("centre-git", Program::GitServer, 1, 7);
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
