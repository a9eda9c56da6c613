//! The centre's page in a real Chromium.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use latchkey_centre_site::Program;
use latchkey_factory_plus::uuids::{application, class, service};
use latchkey_qemu_tests::build;
use latchkey_qemu_tests::centre::Centre;
use latchkey_qemu_tests::centre::browser::{Browser, key};
use latchkey_test_support::{Npm, until_within};
use serde_json::{Value, json};

/// The page of a centre, before anybody has signed in.
struct Page {
    browser: Browser,
    axe: Option<String>,
    centre: Centre,
}

impl Page {
    fn open(name: &str, insecure: bool) -> Self {
        let mut centre = Centre::prepared(name, insecure).unwrap();
        centre.start().unwrap();
        let axe = axe(&centre.run.subdirectory("npm").unwrap()).map(|path| fs::read_to_string(path).unwrap());
        let browser = Browser::start(&centre.run).unwrap();
        browser.open(&centre.url(Program::ClusterManager, "")).unwrap();
        browser.shows("Sign in");
        Self { browser, axe, centre }
    }

    fn sign_in(&self) {
        self.browser.find("//input[@type='text']").enter("admin").unwrap();
        self.browser.find("//input[@type='password']").enter(&self.centre.password).unwrap();
        self.button("Sign in").click().unwrap();
        self.browser.find("//a[.='New cluster']");
    }

    fn button(&self, text: &str) -> latchkey_qemu_tests::centre::browser::Element<'_> {
        self.browser.find(&format!("//button[.='{text}']"))
    }

    /// The field of a form, by its label.
    fn field(&self, label: &str) -> latchkey_qemu_tests::centre::browser::Element<'_> {
        let field = "*[self::input or self::select or self::textarea]";
        self.browser.find(&format!("//label[.='{label}']/following-sibling::{field}"))
    }

    fn choose(&self, label: &str, option: &str) {
        self.browser
            .find(&format!("//label[.='{label}']/following-sibling::select/option[.='{option}']"))
            .click()
            .unwrap();
    }

    fn unfold(&self, title: &str) {
        self.browser.find(&format!("//summary[.='{title}']")).click().unwrap();
    }

    fn go(&self, place: &str) {
        self.browser.run("location.hash = arguments[0]", &[json!(place)]).unwrap();
    }

    /// Makes a cluster on the page, and waits until it is ready; its UUID.
    fn new_cluster(&self, name: &str) -> String {
        self.go("#/new");
        self.browser.find("//label[.='Name']/following-sibling::input").replace(name).unwrap();
        self.button("Create").click().unwrap();
        self.browser.shows("Ready to be bootstrapped");
        let hash = self.browser.run("return location.hash", &[]).unwrap();
        hash.as_str().unwrap().rsplit_once('/').unwrap().1.to_owned()
    }

    /// What a view must be, whatever it shows: without violations, without complaints, and no wider than its window.
    fn fit(&self, view: &str) {
        if let Some(axe) = &self.axe {
            self.browser.run(&format!("{axe}; window.axe = axe;"), &[]).unwrap();
            let found = self.browser.run_async(
                "const done = arguments[0]; window.axe.run().then(found => done(found.violations.map(violation => \
                 violation.id + ': ' + violation.nodes.map(node => node.html.slice(0, 200)).join(' | '))), \
                 error => done([String(error)]))",
            );
            assert_eq!(found.unwrap(), json!([]), "{view}");
        }
        // The browser itself notes each sign-in that was refused, one for each service, whenever it comes.
        let mut complaints = self.browser.complaints().unwrap();
        complaints.retain(|line| !(line.contains("/token ") && line.contains("status of 401")));
        assert_eq!(complaints, Vec::<String>::new(), "{view}");
        let wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(self.browser.run(wide, &[]).unwrap(), 0, "{view} scrolls sideways");
        if std::env::var_os("LATCHKEY_PICTURES").is_some() {
            self.browser.picture(&view.replace(' ', "-")).unwrap();
        }
    }
}

