//! `latchkey recover`: the key of a disk whose node reaches no join service.

use std::num::NonZeroU32;
use std::time::Duration;

use latchkey_api::v1::{Components, RecoverRequest};
use latchkey_attestation::LockExpectation;
use latchkey_attestation::{EkDigest, EkPrefix};
use latchkey_channel::Purpose;
use latchkey_cluster_store::{ClusterFile, DiskRelease, ReleaseCode};
use latchkey_keys::{ClusterId, KeyVersion, MasterSecret, Secret, Uuid};
use latchkey_kubernetes::Minor;
use serde::Serialize;

use crate::api_server::StoreNote;
use crate::arguments::Arguments;
use crate::cluster_dir::ClusterDir;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::firmware;
use crate::kubernetes;
use crate::machines::{self, Store};
use crate::node::{self, Address, CALL, ConnectError, Patience, RefusedCall, refused_call};
use crate::output::{Output, Report, Style, Tone, pairs};
use crate::trust::Trust;
use crate::verify::proven_in_words;
use crate::which_machine;

const TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let directory = ClusterDir::open(arguments.required_path("cluster")?)?;
    let address = arguments.operand_text(0)?.parse().map_err(|error: String| CommandError::usage(error))?;
    let cluster = directory.required_cluster()?;
    let master = files::read_master_secret(arguments.required_path("master-secret")?)?;
    // Before anything else: with another one the node would only wait.
    cluster.measurement_secret(&master)?;
    let by_word = Word::from_arguments(arguments, &cluster)?;
    let store = store(arguments, directory)?;
    let recovery = Recovery {
        address,
        cluster,
        trust: Trust::from_files_or_store(arguments, Some(&*store))?,
        master,
        moved_to: which_machine::prefix(arguments, "moved-to")?,
        by_word,
        machines: store,
        components: components(arguments)?,
    };
    let mut patience = Patience::new(arguments.timeout(TIMEOUT)?);
    let attempt = || Box::pin(recovery.attempt(output));
    let report = node::block_on(patience.repeat(output, attempt))?;
    output.report(&report)
}

/// Where the cluster is kept. An API server that runs on the very machines that wait may be away; then the directory counts by the
/// operator's word, which knows the first machine, and no denial, policy or revision that came later.
fn store(arguments: &Arguments, directory: ClusterDir) -> Result<Box<dyn Store>, CommandError> {
    if arguments.has("by-directory") {
        return Ok(Box::new(directory));
    }
    machines::open(arguments).map_err(|failure| {
        if failure.exit != Exit::Unreachable {
            return failure;
        }
        let remedy = failure.remedy().to_owned();
        failure.fix(format!("{remedy}; if it cannot run before this machine does, say --by-directory"))
    })
}

/// What a join service's ticket would name, where none is issued.
fn components(arguments: &Arguments) -> Result<Option<Components>, CommandError> {
    let mirror = arguments.text("components")?;
    let Some(said) = arguments.text("kubernetes")? else {
        return match mirror {
            None => Ok(None),
            Some(_) => Err(CommandError::usage("--components: say which version, too, with --kubernetes MINOR")),
        };
    };
    let minor: Minor = said.parse().map_err(|refusal| kubernetes::refused(&refusal))?;
    let list = kubernetes::component_list(&kubernetes::table(arguments)?, minor, mirror)?;
    Ok(Some(Components { kubernetes_version: minor.to_string(), list }))
}

/// What counts where the directory of a cluster that is kept in its API server has no record: of every machine but the first.
enum Word {
    /// There it has all records, or none are looked for there.
    NotNeeded,
    /// Nobody named the machine.
    NotGiven,
    /// The operator answers for this machine.
    Given {
        ek: EkPrefix,
        /// Which version of the master secret its disk was made with.
        version: KeyVersion,
    },
}

impl Word {
    fn from_arguments(arguments: &Arguments, cluster: &ClusterFile) -> Result<Self, CommandError> {
        let is_elsewhere = StoreNote::is_in(arguments.required_path("cluster")?);
        let needed = arguments.has("by-directory") && is_elsewhere;
        match which_machine::prefix(arguments, "ek")? {
            None if needed => Ok(Self::NotGiven),
            None => Ok(Self::NotNeeded),
            Some(ek) if needed => {
                let version = match arguments.value::<NonZeroU32>("key-version")? {
                    Some(said) => KeyVersion::new(said.get()),
                    None => Some(key_version(cluster)?),
                };
                let version = version.ok_or_else(|| CommandError::usage("--key-version: no master secret has it"))?;
                Ok(Self::Given { ek, version })
            }
            Some(_) => {
                let what =
                    "--ek answers for a machine that has no record, and this command looks where all records are";
                Err(CommandError::usage(what).fix("leave it out: the record says which machine the disk is of"))
            }
        }
    }
}

/// A node has the key of its disk.
#[derive(Serialize)]
struct RecoveryReport {
    node: String,
    ek_sha256: EkDigest,
    disk_uuid: Uuid,
    cluster_id: ClusterId,
}

impl Report for RecoveryReport {
    fn text(&self, style: Style) -> String {
        let text = pairs(&[
            ("node", self.node.clone()),
            ("TPM", self.ek_sha256.to_string()),
            ("disk", self.disk_uuid.to_string()),
            ("cluster id", self.cluster_id.to_string()),
            ("recovered", style.paint(Tone::Good, "yes: the node is locked and opens its disk")),
        ]);
        format!("\n{text}")
    }
}

struct Recovery {
    address: Address,
    machines: Box<dyn Store>,
    cluster: ClusterFile,
    trust: Trust,
    master: MasterSecret,
    /// The machine that the disk was moved to, by the operator's word.
    moved_to: Option<EkPrefix>,
    by_word: Word,
    /// What a machine whose image has no Kubernetes goes to.
    components: Option<Components>,
}

