//! The cluster step of Kubernetes: writes kubeadm's configuration, runs kubeadm, starts the kubelet.
//!
//! In code order: checks what it was given; looks at what an earlier run left ([`Record`]); runs kubeadm, `init` up to
//! [`TRIES`] times, with `kubeadm reset` before each try that is not the first; after `init` takes back what kubeadm lets everybody
//! do ([`secure_defaults`]); sees that the kubelet runs; notes the end.
//!
//! What only a join has is in `join.rs`.
//!
//! `kubeadm reset` empties what kubeadm and the kubelet write (`/etc/kubernetes/manifests`, `/etc/kubernetes/pki`, the
//! kubeconfig files beside them, `/var/lib/kubelet`, `/var/lib/etcd` of a local etcd, Kubernetes' containers) and nothing
//! else. It runs only after a try of this agent that did not reach its end.
//!
//! What the image owes: containerd at its default socket, kubeadm, kubectl (or what gets them, [`Components`]), the kubelet as
//! `kubelet.service` with kubeadm's drop-in.
//!
//! The unit of stage 2 must not be ordered before `kubelet.service`: kubeadm starts the kubelet itself, and would wait for
//! the unit that waits for kubeadm.

use std::path::{Path, PathBuf};
use std::time::Duration;

use latchkey_api::control_plane::ControlPlaneFiles;
use latchkey_api::v1::{self, ClusterSettings};
use latchkey_keys::SecretVec;

use super::api_server::ApiServerFiles;
use super::balancer::{self, ApiServers};
use super::child::{self, Call, Stdout};
use super::components::Components;
use super::files::{self, Scratch};
use super::join::Rest;
use super::record::{Found, Record};
use super::release::Release;
use super::{ClusterStep, Done, Member, Progress, Running, StepCode, StepError, Work, check, config};
use super::{secure_defaults, services};
use crate::platform::clock;
use latchkey_connection_limits::Backoff;

/// How often `kubeadm init` is tried, each time but the first after `kubeadm reset`. `kubeadm join` is tried once: a ticket is good
/// for one certificate, and another try would ask with another key. The next boot has another ticket. What a control plane has to do
/// after its kubelet has asked is tried as often as `init`.
pub(super) const TRIES: u32 = 3;
/// The largest kubeconfig: three base64 certificates and some lines.
const MAX_ADMIN_CONFIG: usize = 256 * 1024;
/// Starting a service, or asking for a version.
pub(super) const BRIEF: Duration = Duration::from_secs(90);

/// Runs the image's kubeadm.
#[derive(Debug)]
pub struct Kubeadm {
    /// The program, e.g. `/usr/bin/kubeadm`.
    pub program: String,
    /// `kubectl` of the same release, e.g. `/usr/bin/kubectl`; it is called after `init`, and after the start of a new release.
    pub kubectl: String,
    /// The service manager, e.g. `/usr/bin/systemctl`; it starts `kubelet.service`.
    pub systemctl: String,
    /// The balancer to the API servers, e.g. `/usr/bin/latchkey-api-balancer`; not every image carries it.
    pub balancer: PathBuf,
    /// What gets the components of an image that has none, e.g. `/usr/bin/latchkey-components`.
    pub components: PathBuf,
    /// Where those are found once they are verified, e.g. `/run/latchkey-components`.
    pub fetched: PathBuf,
    /// Where kubeadm keeps its files, e.g. `/etc/kubernetes`.
    pub directory: PathBuf,
    /// Where API servers write their audit log, e.g. `/var/log/kubernetes`.
    pub logs: PathBuf,
    /// Where kubeadm has etcd keep its data, e.g. `/var/lib/etcd`.
    pub etcd: PathBuf,
    /// Where the kubelet keeps its files, e.g. `/var/lib/kubelet`.
    pub kubelet: PathBuf,
    /// Where the services of a control plane find what they read, e.g. `/etc/latchkey`.
    pub services: PathBuf,
    /// Whether a directory is kept on the state disk, whose mapping is the second argument.
    pub is_kept_on: fn(&Path, &str) -> std::io::Result<bool>,
    /// A directory in memory for the configuration, e.g. `/run/latchkey`.
    pub run: PathBuf,
    /// How long one run of kubeadm may take; longer than kubeadm's own patience, so that its reason is heard.
    pub limit: Duration,
}

