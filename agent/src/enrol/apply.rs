//! The manifests of a registered cluster, given to its API server by kubectl: data, on standard input, never commands.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use latchkey_api::v1::{BootstrapManifest, Enrolled};
use latchkey_connection_limits::Backoff;
use latchkey_keys::Uuid;
use latchkey_node_config::is_subdomain;

use super::{EnrolCode, EnrolError};
use crate::cluster::child::Stdout;
use crate::cluster::{Kubeadm, Progress, StepError};
use crate::platform::clock;

/// All manifests together, in bytes (`Enrolled.manifests`).
pub(super) const MAX_MANIFESTS: usize = 4 << 20;
const MOST_MANIFESTS: usize = 64;
/// A file name, in bytes (`BootstrapManifest.name`).
const MAX_NAME: usize = 64;
/// What the centre calls a cluster, in bytes.
const MAX_CLUSTER_NAME: usize = 31;
/// A token, in bytes: 256 bits in any text form are shorter.
const MAX_TOKEN: usize = 128;
/// An RFC 1123 label, in bytes.
const MAX_LABEL: usize = 63;

/// How long one manifest is tried: definitions that an earlier one brings are not served at once, and an API server restarts.
const APPLY: Duration = Duration::from_mins(5);
/// How long the cluster may take to redeem the link, which lasts an hour.
const REDEEM: Duration = Duration::from_mins(50);
/// More than is read of what kubectl prints, in bytes.
const MAX_PRINTED: usize = 512;
/// How many lines of kubectl are remembered, so that none is said again.
const MOST_LINES: usize = 256;
/// The files that are not applied like others, as the centre's templates name them.
const FLUX: &str = "flux-system.yaml";
const SELF_LINK: &str = "self-link.yaml";
/// What a pod is doing, and what it waits for.
const STATE: &str = "--output=jsonpath={.status.phase} {.status.containerStatuses[0].state.waiting.reason} \
                     {.status.conditions[?(@.status==\"False\")].message}";
/// What a pod said at last, as its `terminationMessagePolicy` has it.
const LAST_WORDS: &str = "--output=jsonpath={.status.containerStatuses[0].state.terminated.message}";
/// No call waits for ever for an API server that does not answer.
const PATIENCE: &str = "--request-timeout=30s";
/// The pod that redeems the link, as the centre's manifests name it.
const POD: &str = "pod/edge-bootstrap";
/// The Secrets that the edge's own programs keep, and who that is, by the label.
const KEYS: [&str; 3] = ["krb-keys-claim", "krb-keys-keytabs", "flux-secrets"];
const KEEPER: &str = "krbkeys.factoryplus.app.amrc.co.uk";
/// The name of each of several objects, and who keeps it.
const KEPT_BY: &str =
    r"--output=jsonpath={range .items[*]}{.metadata.name}={.metadata.labels.app\.kubernetes\.io/managed-by} {end}";
/// What the bootstrap, by a machine or by the script, made for itself.
const OURS: &str = "--selector=app.kubernetes.io/managed-by=latchkey-bootstrap";
/// Who applies: with the same name as the bootstrap script, so that either goes on where the other was.
const MANAGER: &str = "--field-manager=latchkey-bootstrap";

/// What the service sent, within its bounds.
pub(super) struct Manifests {
    enrolled: Enrolled,
    /// How long the cluster may take to redeem its link.
    pub(super) patience: Duration,
}

impl Manifests {
    pub(super) fn check(enrolled: Enrolled) -> Result<Self, EnrolError> {
        let malformed = |what: &str| Err(EnrolError::new(EnrolCode::Malformed, format!("the answer's {what}")));
        let is_word = |text: &str, most| {
            (1..=most).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        };
        let Enrolled { cluster_uuid, name, namespace, manifests, bootstrap_token, token_expires: _ } = &enrolled;
        if cluster_uuid.parse::<Uuid>().is_err() {
            return malformed("cluster_uuid is none");
        }
        if !is_word(name, MAX_CLUSTER_NAME) {
            return malformed("name is not what a cluster can be called");
        }
        if !is_subdomain(namespace) || namespace.contains('.') || namespace.len() > MAX_LABEL {
            return malformed("namespace is not what Kubernetes calls one");
        }
        if !is_word(bootstrap_token, MAX_TOKEN) {
            return malformed("bootstrap_token is none");
        }
        if manifests.is_empty() || manifests.len() > MOST_MANIFESTS {
            return malformed("manifests are none, or more than 64");
        }
        if !manifests.iter().all(|manifest| is_word(&manifest.name, MAX_NAME)) {
            return malformed("manifests have a name that is no file's");
        }
        if manifests.iter().map(|manifest| manifest.yaml.len()).sum::<usize>() > MAX_MANIFESTS {
            return malformed("manifests have more than 4 MiB");
        }
        Ok(Self { enrolled, patience: REDEEM })
    }

