//! The life of a cluster by the command line, and what the accounts of one cluster can do to another.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use latchkey_boot_formats::sha256;
use latchkey_centre_site::Program;
use latchkey_factory_plus::uuids::application;
use latchkey_qemu_tests::centre::Centre;
use latchkey_qemu_tests::centre::clusters::ROLES;
use latchkey_qemu_tests::process::{Finished, output, run as run_within};
use latchkey_test_support::until;
use serde_json::{Value, json};

fn words(done: &Finished) -> String {
    String::from_utf8_lossy(&[done.out.clone(), done.err.clone()].concat()).into_owned()
}

fn principal(role: &str, name: &str) -> String {
    format!("op1{role}/{name}")
}

fn grants(centre: &Centre, accounts: &[String]) -> usize {
    accounts.iter().map(|account| centre.grants_of(account).unwrap().len()).sum()
}

fn accounts(centre: &Centre, uuid: &str) -> Vec<String> {
    let status = centre.setup_status(uuid).unwrap();
    ROLES.map(|role| status[role]["uuid"].as_str().unwrap_or_else(|| panic!("no {role} in {status}")).to_owned()).into()
}

fn states(centre: &Centre, name: &str) -> Vec<Option<bool>> {
    ROLES.iter().map(|role| centre.enabled(&principal(role, name)).unwrap()).collect()
}

#[test]
fn a_cluster_lives_and_ends_by_the_command_line() {
    let centre = Centre::started("centre-life").unwrap();
    let made = centre.reported(&["new", "Building_1"]).unwrap();
    assert_eq!(
        (&made["name"], &made["group"], &made["ready"]),
        (&json!("Building_1"), &json!("ACME-Building_1"), &json!(true))
    );
    let uuid = made["uuid"].as_str().unwrap().to_owned();
    assert_eq!(centre.reported(&["show", "building_1"]).unwrap()["uuid"], made["uuid"], "without regard to case");
    assert_eq!(
        centre.reported(&["wait", "Building_1"]).unwrap(),
        made,
        "it ends when the cluster is ready, as `new` does"
    );
    let listed = centre.reported(&["list"]).unwrap();
    assert_eq!(listed["clusters"].as_object().unwrap().keys().collect::<Vec<_>>(), [&uuid]);
    // Made past the command, in the words of an older client.
    let again = centre.cluster(&["new", "BUILDING_1"]).unwrap();
    assert!(!again.status.success() && words(&again).contains("edge-cluster-exists"), "{}", words(&again));

    the_repository_is_there(&centre);
    the_command_leads_to_the_script(&centre, &uuid);
    a_secret_is_sealed(&centre, &uuid);
    it_is_deleted_made_again_and_decommissioned(&centre, &uuid);
}

fn the_repository_is_there(centre: &Centre) {
    let to = centre.run.file("clone");
    let cloned = centre.git_clone(centre.admin(), "git/cluster/Building_1", &to).unwrap();
    assert!(cloned.status.success(), "{}", words(&cloned));
    let mut files = Command::new("git");
    let files = output(files.arg("-C").arg(&to).args(["ls-files"])).unwrap();
    assert!(
        files.lines().any(|file| std::path::Path::new(file).extension().is_some_and(|end| end == "yaml")),
        "{files}"
    );
}

