//! `latchkey centre charts import`: what others make, into the centre's repository of charts.

use std::path::{Path, PathBuf};

use latchkey_centre_charts::{Import, ImportError, Input, Inputs, Recorded};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::{application, service};
use latchkey_git_client::{Change, Commit, Git, GitError};
use serde::{Deserialize, Serialize};

use super::reach::{Centre, failed};
use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::node::block_on;
use crate::output::{Output, Report, Style, pairs};

/// Who commits.
const COMMITTER: &str = "Latchkey operator <operator@localhost>";

pub(crate) fn import(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    // Both are looked into before anybody is asked.
    let inputs = [0, 1].into_iter().filter_map(|place| arguments.operand(place));
    let inputs: Vec<Input> =
        inputs.map(|path| Input::read(Path::new(path)).map_err(|error| refused(&error))).collect::<Result<_, _>>()?;
    let centre = Centre::of(arguments)?;
    output.waiting("asking the centre");
    let record = block_on(import_into(&centre, &inputs, arguments.has("migrated")))?;
    output.report(&ImportReport { record })
}

async fn import_into(centre: &Centre, inputs: &[Input], migrated: bool) -> Result<Inputs, CommandError> {
    let repository = repository(centre).await?;
    let place = WorkingCopies::new();
    let git =
        Git::new(&centre.client, &place.0, centre.authorities.as_deref()).map_err(|error| Failure::from(error).0)?;
    let committed = git.commit::<Failure, _>(repository, async |exchange| {
        let mut files = [None, None];
        for (file, (path, most)) in files.iter_mut().zip(Import::READS) {
            *file = exchange.file(path, most).await?;
        }
        let change = Import::new(files)?.change(inputs, migrated)?;
        let deleted = change.deleted.into_iter().map(Change::Delete);
        let written = change.written.into_iter().map(|(path, content)| Change::Write(path, content));
        let commit = Commit {
            message: "Import charts".to_owned(),
            changes: deleted.chain(written).collect(),
            committer: COMMITTER,
        };
        Ok((Some(commit), change.record))
    });
    committed.await.map_err(|Failure(error)| error)
}

/// The repository that every edge reads charts from, as the cluster manager is told.
async fn repository(centre: &Centre) -> Result<Uuid, CommandError> {
    let config = centre.config_db.entry::<ManagerConfig>(application::SERVICE_CONFIG, service::CLUSTER_MANAGER).await;
    let config = config.map_err(|error| failed(&error))?;
    config.map(|(config, _)| config.repo.helm.uuid).ok_or_else(|| {
        let what = "the centre does not say which repository has its charts";
        CommandError::new(Exit::Failed, CommandCode::CentreRefuses, what).fix("apply the centre's set-up data again")
    })
}

/// What is read here of the cluster manager's configuration in the database.
#[derive(Deserialize)]
struct ManagerConfig {
    repo: Repositories,
}

#[derive(Deserialize)]
struct Repositories {
    helm: Repository,
}

#[derive(Deserialize)]
struct Repository {
    uuid: Uuid,
}

/// Where git works; it goes with the value.
struct WorkingCopies(PathBuf);

impl WorkingCopies {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("latchkey-import-{}", Uuid::random())))
    }
}

impl Drop for WorkingCopies {
    fn drop(&mut self) {
        // It may not have been made.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Failure(CommandError);

impl From<GitError> for Failure {
    fn from(error: GitError) -> Self {
        Self(match error {
            GitError::Call(error) => failed(&error),
            GitError::Start(_) => {
                CommandError::local(CommandCode::ProgramMissing, error.to_string()).fix("install git")
            }
            error => CommandError::new(Exit::Failed, CommandCode::CentreRefuses, error.to_string()),
        })
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        Self(refused(&error))
    }
}

fn refused(error: &dyn std::error::Error) -> CommandError {
    CommandError::usage(error.to_string())
}

/// What the repository of charts has now.
#[derive(Serialize)]
struct ImportReport {
    #[serde(flatten)]
    record: Inputs,
}

impl Report for ImportReport {
    fn text(&self, _: Style) -> String {
        let Inputs { edge_cluster, flux, sealed_secrets, .. } = &self.record;
        let of = |recorded: &Option<Recorded>| {
            let Some(Recorded { name, sha256, version }) = recorded else { return "none: import it".to_owned() };
            format!("{} ({name}, SHA-256 {sha256})", version.as_deref().unwrap_or("of no known version"))
        };
        pairs(&[("edge cluster", edge_cluster.clone()), ("Flux", of(flux)), ("Sealed Secrets", of(sealed_secrets))])
    }
}
