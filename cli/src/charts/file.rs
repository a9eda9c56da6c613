//! The charts file: which charts a cluster has, where they come from, and with which values.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use latchkey_kubernetes::Sha256;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::archive::Archive;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::stock::{ChartSource, Upgrade};

/// The version of the form of the file.
const SCHEMA: u32 = 1;
/// How long the file, and a file of values, may be.
const MAX_FILE: usize = 1 << 20;
const MAX_CHARTS: usize = 100;
/// The longest name of a release that helm takes, and of a namespace.
const MAX_NAME: usize = 53;
const MAX_NAMESPACE: usize = 63;
/// How long the objects of a chart may take to get ready, unless it says otherwise.
const WAIT: u64 = 600;
const MAX_WAIT: u64 = 86_400;

/// The charts of a cluster, in the order in which they are installed.
#[derive(Debug)]
pub(crate) struct ChartsFile {
    pub(crate) charts: Vec<Chart>,
}

/// A chart, and the release that it becomes.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) source: ChartSource,
    /// What `source` names, if that is an archive.
    _archive: Option<Archive>,
    values: Vec<u8>,
    pub(crate) wait: Option<Duration>,
    pub(crate) crds: Crds,
}

/// What becomes of the custom resource definitions in a chart's `crds` directory. Those in its templates are helm's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Crds {
    /// They are made with the first installation, and left alone afterwards: what helm does.
    #[default]
    Once,
    /// They are applied before each upgrade, too.
    Upgrade,
    /// They are not touched.
    Never,
}

impl Chart {
    /// One of no charts file, with its own values; it is not waited for.
    pub(crate) fn plain(name: &str, namespace: &str, archive: Archive) -> Self {
        let (name, namespace, source) = (name.to_owned(), namespace.to_owned(), ChartSource::File(archive.path()));
        Self { name, namespace, source, _archive: Some(archive), values: Vec::new(), wait: None, crds: Crds::Once }
    }

