//! `latchkey centre up`, and who its services let in.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::scope;
use std::time::Duration;

use latchkey_centre_site::{Program, Service};
use latchkey_factory_plus::uuids::application;
use latchkey_qemu_tests::centre::Centre;
use latchkey_qemu_tests::process::{Finished, TOOL, output};
use latchkey_test_support::{PATIENCE, skip, status_within, until, until_within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn signal(id: u32, signal: Signal) {
    kill_process(Pid::from_raw(id.try_into().unwrap()).unwrap(), signal).unwrap();
}

/// What a start that failed said, for people or programs.
fn said(done: &Finished) -> String {
    assert!(!done.status.success(), "it must fail");
    String::from_utf8_lossy(&[done.out.clone(), done.err.clone()].concat()).into_owned()
}

fn info(object: &str) -> String {
    Centre::entry(application::INFO, object)
}

#[test]
fn a_centre_is_up_in_seconds_and_goes_on_with_what_it_had() {
    let mut centre = Centre::prepared("centre-up", false).unwrap();
    let (report, taken) = centre.start().unwrap();
    // Said and not judged: this machine may do anything else meanwhile.
    eprintln!("centre up, from nothing to its page, programs of the development profile: {taken:?}");
    assert_eq!(report["page"], centre.parameters.place(Program::ClusterManager).url.to_string());
    assert_eq!((&report["user"], &report["realm"]), (&json!("admin"), &json!("FACTORY.TEST")));
    assert!(centre.password.len() >= 32, "160 bits");
    let mut running: Vec<_> = centre.children().into_iter().map(|child| child.program).collect();
    running.sort();
    let ours = Service::ALL.map(Service::file_name);
    let mut expected: Vec<_> = ours.into_iter().chain(["kadmind", "krb5kdc", "mosquitto"]).collect();
    expected.sort_unstable();
    assert_eq!(running, expected);

    let object = centre.cluster_object().unwrap();
    let name = json!({"name": "Kept"});
    let written = centre.send(centre.admin(), "PUT", Program::ConfigDb, &info(&object), &name).unwrap();
    assert_eq!(written.status, 201, "{written:?}");
    assert_eq!(report["event"], "running");
    let machines = report["enrol_service"].clone();
    assert_eq!(machines["address"], centre.parameters.enrol_service());
    assert_eq!(machines["directory"], centre.layout.registrations().to_str().unwrap());
    assert_eq!(
        enrol(&centre, "--print-key-hash"),
        format!("latchkey.centre_key={}\n", machines["key"].as_str().unwrap())
    );
    let check = enrol(&centre, "--check");
    assert!(check.contains("admit nobody: there is no policy.json"), "{check}");
    assert!(check.contains(&format!("be sv1enrol@{}", centre.parameters.realm)), "{check}");
    assert!(centre.stop().unwrap().success());
    assert_eq!(centre.ending(), [json!({"schema": 1, "event": "ended"})]);
    assert_eq!(centre.processes(), []);

    let (report, taken) = centre.start().unwrap();
    eprintln!("centre up again: {taken:?}");
    assert_eq!((&report["password"], &report["enrol_service"]), (&Value::Null, &machines));
    let kept = centre.ask(centre.admin(), "GET", Program::ConfigDb, &info(&object)).unwrap();
    assert_eq!((kept.status, kept.json()), (200, name));

    // One at a time.
    let second = said(&centre.start_in_vain(&[]).unwrap());
    assert!(second.contains("runs already") && second.contains("directory-busy"), "{second}");
    assert_eq!(centre.ask(centre.admin(), "GET", Program::ConfigDb, &info(&object)).unwrap().status, 200);

    // What one of them suffers ends all, and says so.
    signal(centre.child("latchkey-directory").unwrap(), Signal::KILL);
    assert!(!centre.ended().unwrap().success());
    let [error] = &centre.ending()[..] else { panic!("{:?}", centre.ending()) };
    let why = error["error"]["message"].as_str().unwrap();
    assert!(why.contains("latchkey-directory") && why.contains("directory.log"), "{why}");
    assert_eq!(error["error"]["code"], "program-ended");
    assert_eq!(centre.processes(), []);
    centre.start_with(&["--new-password"]).unwrap();
    assert_eq!(centre.ask(centre.admin(), "GET", Program::ConfigDb, &info(&object)).unwrap().status, 200);
}

/// Kills `latchkey centre up`, and waits until nothing of the centre runs.
fn kill(centre: &mut Centre) {
    assert_eq!(centre.kill().unwrap().signal(), Some(Signal::KILL.as_raw()), "{}", centre.said());
    until("all processes of the centre to end", || centre.processes().is_empty().then_some(()));
}

#[test]
fn a_centre_whose_command_is_killed_ends_and_goes_on_with_what_it_had() {
    let mut centre = Centre::started("centre-killed").unwrap();
    let cluster = centre.made("Hall").unwrap();
    let status = centre.setup_status(&cluster).unwrap();
    let flux = ("op1flux/Hall", "kept");
    centre.set_password(flux.0, flux.1).unwrap();
    let running: Vec<_> = centre.processes().into_iter().map(|process| process.program).collect();
    assert!(running.iter().any(|program| program == "latchkey-kerberos-helper"), "grandchildren, too: {running:?}");
    kill(&mut centre);

    let (report, _) = centre.start().unwrap();
    assert_eq!(report["password"], Value::Null, "the operator's password is the one of before");
    centre.reaches(&cluster, "ready");
    assert_eq!(centre.setup_status(&cluster).unwrap(), status);
    let cloned = centre.git_clone(flux, "git/cluster/Hall", &centre.run.file("clone")).unwrap();
    assert!(cloned.status.success(), "{}", String::from_utf8_lossy(&cloned.err));
    assert!(centre.stop().unwrap().success());
}

#[test]
fn a_first_start_that_is_killed_is_completed_by_a_later_one() {
    let mut centre = Centre::prepared("centre-half", false).unwrap();
    let layout = centre.layout.clone();
    let mut killed_once = |what: &str, there: &dyn Fn(&Centre) -> bool| {
        centre.begin(&[]).unwrap();
        // Often: what is to be interrupted takes some milliseconds.
        let seen = until_within(what, PATIENCE, Duration::from_millis(1), || {
            if there(&centre) { Some(true) } else { (!centre.is_running()).then_some(false) }
        });
        if !seen {
            let status = centre.ended().unwrap();
            panic!("waited for {what}, and the command ended: {status}: {}", centre.said());
        }
        kill(&mut centre);
    };
    killed_once("the KDC's database to be begun", &|centre| centre.layout.kdc_database().exists());
    // Killed there a moment later, kdb5_util leaves this.
    fs::write(layout.kdc_stash_begun(), "half").unwrap();
    for program in ["krb5kdc", Program::ConfigDb.file_name(), "mosquitto"] {
        killed_once(&format!("{program} to be started"), &|centre| centre.child(program).is_ok());
    }
    centre.start().unwrap();
    assert!(centre.password.len() >= 32, "nobody was told a password before");
    centre.reported(&["new", "Hall"]).unwrap();
}

#[test]
fn a_centre_that_has_lost_its_realm_gets_no_empty_one_by_itself() {
    let mut centre = Centre::started("centre-lost-realm").unwrap();
    assert!(centre.stop().unwrap().success());
    let (database, away) = (centre.layout.kdc_database(), centre.run.file("away"));
    fs::rename(&database, &away).unwrap();
    centre.begin(&[]).unwrap();
    assert!(!centre.ended().unwrap().success());
    let said = centre.said();
    assert!(said.contains("is gone, and its master key") && said.contains("centre restore"), "{said}");
    assert!(!database.exists() && centre.layout.kdc_stash().exists());
    fs::rename(&away, &database).unwrap();
    centre.start().unwrap();
}

/// What the enrol service says of its configuration.
fn enrol(centre: &Centre, asked: &str) -> String {
    let mut command = Command::new(centre.programs().join(Service::Enrol.file_name()));
    let done = command.arg("--config").arg(centre.layout.config(Service::Enrol)).arg(asked).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn the_enrol_service_has_an_account_of_its_own_that_reaches_no_cluster_of_others() {
    let centre = Centre::started("centre-enrol").unwrap();
    let account = Service::Enrol.account();
    let password = fs::read_to_string(centre.layout.password(account)).unwrap();
    let its = (account, password.as_str());
    let cluster = centre.cluster_object().unwrap();
    // It may read what it goes by, and so learns that there is nothing yet.
    for known in [application::EDGE_CLUSTER_CONFIGURATION, application::EDGE_CLUSTER_SETUP_STATUS] {
        until("its rights to be known", || {
            let read = centre.ask(its, "GET", Program::ConfigDb, &Centre::entry(known, &cluster)).unwrap();
            (read.status == 404).then_some(())
        });
    }
    let read = centre.ask(its, "GET", Program::ConfigDb, &info(&cluster)).unwrap();
    assert_eq!(read.status, 403, "{read:?}");
    let theirs = Centre::entry(application::EDGE_CLUSTER_CONFIGURATION, &cluster);
    let configuration = json!({"name": "Theirs", "namespace": "fplus-edge", "chart": cluster});
    let written = centre.send(its, "PUT", Program::ConfigDb, &theirs, &configuration).unwrap();
    assert_eq!(written.status, 403, "{written:?}");
    let asked =
        centre.send(its, "POST", Program::ClusterManager, &format!("v1/cluster/{cluster}/manifests"), &json!({}));
    let asked = asked.unwrap();
    assert_eq!(asked.status, 403, "{asked:?}");
}

#[test]
fn what_keeps_a_centre_from_its_start_is_named_and_nothing_is_left_running() {
    let centre = Centre::prepared("centre-vain", true).unwrap();
    let taken = centre.parameters.place(Program::ConfigDb).listen;
    let listener = TcpListener::bind(taken).unwrap();
    let said_of_port = said(&centre.start_in_vain(&[]).unwrap());
    let expected = format!("latchkey-config-db cannot listen on {taken}");
    assert!(said_of_port.contains(&expected) && said_of_port.contains("port-taken"), "{said_of_port}");
    assert_eq!(centre.processes(), []);
    drop(listener);

    let programs = centre.linked_programs("programs").unwrap();
    let mut centre = centre.with_programs(programs);
    let some = [
        "latchkey-enrol-service",
        "latchkey-git-server",
        "latchkey-kerberos-helper",
        "liblatchkey_mosquitto_plugin.so",
    ];
    let places = some.map(|program| (centre.programs().join(program), centre.run.file(program)));
    for (here, away) in &places {
        fs::rename(here, away).unwrap();
    }
    let said_of_programs = said(&centre.start_in_vain(&[]).unwrap());
    let named = |program: &&str| said_of_programs.contains(*program);
    assert!(some.iter().all(named) && named(&"program-missing"), "all at once: {said_of_programs}");
    assert!(!said_of_programs.contains("starting"), "before anything is started: {said_of_programs}");
    assert_eq!(centre.processes(), []);
    for (here, away) in &places {
        fs::rename(away, here).unwrap();
    }
    let other = said(&centre.start_in_vain(&["--realm", "OTHER.TEST"]).unwrap());
    assert!(other.contains("--realm") && other.contains("FACTORY.TEST"), "{other}");

    // And what failed before is mended by another start.
    let (report, _) = centre.start().unwrap();
    assert_eq!(report["authorities"], Value::Null, "there is no TLS");
    let page = centre.curl(&[&centre.url(Program::ClusterManager, "page.json")]).unwrap();
    assert_eq!((page.status, &page.json()["insecure"]), (200, &json!(true)));
    assert!(page.json()["services"]["config_db"].as_str().unwrap().starts_with("http://"));
    assert!(centre.stop().unwrap().success());
    assert_eq!(centre.processes(), []);
}

/// A Python with requests-kerberos of `PyPI`, made once beside the build's other files; `None`, and a line that says so, where there is
/// none. GSSAPI is Debian's. pyspnego wants `krb5` too, which asks for tickets by password or keytab and would have to be compiled: it
/// gets an empty module of this name, since tickets are there.
fn python_with_requests_kerberos() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let home = target.join("requests-kerberos");
    let (python, ready) = (home.join("bin/python"), home.join("ready"));
    // Packages may come over a slow network.
    let run = |command: &mut Command| status_within(TOOL, command).is_ok_and(|status| status.success());
    let pip = |packages: &[&str]| run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(packages));
    let made = ready.exists()
        || run(Command::new("/usr/bin/python3").args(["-c", "import gssapi"]))
            && run(Command::new("/usr/bin/python3")
                .args(["-m", "venv", "--clear", "--system-site-packages"])
                .arg(&home))
            && pip(&["requests==2.34.2", "cryptography"])
            && pip(&["--no-deps", "requests-kerberos==0.15.0", "pyspnego==0.12.4"])
            && run(Command::new(&python)
                .args(["-c", "import sysconfig; open(sysconfig.get_path('purelib') + '/krb5.py', 'x')"]))
            && fs::write(ready, []).is_ok();
    if !made {
        skip("no Debian python3 with venv and python3-gssapi, or no package index, for requests-kerberos");
    }
    made.then_some(python)
}

