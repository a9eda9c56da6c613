//! A member's start, also with another release of Kubernetes than it had.
//!
//! Programs and images of a release come with the verified root of a boot, all at once; or, where that has none, by the list that
//! the ticket of a boot names, before all else. On the state disk lies what belongs to the release before: a control plane's static
//! pods, the kubelet's configuration, and in etcd kubeadm's own. So a start does, in this order:
//!
//! ```text
//! may it? ─ static pods name the images that the root has ─ arguments that are gone go ─ the kubelet starts
//!                           ─ it and the API server are the new ones ─ kubeadm upgrade ─ the kubelet starts anew ─ noted
//! ```
//!
//! A start that is cut, or whose `kubeadm upgrade` fails, leaves a node that runs; the next one goes on, because what is noted
//! ([`Note`]) is the release before. `kubeadm upgrade apply` and `kubeadm upgrade node` may be run again.
//!
//! Which of the two says the cluster: `apply` where its `ClusterConfiguration` has another release. Control planes that start at
//! the same time then do the same twice.

use std::path::{Path, PathBuf};
use std::time::Duration;

use latchkey_api::v1;
use serde::{Deserialize, Serialize};

use super::child::Stdout;
use super::components::Components;
use super::files::{self, Scratch};
use super::kubeadm::{BRIEF, TRIES};
use super::manifests::StaticPods;
use super::release::Release;
use super::{Kubeadm, Member, Progress, StepCode, StepError, config, kubelet_flags};
use crate::lifecycle::NodeRole;
use crate::platform::clock;
use latchkey_connection_limits::Backoff;

/// How long a new API server and kubelet may take until the cluster knows them.
const APPEARS: Duration = Duration::from_mins(10);
/// How long a node that could run what it has waits for others; what came until then is there in the next boot.
const OF_A_START: Duration = Duration::from_mins(10);
const MAX_NOTE: usize = 4096;
/// The annotation of a control plane's Node that says up to which release kubeadm is done.
const DONE: &str = "latchkey.dev/kubernetes";
/// kubeadm's `ClusterConfiguration` names its release so.
const CLUSTER_RELEASE: &str = "kubernetesVersion:";

/// What the node noted of its Kubernetes; nothing on nodes that were made before there was a note.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    version: u8,
    /// The release that it was made with, or upgraded to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kubernetes: Option<String>,
    /// That the last start could not have another, and said so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    failed: bool,
    /// That static pods may name images of two releases: they are being changed, and no kubelet has started with them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pods_mixed: bool,
}

impl Note {
    fn path(kubernetes: &Path) -> PathBuf {
        kubernetes.join("latchkey/kubernetes.json")
    }

    fn read(kubernetes: &Path) -> Self {
        // One that cannot be read is none: what it would say is found out anew.
        let bytes = files::read(&Self::path(kubernetes), MAX_NOTE).ok();
        bytes.and_then(|bytes| serde_json::from_slice(bytes.expose()).ok()).unwrap_or_default()
    }

    fn of(release: Option<&Release>) -> Self {
        let kubernetes = release.map(|release| release.as_str().to_owned());
        Self { kubernetes, ..Self::default() }
    }

    fn release(&self) -> Option<Release> {
        self.kubernetes.as_deref().and_then(Release::parse)
    }

    fn write(&self, kubernetes: &Path) -> Result<(), StepError> {
        let note = Self { version: 1, ..self.clone() };
        if note == Self::read(kubernetes) {
            return Ok(());
        }
        let text = serde_json::to_vec(&note).map_err(|error| StepError::new(StepCode::Input, error.to_string()))?;
        files::write(&Self::path(kubernetes), &text)
    }
}

impl Kubeadm {
    /// Notes the release that the node was just made with.
    pub(super) async fn note_version(&self, progress: Progress<'_>) -> Result<(), StepError> {
        let carried = self.version(progress).await?;
        Note::of(Some(&carried)).write(&self.directory)
    }

