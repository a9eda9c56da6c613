//! Follows classes and owners at the configuration database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus_client::classes::{Follower, Snapshot};
use smol::future::FutureExt;

use crate::keeper::Keeper;

/// Members of classes that changed.
type Members = Vec<(Uuid, BTreeSet<Uuid>)>;
/// Owners that changed.
type Owners = Vec<(Uuid, Option<Uuid>)>;

/// Tells the keeper what the configuration database says, for ever. Which classes are followed changes with the grants.
pub async fn follow(keeper: Keeper, follower: Follower) {
    let mut told = Arc::new(Snapshot::default());
    loop {
        let changed = keeper.changed();
        follower.follow(&keeper.classes());
        let now = follower.snapshot();
        if !Arc::ptr_eq(&told, &now) {
            let (members, owners) = (members(&told, &now), owners(told.owners(), now.owners()));
            // Owners and the classes of before all grants: each list is what it will be.
            let all = now.is_complete() && !keeper.has_heard();
            if all {
                tracing::info!(classes = now.classes().count(), "Heard of all classes");
            }
            if all || !members.is_empty() || !owners.is_empty() {
                keeper.heard(members, owners, all);
            }
            told = now;
            continue;
        }
        let news = async {
            follower.changed(&now).await;
        };
        news.or(changed).await;
    }
}

/// The classes whose members are others now. Those that are not followed any more have none: what was heard of them gets old.
fn members(before: &Snapshot, now: &Snapshot) -> Members {
    let gone = before.classes().filter(|class| now.members(*class).is_none() && before.members(*class).is_some());
    let mut changed: Members = gone.map(|class| (class, BTreeSet::new())).collect();
    for class in now.classes() {
        let Some(members) = now.members(class) else { continue };
        // Snapshots share the sets that did not change.
        if !before.members(class).is_some_and(|before| std::ptr::eq(before, members)) {
            changed.push((class, members.clone()));
        }
    }
    changed
}

fn owners(before: &BTreeMap<Uuid, Uuid>, now: &BTreeMap<Uuid, Uuid>) -> Owners {
    if std::ptr::eq(before, now) {
        return Vec::new();
    }
    let gone = before.keys().filter(|object| !now.contains_key(object)).map(|object| (*object, None));
    let new = now.iter().filter(|(object, owner)| before.get(object) != Some(*owner));
    gone.chain(new.map(|(object, owner)| (*object, Some(*owner)))).collect()
}