/// axe-core as its authors publish it.
fn axe(directory: &Path) -> Option<PathBuf> {
    Npm::install(&build::workspace().join("qemu-tests/npm"), directory).map(|npm| npm.file("axe-core/axe.min.js"))
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    now.as_millis().try_into().unwrap()
}

fn hosts(heartbeat: u64) -> Value {
    json!({ "heartbeat": heartbeat, "hosts": [
        { "hostname": "edge-1", "control_plane": true, "k8s_version": "v1.34.4", "arch": "amd64", "ready": true,
          "os_version": "<img src=x onerror=\"document.title='run'\">" },
        { "hostname": "edge-2", "control_plane": false, "k8s_version": "v1.34.4", "arch": "arm64", "ready": false,
          "specialised": "plc" },
    ] })
}

#[test]
fn an_operator_makes_bootstraps_and_deletes_a_cluster_on_the_page() {
    let page = Page::open("centre-page", false);
    let (browser, centre) = (&page.browser, &page.centre);
    page.fit("sign in");
    the_page_is_closed_to_others(centre);

    browser.find("//input[@type='text']").enter("admin").unwrap();
    browser.find("//input[@type='password']").enter("wrong").unwrap();
    page.button("Sign in").click().unwrap();
    browser.shows("The user or the password is wrong.");
    browser.open(&centre.url(Program::ClusterManager, "")).unwrap();
    let chart = a_chart_of_the_sites_own(centre);
    page.sign_in();
    the_token_is_in_memory_alone(browser);
    browser.shows("There is no cluster yet.");
    page.fit("empty list");

    names_are_checked_while_they_are_typed(&page);
    let uuid = page.new_cluster("Building_1");
    page.fit("ready");
    assert_eq!(centre.reported(&["show", "Building_1"]).unwrap()["uuid"], uuid);
    page.go("#/new");
    browser.find("//label[.='Name']/following-sibling::input").enter("building_1").unwrap();
    browser.shows("There is a cluster Building_1 already.");
    // It expires while the page is looked at.
    let short = centre.reported(&["command", "Building_1", "--lifetime", "1m"]).unwrap();
    page.go(&format!("#/cluster/{uuid}"));
    the_command_is_shown_copied_and_revoked(&page);
    the_hosts_are_listed(&page, &uuid);
    a_secret_is_sealed(&page, &uuid);
    an_agent_is_deployed_onto_a_host(&page, &uuid);
    a_cluster_is_made_of_another_chart_elsewhere_and_bare(&page, &chart);
    a_link_expires(&page, &uuid, &short);
    it_is_deleted_by_its_name(&page, &uuid);
}

/// Whoever takes over the profile, or another page of this origin, finds nothing of the session.
fn the_token_is_in_memory_alone(browser: &Browser) {
    let kept = "return [Object.entries(localStorage), Object.entries(sessionStorage), document.cookie]";
    assert_eq!(browser.run(kept, &[]).unwrap(), json!([[], [], ""]));
    // Those that no script sees, too.
    let cookies = browser.devtools("Storage.getCookies", &json!({})).unwrap();
    assert_eq!(cookies, json!({ "cookies": [] }));
    let databases = browser.run_async("const done = arguments[0]; indexedDB.databases().then(done, done)").unwrap();
    assert_eq!(databases, json!([]));
}

fn the_page_is_closed_to_others(centre: &Centre) {
    let head = centre.curl(&["--head", &centre.url(Program::ClusterManager, "")]).unwrap();
    let head = head.body.to_lowercase();
    for header in ["default-src 'none'", "frame-ancestors 'none'", "x-content-type-options: nosniff"] {
        assert!(head.contains(header), "{header} is missing in {head}");
    }
    assert!(!head.contains("unsafe-inline") && !head.contains("unsafe-eval"), "{head}");
}

