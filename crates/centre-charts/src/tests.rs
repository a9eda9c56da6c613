use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

/// A set of Flux's manifests: as many as count, with these versions of `HelmRelease`.
fn flux(helm: &[&str]) -> String {
    let definition = |plural: &str, group: &str, versions: &[&str]| {
        let versions =
            versions.iter().fold(String::new(), |all, version| format!("{all}\n  - {{name: {version}, served: true}}"));
        format!(
            "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: {plural}.{group}.toolkit.fluxcd.io\n\
             spec:\n  versions:{versions}\n"
        )
    };
    let mut text = definition("gitrepositories", "source", &["v1"]);
    text.push_str(&definition("kustomizations", "kustomize", &["v1"]));
    text.push_str(&definition("helmreleases", "helm", helm));
    for name in ["source", "kustomize", "helm"] {
        text += &flux_controller(name);
    }
    text
}

fn flux_controller(name: &str) -> String {
    format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}-controller\n  namespace: flux-system\n  \
         labels: {{app.kubernetes.io/version: v2.7.5}}\n"
    )
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn chart(&self, about: &str) -> PathBuf {
        self.file("sealed-secrets/Chart.yaml", about);
        self.file("sealed-secrets/templates/deployment.yaml", "kind: Deployment\n");
        self.0.path().join("sealed-secrets")
    }
}

const ABOUT: &str = "apiVersion: v2\nname: sealed-secrets\nversion: 2.13.3\n";

fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        // As it stands: the builder's own way refuses what an attacker would write.
        let name = path.as_bytes();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

fn told(path: &Path) -> String {
    Input::read(path).unwrap_err().to_string()
}

fn imported(import: &Import, inputs: &[Input]) -> Change {
    import.change(inputs, false).unwrap()
}

/// What a repository has after a change, as the next import reads it.
fn after(change: &Change) -> Import {
    let read =
        |path: &str| change.written.iter().find(|(written, _)| written == path).map(|(_, content)| content.clone());
    Import::new(Import::READS.map(|(path, _)| read(path))).unwrap()
}

#[test]
fn what_is_imported_is_recorded_by_its_hash() {
    let folder = Folder::new();
    let flux = Input::read(&folder.file("install.yaml", flux(&["v2"]))).unwrap();
    // The oracle: sha256sum(1), in the test of the command.
    assert_eq!(flux.sha256.len(), 64);
    let chart = Input::read(&folder.chart(ABOUT)).unwrap();
    let change = imported(&Import::default(), &[flux.clone(), chart.clone()]);
    let record = &change.record;
    assert_eq!(record.flux.as_ref().map(|flux| flux.version.as_deref()), Some(Some("v2.7.5")));
    assert_eq!(record.flux.as_ref().map(|recorded| &recorded.sha256), Some(&flux.sha256));
    assert_eq!(record.sealed_secrets.as_ref().map(|recorded| &recorded.sha256), Some(&chart.sha256));
    let path = |path: &str| change.written.iter().find(|(written, _)| written == path).map(|(_, content)| content);
    let Content::Flux(set) = &flux.content else { panic!() };
    assert_eq!(path("flux-system/flux-system.yaml").unwrap(), set.text().as_bytes(), "byte for byte");
    assert_eq!(path("edge-cluster/charts/sealed-secrets/Chart.yaml").unwrap(), ABOUT.as_bytes());
    let about = String::from_utf8(path("edge-cluster/Chart.yaml").unwrap().clone()).unwrap();
    assert!(about.contains("version: \"2.13.3\"") && about.contains("alias: sealedSecrets"), "{about}");
    assert_eq!(imported(&Import::default(), &[chart, flux]), change, "the order says nothing");
}

#[test]
fn what_is_not_imported_anew_stays() {
    let folder = Folder::new();
    let flux_input = Input::read(&folder.file("install.yaml", flux(&["v2"]))).unwrap();
    let chart = Input::read(&folder.chart(ABOUT)).unwrap();
    let first = imported(&Import::default(), &[flux_input, chart]);
    let second = imported(&after(&first), &[]);
    assert_eq!(second.record, first.record);
    assert!(second.written.iter().all(|(path, _)| !path.contains("flux-system") && !path.contains("sealed-secrets")));
    assert!(second.deleted.iter().all(|path| !path.contains("charts")));
    // The chart of ours still has the one below it.
    let about = second.written.iter().find(|(path, _)| path == "edge-cluster/Chart.yaml").unwrap();
    assert!(String::from_utf8_lossy(&about.1).contains("2.13.3"));
}

#[test]
fn a_flux_that_drops_a_version_waits_for_the_clusters() {
    let folder = Folder::new();
    let read = |name: &str, helm: &[&str]| Input::read(&folder.file(name, flux(helm))).unwrap();
    let first = imported(&Import::default(), &[read("old.yaml", &["v2beta1", "v2"])]);
    let there = after(&first);
    let new = read("new.yaml", &["v2"]);
    let refused = there.change(std::slice::from_ref(&new), false).unwrap_err().to_string();
    assert!(
        refused.contains("helmreleases.helm.toolkit.fluxcd.io v2beta1") && refused.contains("flux migrate"),
        "{refused}"
    );
    let change = there.change(std::slice::from_ref(&new), true).unwrap();
    assert_eq!(change.record.flux.unwrap().sha256, new.sha256);
    // More versions are no reason to wait, and neither are the same.
    imported(&there, &[read("more.yaml", &["v2beta1", "v2", "v3"])]);
    imported(&there, &[read("same.yaml", &["v2", "v2beta1"])]);
    imported(&Import::default(), &[new]);
}

