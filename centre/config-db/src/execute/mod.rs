//! Writes, executed: each on the model in memory, all or nothing, with the changes to be kept.

mod entry;
mod load;
mod object;
mod registration;
mod transaction;

pub(crate) use transaction::Transaction;

use crate::access::Permitted;
use crate::operation::{Outcome, Refusal, Write};
use crate::schema::Schemas;

/// Does what is permitted. After an error the transaction holds what it held before, but for a dump's entries: those before
/// the one that failed stay.
pub(crate) fn execute(
    transaction: &mut Transaction<'_>,
    schemas: &mut Schemas,
    permitted: &Permitted<'_, Write>,
) -> Result<Outcome, Refusal> {
    let begun = transaction.savepoint();
    let done = match permitted.operation() {
        Write::CreateObject { class, uuid } => object::create(transaction, permitted, *class, *uuid),
        Write::DeleteObject(object) => object::delete(transaction, *object),
        Write::AddMember(class, member) => object::add_member(transaction, permitted, *class, *member),
        Write::RemoveMember(class, member) => object::remove_member(transaction, permitted, *class, *member),
        Write::AddSubclass(class, subclass) => object::add_subclass(transaction, *class, *subclass),
        Write::RemoveSubclass(class, subclass) => object::remove_subclass(transaction, *class, *subclass),
        Write::Put(application, object, json, preconditions) => {
            entry::put(transaction, schemas, permitted, *application, *object, json, preconditions)
        }
        Write::Patch(application, object, patch, preconditions) => {
            entry::patch(transaction, schemas, permitted, *application, *object, patch, preconditions)
        }
        Write::Delete(application, object, preconditions) => {
            entry::delete(transaction, permitted, *application, *object, preconditions)
        }
        // Keeps what was loaded before an error, and says so in the contract.
        Write::Load(dump) => return load::load(transaction, schemas, permitted, dump),
    };
    if done.is_err() {
        transaction.roll_back(begun);
    }
    done
}

#[cfg(test)]
mod tests;