fn names_are_checked_while_they_are_typed(page: &Page) {
    let browser = &page.browser;
    browser.find("//a[.='New cluster']").click().unwrap();
    let name = browser.find("//label[.='Name']/following-sibling::input");
    for (typed, said) in [
        ("1st", "A name begins with a letter"),
        ("a b", "A name has letters, digits and underscores"),
        ("<img/src=x>", "A name begins with a letter"),
        ("admin", "Choose another"),
    ] {
        name.replace(typed).unwrap();
        browser.shows(said);
    }
    page.fit("bad name");
    name.replace("Building_1").unwrap();
    browser.shows("Its Sparkplug group will be ACME-Building_1.");
    page.fit("good name");
}

fn the_command_is_shown_copied_and_revoked(page: &Page) {
    let browser = &page.browser;
    browser.permission("clipboard-write", "granted").unwrap();
    browser.permission("clipboard-read", "granted").unwrap();
    page.button("Make the command").click().unwrap();
    let command = browser.find("//pre[@aria-labelledby='plain']").text().unwrap();
    let command = command.as_str();
    page.button("Copy").click().unwrap();
    browser.shows("Copied");
    let copied = browser.run_async(
        "const done = arguments[0]; navigator.clipboard.readText().then(done, error => done(String(error)))",
    );
    assert_eq!(copied.unwrap(), json!(command));
    let url =
        command.split_whitespace().find(|word| word.contains("/v1/bootstrap/")).unwrap().trim_matches(['\'', '"']);
    assert_eq!(page.centre.curl(&[url]).unwrap().status, 200, "{command}");
    page.fit("command");

    browser.permission("clipboard-write", "denied").unwrap();
    browser.find("//pre[@aria-labelledby='checked']/following-sibling::button").click().unwrap();
    browser.shows("Selected: press Ctrl+C");
    let (checked, selected) =
        (browser.find("//pre[@aria-labelledby='checked']").text(), browser.run("return String(getSelection())", &[]));
    assert_eq!(selected.unwrap().as_str().unwrap().trim(), checked.unwrap());

    page.button("Revoke").click().unwrap();
    browser.shows("revoked");
    assert_eq!(page.centre.curl(&[url]).unwrap().status, 410);
    page.fit("revoked");
}

fn the_hosts_are_listed(page: &Page, uuid: &str) {
    let (browser, centre) = (&page.browser, &page.centre);
    assert!(centre.report(centre.admin(), uuid, &hosts(now())).unwrap() < 300);
    browser.shows("1 of 2 hosts ready");
    for text in ["Online", "Offline", "plc", "<img src=x onerror"] {
        browser.shows(text);
    }
    assert_eq!(browser.run("return document.querySelectorAll('main img').length", &[]).unwrap(), 0);
    assert_ne!(browser.run("return document.title", &[]).unwrap(), "run");
    page.fit("hosts");
    the_machine_and_the_edges_problems_are_shown(page, uuid);
    assert!(centre.report(centre.admin(), uuid, &hosts(now() - 600_000)).unwrap() < 300);
    browser.shows("Stale");
    page.fit("stale");

    // 400 % of a window of 1280 by 1024.
    browser.size(320, 256).unwrap();
    page.fit("narrow cluster");
    for place in ["#/", "#/new"] {
        page.go(place);
        browser.find("//h1");
        page.fit(&format!("narrow {}", place.trim_matches(['#', '/'])));
    }
    browser.devtools("Emulation.clearDeviceMetricsOverride", &json!({})).unwrap();
    let media = |name: &str, value: &str| json!({ "features": [{ "name": name, "value": value }] });
    browser.devtools("Emulation.setEmulatedMedia", &media("prefers-color-scheme", "dark")).unwrap();
    for place in ["#/", "#/new", &format!("#/cluster/{uuid}")] {
        page.go(place);
        browser.find("//h1");
        page.fit(&format!("dark {}", place.trim_matches(['#', '/']).split('/').next().unwrap()));
    }
    let ground = browser.run("return getComputedStyle(document.documentElement).backgroundColor", &[]).unwrap();
    assert_ne!(ground, "rgb(255, 255, 255)");
    browser.devtools("Emulation.setEmulatedMedia", &media("prefers-reduced-motion", "reduce")).unwrap();
    let moving = "const moving = document.createElement('p'); moving.className = 'moving'; document.body.append(moving); \
                  const name = getComputedStyle(moving, '::before').animationName; moving.remove(); return name";
    assert_eq!(browser.run(moving, &[]).unwrap(), "none");
    browser.devtools("Emulation.setEmulatedMedia", &json!({ "features": [] })).unwrap();
    assert_ne!(browser.run(moving, &[]).unwrap(), "none", "where nobody asked for less");
}

