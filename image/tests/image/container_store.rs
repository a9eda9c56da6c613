//! Container images in an image: what is unpacked, what is refused, and what the real containerd thinks of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use latchkey_image::{ContainerImage, ImageCode, Kubernetes};
use latchkey_initramfs::elf_sample;
use latchkey_kubernetes::Sha256;
use latchkey_kubernetes::fetch::Origin;
use latchkey_kubernetes::{Roles, Table};
use serde_json::{Value, json};

use crate::container_archives::Thing::{Directory, File, HardLink, Link};
use crate::container_archives::{config, digest, escaping, layer, layout, saved};
use crate::disk::build;
use crate::kubernetes::{all, refused, sample};
use crate::sample::{RELEASE, Sample, found, run};
use crate::systemd::contents;

/// Layers with everything that is not plain.
fn two_layers() -> Vec<Vec<u8>> {
    vec![
        layer(&[
            ("./", Directory(0o755, 0)),
            ("bin/", Directory(0o755, 0)),
            ("bin/one", File(0o4755, 0, "one")),
            ("bin/same", HardLink("bin/one")),
            ("data/", Directory(0o700, 1000)),
            ("data/gone", File(0o600, 1000, "gone")),
            ("data/kept", File(0o600, 1000, "kept")),
            ("hidden/", Directory(0o755, 0)),
            ("hidden/below", File(0o644, 0, "below")),
            ("capable", File(0o755, 0, "capable")),
        ]),
        layer(&[
            // Without its directory, which has an owner in the layer below.
            ("data/.wh.gone", File(0o644, 0, "")),
            ("data/new", File(0o644, 1000, "new")),
            ("hidden/", Directory(0o755, 0)),
            ("hidden/.wh..wh..opq", File(0o644, 0, "")),
            ("link", Link("bin/one")),
        ]),
    ]
}

/// The sample's folder of images, and the table that names them: one by its hash, one by its digest alone.
fn images(sample: &Sample) -> Vec<Value> {
    fs::create_dir_all(sample.path("images")).unwrap();
    let pause = saved(&[layer(&[("pause", File(0o755, 0, "pause"))])]);
    fs::write(sample.path("images/pause-3.10.1.tar"), &pause).unwrap();
    let (two, pinned) = layout(&two_layers());
    fs::write(sample.path("images/two-v1.tar"), two).unwrap();
    let archive = json!({"sha256": Sha256::of(&pause).to_string(), "max_bytes": 1 << 20});
    vec![
        json!({"name": "registry.k8s.io/pause", "tag": "3.10.1", "archive": archive}),
        json!({"name": "example.com/a/two", "tag": "v1", "digest": pinned}),
    ]
}

