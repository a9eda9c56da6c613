//! Images without Kubernetes in them, whose nodes get its components.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Output};

use latchkey_image::systemd::StateDirectory;
use latchkey_image::{Image, ImageConfig, Source};
use latchkey_initramfs::elf_sample;
use latchkey_kubernetes::{Roles, Table};
use serde_json::{Value, json};

use crate::disk::build;
use crate::kubernetes::{all, refused, sample, table};
use crate::sample::Sample;
use crate::systemd::contents;

const PLACE: &str = "/run/latchkey-components";

fn image(sample: &Sample, program: &[u8]) -> Image {
    let table = Table::parse(table(&all(sample)).as_bytes()).unwrap();
    let program = Source::Bytes(program.to_vec());
    let kubernetes = latchkey_image::Kubernetes::fetched(&table, Roles::default(), program);
    let mut image = sample.image();
    image.systemd = Some(kubernetes.systemd(serde_json::from_str(r#"{"state": {}}"#).unwrap()).unwrap());
    image.kubernetes = Some(kubernetes);
    image
}

#[test]
fn it_has_what_gets_the_components_and_runs_them_where_they_are_verified() {
    let sample = sample();
    let program = elf_sample::static_executable();
    let image = image(&sample, &program);
    let lasting = &image.systemd.as_ref().unwrap().state.as_ref().unwrap().persist;
    let lasting: Vec<&str> = lasting.directories().iter().map(StateDirectory::path).collect();
    assert!(lasting.contains(&"/var/lib/latchkey/components"), "{lasting:?}");
    let built = build(&image, &sample.out("a"));
    let Some(files) = contents(&sample, &built) else { return };
    let any = |line: &str| files.iter().any(|file| file.starts_with(line));
    assert!(any(&format!("usr/bin/latchkey-components 100755 {} ", program.len())));
    for name in ["kubelet", "kubeadm", "kubectl", "containerd", "runc"] {
        assert!(!any(&format!("usr/bin/{name} ")), "{name} is in the image");
    }
    // Nothing of it runs before it is verified: the agent starts containerd and the kubelet.
    assert!(!files.iter().any(|file| file.contains("target.wants/containerd.service")));
    let text = |path: &str| fs::read_to_string(sample.path("unpacked").join(path)).unwrap();
    let units = "usr/lib/systemd/system";
    assert!(text(&format!("{units}/containerd.service")).contains(&format!("\nExecStart={PLACE}/containerd ")));
    assert!(text(&format!("{units}/kubelet.service")).contains(&format!("\nExecStart={PLACE}/kubelet\n")));
    let config = text("usr/lib/latchkey/containerd.toml");
    for line in [
        "sandbox_image = \"registry.k8s.io/pause:3.10.1\"".to_owned(),
        format!("bin_dir = \"{PLACE}\""),
        format!("BinaryName = \"{PLACE}/runc\""),
    ] {
        assert!(config.contains(&line), "{line}: {config}");
    }
    for unit in ["containerd", "kubelet"] {
        assert!(any(&format!("{units}/{unit}.service.d/70-latchkey-components.conf 100644 ")), "{unit}");
    }
    assert!(text(&format!("{units}/latchkey-component-images.service")).contains("\nRequires=containerd.service\n"));
}

#[test]
fn a_root_s_own_runtime_is_used_and_stays_measured() {
    let sample = sample();
    for path in ["usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/bin/runc"] {
        crate::kubernetes::program(&sample.path("root"), path);
    }
    let unit = sample.path("root/usr/lib/systemd/system/containerd.service");
    fs::create_dir_all(unit.parent().unwrap()).unwrap();
    fs::write(&unit, "[Service]\n").unwrap();
    let built = build(&image(&sample, &elf_sample::static_executable()), &sample.out("a"));
    let Some(files) = contents(&sample, &built) else { return };
    assert!(files.iter().any(|file| file.contains("target.wants/containerd.service")), "it is the image's");
    let text = |path: &str| fs::read_to_string(sample.path("unpacked").join(path)).unwrap();
    assert!(text("usr/lib/latchkey/containerd.toml").contains("BinaryName = \"/usr/bin/runc\""));
    let drop_in = text("usr/lib/systemd/system/containerd.service.d/50-latchkey.conf");
    assert!(drop_in.contains("\nExecStart=/usr/bin/containerd "), "{drop_in}");
}

#[test]
fn what_gets_components_is_a_static_program_and_words_do_not_contradict_each_other() {
    let sample = sample();
    let error = refused(&image(&sample, b"#!/bin/sh"), &sample);
    assert!(error.to_string().contains("latchkey-components: ") && error.remedy().contains("musl"), "{error}");
    fs::write(sample.path("table.json"), table(&all(&sample))).unwrap();
    let said = |kubernetes: Value| {
        let config = json!({
            "schema": 1, "name": "edge", "version": "1.0.0", "kernel": "k", "modules": "m", "agent": "a", "root": "r",
            "command_line": "", "machines": [], "kubernetes": kubernetes, "systemd": {"state": {}},
        });
        let config = ImageConfig::parse(config.to_string().as_bytes()).unwrap();
        config.image(&sample.path("")).map(drop).map_err(|error| error.to_string())
    };
    said(json!({"fetched_by": "latchkey-components", "table": "table.json"})).unwrap();
    for (kubernetes, text) in [
        (json!({}), "neither \"version\""),
        (json!({"fetched_by": "c", "version": "1.34"}), "and also \"version\""),
        (json!({"fetched_by": "c", "components": "parts"}), "and also \"components\""),
        (json!({"fetched_by": "c", "images": "parts"}), "and also \"images\""),
    ] {
        let error = said(kubernetes).unwrap_err();
        assert!(error.contains(text), "{text}: {error}");
    }
}

/// The image's script on files of its own, with a `ctr` that writes down how it is called.
struct Script(tempfile::TempDir);

impl Script {
    fn new(images: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["store/abc/programs", "store/abc/downloads", "containerd", "bin"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        symlink(at("store/abc/programs"), at("components")).unwrap();
        fs::write(at("store/abc/images"), images).unwrap();
        let ctr = format!("#!/bin/sh\necho \"$@\" >> {}\n[ ! -e {} ]\n", at("calls").display(), at("broken").display());
        fs::write(at("bin/ctr"), ctr).unwrap();
        fs::set_permissions(at("bin/ctr"), fs::Permissions::from_mode(0o755)).unwrap();
        Self(directory)
    }

    fn run(&self) -> (Output, Vec<String>) {
        let here = self.0.path().display().to_string();
        let script = include_str!("../../kubernetes/component-images")
            .replace("/run/latchkey-components", &format!("{here}/components"))
            .replace("/var/lib/containerd", &format!("{here}/containerd"))
            .replace("@PAUSE@", "registry.k8s.io/pause:3.10.1");
        let path = format!("{here}/bin:/usr/bin:/bin");
        let done = Command::new("sh").arg("-c").arg(script).env("PATH", path).output().unwrap();
        let calls = fs::read_to_string(self.0.path().join("calls")).unwrap_or_default();
        let _ = fs::remove_file(self.0.path().join("calls"));
        (done, calls.lines().map(|line| line.replace(&here, "")).collect())
    }
}

#[test]
fn containerd_is_given_each_image_of_a_list_once_and_knows_the_pause_image_by_its_own_name() {
    let script = Script::new("coredns-1.tar registry.k8s.io/coredns:1\npause-3.9.tar registry.k8s.io/pause:3.9\n");
    fs::write(script.0.path().join("broken"), "").unwrap();
    let (done, _) = script.run();
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(
        !done.status.success() && said.contains("does not take coredns-1.tar as registry.k8s.io/coredns:1"),
        "{said}"
    );
    fs::remove_file(script.0.path().join("broken")).unwrap();
    // What was not done is done by the next boot, and what is done is not done again.
    let (done, calls) = script.run();
    assert!(done.status.success(), "{done:?}");
    let import = |file: &str, name: &str| {
        format!("--namespace k8s.io images import --index-name {name} /store/abc/downloads/{file}")
    };
    assert_eq!(
        calls,
        [
            import("coredns-1.tar", "registry.k8s.io/coredns:1"),
            import("pause-3.9.tar", "registry.k8s.io/pause:3.9"),
            "--namespace k8s.io images tag --force registry.k8s.io/pause:3.9 registry.k8s.io/pause:3.10.1".to_owned(),
        ]
    );
    let (done, calls) = script.run();
    assert!(done.status.success() && calls.is_empty(), "{calls:?}");
}

/// A `ctr` that knows names and digests, and a registry that has one image; it writes down what changes something.
const CTR: &str = r#"#!/bin/sh
shift 3
case $1 in
    ls)
        echo "REF TYPE DIGEST SIZE"
        sed -n "s|^${2#name==} \(.*\)|${2#name==} application/x \1 1|p" "$HERE/names"
        exit
        ;;
    pull)
        echo "$@" >>"$HERE/calls"
        grep -qx "$2" "$HERE/registry" || exit 1
        echo "$2 ${2#*@}" >>"$HERE/names"
        ;;
    tag)
        echo "$@" >>"$HERE/calls"
        digest=$(sed -n "s|^$3 ||p" "$HERE/names")
        sed -i "\|^$4 |d" "$HERE/names"
        echo "$4 $digest" >>"$HERE/names"
        ;;
esac
"#;

#[test]
fn an_image_that_a_list_has_by_its_digest_alone_is_that_one_at_each_start_or_the_kubelet_does_not_start() {
    let (right, wrong) = (format!("sha256:{}", "a".repeat(64)), format!("sha256:{}", "b".repeat(64)));
    let script = Script::new(&format!("- registry.k8s.io/etcd:3.6 {right}\n"));
    let at = |name: &str| script.0.path().join(name);
    fs::write(at("bin/ctr"), CTR.replace("$HERE", &script.0.path().display().to_string())).unwrap();
    fs::write(at("bin/sleep"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(at("bin/sleep"), fs::Permissions::from_mode(0o755)).unwrap();
    // Another image has its name, and the registry has none.
    fs::write(at("names"), format!("registry.k8s.io/etcd:3.6 {wrong}\n")).unwrap();
    fs::write(at("registry"), "").unwrap();
    let (done, calls) = script.run();
    let said = String::from_utf8(done.stdout).unwrap();
    let pull = format!("pull registry.k8s.io/etcd@{right}");
    assert!(!done.status.success() && said.contains(&pull["pull ".len()..]) && said.contains("an archive"), "{said}");
    assert_eq!(calls, [&*pull, &pull, &pull]);

    fs::write(at("registry"), format!("registry.k8s.io/etcd@{right}\n")).unwrap();
    let (done, calls) = script.run();
    let tag = format!("tag --force registry.k8s.io/etcd@{right} registry.k8s.io/etcd:3.6");
    assert!(done.status.success(), "{done:?}");
    assert_eq!(calls, [&*pull, &tag]);
    let names = fs::read_to_string(at("names")).unwrap();
    assert!(names.contains(&format!("registry.k8s.io/etcd:3.6 {right}\n")) && !names.contains(&wrong), "{names}");

    // The next start needs no registry; and takes the name back from whoever gave it to another image.
    fs::write(at("registry"), "").unwrap();
    let (done, calls) = script.run();
    assert!(done.status.success() && calls.is_empty(), "{calls:?}");
    fs::write(at("names"), format!("registry.k8s.io/etcd:3.6 {wrong}\n")).unwrap();
    assert!(!script.run().0.status.success());
    let kubelet = include_str!("../../kubernetes/kubelet-components.conf");
    assert!(kubelet.contains("\nRequires=latchkey-component-images.service\n"), "{kubelet}");
}