/// Stays so: the views that follow are looked at with it.
fn the_machine_and_the_edges_problems_are_shown(page: &Page, uuid: &str) {
    let (browser, centre) = (&page.browser, &page.centre);
    let (ek, policy) = ("ab".repeat(32), "cd".repeat(32));
    let image = json!({ "manifest": "edge", "serial": 3, "name": "edge-node", "version": "1.2.0", "machine": "qemu" });
    let by = json!({ "rule": "line <b>1</b>" });
    let record = json!({ "ek_sha256": ek, "image": image, "policy_sha256": policy, "by": by, "at": 1_800_000_000 });
    assert!(centre.register(uuid, &record).unwrap() < 300);
    let errors = json!({ "errors": ["HelmRelease <i>press</i> cannot be applied: no such namespace"] });
    assert!(centre.report(centre.admin(), uuid, &errors).unwrap() < 300);
    browser.shows("1 of 2 hosts ready; a problem at the edge");
    for text in [
        "HelmRelease <i>press</i> cannot be applied",
        "Rule line <b>1</b>",
        "edge-node 1.2.0, for qemu",
        "edge, revision 3",
        "2027-01-15T08:00:00Z",
        ek.as_str(),
        policy.as_str(),
    ] {
        browser.shows(text);
    }
    page.fit("registered");
    let shown = centre.reported(&["show", "Building_1"]).unwrap();
    assert_eq!((&shown["registration"], &shown["errors"]), (&record, &errors["errors"]));
}

fn a_secret_is_sealed(page: &Page, uuid: &str) {
    let (browser, centre) = (&page.browser, &page.centre);
    assert!(!browser.text().contains("Seal a secret"), "the edge has not said what to seal for");
    let status = json!({ "kubeseal_cert": centre.sealing_certificate().unwrap() });
    assert!(centre.report(centre.admin(), uuid, &status).unwrap() < 300);
    page.unfold("Seal a secret");
    page.field("Namespace").enter("../fplus-edge").unwrap();
    page.field("Secret").enter("plc").unwrap();
    page.field("Key").enter("pass word").unwrap();
    page.field("Value").enter("a secret of the page").unwrap();
    page.button("Seal").click().unwrap();
    browser.shows("A namespace has lower-case letters, digits and hyphens");
    browser.shows("A key has letters, digits, hyphens, dots and underscores.");
    page.fit("bad secret");
    page.field("Namespace").replace("fplus-edge").unwrap();
    page.field("Key").replace("password").unwrap();
    page.button("Seal").click().unwrap();
    browser.shows("Sealed, and in the repository.");
    let left = browser.run("return document.querySelector('textarea').value", &[]).unwrap();
    assert_eq!(left, "", "the page keeps no secret");
    page.fit("sealed");
    let clone = centre.run.file("clone-sealed");
    assert!(centre.git_clone(centre.admin(), "git/cluster/Building_1", &clone).unwrap().status.success());
    let manifest = fs::read_to_string(clone.join("edo/secrets/fplus-edge/plc.yaml")).unwrap();
    assert!(manifest.contains("kind: SealedSecret") && manifest.contains("password: "), "{manifest}");
    assert!(!manifest.contains("a secret of the page"), "{manifest}");
}

