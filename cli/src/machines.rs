//! The machines of a cluster, wherever they are on record: in its directory, or in its API server.

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{Denials, DiskRelease, NodeRecord, NotDenied, PendingRecord, PinnedRule, ReleaseRefusal};
use latchkey_keys::{ClusterId, Uuid};
use std::collections::BTreeMap;
use std::time::Instant;

use crate::admission::{Admission, Removed};
use crate::api_server::{ApiServer, DenialMaps as _, Kubeconfig, StoreNote};
use crate::arguments::Arguments;
use crate::cluster_dir::ClusterDir;
use crate::documents::Documents;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::node::block_on;
use crate::seen::Seen;
use crate::stock::Stock;

/// What the operator's commands about machines need of a store.
pub(crate) trait Machines {
    /// Where they are, for people.
    fn place(&self) -> String;
    /// Which cluster it is; `None` before it is founded.
    fn cluster_id(&self) -> Result<Option<ClusterId>, CommandError>;
    /// All nodes, by name, and what is wrong with records that cannot be read.
    fn nodes(&self) -> Result<(Vec<NodeRecord>, Vec<String>), CommandError>;
    /// What was last seen of these, by their TPMs. For people: nothing is decided by it, and it may be an hour old.
    fn seen(&self, nodes: &[NodeRecord]) -> Result<BTreeMap<EkDigest, Seen>, CommandError>;
    /// Machines that wait for the operator.
    fn pending(&self) -> Result<Vec<PendingRecord>, CommandError>;
    /// TPMs that are shut out.
    fn denials(&self) -> Result<Denials, CommandError>;
    /// Why this one is.
    fn denial_reason(&self, ek: EkDigest) -> Result<String, CommandError>;
    /// Shuts a TPM out.
    fn deny(&self, ek: EkDigest, reason: &str) -> Result<(), CommandError>;
    /// Takes that back; whether it was denied.
    fn allow(&self, ek: EkDigest) -> Result<bool, CommandError>;
    /// The witness that a TPM is not shut out.
    fn not_denied(&self, ek: EkDigest) -> Result<NotDenied, CommandError> {
        let now = Instant::now();
        self.denials()?.check(&ek, now).map_err(|refusal| match refusal {
            ReleaseRefusal::MachineDenied { .. } => {
                let failure = CommandError::new(Exit::Usage, refusal.code(), refusal.to_string());
                failure.fix("take the denial back first, with `latchkey node allow`")
            }
            other => CommandError::new(Exit::Failed, other.code(), other.to_string()),
        })
    }
    /// Gives a TPM that is not shut out a rule of its own, and says which.
    fn admit(&self, of: &NotDenied, said: &Admission) -> Result<PinnedRule, CommandError>;
    /// The witness for this disk in this machine, by the records and denials.
    fn release(&self, ek: EkDigest, disk: Uuid) -> Result<DiskRelease, CommandError>;
    /// Puts a disk on the record of another machine, because the operator says that it is there now; and the machine that it was
    /// of, if it was not of this one before.
    fn move_disk(&self, disk: Uuid, to: EkDigest) -> Result<(DiskRelease, Option<EkDigest>), CommandError>;
    /// Changes a machine's record; `change` says whether something is to be written, and is asked anew where others came first.
    /// The record before, if there is one.
    fn change(
        &self,
        ek: EkDigest,
        change: &mut dyn FnMut(&mut NodeRecord) -> bool,
    ) -> Result<Option<NodeRecord>, CommandError>;
    /// Removes a machine's record and rule, if there is one of them.
    fn remove(&self, ek: EkDigest, record: Option<&NodeRecord>) -> Result<Option<Removed>, CommandError>;
}

/// Where a cluster is kept.
pub(crate) trait Store: Machines + Documents {}

impl<T: Machines + Documents> Store for T {}

/// The store that the arguments name: `--kubeconfig`, or `--cluster` and what stands in that directory.
pub(crate) fn open(arguments: &Arguments) -> Result<Box<dyn Store>, CommandError> {
    match api_server(arguments)? {
        Some(api) => Ok(Box::new(api)),
        None => Ok(Box::new(ClusterDir::open(arguments.required_path("cluster")?)?)),
    }
}

/// The same, whatever of a directory's places is missing: for a denial, which needs its own alone.
pub(crate) fn open_lacking(arguments: &Arguments) -> Result<Box<dyn Store>, CommandError> {
    match api_server(arguments)? {
        Some(api) => Ok(Box::new(api)),
        None => Ok(Box::new(ClusterDir::open_lacking(arguments.required_path("cluster")?)?)),
    }
}