#[test]
fn an_archive_is_read_as_its_directory_is() {
    let folder = Folder::new();
    let files: [(&str, &[u8]); 2] = [
        ("sealed-secrets/Chart.yaml", ABOUT.as_bytes()),
        ("sealed-secrets/templates/deployment.yaml", b"kind: Deployment\n"),
    ];
    let packed = Input::read(&folder.file("chart.tgz", archive(&files))).unwrap();
    let unpacked = Input::read(&folder.chart(ABOUT)).unwrap();
    assert_eq!(packed.content, unpacked.content);
    assert_ne!(packed.sha256, unpacked.sha256, "a file is known by its own bytes");
}

#[test]
fn hostile_archives_are_refused() {
    let folder = Folder::new();
    let about: (&str, &[u8]) = ("c/Chart.yaml", ABOUT.as_bytes());
    for path in ["c/../../x", "/c/x", "../x", "c/a b", "c/.git/config", "c/a\"b", "x"] {
        let said = told(&folder.file("bad.tgz", archive(&[about, (path, b"x")])));
        assert!(
            said.contains("leads out of the chart") || said.contains("is no path that is imported"),
            "{path}: {said}"
        );
    }
    let large = vec![0; 5 << 20];
    assert!(told(&folder.file("large.tgz", archive(&[about, ("c/x", &large)]))).contains("more than 4194304 bytes"));
    assert!(told(&folder.file("twice.tgz", archive(&[about, about]))).contains("twice"));
    let many: Vec<String> = (0..501).map(|number| format!("c/{number}")).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|path| (path.as_str(), &b"x"[..])).collect();
    assert!(told(&folder.file("many.tgz", archive(&many))).contains("more than 500 files"));
    let whole = archive(&[about]);
    for end in 0..whole.len() {
        // What is missing at the end may be its padding alone.
        let _read = Input::read(&folder.file("half.tgz", &whole[..end]));
    }
    assert!(told(&folder.file("half.tgz", &whole[..whole.len() / 2])).contains("is no chart of Sealed Secrets"));
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    builder.append_link(&mut header, "c/x", "/etc/passwd").unwrap();
    let linked = builder.into_inner().unwrap().finish().unwrap();
    assert!(told(&folder.file("linked.tgz", linked)).contains("is no file"));
}

#[test]
fn what_is_something_else_is_named() {
    let folder = Folder::new();
    assert!(told(&folder.file("a.txt", "x")).contains("is neither"));
    assert!(told(Path::new("/nonexistent.yaml")).contains("cannot be read"));
    assert!(told(&folder.file("install.yaml", "kind: x\n")).contains("document 1 has no texts"));
    assert!(told(&folder.file("install.yaml", "a: [\n")).contains("no complete set of Flux's manifests"));
    let without = flux(&["v2"]).replace("helm-controller", "other");
    assert!(told(&folder.file("install.yaml", without)).contains("has no Deployment helm-controller"));
    assert!(
        told(&folder.file("install.yaml", flux(&["v2beta1"]))).contains("helmreleases.helm.toolkit.fluxcd.io v2; take")
    );
    let elsewhere = flux(&["v2"]).replace("namespace: flux-system", "namespace: flux");
    assert!(told(&folder.file("install.yaml", elsewhere)).contains("not in the namespace flux-system"));
    let mut file = fs::File::create(folder.0.path().join("large.yaml")).unwrap();
    file.write_all(&vec![b'#'; (8 << 20) + 1]).unwrap();
    assert!(told(&folder.0.path().join("large.yaml")).contains("more than 8388608 bytes"));
    for (about, why) in [
        ("name: other\nversion: 1.0.0\n", "it is the chart \"other\""),
        ("name: sealed-secrets\nversion: \"$(x)\"\n", "its version is"),
        ("name: sealed-secrets\n", "its Chart.yaml"),
    ] {
        let folder = Folder::new();
        let said = told(&folder.chart(about));
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn the_crate_carries_every_file_of_our_chart() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../edge/chart/edge-cluster");
    let mut there = Vec::new();
    for place in ["", "crds", "templates"] {
        for entry in fs::read_dir(root.join(place)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                let name = entry.file_name().into_string().unwrap();
                there.push(if place.is_empty() { name } else { format!("{place}/{name}") });
            }
        }
    }
    there.sort();
    let carried = edge_cluster(None);
    assert_eq!(carried.keys().cloned().collect::<Vec<_>>(), there);
    let about = String::from_utf8_lossy(&carried["Chart.yaml"]);
    assert!(
        about.contains(&format!("\nversion: {CHART_VERSION}\n"))
            && about.contains(&format!("\nappVersion: {CHART_VERSION}\n"))
    );
}
