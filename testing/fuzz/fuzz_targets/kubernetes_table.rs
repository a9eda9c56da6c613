//! A version table from whoever gives one to the operator, and a component list as a ticket brings it to a node: nothing that is taken
//! leads outside of the directories that components may go to.
#![no_main]

use latchkey_kubernetes::{ComponentList, Table};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    if let Ok(list) = ComponentList::parse(text) {
        let minor = list.release().version().minor();
        assert!(list.expect(minor).is_ok(), "the list of its own version");
    }
    let Ok(table) = Table::parse(text) else { return };
    for minor in table.minors() {
        let release = table.release(minor).expect("a version that the table has");
        assert_eq!(release.version().minor(), minor);
        if let Ok(list) = ComponentList::make(&table, minor, None) {
            assert!(ComponentList::parse(&list).is_ok(), "a list that was made");
        }
    }
});
