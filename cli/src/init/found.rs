//! The end of an init whose cluster is to be kept in its own API server: chart, documents, first record, credentials.
//!
//! Each step is one that is done already when it is taken again, and `store.json` in the cluster's directory is the last: an init
//! that was cut anywhere goes on when it is run again. The document that names the cluster is the mark: where one stands, nothing
//! is written over what the operator may have changed since, and one of another cluster is refused before anything is written.

use std::path::Path;
use std::time::Duration;

use latchkey_api::v1::ClusterSettings;
use latchkey_cluster_store::objects::{
    CLUSTER_MAP, DENIED_MAP, ENROLMENT_MAP, GROUP, NAMESPACE, NODE, POLICY_MAP, REFERENCES_MAP, REVISIONS_MAP,
};
use latchkey_cluster_store::{ClusterFile, KubernetesFile, NodeRecord};
use latchkey_durable_file::Links;
use latchkey_node_config::Endpoint;

use super::chart;
use super::journal::Journal;
use crate::api_server::{ApiServer, Data, KUBEADM_PORT, Kubeconfig, StoreNote, issue, reached_at};
use crate::backup::BackupOnce;
use crate::charts::{Chart, Done, Lock, Options, Work, present};
use crate::cluster_dir::ClusterDir;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::Readers;
use crate::node::{Patience, waiting_for};
use crate::output::{Output, Tone, printable};
use crate::stock::{Scope, Stock, StockCode};

/// The release of our chart.
const RELEASE: &str = "latchkey";
/// The join service's kubeconfig, in the cluster's directory.
pub(crate) const JOIN_SERVICE: &str = "join-service.kubeconfig";
/// How long the API server may take to serve our resources.
const ESTABLISHED: Duration = Duration::from_mins(1);
/// More than any document.
const MAX_FILE: usize = 1024 * 1024;

/// What is to be founded, and where.
pub(super) struct Founding<'a> {
    pub(super) directory: &'a ClusterDir,
    pub(super) kubeconfig: &'a Kubeconfig,
    /// What the operator said of the cluster to its first machine.
    pub(super) settings: &'a ClusterSettings,
    pub(super) stock: &'a Stock,
    /// The hash of the join service's key, where it runs on control planes and has its credentials there.
    pub(super) inside: Option<String>,
    /// Where a backup goes that has to be made before a release is mended.
    pub(super) backups: &'a Path,
    pub(super) output: &'a Output,
}