    /// What helm is asked for.
    pub(crate) fn upgrade(&self) -> Upgrade<'_> {
        let Self { name, namespace, source, values, wait, crds, .. } = self;
        Upgrade { name, namespace, chart: source, values, wait: *wait, crds: *crds != Crds::Never }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    schema: u32,
    charts: Vec<ChartForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChartForm {
    name: String,
    namespace: String,
    chart: SourceForm,
    #[serde(default)]
    values: Option<ValuesForm>,
    /// Seconds; 0 does not wait.
    #[serde(default)]
    wait: Option<u64>,
    #[serde(default)]
    crds: Crds,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum SourceForm {
    /// A chart's directory.
    Directory(PathBuf),
    /// An archive of one, as `helm package` makes it.
    Archive(ArchiveForm),
    /// An OCI registry.
    Registry(RegistryForm),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArchiveForm {
    file: PathBuf,
    sha256: Sha256,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegistryForm {
    /// `oci://REGISTRY/REPOSITORY`.
    repository: String,
    /// `sha256:` and 64 digits: of the manifest.
    digest: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum ValuesForm {
    File(PathBuf),
    Inline(Box<RawValue>),
}

impl ChartsFile {
    /// Reads the file, and what it names on this machine.
    pub(crate) fn read(path: &Path) -> Result<Self, CommandError> {
        files::must_be_a_file(path, "it names others by their place beside it")?;
        let bytes = files::read(path, MAX_FILE)?;
        let form: FileForm = serde_json::from_slice(&bytes).map_err(|error| malformed(path, error.to_string()))?;
        if form.schema != SCHEMA {
            return Err(malformed(path, format!("schema {} is not {SCHEMA}, the one this command knows", form.schema)));
        }
        if form.charts.len() > MAX_CHARTS {
            return Err(malformed(path, format!("{} charts are more than {MAX_CHARTS}", form.charts.len())));
        }
        let mut names = BTreeSet::new();
        for ChartForm { name, namespace, .. } in &form.charts {
            check_name("name", name, MAX_NAME).map_err(|reason| malformed(path, reason))?;
            check_name("namespace", namespace, MAX_NAMESPACE).map_err(|reason| malformed(path, reason))?;
            if !names.insert((namespace, name)) {
                return Err(malformed(path, format!("{name} in {namespace} stands twice")));
            }
        }
        let beside = path.parent().unwrap_or(Path::new("."));
        let charts = form.charts.into_iter().map(|chart| chart.read(path, beside)).collect::<Result<_, _>>()?;
        Ok(Self { charts })
    }
}

impl ChartForm {
    fn read(self, file: &Path, beside: &Path) -> Result<Chart, CommandError> {
        let about = |reason: &str| malformed(file, format!("{}: {reason}", self.name));
        let wait = self.wait.unwrap_or(WAIT);
        if wait > MAX_WAIT {
            return Err(about(&format!("wait: {wait} seconds are more than {MAX_WAIT}")));
        }
        let mut archive = None;
        let source = match self.chart {
            SourceForm::Directory(path) => {
                let path = beside.join(path);
                if !path.join("Chart.yaml").is_file() {
                    return Err(about(&format!("there is no chart in {}: Chart.yaml is missing", path.display())));
                }
                ChartSource::File(path)
            }
            SourceForm::Archive(ArchiveForm { file, sha256 }) => {
                let path = beside.join(file);
                let (found, copy) = Archive::read(&path)?;
                if found != sha256 {
                    let what = format!("{}: {} is not the archive that is meant", self.name, path.display());
                    let error = CommandError::new(Exit::Usage, CommandCode::ChartAltered, what);
                    return Err(error.because(format!("expected {sha256}")).because(format!("     got {found}")));
                }
                ChartSource::File(archive.insert(copy).path())
            }
            SourceForm::Registry(RegistryForm { repository, digest }) => {
                let digits = digest.strip_prefix("sha256:").unwrap_or_default();
                if Sha256::try_from(digits.to_owned()).is_err() {
                    return Err(about("digest is not `sha256:` and 64 lower-case hexadecimal digits"));
                }
                let place = repository.strip_prefix("oci://").unwrap_or_default();
                if !place.contains('/') || place.contains(['@', '?', '#', ' ']) {
                    return Err(about("repository is not `oci://REGISTRY/REPOSITORY`, without user, tag or digest"));
                }
                ChartSource::Registry(format!("{repository}@{digest}"))
            }
        };
        let values = match self.values {
            None => Vec::new(),
            Some(ValuesForm::File(path)) => files::read(&beside.join(path), MAX_FILE)?,
            Some(ValuesForm::Inline(values)) if values.get().starts_with('{') => values.get().into(),
            Some(ValuesForm::Inline(_)) => return Err(about("values are no object")),
        };
        let wait = (wait != 0).then(|| Duration::from_secs(wait));
        let (name, namespace, crds) = (self.name, self.namespace, self.crds);
        Ok(Chart { name, namespace, source, _archive: archive, values, wait, crds })
    }
}

/// A DNS label, so that no name can be a flag or a path.
fn check_name(what: &str, name: &str, longest: usize) -> Result<(), String> {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=longest).contains(&name.len()) && name.chars().all(letter) && !name.starts_with('-') && !name.ends_with('-')
    {
        return Ok(());
    }
    let shown: String = name.chars().take(longest).collect();
    Err(format!("{what} {shown:?} is not 1 to {longest} lower-case letters, digits and inner hyphens"))
}

fn malformed(path: &Path, reason: impl AsRef<str>) -> CommandError {
    let what = format!("{} is no charts file", path.display());
    CommandError::new(Exit::Usage, CommandCode::ChartsMalformed, what).because(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write as _;
    use tempfile::TempDir;

    fn read(text: &str) -> Result<ChartsFile, CommandError> {
        let directory = TempDir::new().unwrap();
        fs::create_dir(directory.path().join("one")).unwrap();
        fs::write(directory.path().join("one/Chart.yaml"), "").unwrap();
        fs::write(directory.path().join("one.tgz"), "archive").unwrap();
        fs::write(directory.path().join("values.yaml"), "a: 1\n").unwrap();
        fs::write(directory.path().join("charts.json"), text).unwrap();
        ChartsFile::read(&directory.path().join("charts.json"))
    }

    fn with(chart: &str) -> Result<ChartsFile, CommandError> {
        read(&format!(r#"{{"schema": 1, "charts": [{chart}]}}"#))
    }

    #[test]
    fn a_chart_is_a_directory_an_archive_or_in_a_registry() {
        let digest = Sha256::of(b"archive").to_string();
        let file = with(&format!(
            r#"{{"name": "a", "namespace": "x", "chart": {{"directory": "one"}}, "values": {{"file": "values.yaml"}}}},
               {{"name": "b", "namespace": "x", "chart": {{"archive": {{"file": "one.tgz", "sha256": "{digest}"}}}},
                 "values": {{"inline": {{"a": [1, 2]}}}}, "wait": 0, "crds": "never"}},
               {{"name": "a", "namespace": "y",
                 "chart": {{"registry": {{"repository": "oci://r.example/c", "digest": "sha256:{digest}"}}}}, "crds": "upgrade"}}"#
        ))
        .unwrap();
        let [a, b, c] = &file.charts[..] else { panic!("{file:?}") };
        assert_eq!((&*a.values, a.wait, a.crds), (&b"a: 1\n"[..], Some(Duration::from_mins(10)), Crds::Once));
        assert_eq!((&*b.values, b.wait, b.upgrade().crds), (&br#"{"a": [1, 2]}"#[..], None, false));
        // The directory is gone; what was hashed is there, and stays as it is.
        let ChartSource::File(archive) = &b.source else { panic!("{b:?}") };
        assert_eq!(fs::read(archive).unwrap(), b"archive");
        let changed = fs::OpenOptions::new().write(true).open(archive).and_then(|mut file| file.write_all(b"other"));
        assert!(changed.is_err() && fs::read(archive).unwrap() == b"archive");
        assert_eq!(c.source, ChartSource::Registry(format!("oci://r.example/c@sha256:{digest}")));
    }

    #[test]
    fn what_is_no_charts_file_is_refused_with_what_is_wrong() {
        let digest = "0".repeat(64);
        let registry = |repository: &str, digest: &str| {
            format!(
                r#"{{"name": "a", "namespace": "x", "chart": {{"registry": {{"repository": "{repository}", "digest": "{digest}"}}}}}}"#
            )
        };
        let plain = |name: &str, more: &str| {
            format!(r#"{{"name": "{name}", "namespace": "x", "chart": {{"directory": "one"}}{more}}}"#)
        };
        for (chart, said) in [
            (plain("a", r#", "extra": 1"#), "unknown field `extra`"),
            (plain("-a", ""), "name \"-a\" is not 1 to 53"),
            (plain(&"a".repeat(54), ""), "is not 1 to 53"),
            (format!("{},{}", plain("a", ""), plain("a", "")), "a in x stands twice"),
            (plain("a", r#", "wait": 86401"#), "more than 86400"),
            (plain("a", r#", "values": {"inline": 1}"#), "values are no object"),
            (plain("a", r#", "values": {"inline": {}, "file": "values.yaml"}"#), "expected"),
            (plain("a", r#", "crds": "sometimes"#), "EOF"),
            (plain("a", r#", "crds": "sometimes""#), "unknown variant `sometimes`"),
            (r#"{"name": "a", "namespace": "x", "chart": {"directory": "two"}}"#.into(), "Chart.yaml is missing"),
            (r#"{"name": "a", "namespace": "../x", "chart": {"directory": "one"}}"#.into(), "namespace"),
            (registry("oci://r.example/c", "latest"), "digest is not"),
            (registry("oci://r.example/c:1", &format!("sha256:{}", &digest[1..])), "digest is not"),
            (registry("https://r.example/c", &format!("sha256:{digest}")), "repository is not"),
            (registry("oci://r.example/c@sha256:0", &format!("sha256:{digest}")), "repository is not"),
        ] {
            let error = with(&chart).unwrap_err();
            assert_eq!(error.code.as_str(), "charts-file-malformed", "{chart}");
            assert!(error.because.iter().any(|cause| cause.contains(said)), "{said}: {error:?}");
        }
        assert!(read(r#"{"schema": 2, "charts": []}"#).unwrap_err().because[0].contains("schema 2"));
        let many = vec![plain("a", ""); 101].join(",");
        assert!(with(&many).unwrap_err().because[0].contains("101 charts"));
        let other = format!(
            r#"{{"name": "a", "namespace": "x", "chart": {{"archive": {{"file": "one.tgz", "sha256": "{digest}"}}}}}}"#
        );
        assert_eq!(with(&other).unwrap_err().code.as_str(), "chart-altered");
    }
}
