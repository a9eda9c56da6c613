//! `latchkey secret new`, `rotate` and `disk-key`.

use std::io::{self, IsTerminal};
use std::num::NonZeroU32;
use std::path::Path;

use latchkey_cluster_store::{DiskRelease, ReleaseCode};
use latchkey_keys::{ClusterId, KeyVersion, MasterSecret, Uuid};
use serde::Serialize;

use crate::arguments::Arguments;
use crate::cluster_dir::ClusterDir;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::output::{Output, Report, Style, Tone};

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let path = arguments.operand(0).map(Path::new).ok_or_else(|| CommandError::usage("FILE is missing"))?;
    MasterSecret::random()?.write_new(path)?;
    output.report(&NewSecretReport { file: path.display().to_string(), version: KeyVersion::FIRST })
}

/// A master secret was made.
#[derive(Serialize)]
struct NewSecretReport {
    file: String,
    version: KeyVersion,
}

impl Report for NewSecretReport {
    fn text(&self, _: Style) -> String {
        let keep = "Keep a copy in a safe place: no disk of its cluster can be recovered without it.";
        format!("master secret written to {}\n{keep}\n", self.file)
    }
}

/// Adds a version to a master secret's file.
pub(crate) fn rotate(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let path = arguments.operand(0).map(Path::new).ok_or_else(|| CommandError::usage("FILE is missing"))?;
    // A file of another kind is named; and so is that of another cluster, where somebody says which it is of.
    let master = files::load_master_secret(path)?;
    let cluster = arguments.path("cluster").map(|directory| ClusterDir::open(directory)?.required_cluster());
    let of = cluster.transpose()?.map(|cluster| cluster.measurement_secret(&master).map(|_| cluster.cluster_id));
    let of = of.transpose()?;
    drop(master);
    let rotated = MasterSecret::rotate(path)?;
    let (file, version) = (path.display().to_string(), rotated.current());
    let earlier_versions = rotated.versions().filter(|earlier| *earlier != version).collect();
    output.report(&RotationReport { file, version, earlier_versions, cluster_id: of })
}

/// A master secret has a version more.
#[derive(Serialize)]
struct RotationReport {
    file: String,
    version: KeyVersion,
    earlier_versions: Vec<KeyVersion>,
    /// The cluster that it was proven to be of, if one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_id: Option<ClusterId>,
}

impl Report for RotationReport {
    fn text(&self, _: Style) -> String {
        let Self { file, version, cluster_id, .. } = self;
        let of = cluster_id.map_or_else(
            || {
                "Whether it is of a cluster of yours was not looked at: --cluster says which it has to be of.\n"
                    .to_owned()
            },
            |cluster| format!("It is of the cluster {cluster}.\n"),
        );
        format!(
            "version {version} of the master secret is current in {file}\n\
             Give the new file to the key service, or to the join service that has one, and keep a copy: the disks of nodes that join\n\
             from now on need it. Disks from before keep their version.\n{of}"
        )
    }
}

/// Writes the key of one disk, because the operator says so: no machine is asked to prove anything.
pub(crate) fn disk_key(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let missing = || CommandError::usage("--disk is missing");
    let disk: Uuid = arguments.value("disk")?.ok_or_else(missing)?;
    if !arguments.has("without-its-machine") {
        let what = "this key opens the disk on any machine, and none has to prove anything for it";
        let failure = CommandError::new(Exit::Usage, CommandCode::WordMissing, what);
        return Err(failure.fix("if that is what you want, say --without-its-machine; else see `latchkey recover`"));
    }
    let out = arguments.path("out");
    if out.is_none() && io::stdout().is_terminal() {
        let failure = CommandError::usage("a key is not written to a terminal");
        return Err(failure.fix("name a file with --out, or pipe standard output to the program that needs it"));
    }
    let directory = ClusterDir::open(arguments.required_path("cluster")?)?;
    let master = files::read_master_secret(arguments.required_path("master-secret")?)?;
    directory.required_cluster()?.measurement_secret(&master)?;
    let version = match (directory.key_version_of(disk)?, arguments.value::<NonZeroU32>("key-version")?) {
        (Some(recorded), None) => recorded,
        (_, Some(said)) => KeyVersion::new(said.get()).ok_or_else(missing)?,
        (None, None) => {
            let failure = CommandError::new(
                Exit::Usage,
                ReleaseCode::DiskNotOnRecord,
                format!("no record names the disk {disk} as in use"),
            );
            return Err(failure
                .fix("say with --key-version which version of the master secret it was made with; the first is 1"));
        }
    };
    let key = master.derive_32(&DiskRelease::on_operators_word(disk, version))?;
    let Some(path) = out else { return output.bytes(key.expose()) };
    files::write_new(path, key.expose(), Readers::OwnerOnly)?;
    output.say(Tone::Warning, "warning", "whoever has this file reads the disk: destroy it when you are done");
    output.report(&DiskKeyReport { file: path.display().to_string(), disk_uuid: disk, key_version: version })
}

/// The key of a disk was written.
#[derive(Serialize)]
struct DiskKeyReport {
    file: String,
    disk_uuid: Uuid,
    key_version: KeyVersion,
}

impl Report for DiskKeyReport {
    fn text(&self, _: Style) -> String {
        format!("key of the disk {} written to {}\n", self.disk_uuid, self.file)
    }
}