fn the_command_leads_to_the_script(centre: &Centre, uuid: &str) {
    let link = centre.reported(&["command", "Building_1"]).unwrap();
    let url = link["url"].as_str().unwrap();
    assert!(link["command"].as_str().unwrap().contains(url));
    for _ in 0..2 {
        let script = centre.curl(&[url]).unwrap();
        assert_eq!(script.status, 200, "{script:?}");
        assert_eq!(hex::encode(sha256(&[script.body.as_bytes()])), link["sha256"].as_str().unwrap());
        assert!(script.body.starts_with("#!/bin/sh") && script.body.contains("Building_1"));
    }
    the_command_needs_no_authority_installed(centre, &link);
    let revoked = centre.reported(&["revoke", "Building_1"]).unwrap();
    assert_eq!(revoked["revoked"], json!([link["id"]]));
    let gone = centre.curl(&[url]).unwrap();
    assert_eq!(gone.status, 410, "{gone:?}");
    assert!(gone.body.contains("revoked"), "{gone:?}");
    let end = url.rsplit_once('/').unwrap().1;
    let flipped = if end.starts_with('A') { "B" } else { "A" };
    let unknown = centre.curl(&[&url.replace(end, &format!("{flipped}{}", &end[1..]))]).unwrap();
    assert_eq!(unknown.status, 404, "{unknown:?}");
    let climbing = centre.curl(&[&url.replace(end, "..%2f..%2fetc%2fpasswd")]).unwrap();
    assert!([400, 404].contains(&climbing.status), "{climbing:?}");

    // Whoever may not, and what is not there, differ for those who may know.
    let path = format!("v1/cluster/{uuid}/link");
    let stranger = ("op1sync/Building_1", "a-stranger");
    centre.set_password(stranger.0, stranger.1).unwrap();
    let refused = centre.send(stranger, "POST", Program::ClusterManager, &path, &json!({})).unwrap();
    assert_eq!(refused.status, 403, "{refused:?}");
    let missing = "v1/cluster/00000000-1111-4222-8333-444444444444/link";
    assert_eq!(centre.send(centre.admin(), "POST", Program::ClusterManager, missing, &json!({})).unwrap().status, 404);
    let refused = centre.cluster(&["command", "Building_1", "--lifetime", "1s"]).unwrap();
    assert!(!refused.status.success(), "{}", words(&refused));
}

/// As somebody pastes it, on a machine that does not know the centre's authority; `sh` only says what it was given.
fn the_command_needs_no_authority_installed(centre: &Centre, link: &Value) {
    let fake = centre.run.file("only-say");
    fs::create_dir(&fake).unwrap();
    fs::write(fake.join("sh"), "#!/bin/dash\nexec cat \"$@\"\n").unwrap();
    fs::set_permissions(fake.join("sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let run = |command: &str| {
        let mut dash = Command::new("dash");
        let path = format!("{}:/usr/bin:/bin", fake.display());
        dash.arg("-c").arg(command).env_clear().env("PATH", path).current_dir(&fake);
        run_within(&mut dash, Duration::from_mins(1)).unwrap()
    };
    let text = |field: &str| link[field].as_str().unwrap().to_owned();
    let script = run(&text("command"));
    assert_eq!(hex::encode(sha256(&[&script.out])), text("sha256"), "{}", words(&script));
    let checked = run(&text("checked"));
    assert!(checked.status.success() && checked.out.ends_with(&script.out), "{}", words(&checked));

    // Another authority of the same name: what an impostor on the way would have.
    let ours = fs::read_to_string(centre.layout.authority()).unwrap().replace("\r\n", "\n");
    assert!(text("command").contains(ours.trim_end()));
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, "ACME centre");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    let other = params.self_signed(&key).unwrap().pem().replace("\r\n", "\n");
    fs::remove_file(fake.join("bootstrap.sh")).unwrap();
    for command in [text("command"), text("checked")] {
        let refused = run(&command.replace(ours.trim_end(), other.trim_end()));
        assert!(refused.out.is_empty(), "{}", words(&refused));
        // Its certificate does not verify (60); where the keys are of other kinds OpenSSL does not even get so far (35).
        let said = words(&refused);
        assert!(said.contains("curl: (60)") || said.contains("curl: (35)"), "{said}");
        assert!(!fake.join("bootstrap.sh").exists());
    }
}