impl Recovery {
    async fn attempt(&self, output: &Output) -> Result<RecoveryReport, ConnectError> {
        let address = &self.address;
        output.waiting(&format!("connecting to {address}"));
        let node = node::connect(address, Purpose::Recover, &self.trust, LockExpectation::Unlocked, None).await?;
        let ek = node.admission.ek_digest();
        output.say(Tone::Good, "proven", &proven_in_words(&node.admission));
        let described = node.describe_recovery(address).await?;
        output.say(Tone::Plain, "node", &format!("{}, disk {}", described.node_name, described.disk));
        let release = self.release(ek, described.disk, output).map_err(ConnectError::Fatal)?;
        // After the record is this machine's: what it shows of its firmware is held against that.
        let seen = node.seen(&self.trust.policy);
        firmware::check_boot(&*self.machines, ek, &seen, output).map_err(ConnectError::Fatal)?;
        let keys = self.keys(&release).map_err(ConnectError::Fatal)?;
        let cluster =
            push(&node, address, &keys, self.components.clone()).await.map_err(RefusedCall::into_connect_error)?;
        if cluster != self.cluster.cluster_id {
            let failure = CommandError::new(
                Exit::Node,
                CommandCode::WrongCluster,
                "the disk's key fits, but the disk is of another cluster",
            );
            return Err(ConnectError::Fatal(
                failure
                    .because(format!("it is of cluster {cluster}, and the directory of {}", self.cluster.cluster_id)),
            ));
        }
        let (node, disk_uuid) = (described.node_name, described.disk);
        Ok(RecoveryReport { node, ek_sha256: ek, disk_uuid, cluster_id: cluster })
    }

    /// That a machine is admitted says what it runs, not which one it is: whoever clones a disk into another admitted machine and
    /// diverts the connection has one, too. So the record decides, or the operator's word about this one machine.
    fn release(&self, ek: EkDigest, disk: Uuid, output: &Output) -> Result<DiskRelease, CommandError> {
        let Some(expected) = self.moved_to else { return self.by_record_or_word(ek, disk, output) };
        which_machine::expect("--moved-to", expected, ek)?;
        let (release, from) = self.machines.move_disk(disk, ek)?;
        if let Some(from) = from {
            let text = format!(
                "the disk {disk} is on the record of this machine from now on, and not on that of TPM {from}, which \
                 gets no key of this cluster any more: if that machine is not in your hands, shut it out with `latchkey node deny`"
            );
            output.say(Tone::Warning, "moved", &text);
        }
        Ok(release)
    }

    /// By the record; where there is none, by the operator's word that this machine is the one.
    fn by_record_or_word(&self, ek: EkDigest, disk: Uuid, output: &Output) -> Result<DiskRelease, CommandError> {
        let refused = match self.machines.release(ek, disk) {
            Err(refused) if refused.code == ReleaseCode::MachineNotOnRecord.into() => refused,
            decided => return decided,
        };
        match self.by_word {
            Word::NotNeeded => Err(refused),
            Word::NotGiven => {
                let fix = "the directory knows the cluster's first machine: say with --ek that this one is yours, too";
                Err(refused.fix(format!("{fix}; its console shows the digest")))
            }
            Word::Given { ek: named, version } => {
                which_machine::expect("--ek", named, ek)?;
                output.say(
                    Tone::Warning,
                    "no record",
                    "the key of this disk goes to this machine because you named it",
                );
                Ok(DiskRelease::on_operators_word(disk, version))
            }
        }
    }

    fn keys(&self, release: &DiskRelease) -> Result<NodeKeys, CommandError> {
        NodeKeys::derive(&self.master, release, self.cluster.measurement_secret(&self.master)?)
    }
}

/// The version of the master secret that the cluster was begun with.
fn key_version(cluster: &ClusterFile) -> Result<KeyVersion, CommandError> {
    KeyVersion::new(cluster.key_version)
        .ok_or_else(|| CommandError::usage("cluster.json names no version of the master secret"))
}

/// The secrets that a node is given. There are none without the witness that they are for this machine, and each is of the version
/// on record: the current one may be a later one.
pub(crate) struct NodeKeys {
    pub(crate) disk: Uuid,
    pub(crate) state_disk: Secret<32>,
    pub(crate) measurement: Secret<32>,
}

impl NodeKeys {
    pub(crate) fn derive(
        master: &MasterSecret,
        release: &DiskRelease,
        measurement: Secret<32>,
    ) -> Result<Self, CommandError> {
        Ok(Self { disk: release.disk(), state_disk: master.derive_32(release)?, measurement })
    }
}

/// Offers the keys of one disk, with what the machine's cluster has of Kubernetes by now, if its image may lack that.
pub(crate) async fn push(
    node: &node::Node,
    address: &Address,
    keys: &NodeKeys,
    components: Option<Components>,
) -> Result<ClusterId, RefusedCall> {
    let request = RecoverRequest {
        disk_uuid: keys.disk.to_string(),
        state_disk_key: keys.state_disk.expose().to_vec(),
        measurement_secret: keys.measurement.expose().to_vec(),
        components,
    };
    let answer = node.recovery().recover(&request, CALL).await.map_err(|status| refused_call(address, &status))?;
    let id = <[u8; 32]>::try_from(answer.cluster_id.as_slice()).map_err(|_| {
        RefusedCall::local(CommandError::new(
            Exit::Node,
            CommandCode::AnswerMalformed,
            "the node's answer is malformed",
        ))
    })?;
    Ok(ClusterId::from_bytes(id))
}