impl Founding<'_> {
    /// Does what is left to do.
    pub(super) async fn run(&self, patience: &mut Patience) -> Result<(), CommandError> {
        let cluster = self.directory.required_cluster()?;
        let api = connect(self.stock, self.kubeconfig, self.output, patience).await?;
        self.say(
            "api server",
            &format!("Kubernetes {}, by {}", api.kubectl().server(), self.kubeconfig.named().display()),
        );
        // Before anything is written.
        let is_there = is_ours(&api, &cluster).await?;
        let described = self.describe(&api).await?;
        Box::pin(self.install_chart()).await?;
        self.await_resources(&api).await?;
        if is_there {
            self.say("documents", "are there already, and stay as they are");
        } else {
            self.write_documents(&api, &cluster, &described).await?;
        }
        let join_service = self.directory.path(JOIN_SERVICE);
        if let Some(hash) = &self.inside {
            self.say("services", &format!("run on control planes; machines must know the key sha256:{hash}"));
        } else if join_service.exists() {
            self.say("credentials", &format!("of the join service are in {}", join_service.display()));
        } else {
            self.output.waiting("waiting for the join service's certificate");
            let text = issue(&api).await?;
            self.directory.write(JOIN_SERVICE, &text, Readers::OwnerOnly)?;
            self.say("credentials", &format!("of the join service are in {}, good for a year", join_service.display()));
        }
        StoreNote::write(self.directory, self.kubeconfig.named())
    }

    fn say(&self, word: &str, text: &str) {
        self.output.say(Tone::Good, word, text);
    }

    /// What nodes are told of the API server in their tickets.
    async fn describe(&self, api: &ApiServer) -> Result<KubernetesFile, CommandError> {
        let address = match said_endpoint(self.settings) {
            Some(said) => said,
            None => reached_at(api).await?,
        };
        let version = api.kubectl().server();
        described(self.settings, &address, format!("{}.{}", version.major, version.minor))
    }

    /// A release that an earlier run left half done is brought to its end first.
    async fn install_chart(&self) -> Result<(), CommandError> {
        self.output.waiting("installing the chart");
        let work = Work::begin(self.stock, &self.kubeconfig.path(), Options::default()).await?;
        let chart = Chart::plain(RELEASE, NAMESPACE, chart::archive(RELEASE)?);
        let lock = Lock::take(&work.kubectl, self.output).await?;
        let installing = async {
            let mut backup = BackupOnce::new(&work.kubectl, self.backups, self.output);
            if present(&work, &chart, &lock, &mut backup, self.output).await? == Done::Installed {
                return Ok("installed");
            }
            work.upgrade(&chart, &lock, self.output).await?;
            Ok("is there, and as this command has it")
        };
        let done = Box::pin(lock.held(installing)).await.map_err(|failure| {
            if failure.code != StockCode::ReleaseBusy.into() {
                return failure;
            }
            failure
                .fix("wait until the other helm is done; if nobody works on it, `helm rollback` or `helm uninstall` it")
        })?;
        self.say("chart", &format!("{RELEASE} in the namespace {NAMESPACE}: {done}"));
        Ok(())
    }

    async fn await_resources(&self, api: &ApiServer) -> Result<(), CommandError> {
        let names = [format!("customresourcedefinition/{}.{GROUP}", NODE.1)];
        Ok(api.kubectl().wait("established", Scope::Cluster, &names, ESTABLISHED).await?)
    }

    /// What the directory holds becomes what the API server holds; the cluster comes last.
    async fn write_documents(
        &self,
        api: &ApiServer,
        cluster: &ClusterFile,
        described: &KubernetesFile,
    ) -> Result<(), CommandError> {
        self.output.waiting("writing the cluster's documents");
        let one = |name: &str| -> Result<Data, CommandError> {
            let path = self.directory.path(name);
            // What its owner may not read is not shown to the cluster, whatever he makes of the name.
            self.directory
                .as_owner(|| Ok(if path.exists() { [(name.to_owned(), text_of(&path)?)].into() } else { Data::new() }))
        };
        let documents = [
            (POLICY_MAP, one("policy.json")?),
            (REFERENCES_MAP, self.manifests()?),
            (ENROLMENT_MAP, one("enrolment.json")?),
            (REVISIONS_MAP, one("revisions.json")?),
            (DENIED_MAP, self.denials()?),
        ];
        api.put(documents).await?;
        // The first machine's, and what a join service may have written here meanwhile.
        let (nodes, wrong) = self.directory.nodes()?;
        for sentence in &wrong {
            self.output.say(Tone::Warning, "warning", &printable(sentence));
        }
        for record in &nodes {
            api.put_on_record(record).await?;
        }
        self.show_first(api, &nodes).await;
        let mut file = one("cluster.json")?;
        file.insert("kubernetes.json".to_owned(), described.to_json());
        api.put([(CLUSTER_MAP, file)]).await?;
        let names: Vec<&str> = nodes.iter().map(|record| record.name.as_str()).collect();
        self.say("documents", &format!("of the cluster {}, and the record of {}", cluster.name, names.join(", ")));
        Ok(())
    }

    /// What the first machine proved, for `kubectl get attestednodes`. The join service will say it of every machine that asks.
    async fn show_first(&self, api: &ApiServer, nodes: &[NodeRecord]) {
        let Ok(Some(journal)) = Journal::load(self.directory) else { return };
        let Some(ek) = journal.stage.machine().map(|(ek, _)| ek) else { return };
        let Some(record) = nodes.iter().find(|record| record.ek_sha256 == ek) else { return };
        let Some(status) = journal.status(record) else { return };
        if let Err(failure) = api.show_status(ek, &status).await {
            let text = format!("what {} proved is not shown in the API server: {}", record.name, failure.what);
            self.output.say(Tone::Warning, "warning", &printable(&text));
        }
    }

    fn manifests(&self) -> Result<Data, CommandError> {
        let mut data = Data::new();
        for (path, manifest, signature) in self.directory.manifests()? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(signature) = signature {
                data.insert(format!("{name}.minisig"), utf8(&path, signature)?);
            }
            data.insert(name, utf8(&path, manifest)?);
        }
        Ok(data)
    }

    fn denials(&self) -> Result<Data, CommandError> {
        let denials = self.directory.denials()?;
        denials.iter().map(|ek| Ok((ek.to_string(), self.directory.denial_reason(*ek)?))).collect()
    }
}

