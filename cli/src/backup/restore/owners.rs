//! Whose objects are: written last, by the uids that their owners have now.

use std::collections::BTreeMap;

use super::super::object::{Head, Object, Owner, list};
use super::BATCH;
use super::refused::{Refused, is_refusal, refusal};
use crate::error::CommandError;
use crate::stock::{Kubectl, Scope};

/// Whose objects are, by the uids of the backup.
#[derive(Default)]
pub(super) struct Owners {
    /// The uid of the backup to that of the cluster.
    pub(super) now: BTreeMap<String, String>,
    /// Objects whose owners have to be written.
    pub(super) waiting: Vec<(Object, Head)>,
}

impl Owners {
    /// Writes whose objects are, by the uids that the owners have now; those whose owners are gone.
    pub(super) async fn write(
        self,
        kubectl: &Kubectl,
        refused: &mut Vec<Refused>,
    ) -> Result<Vec<String>, CommandError> {
        let mut known: BTreeMap<String, bool> = BTreeMap::new();
        let (mut gone, mut documents) = (Vec::new(), Vec::new());
        for (object, head) in self.waiting {
            let mut owners: Vec<Owner> = Vec::new();
            for owner in head.metadata.owner_references {
                if let Some(uid) = self.now.get(&owner.uid) {
                    owners.push(Owner { uid: uid.clone(), ..owner });
                    continue;
                }
                let there = match known.get(&owner.uid) {
                    Some(there) => *there,
                    None => is_there(kubectl, &owner, head.metadata.namespace.as_deref()).await?,
                };
                known.insert(owner.uid.clone(), there);
                if there {
                    owners.push(owner);
                } else {
                    gone.push(format!("{} (was of {} {})", head.metadata.name, owner.kind, owner.name));
                }
            }
            if !owners.is_empty() {
                documents.push((head.metadata.name, object.only_owners(&owners)?));
            }
        }
        for some in documents.chunks(BATCH) {
            let all: Vec<Object> = some.iter().map(|(_, object)| object.clone()).collect();
            match kubectl.apply(&list(&all)?, false).await {
                Ok(()) => {}
                Err(error) if is_refusal(&error) => {
                    for (name, object) in some {
                        if let Err(error) = kubectl.apply(&list(std::slice::from_ref(object))?, false).await {
                            refused.push(refusal(format!("owners of {name}"), error)?);
                        }
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(gone)
    }
}

/// Whether an owner that is in no backup is still the same.
async fn is_there(kubectl: &Kubectl, owner: &Owner, namespace: Option<&str>) -> Result<bool, CommandError> {
    let resource = match owner.api_version.split_once('/') {
        Some((group, version)) => format!("{}.{version}.{group}", owner.kind),
        None => owner.kind.clone(),
    };
    let scope = namespace.map_or(Scope::Cluster, Scope::Namespace);
    match kubectl.get::<Head>(&resource, scope, &owner.name).await {
        Ok(there) => Ok(there.is_some_and(|there| there.metadata.uid == owner.uid)),
        // A kind that the cluster does not know any more has no objects.
        Err(error) if error.said().contains("the server doesn't have a resource type") => Ok(false),
        Err(error) => Err(error.into()),
    }
}
