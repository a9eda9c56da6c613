//! What each write does, on the model alone.

mod dumps;
mod entries;
mod objects;
mod rights;

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::uuids::application::{CONFIG_SCHEMA, INFO, REGISTRATION, WRITE_SCOPE};
use latchkey_factory_plus::uuids::class::{APPLICATION, INDIVIDUAL, RANK_1, RANK_2, SPECIAL};
use latchkey_factory_plus::uuids::permission as p;
use latchkey_factory_plus::uuids::service::CONFIG_DB;
use latchkey_factory_plus::uuids::special::{MINE, UNOWNED, WILDCARD};
use serde_json::{Value, json};

use super::*;
use crate::model::special;
use crate::{Caller, Depth, Dump, Entry, Json, Model, Preconditions};

const CLASS: Uuid = Uuid::constant("c0000000-0000-4000-8000-000000000001");
const OTHER: Uuid = Uuid::constant("c0000000-0000-4000-8000-000000000002");
const APP: Uuid = Uuid::constant("a0000000-0000-4000-8000-000000000001");
const X: Uuid = Uuid::constant("00000000-0000-4000-8000-00000000000a");
const Y: Uuid = Uuid::constant("00000000-0000-4000-8000-00000000000b");
const NOBODY: Uuid = Uuid::constant("00000000-0000-4000-8000-00000000000f");

struct Rig {
    model: Model,
    schemas: Schemas,
}

impl Rig {
    /// Two classes, an application, two objects of the first class.
    fn new() -> Self {
        let mut rig = Self { model: Model::default(), schemas: Schemas::default() };
        for mutation in special::beginning() {
            rig.model.apply(&mutation);
        }
        for (class, uuid) in
            [(RANK_1, CLASS), (RANK_1, OTHER), (APPLICATION, APP), (APPLICATION, INFO), (CLASS, X), (CLASS, Y)]
        {
            assert_eq!(rig.root(Write::CreateObject { class, uuid: Some(uuid) }).unwrap().status(), 201);
        }
        rig
    }

    fn root(&mut self, write: Write) -> Result<Outcome, Refusal> {
        self.by(&Caller::root(), write)
    }

    #[expect(clippy::needless_pass_by_value, reason = "each write is tried once")]
    fn by(&mut self, caller: &Caller, write: Write) -> Result<Outcome, Refusal> {
        let permitted = Permitted::check(&self.model, caller, &write)?;
        let before = format!("{:?}", self.model.objects().collect::<Vec<_>>());
        let mut transaction = Transaction::on(&mut self.model);
        let outcome = execute(&mut transaction, &mut self.schemas, &permitted);
        if outcome.is_err() && !matches!(write, Write::Load(_)) {
            assert_eq!(transaction.into_parts().0, [], "a refused write changes nothing");
            assert_eq!(format!("{:?}", self.model.objects().collect::<Vec<_>>()), before);
        }
        outcome
    }

    fn status(&mut self, write: Write) -> u16 {
        self.root(write).map_or_else(|refusal| refusal.status(), |outcome| outcome.status())
    }

    fn put(&mut self, app: Uuid, object: Uuid, value: &Value) -> u16 {
        self.status(put(app, object, value))
    }

    fn entry(&self, app: Uuid, object: Uuid) -> Entry {
        self.model.entry(app, object).unwrap()
    }
}

fn put(app: Uuid, object: Uuid, value: &Value) -> Write {
    Write::Put(app, object, Json::of(value), Preconditions::default())
}

fn patch(app: Uuid, object: Uuid, value: &Value) -> Write {
    Write::Patch(app, object, Json::of(value), Preconditions::default())
}

fn delete(app: Uuid, object: Uuid) -> Write {
    Write::Delete(app, object, Preconditions::default())
}

fn holder(access: &[(Uuid, Uuid)]) -> Caller {
    let access = access.iter().map(|(permission, target)| Access { permission: *permission, target: *target });
    Caller::of(Some(X), access.collect())
}