    /// What the centre calls the cluster.
    pub(super) fn name(&self) -> &str {
        &self.enrolled.name
    }

    /// Its UUID at the centre.
    pub(super) fn cluster(&self) -> &str {
        &self.enrolled.cluster_uuid
    }

    /// Applies all of them in their order, waits until the link in them is redeemed, and takes away what was there for that alone.
    pub(super) async fn apply(&self, kubeadm: &Kubeadm, progress: Progress<'_>) -> Result<(), EnrolError> {
        let mut cluster = Cluster { kubeadm, namespace: format!("--namespace={}", self.enrolled.namespace), progress };
        let not_applied = |error: StepError| EnrolError::of_step(EnrolCode::NotApplied, &error);
        self.check_namespace(&mut cluster).await?;
        self.check_secrets(&mut cluster).await?;
        // Of an earlier try, with a link that counts no more: what a pod runs cannot be changed.
        cluster.delete(&["pod", OURS]).await.map_err(not_applied)?;
        for BootstrapManifest { name, yaml } in &self.enrolled.manifests {
            if name == FLUX && cluster.has_flux().await.map_err(not_applied)? {
                (cluster.progress)("Flux is installed already; its version stays as it is");
                continue;
            }
            // In the namespaces that they name themselves: Flux has its own.
            let apply = ["apply", "--server-side", MANAGER, PATIENCE, "--filename=-", "--force-conflicts"];
            // Flux applies its own link, too; what else somebody changed stays his.
            let forced = apply.len() - usize::from(name != SELF_LINK);
            let apply = apply.get(..forced).unwrap_or(&apply);
            cluster.in_time(apply, yaml, &self.enrolled.bootstrap_token).await.map_err(not_applied)?;
        }
        cluster.redeemed(self.patience).await?;
        let ours = "pod,secret,configmap,serviceaccount,role,rolebinding";
        cluster.delete(&[ours, OURS, "--wait=false"]).await.map_err(not_applied)
    }

    /// Nobody else's namespace is taken over: the mark is what a bootstrap script writes and heeds, too.
    async fn check_namespace(&self, cluster: &mut Cluster<'_>) -> Result<(), EnrolError> {
        let Enrolled { namespace, cluster_uuid, .. } = &self.enrolled;
        let mark = r"--output=jsonpath={.metadata.annotations.latchkey\.dev/edge-cluster}";
        let read = cluster.read(&["get", "namespace", namespace, "--ignore-not-found", mark, PATIENCE]).await;
        let of = read.map_err(|error| EnrolError::of_step(EnrolCode::NotApplied, &error))?;
        if of.is_empty() || of == *cluster_uuid {
            return Ok(());
        }
        let what = format!(
            "the namespace {namespace} is the one of edge cluster {of}; if that one is gone, take its mark away: kubectl annotate \
             namespace {namespace} latchkey.dev/edge-cluster-"
        );
        Err(EnrolError::new(EnrolCode::NotApplied, what))
    }

    /// Nobody else's Secrets are taken over: applied, the manifests would give them our label.
    async fn check_secrets(&self, cluster: &mut Cluster<'_>) -> Result<(), EnrolError> {
        let namespace = cluster.namespace.clone();
        let read = [&["get", "secret"], &KEYS[..], &["--ignore-not-found", KEPT_BY, &namespace, PATIENCE]].concat();
        let there = cluster.read(&read).await.map_err(|error| EnrolError::of_step(EnrolCode::NotApplied, &error))?;
        let foreign = there.split(' ').filter(|kept| !kept.is_empty()).find_map(|kept| {
            let (name, keeper) = kept.split_once('=').unwrap_or((kept, ""));
            (keeper != KEEPER).then_some(name)
        });
        let Some(name) = foreign else { return Ok(()) };
        let what = format!(
            "the namespace {} has a Secret {name} that somebody else made; move it away",
            self.enrolled.namespace
        );
        Err(EnrolError::new(EnrolCode::NotApplied, what))
    }
}