/// Sees that nodes can be told what the operator says, before there is a cluster that says otherwise.
pub(super) fn check(settings: &ClusterSettings) -> Result<(), CommandError> {
    // What is not said yet is found out later, and is well-formed.
    let address = said_endpoint(settings).unwrap_or_else(|| "192.0.2.1:6443".to_owned());
    let version = &settings.kubernetes_version;
    let version = if version.is_empty() { "1.0" } else { version };
    described(settings, &address, version.to_owned()).map(drop)
}

fn said_endpoint(settings: &ClusterSettings) -> Option<String> {
    let said = &settings.control_plane_endpoint;
    let parsed = Endpoint::of_api_server_or(said, KUBEADM_PORT);
    // What is none is refused with the rest of the file.
    (!said.is_empty()).then(|| parsed.map_or_else(|| said.clone(), |endpoint| endpoint.to_string()))
}

fn described(settings: &ClusterSettings, address: &str, version: String) -> Result<KubernetesFile, CommandError> {
    let mut described = KubernetesFile::new(address, version);
    described.api_balancer = settings.api_balancer;
    described.untainted = settings.untainted;
    let list = std::str::from_utf8(&settings.component_list).unwrap_or_default();
    described.component_list = Some(list.to_owned()).filter(|list| !list.is_empty());
    // No machine gets a certificate for an address of a service, nor for one of the API server.
    if !settings.service_cidr.is_empty() {
        described.service_networks =
            settings.service_cidr.split(',').map(|network| network.trim().to_owned()).collect();
    }
    described.api_server_hosts.clone_from(&settings.apiserver_cert_sans);
    match described.check() {
        Ok(()) => Ok(described),
        Err(error) => {
            let failure = CommandError::usage(format!("nodes cannot be told of the API server at {address}"));
            Err(failure.because(error.to_string()).fix(
                "say where they find it, with --control-plane-endpoint HOST:PORT; and what is no node's, with \
                 --service-cidr and --cert-san",
            ))
        }
    }
}

/// The API server of a control plane that has just begun: it may not answer yet.
pub(super) async fn connect(
    stock: &Stock,
    kubeconfig: &Kubeconfig,
    output: &Output,
    patience: &mut Patience,
) -> Result<ApiServer, CommandError> {
    loop {
        match stock.kubectl(&kubeconfig.path()).await {
            Ok(kubectl) => return Ok(ApiServer::new(kubectl, kubeconfig.named())),
            Err(error) => {
                let passes = [StockCode::Unreachable, StockCode::Late, StockCode::ServerFailed];
                let may_pass = passes.contains(&error.code());
                let failure = CommandError::from(error);
                if !may_pass {
                    return Err(failure);
                }
                output.waiting(&waiting_for(&failure));
                patience.after(failure).await?;
            }
        }
    }
}

/// Whether the API server is this cluster's already. One of another cluster is not written to.
async fn is_ours(api: &ApiServer, cluster: &ClusterFile) -> Result<bool, CommandError> {
    match api.cluster().await? {
        None => Ok(false),
        Some(known) if known.cluster_id == cluster.cluster_id => Ok(true),
        Some(known) => {
            let what = format!("the API server keeps another cluster: {:?}", known.name);
            let failure = CommandError::new(Exit::Usage, CommandCode::ForeignCluster, what);
            let ids = format!("its id is {}, and this cluster's is {}", known.cluster_id, cluster.cluster_id);
            Err(failure.because(ids).fix(CommandCode::ForeignCluster.remedy()))
        }
    }
}

fn text_of(path: &Path) -> Result<String, CommandError> {
    utf8(path, crate::files::read_regular(path, MAX_FILE, Links::Followed)?)
}

fn utf8(path: &Path, bytes: Vec<u8>) -> Result<String, CommandError> {
    String::from_utf8(bytes).map_err(|_| {
        CommandError::new(Exit::Usage, CommandCode::FileMalformed, format!("{} is no text", path.display()))
    })
}
