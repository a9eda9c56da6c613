//! Derived membership, rows and inverses.

use latchkey_factory_plus::uuids::class::INDIVIDUAL;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn beginning() -> Model {
    let mut model = Model::default();
    for mutation in special::beginning() {
        model.apply(&mutation);
    }
    model
}

fn uuid(number: u8) -> Uuid {
    Uuid::from_bytes([number; 16])
}

#[test]
fn members_of_subclasses_are_members() {
    let mut model = beginning();
    let (top, middle, low, object) = (uuid(1), uuid(2), uuid(3), uuid(4));
    for mutation in [
        Mutation::Subclass(top, middle, true),
        Mutation::Subclass(middle, low, true),
        Mutation::Subclass(low, top, true), // a circle, which a model of old rows may have
        Mutation::Member(low, object, true),
    ] {
        model.apply(&mutation);
    }
    assert!(model.is_member(top, object) && !model.is_direct_member(top, object));
    assert_eq!(model.members(top, Depth::Derived), BTreeSet::from([object]));
    assert_eq!(model.members(top, Depth::Direct), BTreeSet::new());
    model.apply(&Mutation::Subclass(middle, low, false));
    assert!(!model.is_member(top, object));
    assert!(model.is_application(REGISTRATION) && model.is_member(INDIVIDUAL, REGISTRATION));
}

#[test]
fn registrations_are_those_of_the_contract() {
    let model = beginning();
    let entry = model.entry(REGISTRATION, APPLICATION).unwrap();
    let registration = json!({
        "uuid": "d319bd87-f42b-4b66-be4f-f82ff48b93f0", "class": "04a1c90d-2295-4cbe-b33a-74eded62cbf1", "rank": 1,
        "owner": "091e796a-65c0-4080-adff-c3ce01a65b2e", "deleted": false, "strict": true,
    });
    assert_eq!(entry.json.value(), registration);
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let id = || (0_u8..6).prop_map(uuid);
    let entry = (any::<u8>(), 0_u8..9)
        .prop_map(|(etag, value)| Entry { json: Json::of(&json!({"a": value})), etag: uuid(etag) });
    prop_oneof![
        (id(), any::<Option<(u8, bool)>>()).prop_map(|(at, object)| Mutation::Object(
            at,
            object.map(|(number, deleted)| Object {
                class: uuid(number),
                rank: 0,
                owner: uuid(1),
                deleted,
                etag: uuid(number)
            })
        )),
        (id(), id(), any::<bool>()).prop_map(|(class, object, is)| Mutation::Member(class, object, is)),
        (id(), id(), any::<bool>()).prop_map(|(class, object, is)| Mutation::Subclass(class, object, is)),
        (id(), id(), proptest::option::of(entry)).prop_map(|(app, object, entry)| Mutation::Entry(app, object, entry)),
    ]
}

fn print(model: &Model) -> String {
    let Model { objects, members, subclasses, entry_count, entry_bytes, .. } = model;
    let ids: Vec<Uuid> = (0..6).map(uuid).collect();
    let entries: Vec<_> = ids.iter().map(|app| (app, model.entries_of(*app).collect::<Vec<_>>())).collect();
    let below: Vec<_> = ids
        .iter()
        .map(|id| (members.below(*id).collect::<Vec<_>>(), subclasses.above(*id).collect::<Vec<_>>()))
        .collect();
    format!("{objects:?} {entries:?} {below:?} {entry_count} {entry_bytes}")
}

proptest! {
    #[test]
    fn every_mutation_is_taken_back_by_its_inverse(mutations in proptest::collection::vec(mutation(), 0..40)) {
        let mut model = Model::default();
        for mutation in mutations {
            let before = print(&model);
            let inverse = model.apply(&mutation);
            let after = print(&model);
            let again = model.apply(&inverse);
            prop_assert_eq!(print(&model), before);
            model.apply(&again);
            prop_assert_eq!(print(&model), after);
        }
    }

    #[test]
    fn a_row_says_what_its_mutation_said(mutation in mutation()) {
        let row = Row::of(&mutation);
        prop_assert!(TABLES.contains(&row.table));
        prop_assert_eq!(Row::read(row.table, &row.key, row.value.as_deref()), Ok(mutation));
    }

    #[test]
    fn hostile_rows_are_refused(table in 0_usize..4, key: Vec<u8>, value: Option<Vec<u8>>) {
        let _ = Row::read(TABLES[table], &key, value.as_deref());
    }
}
