use super::*;

const HASH: &str = "00000000000000000000000000000000000000000000000000000000000000aa";

fn component(name: &str, version: &str, path: &str) -> String {
    format!(
        r#"{{"name": "{name}", "version": "{version}", "sha256": "{HASH}", "max_bytes": 10, "install": {{"file": "{path}"}}}}"#
    )
}

/// A table of one release with these further components, images and fields of the table.
fn table(version: &str, components: &[String], images: &str, more: &str) -> Result<Table, String> {
    let components = components.join(", ");
    let text = format!(
        r#"{{"schema": 1, "architecture": "x86_64", "versions": [
            {{"version": "{version}", "components": [{components}], "images": [{images}]}}]{more}}}"#
    );
    Table::parse(text.as_bytes()).map_err(|error| error.to_string())
}

fn own() -> Vec<String> {
    vec![component("kubeadm", "1.34.4", "/usr/bin/kubeadm"), component("kubelet", "1.34.4", "/usr/bin/kubelet")]
}

fn pause() -> String {
    format!(r#"{{"name": "registry.k8s.io/pause", "tag": "3.10.1", "digest": "sha256:{HASH}"}}"#)
}

#[test]
fn the_built_in_table_passes_its_own_checks_and_every_component_has_an_official_address() {
    let table = Table::built_in().unwrap();
    let minors: Vec<String> = table.minors().map(|minor| minor.to_string()).collect();
    assert_eq!(minors, ["1.33", "1.34", "1.35"]);
    for minor in table.minors() {
        let release = table.release(minor).unwrap();
        assert_eq!(release.version().minor(), minor);
        let downloads = release.downloads(&Roles::default());
        assert!(
            downloads.iter().all(|download| download.url.as_deref().is_some_and(|url| url.starts_with("https://")))
        );
        let names: Vec<&str> = release.components.iter().map(Component::name).collect();
        assert_eq!(names, ["kubeadm", "kubelet", "kubectl", "containerd", "runc", "cni-plugins"]);
    }
}

#[test]
fn a_worker_carries_less_than_a_control_plane() {
    let table = Table::built_in().unwrap();
    let release = table.release("1.34".parse().unwrap()).unwrap();
    let names = |roles: &str| {
        let roles: Roles = serde_json::from_str(roles).unwrap();
        let components: Vec<&str> = release.components(&roles).map(Component::name).collect();
        let images: Vec<&str> = release.images(&roles).map(Image::tag).collect();
        (components.contains(&"kubectl"), images.len())
    };
    assert_eq!(names(r#"["worker"]"#), (false, 2));
    assert_eq!(names(r#"["control-plane"]"#), (true, 3));
}

#[test]
fn versions_that_are_not_there_are_refused_with_those_that_are() {
    let table = Table::built_in().unwrap();
    let refused = |text: &str| table.release(text.parse().unwrap()).unwrap_err();
    assert_eq!(refused("1.29").to_string(), "Kubernetes 1.29 is too old: the version table has 1.33, 1.34, 1.35");
    assert_eq!(refused("1.29").code(), KubernetesCode::VersionTooOld);
    assert_eq!(refused("1.99").to_string(), "Kubernetes 1.99 is not in the version table, which has 1.33, 1.34, 1.35");
    assert_eq!(refused("1.99").code(), KubernetesCode::VersionUnknown);
}

#[test]
fn a_table_of_one_s_own_may_leave_runtime_and_addresses_out() {
    let table = table("1.34.4", &own(), &pause(), "").unwrap();
    let release = table.release("1.34".parse().unwrap()).unwrap();
    assert_eq!(release.pause().unwrap().reference().to_string(), "registry.k8s.io/pause:3.10.1");
    assert!(release.downloads(&Roles::default()).iter().all(|download| download.url.is_none()));
}

#[test]
fn what_contradicts_itself_is_refused_by_name() {
    let with = |more: String| {
        let mut components = own();
        components.push(more);
        components
    };
    let other = format!(r#"{{"name": "a.b/c", "tag": "1"}}, {}"#, pause());
    let many: Vec<String> =
        (0..40).map(|number| component(&format!("x{number}"), "1", &format!("/usr/bin/x{number}"))).collect();
    for (components, images, said) in [
        (own()[..1].to_vec(), pause(), "kubelet is not there, in version 1.34.4"),
        (
            vec![own()[0].clone(), component("kubelet", "1.34.3", "/usr/bin/kubelet")],
            pause(),
            "kubelet is not there, in version 1.34.4",
        ),
        (
            vec![own()[0].clone(), own()[1].replace(r#""max_bytes""#, r#""roles": ["worker"], "max_bytes""#)],
            pause(),
            "kubelet is not there",
        ),
        (with(component("kubelet", "2", "/usr/bin/x")), pause(), "kubelet is there twice"),
        (with(component("other", "1", "/usr/bin/kubelet")), pause(), "/usr/bin/kubelet is there twice"),
        (with(component("x", "1", "/etc/passwd")), pause(), "/etc/passwd"),
        (with(component("x", "1", "/usr/bin/x").replace("10", "0")), pause(), "\"max_bytes\" is 0"),
        (with(component("x", "1", "/usr/bin/x").replace("10", "1073741825")), pause(), "\"max_bytes\" is 1073741825"),
        (with(component("x", "1", "/usr/bin/x").replace("max_bytes", "size")), pause(), "unknown field `size`"),
        (own(), other, "a.b/c:1 has neither \"digest\" nor \"archive\""),
        (own(), pause().replace("pause", "break"), "/pause"),
        (own(), format!("{}, {}", pause(), pause()), "registry.k8s.io/pause is there twice"),
        (own(), String::new(), "images: 0"),
        (many, pause(), "components: 40"),
    ] {
        let error = table("1.34.4", &components, &images, "").unwrap_err();
        assert!(error.contains(said), "{said}: {error}");
    }
    let error = table("1.34", &own(), &pause(), "").unwrap_err();
    assert!(error.contains("\"1.34\" is no exact version"), "{error}");
    let error = table("1.34.4", &own(), &pause(), r#", "more": 1"#).unwrap_err();
    assert!(error.contains("unknown field `more`"), "{error}");
}

#[test]
fn one_minor_has_one_exact_version_and_one_file_name_one_hash() {
    let release = |version: &str, hash: &str| {
        let component = |name: &str| component(name, version, &format!("/usr/bin/{name}"));
        let runc =
            component("runc").replace(&format!(r#""version": "{version}""#), r#""version": "1.3""#).replace(HASH, hash);
        let components = [component("kubeadm"), component("kubelet"), runc].join(", ");
        format!(r#"{{"version": "{version}", "components": [{components}], "images": [{}]}}"#, pause())
    };
    let two = |one: &str, other: &str| {
        let text = format!(r#"{{"schema": 1, "architecture": "x86_64", "versions": [{one}, {other}]}}"#);
        Table::parse(text.as_bytes()).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(two(&release("1.34.4", HASH), &release("1.35.1", HASH)), Ok(()));
    assert!(two(&release("1.34.4", HASH), &release("1.34.5", HASH)).unwrap_err().contains("1.34 is there twice"));
    let other = HASH.replace("aa", "bb");
    assert!(two(&release("1.34.4", HASH), &release("1.35.1", &other)).unwrap_err().contains("runc-1.3 has two hashes"));
}

#[test]
fn other_schemas_and_endless_files_are_refused_before_they_are_read() {
    let refused = |text: &[u8]| Table::parse(text).unwrap_err();
    assert!(matches!(refused(br#"{"schema": 2, "anything": true}"#), TableError::Schema(2)));
    assert!(matches!(refused(&vec![b' '; MAX_SIZE + 1]), TableError::TooLong));
    assert!(matches!(refused(b"{"), TableError::Json(_)));
    assert!(matches!(Table::read(Path::new("/nowhere")).unwrap_err(), TableError::Io { .. }));
    assert!(matches!(Table::read(Path::new("/dev/zero")).unwrap_err(), TableError::TooLong));
    let other = r#"{"schema": 1, "architecture": "riscv", "versions": []}"#;
    assert!(refused(other.as_bytes()).to_string().contains("riscv"));
}
