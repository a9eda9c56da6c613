//! Redeeming bootstrap links.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use latchkey_cluster_manager::machine::Answer as Done;
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::manager::{Link, LinkState, NewLink, Phase, Redeemed};
use latchkey_factory_plus_client::Precondition;
use latchkey_test_support::block_on;
use serde_json::json;

use crate::served::http::{Answer, ask, post};
use crate::served::rig::{ADMIN, Rig};

/// The path of a new link, and its id.
fn link(rig: &Rig, cluster: Uuid) -> (String, Uuid) {
    let path = format!("v1/cluster/{cluster}/link");
    let (_, made): (_, NewLink) = block_on(rig.service(ADMIN).post(&path, &json!({}))).unwrap();
    (made.url.strip_prefix(&format!("http://{}", rig.address())).unwrap().to_owned(), made.id)
}

fn redeem(rig: &Rig, link: &str, claim: u8) -> Answer {
    let body = json!({ "claim": URL_SAFE_NO_PAD.encode([claim; 32]) });
    post(rig.address(), &format!("{link}/redeem"), &body.to_string())
}

fn links(rig: &Rig, cluster: Uuid) -> Vec<Link> {
    block_on(rig.service(ADMIN).read(&format!("v1/cluster/{cluster}/link"))).unwrap().unwrap()
}

#[test]
fn one_edge_redeems_a_link_and_another_is_told_as_theft() {
    let mut rig = Rig::new();
    let cluster = rig.ready("Nord");
    let (at, id) = link(&rig, cluster);
    assert_eq!(ask(rig.address(), "GET", &at, "").status, 200);

    let first = redeem(&rig, &at, 1);
    assert_eq!((first.status, first.header("cache-control")), (200, Some("no-store")), "{}", first.text());
    let first: Redeemed = serde_json::from_slice(&first.body).unwrap();
    assert_eq!(
        (first.cluster, first.name.as_str(), first.principal.as_str(), first.password.len()),
        (cluster, "Nord", "op1krbkeys/Nord@EXAMPLE.ORG", 43)
    );
    let admitted = "admit op1krbkeys/Nord@EXAMPLE.ORG, 43 bytes, 10 min".to_owned();
    assert_eq!(*rig.principals.asked.lock().unwrap(), std::slice::from_ref(&admitted));
    // The first answer may have been lost, also with the centre's power.
    rig.start_manager();
    let again: Redeemed = serde_json::from_slice(&redeem(&rig, &at, 1).body).unwrap();
    assert_eq!(again.principal, first.principal);
    assert_ne!(again.password, first.password, "nothing keeps a password");

    assert_eq!(rig.until("the cluster", |all| all.get(&cluster).cloned()).theft, None);
    let other = redeem(&rig, &at, 2);
    assert_eq!(
        (other.status, other.text().contains("another edge redeemed this link")),
        (409, true),
        "{}",
        other.text()
    );
    assert_eq!(*rig.principals.asked.lock().unwrap(), [admitted.clone(), admitted.clone()]);
    // Whoever follows the clusters is told at once, and after a restart.
    rig.until("the theft", |all| all[&cluster].theft);
    rig.start_manager();
    rig.until("the theft", |all| all.get(&cluster)?.theft);
    assert_eq!(links(&rig, cluster)[0].state, LinkState::Theft);
    let uses: Vec<String> = links(&rig, cluster)[0].uses.iter().map(|used| used.what.clone()).collect();
    assert_eq!(uses, ["read", "redeemed", "redeemed again", "redeemed by another"]);
    // The edge that was first goes on.
    assert_eq!(redeem(&rig, &at, 1).status, 200);

    let path = format!("v1/cluster/{cluster}/link/{id}");
    assert!(block_on(rig.service(ADMIN).delete(&path, &Precondition::None)).unwrap());
    rig.until("its end", |all| all[&cluster].theft.is_none().then_some(()));
    assert_eq!(redeem(&rig, &at, 1).status, 410);
    // New hardware, the same cluster: a new link, and the same principal.
    let (at, _) = link(&rig, cluster);
    let new: Redeemed = serde_json::from_slice(&redeem(&rig, &at, 3).body).unwrap();
    assert_eq!(new.principal, first.principal);
}

/// As whoever runs the copied command a second time sees it.
#[test]
fn a_command_that_is_run_again_says_when_it_was_redeemed_and_runs_nothing() {
    let rig = Rig::new();
    let cluster = rig.ready("Nord");
    let (at, _) = link(&rig, cluster);
    assert_eq!(redeem(&rig, &at, 1).status, 200);
    let read = ask(rig.address(), "GET", &at, "");
    let redeemed = links(&rig, cluster)[0].uses.iter().find(|used| used.what == "redeemed").unwrap().at / 1000;
    let said = format!(
        "this link was redeemed on {}; ask for a new command on the cluster's page",
        latchkey_attestation::reference::format_rfc3339(redeemed)
    );
    assert_eq!((read.status, read.text().trim_end()), (410, said.as_str()));
    assert!(read.header("content-type").unwrap().starts_with("text/plain"), "{}", read.head);

    let url = format!("http://{}{at}", rig.address());
    let run = |script: String| Command::new("sh").args(["-c", &script]).output().unwrap();
    let curl = run(format!("curl -fsS {url}"));
    assert_eq!((curl.status.code(), curl.stdout.as_slice()), (Some(22), [].as_slice()), "{curl:?}");
    let piped = run(format!("curl -fsS {url} | sh -x -"));
    let told = String::from_utf8(piped.stderr).unwrap();
    assert_eq!((piped.status.code(), piped.stdout.as_slice()), (Some(0), [].as_slice()), "{told}");
    assert!(told.contains("410") && !told.lines().any(|line| line.starts_with('+')), "{told}");
}