/// The cluster of this node.
struct Cluster<'a> {
    kubeadm: &'a Kubeadm,
    namespace: String,
    progress: Progress<'a>,
}

impl Cluster<'_> {
    /// What kubectl prints, at most [`MAX_PRINTED`] bytes.
    async fn read(&mut self, arguments: &[&str]) -> Result<String, StepError> {
        let printed = self.kubeadm.kubectl_with(arguments, b"", Stdout::Result, &[], self.progress).await?;
        let printed = printed.expose().get(..MAX_PRINTED).unwrap_or(printed.expose());
        Ok(String::from_utf8_lossy(printed).trim().to_owned())
    }

    /// Whether all of Flux that an edge needs is here, whoever installed it.
    async fn has_flux(&mut self) -> Result<bool, StepError> {
        for controller in ["source-controller", "kustomize-controller", "helm-controller"] {
            let selector = format!("--field-selector=metadata.name={controller}");
            if self
                .read(&["get", "deployment", "--all-namespaces", &selector, "--output=name", PATIENCE])
                .await?
                .is_empty()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn delete(&mut self, what: &[&str]) -> Result<(), StepError> {
        let namespace = self.namespace.clone();
        self.in_time(&[&["delete"], what, &[&namespace, PATIENCE]].concat(), b"", "").await
    }

    /// Tries again for a while. What kubectl says in one try after the other is said once.
    async fn in_time(&mut self, arguments: &[&str], stdin: &[u8], hidden: &str) -> Result<(), StepError> {
        let mut said = BTreeSet::new();
        let mut progress = |line: &str| {
            if said.len() >= MOST_LINES || said.insert(line.to_owned()) {
                (self.progress)(line);
            }
        };
        let (begun, mut backoff) = (Instant::now(), Backoff::new(clock::uptime().subsec_nanos().into()));
        loop {
            let hidden: &[&str] = if hidden.is_empty() { &[] } else { &[hidden] };
            let done = self.kubeadm.kubectl_with(arguments, stdin, Stdout::Progress, hidden, &mut progress).await;
            let Err(error) = done else { return Ok(()) };
            let wait = Duration::from_millis(backoff.next_ms());
            if begun.elapsed() + wait > APPLY {
                return Err(error);
            }
            smol::Timer::after(wait).await;
        }
    }

    /// Waits for the end of the pod, as long as its link may last: an image has to be fetched, a network to come up.
    async fn redeemed(&mut self, patience: Duration) -> Result<(), EnrolError> {
        let (begun, mut backoff) = (Instant::now(), Backoff::new(clock::uptime().subsec_nanos().into()));
        let namespace = self.namespace.clone();
        let wait = ["wait", POD, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=20s", &namespace, PATIENCE];
        let state = ["get", POD, STATE, &namespace, PATIENCE];
        let mut told = String::new();
        loop {
            // Quiet: that it is not there yet is no news.
            if self.kubeadm.kubectl_with(&wait, b"", Stdout::Result, &[], &mut |_| {}).await.is_ok() {
                return Ok(());
            }
            // An API server that is away says nothing; the pod is looked at again.
            let state = self.read(&state).await.unwrap_or_default();
            let failed = state.starts_with("Failed");
            if failed || begun.elapsed() > patience {
                self.tell_why(failed).await;
                let what =
                    if failed { "the pod edge-bootstrap failed" } else { "the pod edge-bootstrap did not end in time" };
                return Err(EnrolError::new(EnrolCode::NotRedeemed, format!("{what} (its state: {state})")));
            }
            if !state.is_empty() && state != told {
                (self.progress)(&format!("waiting for the pod edge-bootstrap: {state}"));
                told = state;
            }
            smol::Timer::after(Duration::from_millis(backoff.next_ms())).await;
        }
    }

    /// The pod's words, for the console. The last ones of a pod that failed the API server has; its log only the kubelet has, whose
    /// certificate nobody may have granted yet.
    async fn tell_why(&mut self, failed: bool) {
        let words = if failed { ["get", POD, LAST_WORDS] } else { ["logs", POD, "--tail=5"] };
        let words = [&words[..], &[self.namespace.as_str(), PATIENCE]].concat();
        // Without them there is still the reason.
        drop(self.kubeadm.kubectl_with(&words, b"", Stdout::Progress, &[], self.progress).await);
    }
}
