//! What an init is to do, and the directory it is done in.

use std::path::PathBuf;

use latchkey_api::v1::ClusterSettings;
use latchkey_cluster_store::registration::{InvitationFile, InvitationToken};
use latchkey_keys::{MasterSecret, SecretVec};
use latchkey_kubernetes::Minor;
use serde::{Deserialize, Serialize};

use super::asked::Asked;
use super::found;
use super::journal::{Journal, Stage};
use super::services::Inside;
use crate::api_server::KUBEADM_PORT;
use crate::arguments::Arguments;
use crate::clock::now;
use crate::cluster_dir::{ClusterDir, Held};
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::kubernetes::{refused as refused_version, table as version_table};
use crate::node::Address;
use crate::output::{Output, Tone};
use crate::trust::Trust;
use crate::which_machine::Meant;

/// `InitRequest.init_secret`: 16..72 bytes.
const INIT_SECRET: std::ops::RangeInclusive<usize> = 16..=72;

/// Where the cluster is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Store {
    Directory,
    Kubernetes,
}

/// What the user wants.
pub(super) struct Job {
    pub(super) address: Address,
    pub(super) directory: ClusterDir,
    pub(super) name: String,
    pub(super) master: MasterSecret,
    pub(super) init_secret: SecretVec,
    /// What the machine registers the cluster with at its centre.
    pub(super) invitation: Option<InvitationToken>,
    pub(super) trust: Trust,
    pub(super) meant: Meant,
    pub(super) settings: ClusterSettings,
    pub(super) admin_config: PathBuf,
    /// Where this command's machine reaches the API server, if not where the cluster's credentials say.
    pub(super) api_server: Option<Address>,
    pub(super) store: Store,
    /// Whether these arguments say so. A later run that does not takes what the first one said.
    store_is_said: bool,
    /// What the services read, where they are to run on control planes.
    pub(super) inside: Option<Inside>,
}

impl Job {
    pub(super) fn from_arguments(arguments: &Arguments) -> Result<Self, CommandError> {
        let directory = arguments.required_path("cluster")?;
        let trust = Trust::from_arguments(arguments)?;
        let text = |flag| arguments.text(flag).map(|text| text.unwrap_or_default().to_owned());
        let said = said_store(arguments)?;
        let store = said.unwrap_or(Store::Directory);
        let settings = ClusterSettings {
            kubernetes_version: kubernetes(arguments.text("kubernetes")?)?,
            control_plane_endpoint: text("control-plane-endpoint")?,
            apiserver_cert_sans: arguments.texts("cert-san")?.into_iter().map(str::to_owned).collect(),
            pod_cidr: text("pod-cidr")?,
            service_cidr: text("service-cidr")?,
            // Of the version that the journal says.
            secrets_key: None,
            service_files: Vec::new(),
            api_balancer: balancer(arguments)?,
            untainted: arguments.has("untainted"),
            component_list: component_list(arguments)?,
        };
        if store == Store::Kubernetes {
            found::check(&settings)?;
        }
        Ok(Self {
            address: arguments.operand_text(0)?.parse().map_err(|error: String| CommandError::usage(error))?,
            name: cluster_name(arguments.required_text("name")?)?,
            settings,
            meant: Meant::from_arguments(arguments, &trust.policy, &[])?,
            trust,
            master: files::read_master_secret(arguments.required_path("master-secret")?)?,
            init_secret: init_secret(arguments)?,
            invitation: invitation(arguments)?,
            api_server: api_server(arguments)?,
            admin_config: arguments.path("admin-config").map_or_else(|| directory.join("admin.conf"), Into::into),
            store,
            store_is_said: said.is_some(),
            inside: Inside::from_arguments(arguments, store == Store::Kubernetes)?,
            // Last: a command that is wrong makes no directory.
            directory: ClusterDir::make(directory)?,
        })
    }

    /// Holds the directory, and finds or begins the journal in it.
    pub(super) fn begin(&mut self, resume: bool, output: &Output) -> Result<(Held, Journal), CommandError> {
        let held = self.directory.hold()?;
        let inside = self.inside.is_some();
        let asked = |job: &Self| Asked::of(&job.settings, job.store, inside);
        let journal = match Journal::load(&self.directory)? {
            Some(mut journal) => {
                journal.check(&self.directory, &self.name, &self.master)?;
                match &journal.asked {
                    Some(before) if journal.stage.machine().is_some() => {
                        before.complete(&mut self.settings, inside)?;
                        self.store = before.store().filter(|_| !self.store_is_said).unwrap_or(self.store);
                    }
                    // What is asked for may still change, or was not noted by an earlier release.
                    _ if journal.stage.machine().is_none() => journal.asks(&self.directory, asked(self))?,
                    _ => {}
                }
                output.say(Tone::Plain, "resuming", &format!("cluster {}", journal.cluster_id));
                journal
            }
            None if resume => {
                let what = format!("there is nothing to resume in {}", self.directory.shown());
                return Err(
                    CommandError::usage(what).fix("check --cluster, or leave out --resume to begin a new cluster")
                );
            }
            None if self.directory.cluster()?.is_some() => {
                let what = format!("{} holds a cluster already", self.directory.shown());
                return Err(CommandError::usage(what).fix("use another directory for another cluster"));
            }
            None => Journal::begin(&self.directory, &self.name, &self.master, asked(self))?,
        };
        Ok((held, journal))
    }