fn an_agent_is_deployed_onto_a_host(page: &Page, uuid: &str) {
    let (browser, centre) = (&page.browser, &page.centre);
    page.unfold("Deploy an edge agent");
    page.field("Name of the agent").enter("Press 1").unwrap();
    page.button("Deploy").click().unwrap();
    browser.shows("A name begins with a letter and has letters, digits and underscores, 31 at most.");
    page.field("Name of the agent").replace("Press_1").unwrap();
    page.choose("Host", "edge-2");
    page.button("Deploy").click().unwrap();
    browser.shows("Press_1 is being deployed.");
    page.fit("deployed");
    let read = |application, object: &str| {
        let path = Centre::entry(application, object);
        centre.ask(centre.admin(), "GET", Program::ConfigDb, &path).unwrap().json()
    };
    let agents = centre.members(&class::EDGE_AGENT.to_string()).unwrap();
    let [agent] = agents.as_slice() else { panic!("{agents:?}") };
    let agent = agent.as_str().unwrap();
    assert_eq!(read(application::INFO, agent)["name"], "Press_1");
    let mut deployed = read(application::EDGE_DEPLOYMENT, agent);
    let made = deployed.as_object_mut().unwrap().remove("createdAt").unwrap();
    assert!(made.as_str().unwrap().ends_with('Z'), "{made}");
    let chart = &read(application::SERVICE_CONFIG, &service::MANAGER.to_string())["helm"]["agent"];
    assert_eq!(deployed, json!({ "name": "Press_1", "cluster": uuid, "chart": chart, "hostname": "edge-2" }));
}

/// A Helm chart that the centre does not bring: its UUID.
fn a_chart_of_the_sites_own(centre: &Centre) -> String {
    let send = |method, path: &str, body: &Value| {
        let answer = centre.send(centre.admin(), method, Program::ConfigDb, path, body).unwrap();
        assert!((200..300).contains(&answer.status), "{answer:?}");
        answer.json()
    };
    let chart = send("POST", "v2/object", &json!({ "class": class::HELM_CHART }))["uuid"].as_str().unwrap().to_owned();
    send("PUT", &Centre::entry(application::INFO, &chart), &json!({ "name": "Press hall" }));
    let path = Centre::entry(application::HELM_CHART_TEMPLATE, centre.chart().unwrap().as_str().unwrap());
    let template = centre.ask(centre.admin(), "GET", Program::ConfigDb, &path).unwrap().json();
    send("PUT", &Centre::entry(application::HELM_CHART_TEMPLATE, &chart), &template);
    chart
}

fn a_cluster_is_made_of_another_chart_elsewhere_and_bare(page: &Page, chart: &str) {
    let (browser, centre) = (&page.browser, &page.centre);
    page.go("#/new");
    page.field("Name").enter("Hall_2").unwrap();
    page.choose("Helm chart", "Press hall");
    page.field("Namespace").replace("Press").unwrap();
    browser.shows("A namespace has lower-case letters, digits and hyphens");
    page.field("Namespace").replace("press").unwrap();
    browser.find("//label[@for='bare']").click().unwrap();
    page.fit("bare cluster");
    page.button("Create").click().unwrap();
    browser.shows("Ready to be bootstrapped");
    browser.shows("Press hall (bare)");
    page.fit("bare and ready");
    let hash = browser.run("return location.hash", &[]).unwrap();
    let uuid = hash.as_str().unwrap().rsplit_once('/').unwrap().1;
    let path = Centre::entry(application::EDGE_CLUSTER_CONFIGURATION, uuid);
    let configuration = centre.ask(centre.admin(), "GET", Program::ConfigDb, &path).unwrap().json();
    let values = json!({ "sealedSecrets": { "enabled": false } });
    let expected = json!({ "chart": chart, "name": "Hall_2", "namespace": "press", "bare": true, "values": values });
    assert_eq!(configuration, expected);
}