#[test]
fn what_may_not_redeem_is_told_and_changes_no_principal() {
    let rig = Rig::new();
    let cluster = rig.ready("Nord");
    let (at, _) = link(&rig, cluster);
    let claim = URL_SAFE_NO_PAD.encode([1; 32]);
    let path = format!("{at}/redeem");
    for (body, status) in [
        ("{}".to_owned(), 422),
        ("[]".into(), 422),
        ("{".into(), 400),
        (json!({ "claim": "AAAA" }).to_string(), 422),
        (json!({ "claim": claim, "more": 1 }).to_string(), 422),
        (json!({ "claim": "A".repeat(2000) }).to_string(), 413),
        (json!({ "claim": claim, "cluster": Uuid::random() }).to_string(), 409),
    ] {
        let refused = post(rig.address(), &path, &body);
        assert_eq!(refused.status, status, "{body:.80}: {}", refused.text());
    }
    assert_eq!(ask(rig.address(), "GET", &path, "").status, 405);
    assert_eq!(post(rig.address(), "/v1/bootstrap/short/redeem", &json!({ "claim": claim }).to_string()).status, 404);
    let unknown = format!("/v1/bootstrap/{}/redeem", "A".repeat(43));
    assert_eq!(post(rig.address(), &unknown, &json!({ "claim": claim }).to_string()).status, 404);
    // Other paths below it need somebody who says who he is, or are none.
    for path in ["/v1/bootstrap/x/../../cluster", "/v1/bootstrap/..%2f..%2fcluster", &format!("{at}/redeem/x")] {
        assert!([400, 404, 405].contains(&post(rig.address(), path, "{}").status), "{path}");
    }
    assert_eq!(*rig.principals.asked.lock().unwrap(), [""; 0]);

    // The KDC is away, or refuses: the claim holds, and the same edge comes again.
    *rig.principals.next.lock().unwrap() = Some(Done::Unreachable("nobody answers".into()));
    let away = redeem(&rig, &at, 1);
    assert_eq!((away.status, away.text().contains("nobody answers")), (503, false), "{}", away.text());
    assert_eq!(redeem(&rig, &at, 2).status, 409);
    *rig.principals.next.lock().unwrap() = Some(Done::Refused { status: 403, detail: "disabled by anna".into() });
    let refused = redeem(&rig, &at, 1);
    assert_eq!((refused.status, refused.text().contains("disabled by anna")), (409, true), "{}", refused.text());
    assert_eq!(redeem(&rig, &at, 1).status, 200);

    rig.delete(cluster);
    rig.until_phase(cluster, Phase::Deleted);
    let deleted = redeem(&rig, &at, 1);
    assert_eq!((deleted.status, deleted.text().contains("revoked")), (410, true), "{}", deleted.text());
}

#[test]
fn a_cluster_that_is_deleted_meanwhile_gets_no_password() {
    let rig = Rig::new();
    let cluster = rig.ready("Nord");
    let (at, _) = link(&rig, cluster);
    let (deleted, manager) = (rig.as_user(ADMIN), rig.manager_now());
    // After the link was found good, and before its principal is made.
    *rig.principals.before_admission.lock().unwrap() = Some(Box::new(move || {
        Box::pin(async move {
            let app = latchkey_factory_plus::uuids::application::EDGE_CLUSTER_CONFIGURATION;
            let db = latchkey_factory_plus_client::ConfigDb::of(&deleted);
            assert!(db.delete_entry(app, cluster, &Precondition::None).await.unwrap());
            loop {
                let changed = manager.changed();
                if manager.cluster(cluster).is_some_and(|cluster| cluster.phase == Phase::Deleted) {
                    return;
                }
                changed.await;
            }
        })
    }));
    let refused = redeem(&rig, &at, 1);
    assert_eq!(refused.status, 409, "{}", refused.text());
    let asked = rig.principals.asked.lock().unwrap().clone();
    assert_eq!(
        asked.iter().map(|asked| asked.split(' ').next().unwrap()).collect::<Vec<_>>(),
        ["disable", "admit", "disable"]
    );
}

#[test]
fn whoever_tries_too_often_has_to_wait() {
    let rig = Rig::new();
    rig.ready("Nord");
    let unknown = format!("/v1/bootstrap/{}", "A".repeat(43));
    let limited = (0..100).map(|_| redeem(&rig, &unknown, 1)).find(|answer| answer.status != 404).unwrap();
    assert_eq!(limited.status, 429);
    assert!(limited.header("retry-after").unwrap().parse::<u32>().unwrap() <= 4, "{}", limited.head);
    // Scripts are still read.
    assert_eq!(ask(rig.address(), "GET", &unknown, "").status, 404);
}