    /// Said before the node is touched: afterwards there would be credentials and nowhere to put them.
    pub(super) fn check_admin_config(&self, stage: Stage) -> Result<(), CommandError> {
        let path = &self.admin_config;
        // Once the cluster is begun, an earlier run of this init may have written them.
        if path.exists() && stage.machine().is_none() {
            let what = format!("{} exists already", path.display());
            return Err(CommandError::usage(what).fix("move it away, or name another file with --admin-config"));
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        match parent.filter(|parent| !parent.is_dir()) {
            Some(missing) => {
                let what = format!("--admin-config: there is no directory {}", missing.display());
                Err(CommandError::new(Exit::Missing, CommandCode::DirectoryMissing, what))
            }
            None => Ok(()),
        }
    }
}

fn cluster_name(name: &str) -> Result<String, CommandError> {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=63).contains(&name.len()) && name.chars().all(letter) && !name.starts_with('-') && !name.ends_with('-') {
        Ok(name.to_owned())
    } else {
        let what = format!("--name {name}: a cluster's name is 1 to 63 lower-case letters, digits and inner hyphens");
        Err(CommandError::usage(what))
    }
}

/// The minor version as the node reads it; empty if none is named.
fn kubernetes(said: Option<&str>) -> Result<String, CommandError> {
    let Some(said) = said else { return Ok(String::new()) };
    let minor: Minor = said.parse().map_err(|refusal| refused_version(&refusal))?;
    Ok(minor.to_string())
}

/// What nodes of images without components get for themselves. A version that the table does not have may be one that the image
/// carries; who says where components come from means that it does not.
fn component_list(arguments: &Arguments) -> Result<Vec<u8>, CommandError> {
    let mirror = arguments.text("components")?;
    let Some(said) = arguments.text("kubernetes")? else {
        return match mirror {
            None => Ok(Vec::new()),
            Some(_) => Err(CommandError::usage("--components: say which version, too, with --kubernetes MINOR")),
        };
    };
    let minor: Minor = said.parse().map_err(|refusal| refused_version(&refusal))?;
    let table = version_table(arguments)?;
    if mirror.is_none() && arguments.path("table").is_none() && table.release(minor).is_err() {
        return Ok(Vec::new());
    }
    crate::kubernetes::component_list(&table, minor, mirror)
}

/// What nodes are told is another thing: the credentials no longer say it.
fn api_server(arguments: &Arguments) -> Result<Option<Address>, CommandError> {
    let Some(said) = arguments.text("api-server")? else { return Ok(None) };
    let address = Address::parse(said, KUBEADM_PORT);
    let address = address.map_err(|error| CommandError::usage(format!("--api-server: {error}")))?;
    if said_store(arguments)? == Some(Store::Kubernetes) && arguments.text("control-plane-endpoint")?.is_none() {
        let what = "--api-server says where you reach the API server, and nothing says where nodes do";
        return Err(CommandError::usage(what).fix("say that, too, with --control-plane-endpoint HOST:PORT"));
    }
    Ok(Some(address))
}

/// Who has no join service in the API server has no other control planes either.
fn balancer(arguments: &Arguments) -> Result<bool, CommandError> {
    let wanted = arguments.has("api-balancer");
    if wanted && said_store(arguments)? != Some(Store::Kubernetes) {
        return Err(CommandError::usage(
            "--api-balancer leads to several control planes, and needs --store kubernetes",
        ));
    }
    Ok(wanted)
}

/// `--store`, or what goes without saying: only with its records in the API server has a cluster of Kubernetes a join service that
/// gives its workers tokens and certificates.
fn said_store(arguments: &Arguments) -> Result<Option<Store>, CommandError> {
    match arguments.text("store")? {
        None => Ok(arguments.text("kubernetes")?.map(|_| Store::Kubernetes)),
        Some("directory") => Ok(Some(Store::Directory)),
        Some("kubernetes") => Ok(Some(Store::Kubernetes)),
        Some(other) => Err(CommandError::usage(format!("--store {other}: expected `directory` or `kubernetes`"))),
    }
}

fn invitation(arguments: &Arguments) -> Result<Option<InvitationToken>, CommandError> {
    let Some(path) = arguments.path("invitation") else { return Ok(None) };
    let file = InvitationFile::read(path).map_err(CommandError::usage)?;
    if file.expires() <= now() {
        let what = format!("the invitation in {} ended", path.display());
        return Err(CommandError::usage(what).fix("make another with `latchkey cluster invite`; the machine that this init began on has it already: leave --invitation out"));
    }
    Ok(file.token())
}

fn init_secret(arguments: &Arguments) -> Result<SecretVec, CommandError> {
    let secret = files::read_secret(arguments.required_path("init-secret")?, *INIT_SECRET.end())?;
    if INIT_SECRET.contains(&secret.len()) {
        Ok(secret)
    } else {
        let what = format!("the init secret has {} bytes, expected 16 to 72", secret.len());
        Err(CommandError::usage(what).fix("make one with `latchkey init-secret`"))
    }
}
