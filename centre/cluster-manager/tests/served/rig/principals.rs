//! What stands where kadmind would be.

use std::sync::Mutex;

use latchkey_cluster_manager::machine::Answer;
use latchkey_cluster_manager::world::{Later, Principals};
use latchkey_factory_plus::{ClusterName, Upn};

/// A fake: it says yes, and remembers what it was asked.
#[derive(Default)]
pub(crate) struct FakePrincipals(pub(crate) Mutex<Vec<String>>);

impl FakePrincipals {
    fn note(&self, what: String) -> Later<'_, Answer> {
        self.0.lock().unwrap().push(what);
        Box::pin(std::future::ready(Answer::Done))
    }
}

impl Principals for FakePrincipals {
    fn enable<'a>(&'a self, upn: &'a Upn) -> Later<'a, Answer> {
        self.note(format!("enable {upn}"))
    }

    fn disable_all<'a>(&'a self, name: &'a ClusterName) -> Later<'a, Answer> {
        self.note(format!("disable {name}"))
    }

    fn delete_all<'a>(&'a self, name: &'a ClusterName) -> Later<'a, Answer> {
        self.note(format!("delete {name}"))
    }

    fn second_components(&self) -> Later<'_, Result<Vec<String>, String>> {
        Box::pin(std::future::ready(Ok(vec!["operators".to_owned()])))
    }
}
