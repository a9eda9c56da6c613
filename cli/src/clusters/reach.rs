//! How a command reaches a centre, and which cluster it means.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use latchkey_factory_plus::manager::{Cluster, NameAnswer};
use latchkey_factory_plus::{ClusterName, Upn, Uuid, uuids};
use latchkey_factory_plus_client::{
    BaseUrl, CallError, Client, ConfigDb, Identity, Insecure, Limits, Service, Services, Settings, Trust,
};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;

/// The most bytes of a password.
const LONGEST_PASSWORD: usize = 1024;
/// The most bytes of the file that says where a centre is.
const LARGEST_FILE: usize = 64 << 10;

/// What the file says that `latchkey centre up` writes for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CentreFile {
    /// Where the directory of services is.
    pub(crate) directory: BaseUrl,
    /// The UPN that signs in.
    pub(crate) user: Upn,
    /// PEM: the authorities of the services' certificates, beside this file unless it is an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) authorities: Option<PathBuf>,
    /// Whether URLs may be plain http.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) insecure: bool,
}

/// A centre, as its operator reaches it.
pub(crate) struct Centre {
    pub(crate) client: Client,
    /// PEM: the authorities of its certificates.
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) config_db: ConfigDb,
    pub(crate) manager: Service,
}

impl Centre {
    /// The one that `--centre` names, with the password in `--password-file`.
    pub(crate) fn of(arguments: &Arguments) -> Result<Self, CommandError> {
        let path = arguments.required_path("centre")?;
        let file = read(path)?;
        let user = match arguments.text("user")? {
            Some(user) => user.parse().map_err(|error| CommandError::usage(format!("--user: {error}")))?,
            None => file.user,
        };
        let secret = files::read_secret(arguments.required_path("password-file")?, LONGEST_PASSWORD)?;
        let password = std::str::from_utf8(secret.expose()).map(|text| Zeroizing::new(text.to_owned()));
        let password = password.map_err(|_| CommandError::usage("the password is not UTF-8"))?;
        let unusable = |why: String| CommandError::usage(format!("{}: {why}", path.display()));
        let beside = path.parent().unwrap_or_else(|| Path::new("."));
        let authorities = file.authorities.map(|authorities| beside.join(authorities));
        let trust = match &authorities {
            Some(authorities) => Trust::roots(authorities).map_err(|error| unusable(error.to_string()))?,
            None => Trust::none(),
        };
        let client = Client::new(Settings {
            identity: Identity::basic(&user, &password).map_err(|error| CommandError::usage(error.to_string()))?,
            trust: if file.insecure { trust.allowing(Insecure) } else { trust },
            services: Services::directory(file.directory),
            limits: Limits::default(),
        });
        let manager = client.service(uuids::service::CLUSTER_MANAGER);
        Ok(Self { config_db: ConfigDb::of(&client), manager, client, authorities })
    }

    /// All clusters.
    pub(crate) async fn clusters(&self) -> Result<BTreeMap<Uuid, Cluster>, CommandError> {
        Ok(self.manager.read("v1/cluster").await.map_err(|error| failed(&error))?.unwrap_or_default())
    }

    /// Why no new cluster can be called so, if that is so.
    pub(crate) async fn name_refusal(&self, name: &ClusterName) -> Result<Option<String>, CommandError> {
        let path = format!("v1/name/{name}");
        let answer = self.manager.read::<NameAnswer>(&path).await.map_err(|error| failed(&error))?;
        let NameAnswer { free, reason } = answer.ok_or_else(|| {
            let what = format!("the cluster manager has no {path}: it is older than this command");
            CommandError::new(Exit::Failed, CommandCode::CentreRefuses, what)
        })?;
        Ok((!free).then(|| reason.unwrap_or_default()))
    }

    /// The cluster that the operand names, without regard to case.
    pub(crate) async fn cluster(&self, arguments: &Arguments) -> Result<(Uuid, Cluster), CommandError> {
        let named = arguments.operand_text(0)?;
        let mut clusters = self.clusters().await?;
        let uuid =
            clusters.iter().find(|(uuid, known)| known.name.eq_ignore_ascii_case(named) || uuid.to_string() == named);
        let Some(uuid) = uuid.map(|(uuid, _)| *uuid) else { return Err(unknown(named)) };
        clusters.remove(&uuid).map(|cluster| (uuid, cluster)).ok_or_else(|| unknown(named))
    }
}

fn unknown(named: &str) -> CommandError {
    CommandError::new(Exit::Missing, CommandCode::EdgeClusterUnknown, format!("the centre has no cluster {named}"))
}

fn read(path: &Path) -> Result<CentreFile, CommandError> {
    let text = files::read(path, LARGEST_FILE)?;
    serde_json::from_slice(&text).map_err(|error| {
        let what = format!("{} does not say where a centre is", path.display());
        CommandError::usage(what)
            .because(error.to_string())
            .fix("name the operator.json that `latchkey centre up` wrote")
    })
}

/// What a service of the centre said, as this command's failure.
pub(crate) fn failed(error: &CallError) -> CommandError {
    let (exit, code) = match error {
        CallError::Unreachable { .. } | CallError::NotAdvertised(_) => {
            (Exit::Unreachable, CommandCode::CentreUnreachable)
        }
        CallError::Unauthenticated(_) | CallError::Forbidden { .. } => (Exit::Failed, CommandCode::CentreForbids),
        _ => (Exit::Failed, CommandCode::CentreRefuses),
    };
    CommandError::new(exit, code, error.to_string())
}
