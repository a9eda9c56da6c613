//! What stands behind each symbol.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{Local, Site, data};

/// Symbols and what they stand for: UUIDs and texts; `$Local` alone is all of the site's UUIDs.
pub(crate) struct Symbols(BTreeMap<String, Value>);

/// A mistake in the data.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    /// Nothing stands behind it.
    #[error("nothing stands behind the symbol {0:?}")]
    Unknown(String),
    /// A key must be a text.
    #[error("the symbol {0:?} is a key, and stands for no text")]
    Key(String),
    /// Two keys of one object stand for the same.
    #[error("the key {0:?} is there twice")]
    Twice(String),
}

impl Symbols {
    pub(crate) fn new(site: &Site, local: &Local) -> Result<Self, serde_json::Error> {
        let mut all = BTreeMap::new();
        let fixed: BTreeMap<String, BTreeMap<String, Value>> = serde_json::from_str(data::SYMBOLS)?;
        for (group, names) in fixed {
            all.extend(names.into_iter().map(|(name, uuid)| (format!("${group}.{name}"), uuid)));
        }
        let local = serde_json::to_value(local)?;
        for (name, uuid) in local.as_object().into_iter().flatten() {
            all.insert(format!("$Local.{name}"), uuid.clone());
        }
        all.insert("$Local".into(), local);
        let text = |name: &str, text: &str| (name.to_owned(), Value::from(text));
        let urls = &site.urls;
        all.extend([
            text("$Site.Realm", &site.realm),
            text("$Site.Domain", &site.domain),
            text("$Url.Directory", &urls.directory),
            text("$Url.ConfigDb", &urls.config_db),
            text("$Url.Auth", &urls.auth),
            text("$Url.Git", &urls.git),
            text("$Url.ClusterManager", &urls.cluster_manager),
            text("$Url.Mqtt", &urls.mqtt),
        ]);
        let place = |name: &str, is: &Option<String>| is.clone().unwrap_or_else(|| format!("{name}.{}", site.domain));
        all.extend([
            text("$Site.Kdc", &place("kdc", &site.kdc)),
            text("$Site.Kadmin", &place("kadmin", &site.kadmin)),
            text("$Site.Authority", &site.authority),
        ]);
        all.insert("$Site.Insecure".into(), site.is_insecure().into());
        all.insert("$Site.Images".into(), serde_json::to_value(&site.images)?);
        let principals = [
            ("ConfigDb", "sv1configdb"),
            ("Directory", "sv1directory"),
            ("Auth", "sv1auth"),
            ("Git", "sv1git"),
            ("Mqtt", "sv1mqtt"),
            ("ClusterManager", "sv1clustermanager"),
            ("EnrolService", "sv1enrol"),
            ("Administrator", &site.administrator),
        ];
        for (name, principal) in principals {
            all.insert(format!("$Principal.{name}"), format!("{principal}@{}", site.realm).into());
        }
        Ok(Self(all))
    }

    /// `value`, with what its symbols stand for.
    pub(crate) fn put_in(&self, value: Value) -> Result<Value, SymbolError> {
        match value {
            Value::String(text) if text.starts_with('$') => self.find(&text).cloned(),
            Value::Array(items) => items.into_iter().map(|item| self.put_in(item)).collect(),
            Value::Object(fields) => {
                let mut all = Map::new();
                for (key, value) in fields {
                    let key = self.key(key)?;
                    if all.insert(key.clone(), self.put_in(value)?).is_some() {
                        return Err(SymbolError::Twice(key));
                    }
                }
                Ok(Value::Object(all))
            }
            other => Ok(other),
        }
    }

    fn key(&self, key: String) -> Result<String, SymbolError> {
        // JSON Schema has keys of its own that begin so.
        if !key.starts_with('$') || !key.contains('.') {
            return Ok(key);
        }
        self.find(&key)?.as_str().map(str::to_owned).ok_or(SymbolError::Key(key))
    }

    fn find(&self, symbol: &str) -> Result<&Value, SymbolError> {
        self.0.get(symbol).ok_or_else(|| SymbolError::Unknown(symbol.to_owned()))
    }
}
