//! `--merge-kubeconfig`: the cluster's credentials in the kubeconfig that the operator uses every day.
//!
//! kubeadm calls every cluster, user and context alike, so that kubectl would pass over all but the first. Here they are called by the
//! cluster: cluster `plant`, user `plant-admin`, context `plant`. Stock kubectl reads both files and writes the one that takes the
//! place of the operator's, at once and as a whole; kubectl's own lock on it is held meanwhile.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use zeroize::Zeroizing;

use super::config::{Cluster, Config, Context, User, malformed};
use crate::api_server::Kubeconfig;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::output::{Output, Tone};
use crate::stock::Stock;

/// What a context names.
#[derive(Serialize)]
struct Leads<'a> {
    cluster: &'a str,
    user: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Authority {
    certificate_authority_data: Option<String>,
}

fn user_of(name: &str) -> String {
    format!("{name}-admin")
}

/// Before the node is touched: whether the names are free.
pub(super) async fn check(stock: &Stock, into: &Path, name: &str) -> Result<(), CommandError> {
    let Some(file) = existing(into)? else { return Ok(()) };
    let text = stock.kubectl_alone(into)?.whole_kubeconfig(false).await?;
    free(&Config::parse(&text, &file)?, name, None, &file)
}

/// Puts the cluster of a kubeconfig into the operator's. Done again it changes nothing.
pub(super) async fn merge(
    stock: &Stock,
    kubeconfig: &Kubeconfig,
    into: &Path,
    name: &str,
    output: &Output,
) -> Result<(), CommandError> {
    let ours = stock.kubectl_alone(&kubeconfig.path())?.whole_kubeconfig(true).await?;
    let ours = Config::parse(&ours, kubeconfig.named())?;
    let (cluster, user) = (ours.clusters.iter().flatten().next(), ours.users.iter().flatten().next());
    let (Some(cluster), Some(user)) = (cluster, user) else {
        return Err(malformed(kubeconfig.named(), "it has no cluster and user"));
    };

    let file = existing(into)?.unwrap_or_else(|| into.to_owned());
    if let Some(parent) = file.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        files::make_directory(parent)?;
    }
    let _lock = Lock::take(&file)?;
    // By the name that the operator uses, which may be a link.
    let known = if file.exists() {
        stock.kubectl_alone(into)?.whole_kubeconfig(false).await?
    } else {
        Zeroizing::new(b"{}".to_vec())
    };
    let mut merged = Config::parse(&known, &file)?;
    free(&merged, name, authority(cluster).as_deref(), &file)?;
    let context = to_raw_value(&Leads { cluster: name, user: user_of(name) });
    let context = context.map_err(|error| malformed(&file, &error.to_string()))?;
    let clusters = merged.clusters.get_or_insert_default();
    clusters.retain(|known| known.name != name);
    clusters.push(Cluster { name: name.to_owned(), cluster: cluster.cluster });
    let users = merged.users.get_or_insert_default();
    users.retain(|known| known.name != user_of(name));
    users.push(User { name: user_of(name), user: user.user });
    let contexts = merged.contexts.get_or_insert_default();
    contexts.retain(|known| known.name != name);
    contexts.push(Context { name: name.to_owned(), context: &context });
    if merged.current_context.is_empty() {
        name.clone_into(&mut merged.current_context);
    }
    (merged.api_version, merged.kind) = ("v1".to_owned(), "Config".to_owned());

    let text = merged.in_its_form(stock, &file).await?;
    files::replace(&file, &text, Readers::OwnerOnly)?;
    output.say(Tone::Good, "kubeconfig", &format!("{} has the context {name}", file.display()));
    Ok(())
}

/// The file itself, if there is one: a link to it stays a link.
fn existing(path: &Path) -> Result<Option<PathBuf>, CommandError> {
    match fs::canonicalize(path) {
        Ok(path) => Ok(Some(path)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CommandError::new(
            Exit::Usage,
            CommandCode::FileUnreadable,
            format!("--merge-kubeconfig: cannot read {}", path.display()),
        )
        .because(error.to_string())),
    }
}

/// That nobody else's entry is called so. One of the same authority is this cluster's, from an earlier run.
fn free(known: &Config<'_>, name: &str, ours: Option<&str>, file: &Path) -> Result<(), CommandError> {
    let cluster = known.clusters.iter().flatten().find(|known| known.name == name);
    if cluster.and_then(authority).is_some_and(|known| Some(known.as_str()) == ours) {
        return Ok(());
    }
    let user = user_of(name);
    let taken = [
        cluster.map(|_| format!("the cluster {name}")),
        known.users.iter().flatten().any(|known| known.name == user).then(|| format!("the user {user}")),
        known.contexts.iter().flatten().any(|known| known.name == name).then(|| format!("the context {name}")),
    ];
    let taken: Vec<String> = taken.into_iter().flatten().collect();
    if taken.is_empty() {
        return Ok(());
    }
    let what = format!("{} has {} already", file.display(), taken.join(", "));
    let failure = CommandError::new(Exit::Usage, CommandCode::KubeconfigNameTaken, what);
    Err(failure.fix(format!(
        "if they are of a cluster that is gone, remove them (kubectl config delete-context {name}, delete-cluster {name}, \
         delete-user {user}); or leave --merge-kubeconfig out, and use kubectl --kubeconfig"
    )))
}

fn authority(cluster: &Cluster<'_>) -> Option<String> {
    serde_json::from_str::<Authority>(cluster.cluster.get()).ok()?.certificate_authority_data
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// kubectl's own lock: it changes no kubeconfig meanwhile.
struct Lock(PathBuf);

impl Lock {
    fn take(file: &Path) -> Result<Self, CommandError> {
        let path = with_ending(file, ".lock");
        match files::write_new(&path, b"", Readers::OwnerOnly) {
            Ok(()) => Ok(Self(path)),
            Err(failure) if failure.code == CommandCode::FileExists.into() => {
                let what = format!("another program changes {}", file.display());
                let failure = CommandError::local(CommandCode::KubeconfigBusy, what);
                Err(failure.fix(format!("run the command again; if nobody changes it, remove {}", path.display())))
            }
            Err(failure) => Err(failure),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whoever finds it is told to remove it.
        drop(fs::remove_file(&self.0));
    }
}
