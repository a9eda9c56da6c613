//! What stands where kadmind would be.

use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use latchkey_cluster_manager::machine::Answer;
use latchkey_cluster_manager::world::{Later, Principals};
use latchkey_factory_plus::{ClusterName, Upn};
use latchkey_kerberos::Secret;

/// A fake: it says yes, and remembers what it was asked.
#[derive(Default)]
pub(crate) struct FakePrincipals {
    pub(crate) asked: Mutex<Vec<String>>,
    /// What it does once, before it admits somebody.
    pub(crate) before_admission: Mutex<Option<Before>>,
    /// What it answers everything with, once.
    pub(crate) next: Mutex<Option<Answer>>,
}

type Before = Box<dyn FnOnce() -> Later<'static, ()> + Send>;

impl FakePrincipals {
    fn note(&self, what: String) -> Later<'_, Answer> {
        self.asked.lock().unwrap().push(what);
        let answer = self.next.lock().unwrap().take().unwrap_or(Answer::Done);
        Box::pin(std::future::ready(answer))
    }
}

impl Principals for FakePrincipals {
    fn enable<'a>(&'a self, upn: &'a Upn) -> Later<'a, Answer> {
        self.note(format!("enable {upn}"))
    }

    fn admit<'a>(&'a self, upn: &'a Upn, password: &'a Secret, until: u32) -> Later<'a, Answer> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let (minutes, length) = ((u64::from(until) - now).div_ceil(60), password.len());
        let before = self.before_admission.lock().unwrap().take();
        Box::pin(async move {
            if let Some(before) = before {
                before().await;
            }
            self.note(format!("admit {upn}, {length} bytes, {minutes} min")).await
        })
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
