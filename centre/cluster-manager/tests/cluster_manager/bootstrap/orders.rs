//! In which orders the script can fail, be interrupted, and be run again.

use crate::bootstrap::edge::{Edge, LINK};
use crate::bootstrap::written::{CLUSTER, script};

#[test]
fn an_empty_cluster_joins_and_joins_again() {
    let edge = Edge::new();
    edge.joins();
    let first = edge.calls();
    // The order of a run: the link is redeemed only when everything else is known to be right, and Flux follows.
    let place =
        |what: &str| first.iter().position(|call| call.contains(what)).unwrap_or_else(|| panic!("{what}: {first:#?}"));
    let order = ["auth can-i", "get deployment", "-f edge-bootstrap.yaml", "-f flux-system.yaml", "-f self-link.yaml"];
    assert!(order.windows(2).all(|pair| place(pair[0]) < place(pair[1])), "{first:#?}");
    assert_eq!(edge.get("namespace"), Some(CLUSTER.to_string()));
    let said = edge.joins();
    assert!(said.contains("Flux is installed in flux-system already"), "{said}");
}

#[test]
fn a_run_that_is_killed_at_any_call_is_made_good_by_the_next() {
    let whole = Edge::new();
    whole.joins();
    let calls = whole.calls().len();
    assert!(calls > 20, "{calls}");
    for number in 1..=calls {
        for fault in ["KILL", "TERM", "HUP", "INT", "fail"] {
            // One signal is treated as the other; these two at every fifth call.
            if matches!(fault, "HUP" | "INT") && number % 5 != 0 {
                continue;
            }
            let edge = Edge::new();
            edge.fault(number, fault);
            let done = edge.run();
            let cleaning = whole.calls()[number - 1].contains(" delete pod,secret");
            if fault == "fail" && cleaning {
                let said = String::from_utf8_lossy(&done.stderr);
                assert!(said.contains("could not be deleted: kubectl -n fplus-edge delete"), "{said}");
            } else if fault == "KILL" {
                assert!(!done.status.success(), "{number}");
                // Nobody can clean up after this; the next run does.
                let _ = std::fs::remove_dir_all(edge.at("tmp"));
                std::fs::create_dir(edge.at("tmp")).unwrap();
            } else {
                edge.nothing_is_left();
                let told = fault != "fail" || done.status.success() || !done.stderr.is_empty();
                assert!(told, "{number}");
            }
            edge.joins();
        }
    }
}

#[test]
fn whoever_cannot_go_on_is_told_why_in_a_sentence() {
    let cases = [
        ("no-cluster", "", "kubectl reaches no cluster"),
        ("no-rights", "", "may not do everything"),
        ("outcome", "Failed", "the pod edge-bootstrap has said why"),
        ("outcome", "Pending", "did not end within 0 s (its state: Pending)"),
        ("no-secrets", "", "left the Secret krb-keys-keytabs empty"),
        ("flux-refused", "", "Flux was refused"),
        ("flux-starts-never", "", "the API server does not serve gitrepositories.source.toolkit.fluxcd.io"),
        ("flux-sleeps", "", "says: authentication required"),
    ];
    for (what, content, sentence) in cases {
        let edge = Edge::new();
        edge.set(what, content);
        let said = edge.fails();
        assert!(said.contains(sentence), "{what}: {said}");
        // Mended, it goes on.
        edge.unset(what);
        edge.joins();
    }
}

#[test]
fn the_pods_own_words_are_shown() {
    let edge = Edge::new();
    edge.set("outcome", "Failed");
    let said = edge.fails();
    assert!(said.contains("the pod's own words"), "{said}");
    // One that has not ended has a log alone.
    edge.set("outcome", "Pending");
    let said = edge.fails();
    assert!(said.contains("the log of the pod") && !said.contains("own words"), "{said}");
}

#[test]
fn secrets_of_an_earlier_run_are_no_success() {
    let edge = Edge::new();
    edge.joins();
    // The Secrets are there, and the pod of this run fails: the link has expired, or another edge took it.
    edge.set("outcome", "Failed");
    assert!(edge.get("secrets").is_some());
    let said = edge.fails();
    assert!(said.contains("no keys were made"), "{said}");
    assert!(!edge.calls().last().unwrap().contains("self-link"));
}

#[test]
fn what_is_somebody_elses_is_not_written_over() {
    for (what, content, sentence) in [
        ("foreign-flux-secrets", "", "a Secret flux-secrets that somebody else made"),
        ("foreign-krb-keys-keytabs", "", "a Secret krb-keys-keytabs that somebody else made"),
        ("foreign", "secret/edge-bootstrap", "under a name that is needed: secret/edge-bootstrap"),
        ("namespace", "00000000-0000-4000-8000-000000000000", "is the one of edge cluster 00000000-"),
    ] {
        let edge = Edge::new();
        edge.set("namespace", "");
        edge.set(what, content);
        let said = edge.fails();
        assert!(said.contains(sentence), "{what}: {said}");
        let wrote =
            |call: &&String| call.contains(" apply ") || call.contains(" annotate ") || call.contains(" delete ");
        assert_eq!(edge.calls().iter().find(wrote), None);
    }
}

#[test]
fn a_cluster_that_has_flux_keeps_it() {
    let edge = Edge::new();
    edge.set("flux", "elsewhere");
    edge.set("versions", "v1beta2 v1 v2beta1 v2");
    let done = edge.run_text(script(&[LINK]).text());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(!edge.calls().iter().any(|call| call.contains("flux-system.yaml")));

    // One that is too old for what the repository has is said so before the link is redeemed.
    edge.set("versions", "v1beta2 v2beta1");
    let said = edge.fails();
    assert!(
        said.contains("the Flux in elsewhere does not serve gitrepositories.source.toolkit.fluxcd.io v1"),
        "{said}"
    );
    edge.set("versions", "v1");
    let said = edge.fails();
    assert!(said.contains("does not serve helmreleases.helm.toolkit.fluxcd.io v2"), "{said}");
}

#[test]
fn a_half_installed_flux_is_installed_anew() {
    let edge = Edge::new();
    edge.set("flux", "flux-system");
    edge.set("half-a-flux", "");
    edge.joins();
    assert!(edge.calls().iter().any(|call| call.contains("-f flux-system.yaml")));
}

#[test]
fn without_flux_anywhere_the_link_is_not_redeemed() {
    let edge = Edge::new();
    let done = edge.run_text(script(&[LINK]).text());
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains("there is no helm-controller of Flux here"), "{said}");
    assert!(!edge.calls().iter().any(|call| call.contains("edge-bootstrap.yaml")));
}

#[test]
fn a_host_without_kubectl_is_told_so() {
    let edge = Edge::new();
    std::fs::remove_file(edge.at("bin/kubectl")).unwrap();
    let said = edge.fails();
    assert!(said.contains("kubectl is missing"), "{said}");
}