/// `link` was made for a minute, the shortest time that there is.
fn a_link_expires(page: &Page, uuid: &str, link: &Value) {
    let (browser, centre) = (&page.browser, &page.centre);
    let url = link["url"].as_str().unwrap();
    let left = Duration::from_millis(link["expires"].as_u64().unwrap().saturating_sub(now()));
    assert!(left <= Duration::from_mins(1), "{left:?}");
    let gone = until_within("the link to expire", left + Duration::from_secs(5), Duration::from_millis(500), || {
        centre.curl(&[url]).ok().filter(|answer| answer.status != 200)
    });
    assert_eq!((gone.status, gone.body.contains("has expired")), (410, true), "{gone:?}");
    let shown = centre.reported(&["show", "Building_1"]).unwrap();
    let state =
        |id: &Value| shown["links"].as_array().unwrap().iter().find(|link| link["id"] == *id).unwrap()["state"].clone();
    assert_eq!(state(&link["id"]), "expired");
    page.go("#/");
    page.go(&format!("#/cluster/{uuid}"));
    browser.shows("expired");
    page.fit("expired");
}

fn it_is_deleted_by_its_name(page: &Page, uuid: &str) {
    let (browser, centre) = (&page.browser, &page.centre);
    browser.find("//summary[.='Delete the cluster']").click().unwrap();
    browser.find("//details//button[.='Delete']").click().unwrap();
    page.fit("asked for the name");
    let word = browser.find("//dialog//input");
    word.enter("Building_2").unwrap();
    browser.find("//dialog//button[.='Delete']").click().unwrap();
    browser.shows("That is not Building_1.");
    browser.press(key::ESCAPE).unwrap();
    browser.wait("closed dialog", || {
        (browser.run("return document.querySelector('dialog')", &[]).ok()? == Value::Null).then_some(())
    });
    assert_eq!(centre.clusters().unwrap()[uuid]["phase"], "ready");
    browser.find("//details//button[.='Delete']").click().unwrap();
    browser.find("//dialog//input").enter("Building_1").unwrap();
    browser.find("//dialog//button[.='Delete']").click().unwrap();
    browser.shows("Deleted; its accounts are disabled");
    page.fit("deleted");
    browser.find("//details//button[.='Decommission']").click().unwrap();
    browser.find("//dialog//input").enter("Building_1").unwrap();
    browser.find("//dialog//button[.='Decommission']").click().unwrap();
    browser.shows("Decommissioned; its name is free from");
    page.fit("decommissioned");
    assert!(centre.principals_of("Building_1").unwrap().is_empty());
}

#[test]
fn the_page_is_used_with_the_keyboard_alone_and_says_that_there_is_no_tls() {
    let page = Page::open("centre-keys", true);
    let browser = &page.browser;
    browser.shows("This centre runs without TLS");
    page.fit("insecure");
    // The user's field has the focus.
    browser.press(&format!("admin{}{}{}", key::TAB, page.centre.password, key::ENTER)).unwrap();
    browser.find("//a[.='New cluster']");
    reach(browser, "New cluster");
    browser.press(key::ENTER).unwrap();
    browser.find("//label[.='Name']");
    browser.press(&format!("Keys_1{}", key::ENTER)).unwrap();
    browser.shows("Ready to be bootstrapped");
    reach(browser, "Make the command");
    browser.press(key::ENTER).unwrap();
    browser.find("//pre[@aria-labelledby='plain']");
    reach(browser, "Delete the cluster");
    browser.press(key::ENTER).unwrap();
    reach(browser, "Delete");
    browser.press(key::ENTER).unwrap();
    browser.find("//dialog//input");
    browser.press(&format!("Keys_1{}", key::ENTER)).unwrap();
    browser.shows("Deleted; its accounts are disabled");
    page.fit("deleted by keys");
    reach(browser, "Sign out");
    browser.press(key::ENTER).unwrap();
    browser.find("//input[@type='password']");
}

/// Presses Tab until what has this text has the focus, and that can be seen.
fn reach(browser: &Browser, text: &str) {
    for _ in 0..60 {
        browser.press(key::TAB).unwrap();
        let focus = "const at = document.activeElement; return [at.innerText ?? '', getComputedStyle(at).outlineStyle]";
        let focus = browser.run(focus, &[]).unwrap();
        if focus[0].as_str().unwrap().trim() == text {
            assert_ne!(focus[1], "none", "the focus on {text} is not seen");
            return;
        }
    }
    panic!("Tab does not lead to {text}:\n{}", browser.text());
}
