//! What the documents, the help and the example describe can be built: of a sample's kernel, agent and root, with their words.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use latchkey_image::{Image, ImageConfig, Source};
use latchkey_initramfs::elf_sample;
use latchkey_measurements::pe_sample;
use serde_json::{Value, json};

use crate::disk::build;
use crate::sample::Sample;

const WALKTHROUGH: &str = include_str!("../../../docs/walkthrough.md");
const HELP: &str = include_str!("../../../cli/src/spec/image.rs");
const EXAMPLE: &str = include_str!("../../examples/edge.json");

/// The text between two others.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, behind) = text.split_once(begin).unwrap();
    behind.split_once(end).unwrap().0
}

/// The configuration as it stands there, of the sample's parts, without keys: nobody signs here.
fn image(sample: &Sample, text: &str) -> Image {
    let mut config: Value = serde_json::from_str(text).unwrap();
    let fields = config.as_object_mut().unwrap();
    for key in ["secure_boot", "signing_key", "qcow2"] {
        fields.remove(key);
    }
    fields.insert("root".to_owned(), json!(sample.path("root")));
    fields.insert("modules".to_owned(), json!(sample.path("modules")));
    let config = ImageConfig::parse(config.to_string().as_bytes()).unwrap();
    let described = config.image(Path::new("/nowhere")).unwrap();
    let Image { kernel, module_names, .. } = sample.image();
    let (agent, stub) = (Source::Bytes(elf_sample::agent()), Source::Bytes(pe_sample::stub(8)));
    Image { kernel, module_names, stub, agent, machines: Vec::new(), ..described }
}

fn program(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "x").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_images_of_the_walkthrough_the_help_and_the_example_all_build() {
    let key = format!("latchkey.join_service_key=sha256:{}", "0".repeat(64));
    let walkthrough = between(WALKTHROUGH, "cat > image.json <<END\n", "END\n");
    let walkthrough = walkthrough.replace("$release", "6.1.0").replace("$(cat join-service-key)", &key);
    let help =
        between(HELP, "CONFIG is closed; paths in it are relative to its directory:", "latchkey.command is a program");
    // What the walkthrough puts into its root, and what the others name.
    assert!(WALKTHROUGH.contains("copy-in cluster-step /usr/local/bin"));
    for text in [walkthrough.as_str(), help, EXAMPLE] {
        let sample = Sample::new();
        for path in ["lib/systemd/systemd", "sbin/init", "usr/local/bin/cluster-step", "bin/step"] {
            program(&sample.path("root").join(path));
        }
        let image = image(&sample, text);
        assert!(image.is_agent);
        build(&image, &sample.out("a"));
    }
}