fn a_secret_is_sealed(centre: &Centre, uuid: &str) {
    let value = centre.write_secret("value", "a secret of the plant").unwrap();
    let seal = ["seal", "Building_1", "--secret", "fplus-edge/plc/password", "--value-file", value.to_str().unwrap()];
    let early = centre.cluster(&seal).unwrap();
    assert!(!early.status.success(), "nothing to seal for: {}", words(&early));
    let sync = ("op1sync/Building_1", "of-edge-sync");
    centre.set_password(sync.0, sync.1).unwrap();
    let hosts = json!([{ "hostname": "edge-1", "control_plane": true, "k8s_version": "v1.34.4", "arch": "amd64" }]);
    let status = json!({ "hosts": hosts, "kubeseal_cert": centre.sealing_certificate().unwrap() });
    let written = until("the grant of Edge Sync", || {
        let status = centre.report(sync, uuid, &status).unwrap();
        (status != 403).then_some(status)
    });
    assert!((200..300).contains(&written), "{written}");
    until("the report to be seen", || (centre.clusters().unwrap()[uuid]["sealing"] == true).then_some(()));
    centre.reported(&seal).unwrap();
    let to = centre.run.file("clone-sealed");
    assert!(centre.git_clone(centre.admin(), "git/cluster/Building_1", &to).unwrap().status.success());
    let mut found = Command::new("grep");
    let found = output(found.args(["-rl", "SealedSecret"]).arg(&to)).unwrap();
    assert!(found.lines().any(|file| file.contains("plc")), "{found}");
    let mut leaked = Command::new("grep");
    leaked.args(["-rl", "a secret of the plant"]).arg(centre.layout.root()).arg(&to);
    let leaked = latchkey_qemu_tests::process::run(&mut leaked, latchkey_qemu_tests::process::TOOL).unwrap();
    assert_eq!((leaked.status.code(), words(&leaked)), (Some(1), String::new()), "plaintext");
    for bad in ["../x/y", "fplus-edge/Plc/password", "fplus-edge/plc/..", "a/b"] {
        let refused = ["seal", "Building_1", "--secret", bad, "--value-file", value.to_str().unwrap()];
        let refused = centre.cluster(&refused).unwrap();
        assert!(!refused.status.success(), "{bad}: {}", words(&refused));
    }
}

fn it_is_deleted_made_again_and_decommissioned(centre: &Centre, uuid: &str) {
    let accounts = accounts(centre, uuid);
    assert!(grants(centre, &accounts) > 0);
    // As its bootstrap makes them.
    for role in ROLES {
        centre.set_password(&principal(role, "Building_1"), "bootstrapped").unwrap();
    }
    assert_eq!(states(centre, "Building_1"), [Some(true); 4]);
    let entry = Centre::entry(application::EDGE_CLUSTER_CONFIGURATION, uuid);
    let configuration = centre.ask(centre.admin(), "GET", Program::ConfigDb, &entry).unwrap().json();
    let early = centre.cluster(&["decommission", "Building_1"]).unwrap();
    assert!(!early.status.success(), "{}", words(&early));

    centre.reported(&["delete", "Building_1"]).unwrap();
    centre.reaches(uuid, "deleted");
    assert_eq!(states(centre, "Building_1"), [Some(false); 4]);
    assert_eq!(grants(centre, &accounts), 0);

    let again = centre.send(centre.admin(), "PUT", Program::ConfigDb, &entry, &configuration).unwrap();
    assert_eq!(again.status, 201, "{again:?}");
    centre.reaches(uuid, "ready");
    assert_eq!(states(centre, "Building_1"), [Some(true); 4]);
    assert_eq!(self::accounts(centre, uuid), accounts, "the accounts are those of before");
    assert!(grants(centre, &accounts) > 0);

    centre.reported(&["delete", "Building_1"]).unwrap();
    centre.reaches(uuid, "deleted");
    centre.reported(&["decommission", "Building_1"]).unwrap();
    centre.reaches(uuid, "decommissioned");
    assert_eq!(centre.principals_of("Building_1").unwrap(), Vec::<String>::new());
    let status = centre.setup_status(uuid).unwrap();
    assert!(ROLES.iter().all(|role| status[role].is_null()) && status["spec"]["name"] == "Building_1", "{status}");
    // Tickets of its accounts would be good for the accounts of another one of its name.
    let taken = centre.cluster(&["new", "building_1"]).unwrap();
    assert!(!taken.status.success() && words(&taken).contains("decommissioned"), "{}", words(&taken));
    let cloned = centre.git_clone(centre.admin(), "git/cluster/Building_1", &centre.run.file("gone")).unwrap();
    assert!(!cloned.status.success());
}

