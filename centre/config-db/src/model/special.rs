//! The objects that every database has, and those that cannot be deleted.

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::application::{CONFIG_SCHEMA, REGISTRATION, WRITE_SCOPE};
use latchkey_factory_plus::uuids::class::{APPLICATION, INDIVIDUAL, RANK_1, RANK_2, RANK_3, SPECIAL};
use latchkey_factory_plus::uuids::special::{UNOWNED, WILDCARD};

use super::{Mutation, Object};

/// The class of all objects of a rank, for each rank.
pub(crate) const RANKS: [Uuid; 4] = [INDIVIDUAL, RANK_1, RANK_2, RANK_3];

/// Object, primary class, rank. [`RANK_3`] is the top: nothing could be its class but itself.
const BUILT_IN: [(Uuid, Uuid, u8); 11] = [
    (RANK_3, RANK_3, 4),
    (RANK_2, RANK_3, 3),
    (RANK_1, RANK_2, 2),
    (INDIVIDUAL, RANK_1, 1),
    (APPLICATION, RANK_1, 1),
    (SPECIAL, RANK_1, 1),
    (REGISTRATION, APPLICATION, 0),
    (CONFIG_SCHEMA, APPLICATION, 0),
    (WRITE_SCOPE, APPLICATION, 0),
    (WILDCARD, SPECIAL, 0),
    (UNOWNED, SPECIAL, 0),
];

/// Whether an object must stay.
pub(crate) fn is_immutable(object: Uuid) -> bool {
    BUILT_IN.iter().any(|(built_in, ..)| *built_in == object)
}

/// The class that every class of a rank is a subclass of; none above rank 3.
pub(crate) fn root_of_rank(rank: u8) -> Option<Uuid> {
    RANKS.get(usize::from(rank).checked_sub(1)?).copied()
}

/// What an empty database begins with.
pub(crate) fn beginning() -> Vec<Mutation> {
    let mut mutations = Vec::new();
    for (uuid, class, rank) in BUILT_IN {
        let object = Object { class, rank, owner: UNOWNED, deleted: false, etag: Uuid::random() };
        mutations.push(Mutation::Object(uuid, Some(object)));
        mutations.push(Mutation::Member(class, uuid, true));
        if let Some(root) = root_of_rank(rank)
            && root != uuid
        {
            mutations.push(Mutation::Subclass(root, uuid, true));
        }
    }
    mutations
}
