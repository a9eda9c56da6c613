//! What a site's API server has on record: of nodes, of what they asked for, and since when.

use std::time::{Duration, Instant, SystemTime};

use latchkey_attestation::reference::parse_rfc3339;

use super::Site;
use crate::error::HarnessError;

impl Site {
    /// Waits until the API server's record of the node says that it is Ready, in a boot that is not `before`; says in which.
    pub fn ready(&self, node: &str, before: &str) -> Result<String, HarnessError> {
        let shown = r#"jsonpath=NODE {.metadata.name} {.status.conditions[?(@.type=="Ready")].status} {.status.nodeInfo.bootID}{"\n"}"#;
        let ready = format!("NODE {node} True ");
        // All nodes: this one may not have registered yet.
        self.watched(&format!("{node}-watch"), "nodes", shown, &ready, |line| {
            let boot = line.split_once(&ready)?.1;
            (boot != before).then(|| boot.to_owned())
        })
    }

    /// Watches objects until a line of what is shown of them is chosen. The API server ends watches when it likes, and when it
    /// ends itself: then they are watched anew.
    fn watched<T>(
        &self,
        name: &str,
        objects: &str,
        shown: &str,
        event: &str,
        mut choose: impl FnMut(&str) -> Option<T>,
    ) -> Result<T, HarnessError> {
        let deadline = Instant::now() + self.patience;
        loop {
            let watch = self.follow(name, &["get", objects, "--watch", "-o", shown])?;
            let left = deadline.saturating_duration_since(Instant::now());
            match watch.console().wait(event, left, |line| choose(&line.text)) {
                Err(HarnessError::Ended { .. }) if Instant::now() < deadline => {}
                seen => return seen,
            }
        }
    }

    /// When the node became Ready, by its own clock and in whole seconds.
    pub fn ready_at(&self, node: &str) -> Result<SystemTime, HarnessError> {
        self.object_ready_at("default", &format!("node/{node}"))
    }

    /// When any object did, by the clock of who says so.
    pub fn object_ready_at(&self, namespace: &str, object: &str) -> Result<SystemTime, HarnessError> {
        let shown = r#"jsonpath={.status.conditions[?(@.type=="Ready")].lastTransitionTime}"#;
        let time = self.ask(&["--namespace", namespace, "get", object, "-o", shown])?;
        let seconds = parse_rfc3339(time.trim());
        let seconds =
            seconds.ok_or_else(|| HarnessError::Unusable(format!("{object} has been Ready since {time:?}")))?;
        Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
    }

    /// The names of all bootstrap tokens.
    pub fn tokens(&self) -> Result<String, HarnessError> {
        let of_tokens = "--field-selector=type=bootstrap.kubernetes.io/token";
        self.ask(&["--namespace", "kube-system", "get", "secrets", of_tokens, "--output", "name"])
    }

    /// Sees that a machine has no record, request, certificate or token.
    pub fn has_nothing_of(&self, machine: &str) -> Result<(), HarnessError> {
        let objects = "nodes,attestednodes,certificatesigningrequests";
        let (all, tokens) = (self.ask(&["get", objects, "--output", "json"])?, self.tokens()?);
        if all.contains("node-1") && !all.contains(machine) && tokens.is_empty() {
            return Ok(());
        }
        Err(HarnessError::Unusable(format!("{machine} is not unknown to the cluster: {all}{tokens}")))
    }

    /// Waits until the node's request for a serving certificate was granted.
    pub fn serves(&self, node: &str) -> Result<(), HarnessError> {
        let shown = r#"jsonpath=CSR {.spec.signerName} {.spec.username} {.status.certificate}{"\n"}"#;
        // Behind the name comes the certificate, if there is one: base64 of `-----BEGIN`.
        let granted = format!("CSR kubernetes.io/kubelet-serving system:node:{node} LS0tLS1CRUdJTi");
        self.watched(&format!("{node}-requests"), "certificatesigningrequests", shown, &granted, |line| {
            line.contains(&granted).then_some(())
        })
    }
}