impl Default for Kubeadm {
    fn default() -> Self {
        Self {
            program: "/usr/bin/kubeadm".into(),
            kubectl: "/usr/bin/kubectl".into(),
            systemctl: "/usr/bin/systemctl".into(),
            balancer: "/usr/bin/latchkey-api-balancer".into(),
            components: "/usr/bin/latchkey-components".into(),
            fetched: "/run/latchkey-components".into(),
            directory: "/etc/kubernetes".into(),
            logs: "/var/log/kubernetes".into(),
            etcd: "/var/lib/etcd".into(),
            kubelet: "/var/lib/kubelet".into(),
            services: "/etc/latchkey".into(),
            is_kept_on: services::is_kept_on,
            run: "/run/latchkey".into(),
            limit: Duration::from_mins(20),
        }
    }
}

impl ClusterStep for Kubeadm {
    fn run<'a>(&'a self, member: &'a Member, work: &'a Work, progress: Progress<'a>) -> Running<'a> {
        Box::pin(async move {
            check::member(member)?;
            match work {
                Work::Init(settings, files) => self.init(member, settings, files.as_ref(), progress).await,
                Work::Join(ticket) => {
                    let joined = self.join(member, ticket, progress).await;
                    joined.map_err(|error| StepError { disk_stays: self.is_etcd_member(), ..error })
                }
                Work::Start(named) => {
                    let news = self.start(member, named.as_ref(), progress).await?;
                    return Ok(Done { admin_config: SecretVec::from_slice(&[]), addresses: Vec::new(), news });
                }
            }?;
            let admin_config = match work {
                Work::Init(settings, _) => {
                    let made = files::read(&self.directory.join("admin.conf"), MAX_ADMIN_CONFIG)?;
                    let own = ApiServers::of_settings(settings)?;
                    own.map_or_else(|| SecretVec::from_slice(made.expose()), |own| own.lead_past_the_balancer(&made))
                }
                Work::Join(_) | Work::Start(_) => SecretVec::from_slice(&[]),
            };
            let addresses = match work {
                Work::Init(settings, _) => config::local_address(&settings.control_plane_endpoint),
                Work::Join(ticket) => config::local_address(&ticket.api_server_endpoint),
                Work::Start(_) => None,
            };
            Ok(Done { admin_config, addresses: addresses.into_iter().collect(), news: false })
        })
    }
}

/// One verb of kubeadm and what it works on.
pub(super) struct Job<'a> {
    pub(super) verb: &'a str,
    pub(super) configuration: &'a [u8],
    /// In kubeadm's directory for certificates; without them `kubeadm init` makes its own.
    pub(super) files: Option<&'a ControlPlaneFiles>,
    /// What the API server here reads, where one will run.
    pub(super) api_server: Option<&'a ApiServerFiles>,
    /// Whom the balancer asks first, where nodes have one.
    pub(super) api_servers: Option<&'a ApiServers>,
    /// How a joining node finds its cluster; empty for the first.
    pub(super) discovery: &'a [u8],
    pub(super) token: &'a str,
    pub(super) record: Record,
    /// Of a joining control plane.
    pub(super) rest: Option<Rest>,
}

impl Kubeadm {
    async fn init(
        &self,
        member: &Member,
        settings: &ClusterSettings,
        files: Option<&ControlPlaneFiles>,
        progress: Progress<'_>,
    ) -> Result<(), StepError> {
        let api_server = check::settings(settings)?;
        let api_servers = self.with_balancer(ApiServers::of_settings(settings)?)?;
        let (list, minor) = (&settings.component_list, &settings.kubernetes_version);
        let record = Record::new(&self.directory, member, "init");
        let found = record.found()?;
        if found == Found::Finished {
            if Components::of(self).is_none() {
                self.carries(minor, progress).await?;
            }
            return self.start_finished(member, list, minor, progress).await;
        }
        self.get_components(member, list, minor, progress).await?;
        let version = self.carries(minor, progress).await?;
        self.keep_services(member, &settings.service_files, StepCode::SettingsRefused)?;
        let with_balancer = api_servers.is_some();
        let configuration =
            config::init(member, settings, with_balancer, version.as_str(), &self.directory, &self.logs)?;
        let configuration = &configuration;
        let (api_server, api_servers) = (Some(&api_server), api_servers.as_ref());
        let (discovery, token, rest) = (&[][..], "", None);
        let job = Job { verb: "init", configuration, files, api_server, api_servers, discovery, token, record, rest };
        self.complete(&job, found, progress).await
    }

    /// An earlier run did all of it, and was cut before anybody heard so. By now the cluster may have another release, so this is a start.
    pub(super) async fn start_finished(
        &self,
        member: &Member,
        list: &[u8],
        minor: &str,
        progress: Progress<'_>,
    ) -> Result<(), StepError> {
        progress("an earlier run came to its end; starting the node");
        let named = v1::Components { kubernetes_version: minor.to_owned(), list: list.to_vec() };
        self.start(member, Some(&named).filter(|named| !named.list.is_empty()), progress).await.map(drop)
    }

