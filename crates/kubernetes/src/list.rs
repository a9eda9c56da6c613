//! The list of components that nodes get for themselves: one release of a version table, and where it comes from.
//!
//! The operator's command makes it, and it goes to nodes over attested channels. A node holds it against its hash in every later
//! boot, so the same release and mirror give the same bytes.

use latchkey_mirror::Address;
use serde::Deserialize;
use serde_json::json;

use crate::code::KubernetesCode;
use crate::component::InstallPath;
use crate::hash::Sha256;
use crate::minor::{Minor, MinorRefusal};
use crate::table::{Release, Table, TableError, TableFile};

/// The schema that this version reads.
const SCHEMA: u64 = 1;
/// Longest list; the built-in table's have a tenth of it.
const MAX_SIZE: usize = 64 * 1024;

/// What a node gets for itself, and from where.
#[derive(Debug, Clone)]
pub struct ComponentList {
    sha256: Sha256,
    mirror: Option<String>,
    release: Release,
}

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListFile {
    schema: u64,
    /// Below which files are under their names [their official addresses].
    mirror: Option<Address>,
    /// A version table with one version.
    table: TableFile,
}

/// Why a list is not used.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// It is longer than any list.
    #[error("the list of components has more than {MAX_SIZE} bytes")]
    TooLong,
    /// It is not the JSON it should be.
    #[error("the list of components: {0}")]
    Json(#[from] serde_json::Error),
    /// It is of another version of the schema.
    #[error("the list of components is of schema {0}: this version reads schema {SCHEMA}")]
    Schema(u64),
    /// Its table cannot be used.
    #[error("the list of components: {0}")]
    Table(#[from] TableError),
    /// It has several releases.
    #[error("the list of components has {0} versions, and a node runs one")]
    Versions(usize),
    /// Two programs would have one place.
    #[error("the list of components has two programs with the name {0}: on a node they are in one directory")]
    SameName(String),
    /// The mirror is no address.
    #[error("mirror: {0}")]
    Mirror(String),
    /// The table does not have the version.
    #[error(transparent)]
    Version(#[from] MinorRefusal),
    /// It is of another minor version.
    #[error("the list of components is of Kubernetes {found}, and the cluster of {expected}")]
    Differs {
        /// The list's.
        found: Minor,
        /// The cluster's.
        expected: Minor,
    },
}

impl ListError {
    /// The stable reason code.
    pub const fn code(&self) -> KubernetesCode {
        match self {
            Self::Version(refusal) => refusal.code(),
            Self::Differs { .. } => KubernetesCode::ListVersionDiffers,
            _ => KubernetesCode::ListUnusable,
        }
    }
}

impl ComponentList {
    /// The list of what a table has for a minor version; from a mirror, or from the official addresses.
    pub fn make(table: &Table, minor: Minor, mirror: Option<&str>) -> Result<Vec<u8>, ListError> {
        table.release(minor)?;
        let mirror = mirror.map(|mirror| mirror.trim_end_matches('/'));
        let text = serde_json::to_vec(&json!({"schema": SCHEMA, "mirror": mirror, "table": table.of_one(minor)?}))?;
        Self::parse(&text).map_err(|error| match mirror.map(|text| Address::try_from(text.to_owned())) {
            Some(Err(refused)) => ListError::Mirror(refused),
            _ => error,
        })?;
        Ok(text)
    }

    /// Reads a list.
    pub fn parse(text: &[u8]) -> Result<Self, ListError> {
        if text.len() > MAX_SIZE {
            return Err(ListError::TooLong);
        }
        let file: ListFile = serde_json::from_slice(text)?;
        if file.schema != SCHEMA {
            return Err(ListError::Schema(file.schema));
        }
        let mut releases = file.table.releases()?;
        let count = releases.len();
        let (Some((_, release)), 1) = (releases.pop_first(), count) else { return Err(ListError::Versions(count)) };
        let mut names: Vec<&str> = release.every_path().map(InstallPath::name).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ListError::SameName(pair[0].to_owned()));
        }
        let mirror = file.mirror.map(|mirror| mirror.as_str().to_owned());
        Ok(Self { sha256: Sha256::of(text), mirror, release })
    }

    /// What the list hashes to.
    pub const fn sha256(&self) -> Sha256 {
        self.sha256
    }

    /// Below which files are under their names; none: their official addresses.
    pub fn mirror(&self) -> Option<&str> {
        self.mirror.as_deref()
    }

    /// The release.
    pub const fn release(&self) -> &Release {
        &self.release
    }

    /// Refuses a list of another minor version.
    pub fn expect(&self, expected: Minor) -> Result<(), ListError> {
        let found = self.release.version().minor();
        if found == expected { Ok(()) } else { Err(ListError::Differs { found, expected }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(mirror: Option<&str>) -> Vec<u8> {
        ComponentList::make(&Table::built_in().unwrap(), "1.34".parse().unwrap(), mirror).unwrap()
    }

    #[test]
    fn a_list_is_one_release_of_the_table_and_the_same_bytes_each_time() {
        let (table, minor) = (Table::built_in().unwrap(), "1.34".parse().unwrap());
        let list = ComponentList::parse(&made(Some("https://m/k8s/"))).unwrap();
        assert_eq!(list.release(), table.release(minor).unwrap());
        assert_eq!(list.mirror(), Some("https://m/k8s"));
        assert_eq!(ComponentList::parse(&made(None)).unwrap().mirror(), None);
        // The same versions in another order and another layout.
        let mut text: serde_json::Value = serde_json::from_str(include_str!("versions.json")).unwrap();
        text["versions"].as_array_mut().unwrap().reverse();
        let other = Table::parse(&serde_json::to_vec_pretty(&text).unwrap()).unwrap();
        assert_ne!(other.sha256(), table.sha256());
        assert_eq!(ComponentList::make(&other, minor, Some("https://m/k8s/")).unwrap(), made(Some("https://m/k8s")));
        assert!(list.expect(minor).is_ok());
        let error = list.expect("1.33".parse().unwrap()).unwrap_err();
        assert_eq!(error.code(), KubernetesCode::ListVersionDiffers);
        assert_eq!(error.to_string(), "the list of components is of Kubernetes 1.34, and the cluster of 1.33");
    }

    #[test]
    fn what_no_list_is_made_of_is_named() {
        let table = Table::built_in().unwrap();
        let make = |minor: &str, mirror| ComponentList::make(&table, minor.parse().unwrap(), mirror).unwrap_err();
        assert_eq!(make("1.2", None).code(), KubernetesCode::VersionTooOld);
        for mirror in ["ftp://m", "/srv/parts", "https://user:secret@m", ""] {
            let error = make("1.34", Some(mirror));
            assert!(matches!(error, ListError::Mirror(_)), "{mirror}: {error}");
        }
    }

    #[test]
    fn lists_that_are_none_are_refused() {
        let good = String::from_utf8(made(None)).unwrap();
        let table =
            String::from_utf8(Table::built_in().unwrap().of_one("1.33".parse().unwrap()).unwrap().to_string().into())
                .unwrap();
        let two = good.replacen(
            "\"versions\":[",
            &format!("\"versions\":[{},", &table[table.find("[{").unwrap() + 1..table.len() - 2]),
            1,
        );
        for (text, said) in [
            ("{}".to_owned(), "missing field"),
            (String::new(), "EOF"),
            (good.replacen("\"schema\":1", "\"schema\":2", 1), "schema 2"),
            (good.replacen('{', "{\"extra\":1,", 1), "unknown field"),
            (good.replacen("/usr/sbin/runc", "/usr/bin/../../etc/x", 1), "is no path"),
            (good.replacen("/usr/sbin/runc", "/usr/sbin/kubelet", 1), "two programs with the name kubelet"),
            (two, "has 2 versions"),
            (format!("{good}{}", " ".repeat(MAX_SIZE)), "more than 65536 bytes"),
        ] {
            let error = ComponentList::parse(text.as_bytes()).unwrap_err();
            assert_eq!(error.code(), KubernetesCode::ListUnusable);
            assert!(error.to_string().contains(said), "{said}: {error}");
        }
    }
}
