//! For fuzzing: what writes do, on a model that nobody keeps.

use serde_json::Value;

use crate::access::Permitted;
use crate::execute::{Transaction, execute};
use crate::model::special;
use crate::schema::Schemas;
use crate::{Caller, Model, Outcome, Refusal, Write};

/// A database in memory, with what every database has.
#[derive(Debug)]
pub struct Scratch {
    model: Model,
    schemas: Schemas,
}

impl Default for Scratch {
    fn default() -> Self {
        let mut model = Model::default();
        for mutation in special::beginning() {
            model.apply(&mutation);
        }
        Self { model, schemas: Schemas::default() }
    }
}

impl Scratch {
    /// What there is.
    pub const fn model(&self) -> &Model {
        &self.model
    }

    /// Writes as the writer of a database does.
    ///
    /// # Errors
    /// A refusal; nothing was changed then, but for a dump's entries.
    pub fn write(&mut self, caller: &Caller, write: &Write) -> Result<Outcome, Refusal> {
        let permitted = Permitted::check(&self.model, caller, write)?;
        execute(&mut Transaction::on(&mut self.model), &mut self.schemas, &permitted)
    }
}

/// Whether a value meets a filter of notifications.
pub fn is_met(filter: &Value, value: &Value) -> bool {
    latchkey_sorted_json::is_met(filter, value)
}
