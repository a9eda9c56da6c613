//! The dumps, made of the data.

use latchkey_factory_plus::uuids::{application, k8s_resource, service};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::dumps::{AuthDump, ConfigDbDump, DirectoryDump};
use crate::symbols::{SymbolError, Symbols};
use crate::{Local, Site, SiteError, data};

/// What a new centre loads. Loading it again changes nothing but what somebody changed of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// For the configuration database.
    pub config_db: ConfigDbDump,
    /// For the authorisation service.
    pub auth: AuthDump,
    /// For the directory.
    pub directory: DirectoryDump,
}

/// Why there are no dumps.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The site is refused.
    #[error("{0}")]
    Site(#[from] SiteError),
    /// The data of this program are wrong.
    #[error("the data of this program are wrong: {0}; report it")]
    Json(#[from] serde_json::Error),
    /// The same.
    #[error("the data of this program are wrong: {0}; report it")]
    Symbol(#[from] SymbolError),
    /// The same.
    #[error("the data of this program are wrong: {0} is there twice; report it")]
    Twice(String),
}

impl Setup {
    /// That of a site.
    ///
    /// # Errors
    /// [`SetupError::Site`]; the others only where the data are wrong, which tests would have found.
    pub fn new(site: &Site, local: &Local) -> Result<Self, SetupError> {
        site.check()?;
        let data = Data(Symbols::new(site, local)?);
        Ok(Self { config_db: data.config_db()?, auth: data.auth()?, directory: data.directory()? })
    }
}

struct Data(Symbols);

impl Data {
    fn config_db(&self) -> Result<ConfigDbDump, SetupError> {
        let mut objects = Value::Object(Map::new());
        for file in data::OBJECTS {
            join(&mut objects, self.read(file)?)?;
        }
        let mut configs = Value::Object(Map::new());
        for file in data::ENTRIES {
            join(&mut configs, self.read(file)?)?;
        }
        join(&mut configs, one(application::CONFIG_SCHEMA, self.schemas()?))?;
        join(&mut configs, self.templates()?)?;
        typed(json!({"service": service::CONFIG_DB, "version": 2, "objects": objects, "configs": configs}))
    }

    fn auth(&self) -> Result<AuthDump, SetupError> {
        let (identities, grants) = (self.read(data::IDENTITIES)?, self.read(data::GRANTS)?);
        typed(json!({"service": service::AUTH, "version": 2, "identities": identities, "grants": grants}))
    }

    fn directory(&self) -> Result<DirectoryDump, SetupError> {
        let advertisements = self.read(data::DIRECTORY)?;
        typed(json!({"service": service::DIRECTORY, "version": 1, "advertisements": advertisements}))
    }

    /// By application. Inside a schema nothing is a symbol: `$ref` and `$defs` are JSON Schema's own.
    fn schemas(&self) -> Result<Value, SetupError> {
        let schemas: Map<String, Value> = serde_json::from_str(data::SCHEMAS)?;
        let mut all = Map::new();
        for (application, mut schema) in schemas {
            let application = self.0.put_in(Value::String(application))?;
            schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
            all.insert(application.as_str().unwrap_or_default().to_owned(), schema);
        }
        Ok(Value::Object(all))
    }

    /// All templates, by application and object.
    fn templates(&self) -> Result<Value, SetupError> {
        let mut bootstrap = Map::new();
        bootstrap.insert("bootstrap.sh".into(), data::BOOTSTRAP.into());
        bootstrap.insert("edge-bootstrap.yaml".into(), self.read(data::EDGE_BOOTSTRAP)?);
        let script = json!({"script": data::SCRIPT, "files": bootstrap});
        let mut resources = one(k8s_resource::HELM_RELEASE, self.read(data::HELM_RELEASE)?);
        join(&mut resources, one(k8s_resource::GIT_REPOSITORY, self.read(data::GIT_REPOSITORY)?))?;
        let mut all = one(application::K8S_RESOURCE_TEMPLATE, resources);
        let flux = one(application::FLUX_TEMPLATE, self.read(data::FLUX)?);
        join(&mut all, one(application::FLUX_TEMPLATE, flux))?;
        join(&mut all, one(application::BOOTSTRAP_SCRIPT, one(application::BOOTSTRAP_SCRIPT, script)))?;
        join(&mut all, one(application::HELM_CHART_TEMPLATE, self.read(data::CHARTS)?))?;
        Ok(all)
    }

    fn read(&self, file: &str) -> Result<Value, SetupError> {
        Ok(self.0.put_in(serde_json::from_str(file)?)?)
    }
}

fn one(key: latchkey_factory_plus::Uuid, value: Value) -> Value {
    Value::Object(Map::from_iter([(key.to_string(), value)]))
}

/// Puts objects of two levels together; nothing may be in both.
fn join(all: &mut Value, more: Value) -> Result<(), SetupError> {
    let Value::Object(more) = more else { return Ok(()) };
    for (key, value) in more {
        match (all.get_mut(&key).and_then(Value::as_object_mut), value) {
            (Some(there), Value::Object(fields)) => {
                for (key, value) in fields {
                    if there.insert(key.clone(), value).is_some() {
                        return Err(SetupError::Twice(key));
                    }
                }
            }
            (_, value) => all[key] = value,
        }
    }
    Ok(())
}

fn typed<T: DeserializeOwned>(value: Value) -> Result<T, SetupError> {
    Ok(serde_json::from_value(value)?)
}