/// The statuses that requests-kerberos gets with the ticket of who signed in; each service has to prove itself, too. The ticket is sent
/// unasked, as curl does it: these services ask for Basic alone, as the original's do.
fn requests_kerberos(centre: &Centre, python: &Path, urls: &[String]) -> Vec<u16> {
    let script = "import json, sys, requests, requests_kerberos as kerberos\n\
                  auth = lambda: kerberos.HTTPKerberosAuth(kerberos.REQUIRED, force_preemptive=True)\n\
                  get = lambda url: requests.get(url, auth=auth(), verify=sys.argv[1], timeout=60)\n\
                  print(json.dumps([get(url).status_code for url in sys.argv[2:]]))";
    let mut command = Command::new(python);
    command.args(["-c", script]).arg(centre.layout.authority()).args(urls);
    command.env("KRB5_CONFIG", centre.layout.krb5_conf()).env("KRB5CCNAME", centre.tickets());
    serde_json::from_str(&output(&mut command).unwrap()).unwrap()
}

#[test]
fn callers_are_let_in_by_password_ticket_and_token_and_nobody_else_is() {
    let centre = Centre::started("centre-callers").unwrap();
    let page = centre.curl(&[&centre.url(Program::ClusterManager, "page.json")]).unwrap();
    assert_eq!((page.status, &page.json()["insecure"]), (200, &json!(false)));
    let answers = [Program::Auth, Program::ConfigDb, Program::GitServer, Program::ClusterManager];
    for program in answers {
        let token = centre.ask(centre.admin(), "POST", program, "token").unwrap();
        assert_eq!(token.status, 200, "{program:?} {token:?}");
        let token = token.json()["token"].as_str().unwrap().to_owned();
        let bearer = format!("authorization: Bearer {token}");
        let ping = centre.url(program, "ping");
        assert_eq!(centre.curl(&["--header", &bearer, &ping]).unwrap().status, 200, "{program:?}");
        let other = if token.ends_with('x') { "y" } else { "x" };
        let forged = format!("authorization: Bearer {}{other}", &token[..token.len() - 1]);
        assert_eq!(centre.curl(&["--header", &forged, &ping]).unwrap().status, 401, "{program:?}");
        let wrong = centre.ask(("admin", "wrong"), "POST", program, "token").unwrap();
        assert_eq!(wrong.status, 401, "{program:?} {wrong:?}");
        let nobody = centre.ask(("nobody", "wrong"), "POST", program, "token").unwrap();
        assert_eq!((nobody.status, nobody.body), (401, wrong.body), "who is there is not told");
        assert_eq!(centre.curl(&["--request", "POST", &centre.url(program, "token")]).unwrap().status, 401);
    }

    let signed_in = centre.kinit("admin", &centre.password).unwrap();
    assert!(signed_in.status.success(), "{}", String::from_utf8_lossy(&signed_in.err));
    for program in answers {
        let url = centre.url(program, "token");
        let token = centre.curl(&["--negotiate", "--user", ":", "--request", "POST", &url]).unwrap();
        assert_eq!(token.status, 200, "{program:?} {token:?}");
    }
    let pings: Vec<_> = answers.iter().map(|program| centre.url(*program, "ping")).collect();
    if let Some(python) = python_with_requests_kerberos() {
        assert_eq!(requests_kerberos(&centre, &python, &pings), [200; 4]);
    }

    // A KDC that hangs: nobody is called a liar for it. Who is known was verified just before, and is asked first: what is
    // remembered is forgotten after a while.
    let kdc = centre.child("krb5kdc").unwrap();
    let [known, other] = [("known", "one-password"), ("other", "a-password")];
    for (name, password) in [known, other] {
        centre.set_password(name, password).unwrap();
    }
    let ticket = centre.url(Program::ConfigDb, "token");
    let ask = |caller| centre.ask(caller, "POST", Program::ConfigDb, "token");
    assert_eq!(ask(known).unwrap().status, 200);
    signal(kdc, Signal::STOP);
    let remembered = ask(known);
    let down = ask(other);
    let ticket = centre.curl(&["--negotiate", "--user", ":", "--request", "POST", &ticket]);
    signal(kdc, Signal::CONT);
    assert_eq!(remembered.unwrap().status, 200, "verified a moment ago");
    assert_eq!(down.unwrap().status, 503);
    assert_eq!(ticket.unwrap().status, 200, "a ticket needs no KDC");
    until("the KDC's return", || {
        let token = centre.ask(other, "POST", Program::ConfigDb, "token").unwrap();
        (token.status == 200).then_some(())
    });
}

#[test]
fn many_who_guess_at_once_keep_nobody_who_knows_from_signing_in_for_long() {
    let centre = Centre::started("centre-guesses").unwrap();
    scope(|threads| {
        for guess in 0..8 {
            let centre = &centre;
            threads.spawn(move || {
                let guessed = centre.ask(("admin", &format!("guess{guess}")), "POST", Program::Auth, "token").unwrap();
                assert!([401, 429].contains(&guessed.status), "{guessed:?}");
            });
        }
    });
    until("the operator to be let in", || {
        let token = centre.ask(centre.admin(), "POST", Program::Auth, "token").unwrap();
        (token.status == 200).then_some(())
    });
}