    /// Starts the kubelet, with what goes before and after it where the release is another. Whether the cluster should hear of it.
    /// `named` is what the cluster has by now, for an image without components.
    pub(super) async fn start(
        &self,
        member: &Member,
        named: Option<&v1::Components>,
        progress: Progress<'_>,
    ) -> Result<bool, StepError> {
        let started = async {
            let kept = match Components::of(self) {
                Some(components) => self.start_components(&components, member, named, progress).await?,
                None => None,
            };
            let carried = self.version(progress).await?;
            if member.role != NodeRole::Worker {
                self.renew_before_start(&carried, progress).await;
            }
            let note = Note::read(&self.directory);
            let upgraded = self.start_with(member, &carried, &note, progress).await?;
            let release = if upgraded.is_some() { Some(carried) } else { note.release() };
            Note::of(release.as_ref()).write(&self.directory)?;
            kept.map_or(Ok(upgraded == Some(true) || note.failed), Err)
        };
        let started = started.await;
        if started.as_ref().is_err_and(|error| error.code.is_of_an_upgrade()) {
            Note { failed: true, ..Note::read(&self.directory) }.write(&self.directory)?;
        }
        started
    }

    /// Gets what the cluster has by now, or else verifies what the node has. Then the result says why it keeps that, unless nobody
    /// named another: a mirror that is away costs an upgrade and no node.
    async fn start_components(
        &self,
        components: &Components,
        member: &Member,
        named: Option<&v1::Components>,
        progress: Progress<'_>,
    ) -> Result<Option<StepError>, StepError> {
        let mut kept = None;
        if let Some(named) = named.filter(|named| !components.are_of(member, &named.list)) {
            let changed = async {
                if self.may_go_to(member, &named.kubernetes_version, progress)? {
                    let minor = &named.kubernetes_version;
                    self.change_components(&components.with_limit(OF_A_START), member, &named.list, minor, progress)
                        .await?;
                    return Ok(true);
                }
                Ok::<_, StepError>(false)
            };
            match changed.await {
                Ok(true) => return Ok(None),
                Ok(false) => {}
                Err(error) if error.code.is_of_an_upgrade() => kept = Some(error),
                Err(error) => kept = Some(StepError { code: StepCode::ComponentsMissing, ..error }),
            }
        }
        // A node that was made with what its image had.
        if components.never_came()
            && let Some(why) = kept
        {
            return Err(why);
        }
        if let Some(why) = &kept {
            progress(&format!("keeping the components of before: {why}"));
        }
        components.verify(member, kept.is_some(), progress).await.map(|()| kept)
    }

    /// Whether a member gets the components of this minor version. A worker that has a newer one keeps that.
    fn may_go_to(&self, member: &Member, minor: &str, progress: Progress<'_>) -> Result<bool, StepError> {
        let Some(named) = Release::parse(&format!("v{minor}.0")) else {
            let message = format!("{minor:?} is no minor version of Kubernetes");
            return Err(StepError::new(StepCode::ComponentsMissing, message));
        };
        let note = Note::read(&self.directory);
        if member.role != NodeRole::Worker {
            return self.ran(&note)?.may_be_followed_by(&named).map(|()| true);
        }
        let newer = note.release().filter(|noted| named.ahead_of(noted) < 0);
        if let Some(newer) = &newer {
            progress(&format!("the cluster names Kubernetes {minor}, and this worker keeps {newer}"));
        }
        Ok(newer.is_none())
    }

    /// What a control plane has had until now.
    fn ran(&self, note: &Note) -> Result<Ran, StepError> {
        let pods = StaticPods::below(&self.directory).release()?;
        // Pods that are being changed ran nothing.
        Ok(Ran { pods: pods.filter(|_| !note.pods_mixed), done: note.release() })
    }