/// The store, if it is an API server.
pub(crate) fn api_server(arguments: &Arguments) -> Result<Option<ApiServer>, CommandError> {
    let stock = || Stock::from_arguments(arguments);
    let (stock, kubeconfig) = match (arguments.path("cluster"), arguments.path("kubeconfig")) {
        (None, Some(kubeconfig)) => (stock(), Kubeconfig::said(kubeconfig)),
        (Some(directory), None) => {
            let Some(noted) = StoreNote::kubeconfig(directory)? else { return Ok(None) };
            let stock = stock();
            let kubeconfig = Kubeconfig::of_directory(&stock, &noted)?;
            (stock, kubeconfig)
        }
        (None, None) => return Err(CommandError::usage("--cluster or --kubeconfig is missing")),
        (Some(_), Some(_)) => return Err(CommandError::usage("--cluster and --kubeconfig exclude each other")),
    };
    ApiServer::connect(&stock, kubeconfig).map(Some)
}

impl Machines for ClusterDir {
    fn place(&self) -> String {
        self.shown()
    }

    fn cluster_id(&self) -> Result<Option<ClusterId>, CommandError> {
        Ok(self.cluster()?.map(|cluster| cluster.cluster_id))
    }

    fn nodes(&self) -> Result<(Vec<NodeRecord>, Vec<String>), CommandError> {
        Self::nodes(self)
    }

    fn seen(&self, nodes: &[NodeRecord]) -> Result<BTreeMap<EkDigest, Seen>, CommandError> {
        Self::seen(self, nodes)
    }

    fn pending(&self) -> Result<Vec<PendingRecord>, CommandError> {
        Self::pending(self)
    }

    fn denials(&self) -> Result<Denials, CommandError> {
        Self::denials(self)
    }

    fn denial_reason(&self, ek: EkDigest) -> Result<String, CommandError> {
        Self::denial_reason(self, ek)
    }

    fn deny(&self, ek: EkDigest, reason: &str) -> Result<(), CommandError> {
        Self::deny(self, ek, reason)
    }

    fn allow(&self, ek: EkDigest) -> Result<bool, CommandError> {
        Self::allow(self, ek)
    }

    fn admit(&self, of: &NotDenied, said: &Admission) -> Result<PinnedRule, CommandError> {
        Self::admit(self, of, said)
    }

    fn release(&self, ek: EkDigest, disk: Uuid) -> Result<DiskRelease, CommandError> {
        Self::release(self, ek, disk)
    }

    fn move_disk(&self, disk: Uuid, to: EkDigest) -> Result<(DiskRelease, Option<EkDigest>), CommandError> {
        Self::move_disk(self, disk, to)
    }

    fn change(
        &self,
        ek: EkDigest,
        change: &mut dyn FnMut(&mut NodeRecord) -> bool,
    ) -> Result<Option<NodeRecord>, CommandError> {
        Self::change(self, ek, change)
    }

    fn remove(&self, ek: EkDigest, _: Option<&NodeRecord>) -> Result<Option<Removed>, CommandError> {
        Self::remove(self, ek)
    }
}

impl Machines for ApiServer {
    fn place(&self) -> String {
        Self::place(self)
    }

    fn cluster_id(&self) -> Result<Option<ClusterId>, CommandError> {
        Ok(block_on(self.cluster())?.map(|cluster| cluster.cluster_id))
    }

    fn nodes(&self) -> Result<(Vec<NodeRecord>, Vec<String>), CommandError> {
        block_on(self.records())
    }

    fn seen(&self, _: &[NodeRecord]) -> Result<BTreeMap<EkDigest, Seen>, CommandError> {
        block_on(self.seen_of_all())
    }

    fn pending(&self) -> Result<Vec<PendingRecord>, CommandError> {
        block_on(self.waiting())
    }

    fn denials(&self) -> Result<Denials, CommandError> {
        block_on(self.denied())
    }

    fn denial_reason(&self, ek: EkDigest) -> Result<String, CommandError> {
        block_on(self.reason_of_denial(ek))
    }

    fn deny(&self, ek: EkDigest, reason: &str) -> Result<(), CommandError> {
        block_on(self.shut_out(ek, reason))
    }

    fn allow(&self, ek: EkDigest) -> Result<bool, CommandError> {
        block_on(self.take_denial_back(ek))
    }

    fn admit(&self, of: &NotDenied, said: &Admission) -> Result<PinnedRule, CommandError> {
        block_on(self.let_in(of, said))
    }

    fn release(&self, ek: EkDigest, disk: Uuid) -> Result<DiskRelease, CommandError> {
        block_on(self.release_of(ek, disk))
    }

    fn move_disk(&self, disk: Uuid, to: EkDigest) -> Result<(DiskRelease, Option<EkDigest>), CommandError> {
        block_on(self.move_record(disk, to))
    }

    fn change(
        &self,
        ek: EkDigest,
        change: &mut dyn FnMut(&mut NodeRecord) -> bool,
    ) -> Result<Option<NodeRecord>, CommandError> {
        block_on(self.change_record(ek, change))
    }

    fn remove(&self, ek: EkDigest, record: Option<&NodeRecord>) -> Result<Option<Removed>, CommandError> {
        block_on(self.forget(ek, record))
    }
}

/// The store that the arguments name, `None` if they name none.
pub(crate) fn store(arguments: &Arguments) -> Result<Option<Box<dyn Store>>, CommandError> {
    let named = arguments.has("cluster") || arguments.has("kubeconfig");
    named.then(|| open(arguments)).transpose()
}
