//! Boots of images with other container images than the disk has seen: what becomes of containerd's directory.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::sample::Sample;

/// The script of the image, on directories of the sample; `cut` is the command at which the power is cut.
fn boot(sample: &Sample, version: &str, cut: Option<&str>) -> bool {
    let (store, state) = (sample.path(version), sample.path("containerd"));
    let script = include_str!("../../kubernetes/container-images")
        .replace("from=/usr/lib/latchkey/containers", &format!("from={}", store.display()))
        .replace("to=/var/lib/containerd", &format!("to={}", state.display()));
    let cut = match cut {
        Some(MIDDLE) => MIDDLE.to_owned(),
        Some(command) => format!("{command}() {{ exit 9; }}\n"),
        None => String::new(),
    };
    Command::new("sh").arg("-c").arg(cut + &script).output().unwrap().status.success()
}

const MIDDLE: &str = r#"rm() {
    [ "$1" != -rf ] || { command rm -rf "$2"; exit 9; }
    command rm "$@"
}
"#;

fn store(sample: &Sample, version: &str) {
    let store = sample.path(version);
    let snapshotter = store.join("io.containerd.snapshotter.v1.overlayfs");
    for directory in ["io.containerd.metadata.v1.bolt", "io.containerd.content.v1.content/blobs/sha256"] {
        fs::create_dir_all(store.join(directory)).unwrap();
    }
    fs::create_dir_all(snapshotter.join("snapshots/1/fs")).unwrap();
    fs::write(store.join("io.containerd.metadata.v1.bolt/meta.db"), version).unwrap();
    fs::write(snapshotter.join("metadata.db"), version).unwrap();
    fs::write(sample.path(&format!("{version}.id")), version).unwrap();
}

#[test]
fn a_newer_image_begins_anew_and_a_power_cut_in_the_middle_harms_neither_it_nor_the_one_before() {
    let sample = Sample::new();
    let state = sample.path("containerd");
    fs::create_dir(&state).unwrap();
    let has = |version: &str| {
        let whole = fs::read_to_string(state.join("io.containerd.metadata.v1.bolt/meta.db")).unwrap() == version
            && fs::read_to_string(state.join("io.containerd.snapshotter.v1.overlayfs/metadata.db")).unwrap() == version
            && state.join("io.containerd.content.v1.content/blobs/sha256").exists()
            && fs::read_link(state.join("io.containerd.snapshotter.v1.overlayfs/snapshots/1")).unwrap()
                == sample.path(version).join("io.containerd.snapshotter.v1.overlayfs/snapshots/1");
        whole && !state.join("io.containerd.snapshotter.v1.overlayfs/snapshots/7").exists()
    };
    for version in ["one", "two"] {
        store(&sample, version);
    }
    // A root without container images changes nothing of what is from registries alone.
    fs::write(state.join("pulled"), "").unwrap();
    assert!(boot(&sample, "none", None) && state.join("pulled").exists());
    assert!(boot(&sample, "one", None) && has("one"));
    // What containerd made in between stays over a boot, until there is another image.
    fs::create_dir(state.join("io.containerd.snapshotter.v1.overlayfs/snapshots/7")).unwrap();
    assert!(boot(&sample, "one", Some("rm")) && !has("one"));
    // The last one: in the middle of what an earlier image left.
    for cut in ["rm", "mkdir", "cp", "ln", "mv", MIDDLE] {
        assert!(!boot(&sample, "two", Some(cut)), "{cut}");
        assert!(boot(&sample, "two", None) && has("two"), "{cut}");
        assert!(!boot(&sample, "one", Some(cut)), "{cut}");
        // Back to the image before, which finds half of the other.
        assert!(boot(&sample, "two", None) && has("two"), "{cut}");
        assert!(boot(&sample, "one", None) && has("one"), "{cut}");
        // The image after it has none: no link into the root is left, wherever the power was cut.
        assert!(!boot(&sample, "two", Some(cut)), "{cut}");
        assert!(boot(&sample, "none", None) && empty(&state), "{cut}");
        assert!(boot(&sample, "one", None) && has("one"), "{cut}");
        // That takes no new directory and no link. Half of it passes for nothing that is whole.
        let done = boot(&sample, "none", Some(cut));
        assert_eq!(done, ["mkdir", "ln"].contains(&cut), "{cut}");
        assert!(boot(&sample, "one", None) && has("one"), "{cut}");
        boot(&sample, "none", Some(cut));
        assert!(boot(&sample, "none", None) && empty(&state), "{cut}");
        assert!(boot(&sample, "one", None) && has("one"), "{cut}");
    }
}

fn empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}