#[test]
fn names_that_mean_something_elsewhere_are_refused_by_command_schema_and_cluster_manager() {
    let centre = Centre::started("centre-names").unwrap();
    for name in ["1st", "a-b", "a b", "_a", "é", "<img src=x onerror=alert(1)>", "$(id)", "", &"a".repeat(32)] {
        let refused = centre.cluster(&["new", name]).unwrap();
        assert!(!refused.status.success(), "{name}: {}", words(&refused));
        let uuid = centre.cluster_object().unwrap();
        let status = centre.configure(&uuid, name).unwrap();
        assert!([409, 422].contains(&status), "{name}: {status}");
    }
    // What a schema cannot know.
    centre.made("Hall").unwrap();
    for name in ["admin", "krbtgt", "hall", "localhost", "changepw"] {
        let uuid = centre.cluster_object().unwrap();
        match centre.configure(&uuid, name).unwrap() {
            200..=299 => {
                let refused = until(format_args!("{name} to be refused"), || {
                    let cluster = centre.clusters().unwrap()[&uuid].clone();
                    (cluster["phase"] == "refused").then_some(cluster)
                });
                assert_eq!(
                    (&refused["error"]["retried"], &refused["ready"]),
                    (&json!(false), &json!(false)),
                    "{refused}"
                );
                assert_ne!(refused["error"]["fix"], "");
            }
            status => assert!([409, 422].contains(&status), "{name}: {status}"),
        }
        let identity = format!("v2/identity/kerberos/op1flux%2F{name}%40{}", centre.parameters.realm);
        assert_eq!(centre.ask(centre.admin(), "GET", Program::Auth, &identity).unwrap().status, 404, "{name}");
    }
    let identity = format!("v2/identity/kerberos/op1flux%2FHall%40{}", centre.parameters.realm);
    assert_eq!(centre.ask(centre.admin(), "GET", Program::Auth, &identity).unwrap().status, 200);
}

