//! The kubeconfig that programs are run by: what it names, they run and read as whoever runs this command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files::{self, Readers, untrusted};
use crate::node::block_on;
use crate::sealed::SealedCopy;
use crate::stock::{Stock, StockError};

/// A kubeconfig of very many clusters.
const MAX: usize = 4 << 20;
/// What leads out of a kubeconfig: to programs that its readers run, and to files that may be others' by the time they are read.
const LEADS_OUT: [&str; 6] =
    ["exec", "auth-provider", "client-certificate", "client-key", "tokenFile", "certificate-authority"];

/// A kubeconfig, and what programs are given to read for it.
#[derive(Debug)]
pub(crate) struct Kubeconfig {
    named: PathBuf,
    copy: Option<SealedCopy>,
}

impl Kubeconfig {
    /// The operator named it on the command line: what it says is his own word.
    pub(crate) fn said(path: &Path) -> Self {
        Self { named: path.to_owned(), copy: None }
    }

    /// A cluster's directory has or names it, and may belong to somebody else. It is taken if nobody but this user and root can have
    /// written it, and as it was then; all that it says stands in it.
    ///
    /// # Errors
    /// `kubeconfig-missing`, `store-untrusted`; what kubectl says of a file that is no kubeconfig.
    pub(crate) fn of_directory(stock: &Stock, path: &Path) -> Result<Self, CommandError> {
        let named = path.to_owned();
        let Some(bytes) = files::read_own(path, MAX)? else {
            return Err(StockError::NoKubeconfig { path: named }.into());
        };
        let copy = SealedCopy::of("kubeconfig", &bytes, path)?;
        // Read by the one who will act by it. To show it kubectl runs nothing.
        let text = block_on(async { Ok(stock.kubectl_alone(&copy.path())?.whole_kubeconfig(false).await?) })?;
        let document: Document = serde_json::from_slice(&text).map_err(|error| {
            CommandError::local(CommandCode::FileMalformed, format!("{} cannot be used", path.display()))
                .because(format!("line {}, column {} of its JSON form", error.line(), error.column()))
        })?;
        match document.fields().find(|field| LEADS_OUT.contains(field)) {
            Some(field) => Err(untrusted(path, &format!("`{field}` in it names a program or another file"))),
            None => Ok(Self { named, copy: Some(copy) }),
        }
    }

    /// Writes this in its place, as the user of the command, and programs read this from then on.
    pub(crate) fn replaced_by(self, text: &[u8]) -> Result<Self, CommandError> {
        let copy = SealedCopy::of("kubeconfig", text, &self.named)?;
        files::replace(&self.named, text, Readers::OwnerOnly)?;
        Ok(Self { copy: Some(copy), ..self })
    }

    /// Its path, for people and for what is written down.
    pub(crate) fn named(&self) -> &Path {
        &self.named
    }

    /// Where programs read it, as long as this value is there.
    pub(crate) fn path(&self) -> PathBuf {
        self.copy.as_ref().map_or_else(|| self.named.clone(), SealedCopy::path)
    }
}

/// Which fields are there. What they hold, keys among it, is not kept.
#[derive(Deserialize)]
struct Document {
    clusters: Option<Vec<Cluster>>,
    users: Option<Vec<User>>,
}

#[expect(
    clippy::zero_sized_map_values,
    reason = "a set of names is read from no JSON object, and what they hold is not kept"
)]
type Fields = Option<BTreeMap<String, IgnoredAny>>;

#[derive(Deserialize)]
struct Cluster {
    cluster: Fields,
}

#[derive(Deserialize)]
struct User {
    user: Fields,
}

impl Document {
    #[expect(clippy::zero_sized_map_values, reason = "as above")]
    fn fields(&self) -> impl Iterator<Item = &str> {
        let of_clusters = self.clusters.iter().flatten().map(|named| &named.cluster);
        let of_users = self.users.iter().flatten().map(|named| &named.user);
        of_clusters.chain(of_users).flatten().flat_map(BTreeMap::keys).map(String::as_str)
    }
}