    /// kubeadm's version, which must be of the minor version that was asked for, if one was.
    async fn carries(&self, minor: &str, progress: Progress<'_>) -> Result<Release, StepError> {
        let version = self.version(progress).await?;
        if minor.is_empty() || version.minor() == minor {
            return Ok(version);
        }
        let message = format!("Kubernetes {minor} is asked for, and the image carries {version}");
        Err(StepError::new(StepCode::VersionDiffers, message))
    }

    /// What an image without components gets before anything else; the container runtime is among it.
    pub(super) async fn get_components(
        &self,
        member: &Member,
        list: &[u8],
        minor: &str,
        progress: Progress<'_>,
    ) -> Result<(), StepError> {
        let Some(components) = Components::of(self) else { return Ok(()) };
        self.change_components(&components, member, list, minor, progress).await
    }

    /// Gets what a list names, and has it from now on. Cut or failed before its end, the node has what it had.
    pub(super) async fn change_components(
        &self,
        components: &Components,
        member: &Member,
        list: &[u8],
        minor: &str,
        progress: Progress<'_>,
    ) -> Result<(), StepError> {
        components.fetch(member, list, minor, progress).await?;
        // And the container runtime before it.
        self.start_within("latchkey-component-images.service", self.limit, progress).await?;
        components.note(member, list)
    }

    /// One of the components: in the image, or where they are found once they are verified.
    pub(super) fn place(&self, in_image: &str, name: &str) -> String {
        Components::of(self).map_or_else(|| in_image.to_owned(), |components| components.place(name))
    }

    /// kubeadm's own version: left to itself it asks the internet which one is current.
    pub(crate) async fn version(&self, progress: Progress<'_>) -> Result<Release, StepError> {
        let arguments = ["version", "--output=short"];
        let printed = self.call(&arguments, Stdout::Result, BRIEF.min(self.limit), "", progress).await?;
        let version = std::str::from_utf8(printed.expose()).unwrap_or_default().trim();
        Release::parse(version).ok_or_else(|| {
            let message = format!("{} does not say its version", self.program);
            StepError::new(StepCode::Output, message)
        })
    }

    /// Does the job, resetting what a failed or interrupted try left behind.
    pub(super) async fn complete(
        &self,
        job: &Job<'_>,
        mut found: Found,
        progress: Progress<'_>,
    ) -> Result<(), StepError> {
        let mut backoff = Backoff::new(clock::uptime().subsec_nanos().into());
        let (mut tries, mut goes_on) = (1, found == Found::Unfinished && self.is_etcd_member());
        while let Err(error) = self.attempt(job, found, goes_on, progress).await {
            // A ticket is good for one certificate. What comes after the kubelet has asked for it is tried again: kubeadm waits 2 s for
            // an etcd that has a kubelet starting beside it.
            goes_on = job.rest.is_some() && self.kubelet_is_set_up();
            let most = if goes_on || job.token.is_empty() { TRIES } else { 1 };
            // A program that is missing, or that hangs, will not do better; a disk reset may.
            let hopeless = matches!(error.code, StepCode::NotStarted | StepCode::Timeout);
            if tries >= most || hopeless {
                return Err(error);
            }
            progress(&format!("try {tries} of {most} failed: {error}"));
            smol::Timer::after(Duration::from_millis(backoff.next_ms())).await;
            (tries, found) = (tries + 1, Found::Unfinished);
        }
        // While the node becomes ready.
        self.note_version(progress).await?;
        job.record.finish()
    }

    async fn attempt(
        &self,
        job: &Job<'_>,
        found: Found,
        goes_on: bool,
        progress: Progress<'_>,
    ) -> Result<(), StepError> {
        job.record.begin()?;
        if let Some(api_servers) = job.api_servers {
            api_servers.write(&self.directory)?;
            self.service_manager("restart", balancer::UNIT, progress).await?;
        }
        if let Some(rest) = job.rest.as_ref().filter(|_| goes_on) {
            return self.go_on(job, rest, progress).await;
        }
        if found == Found::Unfinished {
            progress("resetting what an earlier try left behind");
            self.with_file("reset", &config::reset()?, "", progress).await?;
        }
        for (name, data) in job.files.into_iter().flat_map(ControlPlaneFiles::iter) {
            files::write(&self.directory.join("pki").join(name), data)?;
        }
        if let Some(files) = job.api_server {
            files.write(&self.directory)?;
        }
        {
            let discovery = (!job.discovery.is_empty()).then(|| Scratch::write(self.discovery(), job.discovery));
            let _discovery = discovery.transpose()?;
            self.with_file(job.verb, job.configuration, job.token, progress).await?;
        }
        if job.verb == "init" {
            self.take_back(progress).await?;
        }
        self.start_kubelet(progress).await
    }

