//! Kubernetes Secrets, as this program writes them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// The label that says who keeps a Secret, and our name in it: the original operator's. A Secret without it is somebody else's.
pub(crate) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "krbkeys.factoryplus.app.amrc.co.uk");

/// The keys of a Secret and what they hold. It has no `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
#[allow(missing_debug_implementations)] // it holds secrets
pub(crate) struct Data(BTreeMap<String, Zeroizing<Vec<u8>>>);

impl Data {
    /// What a key holds.
    pub(crate) fn get(&self, key: &str) -> Option<&Zeroizing<Vec<u8>>> {
        self.0.get(key)
    }

    /// The same as text; nothing, where it is none.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        std::str::from_utf8(self.get(key)?).ok()
    }

    /// With this in a key; what it held before is gone.
    #[must_use]
    pub(crate) fn with(mut self, key: &str, value: Zeroizing<Vec<u8>>) -> Self {
        self.0.insert(key.to_owned(), value);
        self
    }

    /// Without a key.
    #[must_use]
    pub(crate) fn without(mut self, key: &str) -> Self {
        self.0.remove(key);
        self
    }

    /// Whether it has no key.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All keys with what they hold, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Zeroizing<Vec<u8>>)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }
}

impl FromIterator<(String, Zeroizing<Vec<u8>>)> for Data {
    fn from_iter<I: IntoIterator<Item = (String, Zeroizing<Vec<u8>>)>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

/// A Secret as the API server has it.
#[derive(Clone)]
#[allow(missing_debug_implementations)] // it holds secrets
pub(crate) struct Stored {
    /// What it holds.
    pub(crate) data: Data,
    /// Whether it has our label.
    pub(crate) ours: bool,
    /// Which writing of it this is, as the API server counts.
    pub(crate) version: String,
}

/// What became of a write that was decided on what was read before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is there, durably.
    Done,
    /// Nothing was written: somebody else wrote meanwhile.
    Changed,
}

/// As the API server takes what a Secret holds.
pub(crate) fn base64(bytes: &[u8]) -> Zeroizing<String> {
    Zeroizing::new(STANDARD.encode(bytes))
}