#[test]
fn no_credential_of_a_cluster_reaches_another_one() {
    let centre = Centre::started("centre-apart").unwrap();
    let (a, b) = (centre.made("A").unwrap(), centre.made("B").unwrap());
    for role in ROLES {
        centre.set_password(&principal(role, "A"), &format!("own-{role}")).unwrap();
        centre.set_password(&principal(role, "B"), &format!("others-{role}")).unwrap();
    }
    let of = |role: &str| (principal(role, "A"), format!("own-{role}"));
    let before = centre.setup_status(&b).unwrap();
    let b_accounts = accounts(&centre, &b);
    let hosts = json!([{ "hostname": "x", "control_plane": true, "k8s_version": "v1", "arch": "amd64" }]);

    // The same for its own, where the design grants it: what is refused below is refused for whose it is.
    let (sync, password) = of("sync");
    until("Edge Sync's own status", || {
        (centre.report((&sync, &password), &a, &json!({ "hosts": hosts })).unwrap() < 300).then_some(())
    });
    let (flux, password) = of("flux");
    let own = centre.git_clone((&flux, &password), "git/cluster/A", &centre.run.file("own")).unwrap();
    assert!(own.status.success(), "{}", words(&own));
    let (monitor, password) = of("monitor");
    let published = centre.publish((&monitor, &password), "spBv1.0/ACME-A/NDATA/Monitor").unwrap();
    assert!(published.status.success() && !words(&published).contains("RC:135"), "{}", words(&published));
    let (krbkeys, password) = of("krbkeys");
    let (_, said) = centre.kadmin((&krbkeys, &password), "cpw -randkey op1monitor/A").unwrap();
    assert!(said.contains("randomized") || said.contains("changed"), "{said}");
    centre.set_password(&monitor, "own-monitor").unwrap();

    for role in ROLES {
        let (name, password) = of(role);
        let who = (name.as_str(), password.as_str());
        for status in [json!({ "hosts": hosts }), json!({ "kubeseal_cert": "x" }), json!({ "hosts": null })] {
            assert_eq!(centre.report(who, &b, &status).unwrap(), 403, "{name} {status}");
        }
        for path in ["git/cluster/B", &format!("git/uuid/{b}")] {
            let to = centre.run.file(&format!("stolen-{role}-{}", path.len()));
            let cloned = centre.git_clone(who, path, &to).unwrap();
            assert!(!cloned.status.success() && !to.join(".git/HEAD").exists(), "{name}: {}", words(&cloned));
        }
        let setup = Centre::entry(application::EDGE_CLUSTER_SETUP_STATUS, &b);
        assert_eq!(centre.ask(who, "GET", Program::ConfigDb, &setup).unwrap().status, 403, "{name}");
        let configuration = Centre::entry(application::EDGE_CLUSTER_CONFIGURATION, &b);
        for method in ["DELETE", "PUT"] {
            let status = centre.send(who, method, Program::ConfigDb, &configuration, &json!({})).unwrap().status;
            assert_eq!(status, 403, "{name} {method}");
        }
        for (method, path) in [
            ("POST", format!("v1/cluster/{b}/link")),
            ("POST", format!("v1/cluster/{b}/decommission")),
            ("PUT", format!("v1/cluster/{b}/secret/a/b/c")),
        ] {
            let answer = centre.send(who, method, Program::ClusterManager, &path, &json!({})).unwrap();
            assert!([403, 404].contains(&answer.status), "{name} {method} {path}: {answer:?}");
        }
        for account in &b_accounts {
            let path = format!("v2/principal/{account}/kerberos");
            let mine = json!(centre.parameters.upn("nd1stolen/A").unwrap());
            let put = centre.send(who, "PUT", Program::Auth, &path, &mine).unwrap();
            assert_eq!(put.status, 403, "{name}: {put:?}");
            assert_eq!(centre.ask(who, "DELETE", Program::Auth, &path).unwrap().status, 403, "{name}");
        }
        for whom in ROLES.map(|other| principal(other, "B")).into_iter().chain(["admin".to_owned()]) {
            for query in [
                format!("cpw -pw stolen {whom}"),
                format!("delprinc -force {whom}"),
                format!("ktadd -k /dev/null {whom}"),
            ] {
                let (_, said) = centre.kadmin(who, &query).unwrap();
                let refused = said.contains("privilege") || said.contains("not permitted");
                assert!(refused, "{name}: {query}: {said}");
            }
        }
        for topic in ["spBv1.0/ACME-B/NDATA/Monitor", "spBv1.0/ACME-B/NCMD/Monitor", "spBv1.0/ACME-B/NDEATH/Monitor"] {
            let published = centre.publish(who, topic).unwrap();
            let said = words(&published);
            let refused = said.contains("RC:135") || said.to_lowercase().contains("not authori");
            assert!(refused, "{name} {topic}: {said}");
        }
    }
    for role in ROLES {
        assert!(!centre.kinit(&principal(role, "B"), "stolen").unwrap().status.success());
        assert!(centre.kinit(&principal(role, "B"), &format!("others-{role}")).unwrap().status.success());
    }
    assert_eq!(states(&centre, "B"), [Some(true); 4]);
    assert_eq!((centre.setup_status(&b).unwrap(), accounts(&centre, &b)), (before, b_accounts));
    let status = Centre::entry(application::EDGE_CLUSTER_STATUS, &b);
    assert_eq!(centre.ask(centre.admin(), "GET", Program::ConfigDb, &status).unwrap().status, 404);
}
