//! The files of `data/`.

macro_rules! file {
    ($path:literal) => {
        include_str!(concat!("../data/", $path))
    };
}

/// Symbols of UUIDs that are the same at every site.
pub(crate) const SYMBOLS: &str = file!("symbols.json");

/// Objects, by primary class.
pub(crate) const OBJECTS: [&str; 7] = [
    file!("classes.json"),
    file!("applications.json"),
    file!("special.json"),
    file!("permissions.json"),
    file!("roles.json"),
    file!("accounts.json"),
    file!("local.json"),
];

/// Entries, by application and object.
pub(crate) const ENTRIES: [&str; 4] =
    [file!("names.json"), file!("scopes.json"), file!("mqtt.json"), file!("service-config.json")];

/// Schemas, by application.
pub(crate) const SCHEMAS: &str = file!("schemas.json");

/// The templates: of Flux, of resources, of charts by their object, and of the bootstrap script.
pub(crate) const FLUX: &str = file!("templates/flux.json");
pub(crate) const HELM_RELEASE: &str = file!("templates/helm-release.json");
pub(crate) const GIT_REPOSITORY: &str = file!("templates/git-repository.json");
pub(crate) const CHARTS: &str = file!("templates/charts.json");
pub(crate) const SCRIPT: &str = file!("templates/bootstrap/script.sh");
pub(crate) const BOOTSTRAP: &str = file!("templates/bootstrap/bootstrap.sh");
pub(crate) const EDGE_BOOTSTRAP: &str = file!("templates/bootstrap/edge-bootstrap.json");

/// Who is called how, by principal.
pub(crate) const IDENTITIES: &str = file!("identities.json");
/// Who holds what, by principal, permission and target.
pub(crate) const GRANTS: &str = file!("grants.json");
/// Where each service is.
pub(crate) const DIRECTORY: &str = file!("directory.json");