    /// Whether it was upgraded; `None` where the node has an older release than before, which it may have for a while.
    async fn start_with(
        &self,
        member: &Member,
        carried: &Release,
        note: &Note,
        progress: Progress<'_>,
    ) -> Result<Option<bool>, StepError> {
        let pods = (member.role != NodeRole::Worker).then(|| StaticPods::below(&self.directory));
        let mut before = note.release();
        if let Some(pods) = &pods {
            let ran = self.ran(note)?;
            ran.may_be_followed_by(carried)?;
            let others = note.pods_mixed || ran.pods.as_ref().is_some_and(|pods| pods != carried);
            before = ran.done.or(ran.pods);
            if others {
                progress(&format!("the control plane goes to {carried}"));
                let images = self.images(carried, progress).await?;
                // So that a start that is cut from here on is known as one that did not come to its end.
                let note = Note { failed: note.failed, ..Note::of(before.as_ref()) };
                let mixed = || Note { pods_mixed: true, ..note.clone() }.write(&self.directory);
                pods.take_tags_of(&images, mixed)?;
                note.write(&self.directory)?;
            }
        } else if let Some(before) = before.as_ref().filter(|before| carried.ahead_of(before) < 0) {
            progress(&format!("the kubelet is {carried} and was {before}; a worker's may be older than its cluster"));
            return self.start_kubelet(progress).await.map(|()| None);
        }
        let is_new = before.as_ref() != Some(carried);
        if is_new {
            kubelet_flags::drop_gone(&self.kubelet)?;
        }
        self.start_kubelet(progress).await?;
        if !is_new {
            return Ok(Some(false));
        }
        let mut backoff = Backoff::new(clock::uptime().subsec_nanos().into());
        let mut tries = 1;
        while let Err(error) = self.upgrade(member, carried, pods.as_ref(), progress).await {
            if tries == TRIES {
                return Err(StepError { code: StepCode::UpgradeFailed, ..error });
            }
            progress(&format!("upgrade {tries} of {TRIES} failed: {error}"));
            smol::Timer::after(Duration::from_millis(backoff.next_ms())).await;
            tries += 1;
        }
        Ok(Some(true))
    }

