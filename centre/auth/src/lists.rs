//! Access lists that were asked for, kept until something that they are made of changes.

use std::collections::{BTreeMap, BTreeSet};

use latchkey_factory_plus::Uuid;

use crate::expand::{self, List, NoList};
use crate::model::Grants;
use crate::objects::{Objects, Part};

/// The most lists that are kept. What is asked for beyond that is made each time.
const MOST_KEPT: usize = 20_000;

/// Lists by principal, and what each is made of.
#[derive(Debug, Default)]
pub struct Lists {
    kept: BTreeMap<Uuid, (Result<List, NoList>, BTreeSet<Part>)>,
    made_of: BTreeMap<Part, BTreeSet<Uuid>>,
}

impl Lists {
    /// The list of a principal, of what is known now.
    ///
    /// # Errors
    /// [`NoList`].
    pub fn list(&mut self, grants: &Grants, objects: &Objects, principal: Uuid) -> Result<List, NoList> {
        if let Some((list, _)) = self.kept.get(&principal) {
            return list.clone();
        }
        let mut parts = BTreeSet::new();
        let list = expand::list(grants, objects, principal, &mut parts);
        if self.kept.len() < MOST_KEPT {
            for part in &parts {
                self.made_of.entry(*part).or_default().insert(principal);
            }
            self.kept.insert(principal, (list.clone(), parts));
        }
        list
    }

    /// Whether the list of a principal is kept, so that [`touch`](Self::touch) tells of it.
    pub fn keeps(&self, principal: Uuid) -> bool {
        self.kept.contains_key(&principal)
    }

    /// Forgets the lists that are made of one of these. Gives whose they were: those who watch one look again.
    pub fn touch(&mut self, parts: &[Part]) -> BTreeSet<Uuid> {
        let touched: BTreeSet<Uuid> =
            parts.iter().filter_map(|part| self.made_of.get(part)).flatten().copied().collect();
        for principal in &touched {
            let Some((_, parts)) = self.kept.remove(principal) else { continue };
            for part in parts {
                if let Some(lists) = self.made_of.get_mut(&part) {
                    lists.remove(principal);
                    if lists.is_empty() {
                        self.made_of.remove(&part);
                    }
                }
            }
        }
        touched
    }
}