fn image_with(sample: &Sample, images: &[Value]) -> latchkey_image::Image {
    let release = json!({"version": "1.34.4", "components": all(sample), "images": images});
    let table = json!({"schema": 1, "architecture": "x86_64", "versions": [release]}).to_string();
    let table = Table::parse(table.as_bytes()).unwrap();
    let components = Origin::Folder(sample.path("components"));
    let kubernetes = Kubernetes::new(&table, "1.34".parse().unwrap(), Roles::default(), components).unwrap();
    let kubernetes = kubernetes.with_images(Origin::Folder(sample.path("images")));
    let mut image = sample.image();
    image.systemd = Some(kubernetes.systemd(serde_json::from_str(r#"{"state": {}}"#).unwrap()).unwrap());
    image.kubernetes = Some(kubernetes);
    image
}

/// An archive beside those of the table, of the same program under this name; its digest.
fn further(sample: &Sample, name: &str, file: &str) -> String {
    let reference = name.to_owned().try_into().unwrap();
    let made = ContainerImage::new(&elf_sample::static_executable(), "program", &reference).unwrap();
    fs::write(sample.path(file), made.archive).unwrap();
    made.digest
}

fn with_further(image: &mut latchkey_image::Image, archive: std::path::PathBuf) {
    image.kubernetes = image.kubernetes.take().map(|kubernetes| kubernetes.with_container_image(archive));
}

fn store_sample() -> Sample {
    let sample = sample();
    let module = sample.path(&format!("root/usr/lib/modules/{RELEASE}/kernel/drivers/block/loop.ko.xz"));
    fs::create_dir_all(module.parent().unwrap()).unwrap();
    fs::write(module, "a module").unwrap();
    sample
}

/// The store of a built image, unpacked into the sample's directory `store`; what it lists.
fn unpacked(sample: &Sample, image: &latchkey_image::Image) -> Option<String> {
    let unsquashfs = found("unsquashfs", "squashfs-tools")?;
    contents(sample, &build(image, &sample.out("image")))?;
    let packed = sample.path("unpacked/usr/lib/latchkey/containers.squashfs");
    let listed = run(Command::new(&unsquashfs).arg("-llnumeric").arg(&packed));
    // As nobody in particular: owners and devices are seen in the list.
    let mut unpack = Command::new(unsquashfs);
    run(unpack.args(["-quiet", "-no-progress", "-dest"]).arg(sample.path("store")).arg(packed));
    Some(listed)
}

#[test]
fn layers_keep_owners_permissions_links_and_what_they_take_away() {
    let sample = store_sample();
    let image = image_with(&sample, &images(&sample));
    let Some(listed) = unpacked(&sample, &image) else { return };
    let snapshot = "squashfs-root/io.containerd.snapshotter.v1.overlayfs/snapshots";
    for (permissions, owner, path) in [
        ("-rwxr-xr-x", "0/0", "1/fs/pause"),
        ("-rwsr-xr-x", "0/0", "2/fs/bin/one"),
        ("-rwsr-xr-x", "0/0", "2/fs/bin/same"),
        ("drwx------", "1000/1000", "2/fs/data"),
        ("-rw-------", "1000/1000", "2/fs/data/kept"),
        ("drwx------", "1000/1000", "3/fs/data"),
        ("c---------", "0/0", "3/fs/data/gone"),
        ("-rw-r--r--", "1000/1000", "3/fs/data/new"),
        ("drwx------", "0/0", "3"),
    ] {
        let line = listed.lines().find(|line| line.ends_with(&format!(" {snapshot}/{path}")));
        let line = line.unwrap_or_else(|| panic!("{path}: {listed}"));
        // A whiteout has the permissions of the file that says it.
        let kind = if permissions.starts_with('c') { "crw-r--r--" } else { permissions };
        assert!(line.starts_with(kind) && line.contains(&format!(" {owner} ")), "{path}: {line}");
    }
    assert!(listed.contains(&format!("{snapshot}/3/fs/link -> bin/one")), "{listed}");
    assert!(!listed.contains(".wh."), "{listed}");
    let said = run(Command::new("python3").args(["-c", ATTRIBUTES]).arg(sample.path("store")));
    assert_eq!(said.trim(), "capable");
}

/// What a file of the first layer says in an attribute.
const ATTRIBUTES: &str = "import os, sys
print(os.getxattr(sys.argv[1] + '/io.containerd.snapshotter.v1.overlayfs/snapshots/2/fs/capable', 'user.said').decode())";

#[test]
fn equal_archives_give_equal_bytes_on_any_day() {
    let (one, other) = (store_sample(), store_sample());
    let (image, again) = (image_with(&one, &images(&one)), image_with(&other, &images(&other)));
    other.age();
    assert_eq!(build(&image, &one.out("a")).parts, build(&again, &other.out("b")).parts);
}

/// What is wrong, in the folder or in the table's images.
type Change<'a> = &'a dyn Fn(&Sample, &mut Vec<Value>);

#[test]
fn another_image_under_the_name_a_damaged_layer_or_none_is_refused() {
    let with = |change: Change<'_>| {
        let sample = store_sample();
        let mut images = images(&sample);
        change(&sample, &mut images);
        let image = image_with(&sample, &images);
        refused(&image, &sample)
    };
    let two = |sample: &Sample, content: &[u8]| fs::write(sample.path("images/two-v1.tar"), content).unwrap();
    let hash = |images: &mut Vec<Value>, content: &[u8]| {
        images[0]["archive"]["sha256"] = json!(Sha256::of(content).to_string());
    };
    let pause = |sample: &Sample, images: &mut Vec<Value>, content: &[u8]| {
        fs::write(sample.path("images/pause-3.10.1.tar"), content).unwrap();
        hash(images, content);
    };
    let escaping = escaping();
    let cases: [(&str, Change<'_>); 7] = [
        ("its SHA-256 is", &|sample, _| fs::write(sample.path("images/pause-3.10.1.tar"), "other").unwrap()),
        ("it has no image with the digest sha256:", &|sample, _| two(sample, &layout(&[layer(&[])]).0)),
        ("is named sha256:", &|sample, _| {
            let text = fs::read(sample.path("images/two-v1.tar")).unwrap();
            let at = text.windows(8).position(|piece| piece == b"arm64\",\"").unwrap();
            let mut text = text;
            text[at] = b'x';
            two(sample, &text);
        }),
        ("it has no file \"manifest.json\"", &|sample, images| pause(sample, images, b"")),
        ("No such file", &|sample, _| fs::remove_file(sample.path("images/two-v1.tar")).unwrap()),
        ("a hard link leads to \"etc/shadow\", which is not in the same layer", &|sample, images| {
            pause(sample, images, &saved(&[layer(&[("x", HardLink("/etc/shadow"))])]));
        }),
        ("\"../x\" leads out of the layer", &|sample, images| {
            pause(sample, images, &saved(std::slice::from_ref(&escaping)));
        }),
    ];
    for (said, change) in cases {
        let error = with(change);
        assert!(
            matches!(error.code(), ImageCode::ContainerImageFailed | ImageCode::ComponentFailed),
            "{said}: {:?}",
            error.code()
        );
        assert!(error.to_string().contains(said) && !error.remedy().is_empty(), "{said}: {error}");
    }
}

#[test]
fn a_further_image_has_its_own_name_in_it_and_no_other_ones() {
    let with = |archives: &[&str]| {
        let sample = store_sample();
        let mut image = image_with(&sample, &images(&sample));
        further(&sample, "edge.example/krb-keys:7", "one.tar");
        further(&sample, "registry.k8s.io/pause:3.10.1", "pause.tar");
        let layers = [layer(&[("x", File(0o755, 0, "x"))])];
        fs::write(sample.path("foreign.tar"), saved(&layers)).unwrap();
        fs::write(sample.path("nameless.tar"), layout(&layers).0).unwrap();
        for archive in archives {
            with_further(&mut image, sample.path(archive));
        }
        refused(&image, &sample)
    };
    let cases: [(&[&str], &str); 5] = [
        (&["one.tar", "one.tar"], "there are two archives of edge.example/krb-keys:7"),
        (&["pause.tar"], "there are two archives of registry.k8s.io/pause:3.10.1"),
        (&["foreign.tar"], "\"anything\" is no image like"),
        (&["nameless.tar"], "it does not say what its image is called"),
        (&["missing.tar"], "No such file"),
    ];
    for (archives, said) in cases {
        let error = with(archives);
        assert!(error.to_string().contains(said) && !error.remedy().is_empty(), "{said}: {error}");
    }
}

/// Starts containerd with the directory `$1/root`, for commands with its client (`c`) that come after; to be run in name spaces of
/// their own, so that nobody needs privileges.
pub(crate) const CONTAINERD: &str = r#"set -eu
cd "$1"
cat > containerd.toml <<TOML
version = 2
root = "$1/root"
state = "$1/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "$1/socket"
TOML
containerd --config containerd.toml > log 2>&1 &
daemon=$!
trap 'kill $daemon && wait $daemon || true' EXIT
c() { ctr --address socket --namespace k8s.io "$@"; }
until c version > /dev/null 2>&1; do kill -0 $daemon || { cat log; exit 1; }; done
"#;

/// With a copy of the store as its directory, as a machine has it.
const COMMANDS: &str = r#"c images ls
echo "= view"
c snapshots view --target /x seen "$2"
echo "= changed"
c images ls -q | grep two | xargs ctr --address socket --namespace k8s.io images rm --sync > /dev/null
c images rm --sync "$3" > /dev/null
c snapshots ls
c snapshots prepare --target /x fresh "$4"
"#;

#[test]
fn containerd_has_the_images_without_importing_and_removes_them_when_it_is_told_to() {
    let sample = store_sample();
    let (Some(_), Some(unshare)) = (found("containerd", "containerd"), found("unshare", "util-linux")) else { return };
    let mut image = image_with(&sample, &images(&sample));
    let further = further(&sample, "edge.example/krb-keys:7", "images/further.tar");
    with_further(&mut image, sample.path("images/further.tar"));
    if unpacked(&sample, &image).is_none() {
        return;
    }
    // As the unit of the image does it.
    let (store, root) = (sample.path("store"), sample.path("root-of-containerd/root"));
    let snapshots = "io.containerd.snapshotter.v1.overlayfs/snapshots";
    fs::create_dir_all(root.join(snapshots)).unwrap();
    copy(&store.join("io.containerd.metadata.v1.bolt"), &root);
    copy(&store.join("io.containerd.content.v1.content"), &root);
    let database = "io.containerd.snapshotter.v1.overlayfs/metadata.db";
    fs::copy(store.join(database), root.join(database)).unwrap();
    for number in ["1", "2", "3", "4"] {
        symlink(store.join(snapshots).join(number), root.join(snapshots).join(number)).unwrap();
    }
    let layers = two_layers();
    let ids: Vec<String> = layers.iter().map(|layer| digest(layer)).collect();
    let chain = digest(format!("{} {}", ids[0], ids[1]).as_bytes());
    let pause = digest(&layer(&[("pause", File(0o755, 0, "pause"))]));
    let config = digest(&config(&layers));
    let mut command = Command::new(unshare);
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &format!("{CONTAINERD}{COMMANDS}"), "sh"]);
    command.arg(root.parent().unwrap()).args([&chain, &config, &pause]);
    let said = run(&mut command);
    let (listed, rest) = said.split_once("= view").unwrap();
    let (seen, changed) = rest.split_once("= changed").unwrap();
    let further = format!("edge.example/krb-keys@{further} ");
    for name in [
        "registry.k8s.io/pause:3.10.1 ",
        "example.com/a/two:v1 ",
        "example.com/a/two@sha256:",
        &config,
        "edge.example/krb-keys:7 ",
        &further,
    ] {
        assert!(listed.contains(name), "{name}: {said}");
    }
    let lower = |number: u32| root.join(snapshots).join(format!("{number}/fs")).display().to_string();
    assert!(seen.contains(&format!("lowerdir={}:{}", lower(3), lower(2))), "{said}");
    // What nothing needs is gone, what is needed is not, and new ones get numbers of their own.
    assert!(!changed.contains(&chain) && changed.contains(&pause), "{said}");
    let fresh = root.join(snapshots).join("6/fs").display().to_string();
    assert!(
        changed.contains(&format!("upperdir={fresh}")) && changed.contains(&format!("lowerdir={}", lower(1))),
        "{said}"
    );
    assert!(!root.join(snapshots).join("3").exists() && store.join(snapshots).join("3").exists(), "{said}");
}

fn copy(from: &Path, into: &Path) {
    run(Command::new("cp").arg("-r").arg(from).arg(into));
}