    /// Deletes what kubeadm made for nodes that join without us. It has just found the API server healthy.
    async fn take_back(&self, progress: Progress<'_>) -> Result<(), StepError> {
        progress(
            "[latchkey] Taking back automatic approval of nodes, bootstrap tokens and the anonymous right to cluster-info",
        );
        let unwanted = Scratch::write(self.run.join("unwanted.json"), secure_defaults::UNWANTED)?;
        let file = format!("--filename={}", unwanted.path().display());
        let delete = ["delete", "--ignore-not-found", "--wait=false"];
        let tokens = ["secrets", "--namespace=kube-system", "--field-selector=type=bootstrap.kubernetes.io/token"];
        for what in [&[file.as_str()][..], &tokens] {
            self.kubectl(&[&delete[..], what].concat(), Stdout::Progress, progress).await?;
        }
        Ok(())
    }

    /// kubectl of the release that runs, as the control plane's own administrator.
    pub(super) async fn kubectl(
        &self,
        arguments: &[&str],
        stdout: Stdout,
        progress: Progress<'_>,
    ) -> Result<SecretVec, StepError> {
        self.kubectl_with(arguments, b"", stdout, &[], progress).await
    }

    /// The same, which reads `stdin`; what is `hidden` is blotted out of whatever it prints.
    pub(crate) async fn kubectl_with(
        &self,
        arguments: &[&str],
        stdin: &[u8],
        stdout: Stdout,
        hidden: &[&str],
        progress: Progress<'_>,
    ) -> Result<SecretVec, StepError> {
        let kubeconfig = format!("--kubeconfig={}", self.directory.join("admin.conf").display());
        let program = &self.place(&self.kubectl, "kubectl");
        let arguments = &[arguments, &[kubeconfig.as_str()]].concat();
        let limit = BRIEF.min(self.limit);
        child::run(Call { program, arguments, stdin, stdout, limit, hidden }, progress).await
    }

    /// Runs kubeadm with a configuration that is gone afterwards, in whatever way the run ends.
    pub(super) async fn with_file(
        &self,
        verb: &str,
        configuration: &[u8],
        token: &str,
        progress: Progress<'_>,
    ) -> Result<(), StepError> {
        let file = Scratch::write(self.run.join("kubeadm.json"), configuration)?;
        let argument = format!("--config={}", file.path().display());
        self.call(&[verb, &argument], Stdout::Progress, self.limit, token, progress).await.map(drop)
    }

    pub(super) async fn call(
        &self,
        arguments: &[&str],
        stdout: Stdout,
        limit: Duration,
        token: &str,
        progress: Progress<'_>,
    ) -> Result<SecretVec, StepError> {
        let hidden = [token];
        let program = &self.place(&self.program, "kubeadm");
        let call = Call { program, arguments, stdin: b"", stdout, limit, hidden: &hidden };
        child::run(call, progress).await
    }

    /// Sees that the kubelet runs. It is started, not enabled: enabling writes into `/etc`, which may be read-only, and in
    /// the next boot it is again this step that decides.
    pub(super) async fn start_kubelet(&self, progress: Progress<'_>) -> Result<(), StepError> {
        self.service_manager("start", "kubelet.service", progress).await
    }

    /// A cluster whose nodes have a balancer takes no node without one: the others' configuration, which it shares, leads there.
    pub(super) fn with_balancer(&self, api_servers: Option<ApiServers>) -> Result<Option<ApiServers>, StepError> {
        if api_servers.is_none() || self.balancer.is_file() {
            return Ok(api_servers);
        }
        let message = format!("nodes reach the API servers by a balancer, and there is no {}", self.balancer.display());
        Err(StepError::new(StepCode::BalancerMissing, message))
    }

    pub(super) async fn service_manager(
        &self,
        verb: &str,
        unit: &str,
        progress: Progress<'_>,
    ) -> Result<(), StepError> {
        self.ask_service_manager(&[verb, unit], BRIEF.min(self.limit), progress).await
    }

    async fn start_within(&self, unit: &str, limit: Duration, progress: Progress<'_>) -> Result<(), StepError> {
        self.ask_service_manager(&["start", unit], limit, progress).await
    }

    async fn ask_service_manager(
        &self,
        arguments: &[&str],
        limit: Duration,
        progress: Progress<'_>,
    ) -> Result<(), StepError> {
        let (program, stdout) = (&self.systemctl, Stdout::Progress);
        let call = Call { program, arguments, stdin: b"", stdout, limit, hidden: &[] };
        child::run(call, progress).await.map(drop)
    }
}