    /// Once the new release runs: kubeadm's part.
    async fn upgrade(
        &self,
        member: &Member,
        carried: &Release,
        pods: Option<&StaticPods<'_>>,
        progress: Progress<'_>,
    ) -> Result<(), StepError> {
        let mut apply = false;
        if let Some(pods) = pods {
            self.runs(member, carried, pods, progress).await?;
            let cluster = self.release_of_cluster(progress).await?;
            if carried.is_older_than(&cluster) {
                progress(&format!("the cluster is at {cluster}, which it stays at"));
                return self.say_done(member, carried, progress).await;
            }
            apply = cluster != *carried;
        }
        // kubeadm keeps copies of etcd's data and of its own files here, new ones in each try. etcd runs: earlier ones are of no use.
        match std::fs::remove_dir_all(self.directory.join("tmp")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(files::error(&self.directory.join("tmp"), &error));
            }
            _ => {}
        }
        let file = Scratch::write(self.run.join("kubeadm.json"), &config::upgrade(carried.as_str())?)?;
        let file = format!("--config={}", file.path().display());
        let arguments: &[&str] =
            if apply { &["upgrade", "apply", &file, "--yes"] } else { &["upgrade", "node", &file] };
        self.call(arguments, Stdout::Progress, self.limit, "", progress).await?;
        // It reads its configuration when it starts.
        self.service_manager("restart", "kubelet.service", progress).await?;
        if pods.is_some() { self.say_done(member, carried, progress).await } else { Ok(()) }
    }

    /// Lets whoever upgrades the cluster know that the next control plane may go.
    async fn say_done(&self, member: &Member, carried: &Release, progress: Progress<'_>) -> Result<(), StepError> {
        let (node, done) = (format!("node/{}", member.node_name), format!("{DONE}={carried}"));
        self.kubectl(&["annotate", "--overwrite", &node, &done], Stdout::Progress, progress).await.map(drop)
    }

    /// The images of a release, a line each. With the version named, kubeadm asks nobody.
    async fn images(&self, release: &Release, progress: Progress<'_>) -> Result<String, StepError> {
        let version = format!("--kubernetes-version={release}");
        let arguments = ["config", "images", "list", &version];
        let printed = self.call(&arguments, Stdout::Result, BRIEF.min(self.limit), "", progress).await?;
        let text = std::str::from_utf8(printed.expose());
        text.map(str::to_owned).map_err(|error| StepError::new(StepCode::Output, format!("{}: {error}", self.program)))
    }

    /// Waits until the cluster knows the new kubelet and the new API server of this node, and calls it ready: kubeadm looks once.
    async fn runs(
        &self,
        member: &Member,
        carried: &Release,
        pods: &StaticPods<'_>,
        progress: Progress<'_>,
    ) -> Result<(), StepError> {
        let node = format!("node/{}", member.node_name);
        let pod = format!("pod/kube-apiserver-{}", member.node_name);
        let kubelet = format!("--for=jsonpath={{.status.nodeInfo.kubeletVersion}}={carried}");
        let mut waits = vec![vec![kubelet, node.clone()], vec!["--for=condition=Ready".into(), node]];
        if let Some(image) = pods.api_server()? {
            let image = format!("--for=jsonpath={{.spec.containers[0].image}}={image}");
            let system = "--namespace=kube-system";
            waits.push(vec![image, system.into(), pod.clone()]);
            waits.push(vec!["--for=condition=Ready".into(), system.into(), pod]);
        }
        let until = clock::uptime() + APPEARS.min(self.limit);
        for words in waits {
            let arguments: Vec<&str> =
                ["wait", "--timeout=60s"].into_iter().chain(words.iter().map(String::as_str)).collect();
            let mut backoff = Backoff::new(clock::uptime().subsec_nanos().into());
            // No API server answers while this one starts.
            while let Err(error) = self.kubectl(&arguments, Stdout::Progress, progress).await {
                if clock::uptime() >= until || error.code != StepCode::Failed {
                    return Err(error);
                }
                smol::Timer::after(Duration::from_millis(backoff.next_ms())).await;
            }
        }
        Ok(())
    }

    /// What kubeadm wrote into the cluster.
    async fn release_of_cluster(&self, progress: Progress<'_>) -> Result<Release, StepError> {
        let what = "--output=jsonpath={.data.ClusterConfiguration}";
        let arguments = ["get", "configmap", "kubeadm-config", "--namespace=kube-system", what];
        let printed = self.kubectl(&arguments, Stdout::Result, progress).await?;
        let text = std::str::from_utf8(printed.expose()).unwrap_or_default();
        let mut values = text.lines().filter_map(|line| line.strip_prefix(CLUSTER_RELEASE));
        let release = values.next_back().map(|value| value.trim().trim_matches('"')).and_then(Release::parse);
        release.ok_or_else(|| {
            let message = "the ConfigMap kubeadm-config does not say which release the cluster has";
            StepError::new(StepCode::Output, message)
        })
    }
}

/// The releases that a control plane has had.
struct Ran {
    /// By its static pods; no API server runs here, or none did yet, if there is none.
    pods: Option<Release>,
    /// Up to which kubeadm is done here.
    done: Option<Release>,
}

impl Ran {
    /// Whether a control plane may go from there to what the image carries, or its cluster names.
    fn may_be_followed_by(&self, next: &Release) -> Result<(), StepError> {
        for (which, ran) in [("this node ran", &self.pods), ("kubeadm is done here up to", &self.done)] {
            let ahead = ran.as_ref().map_or(0, |ran| next.ahead_of(ran));
            let (code, why) = match ahead {
                0 | 1 => continue,
                2.. => (StepCode::SkipsMinor, "Kubernetes goes up one minor version at a time"),
                _ => (StepCode::OlderThanCluster, "a control plane does not go back"),
            };
            let ran = ran.as_ref().map_or("nothing", Release::as_str);
            return Err(StepError::new(code, format!("Kubernetes {next} is to run here, and {which} {ran}: {why}")));
        }
        Ok(())
    }
}
