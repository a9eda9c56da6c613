//! Archives of container images, as others write them.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use latchkey_kubernetes::Sha256;
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use Thing::{Directory, File, HardLink, Link};

/// One thing in a layer.
pub(crate) enum Thing<'a> {
    Directory(u32, u64),
    File(u32, u64, &'a str),
    Link(&'a str),
    HardLink(&'a str),
}

pub(crate) fn layer(things: &[(&str, Thing<'_>)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, thing) in things {
        let mut header = Header::new_gnu();
        header.set_size(0);
        header.set_mtime(1_600_000_000);
        let (mode, owner) = match thing {
            Directory(mode, owner) | File(mode, owner, _) => (*mode, *owner),
            Link(_) | HardLink(_) => (0o777, 0),
        };
        header.set_mode(mode);
        header.set_uid(owner);
        header.set_gid(owner);
        match thing {
            Directory(..) => header.set_entry_type(EntryType::Directory),
            File(_, _, content) => header.set_size(content.len() as u64),
            Link(_) => header.set_entry_type(EntryType::Symlink),
            HardLink(_) => header.set_entry_type(EntryType::Link),
        }
        if let File(_, _, content @ "capable") = thing {
            builder.append_pax_extensions([("SCHILY.xattr.user.said", content.as_bytes())]).unwrap();
        }
        match thing {
            Link(target) | HardLink(target) => builder.append_link(&mut header, path, target).unwrap(),
            Directory(..) => builder.append_data(&mut header, path, &[][..]).unwrap(),
            File(_, _, content) => builder.append_data(&mut header, path, content.as_bytes()).unwrap(),
        }
    }
    builder.into_inner().unwrap()
}

/// A layer with a path that no archiver would write.
pub(crate) fn escaping() -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_size(0);
    header.as_mut_bytes()[..4].copy_from_slice(b"../x");
    header.set_cksum();
    let mut builder = Builder::new(Vec::new());
    builder.append(&header, &[][..]).unwrap();
    builder.into_inner().unwrap()
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", Sha256::of(bytes))
}

pub(crate) fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn tar_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, content.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}

pub(crate) fn config(layers: &[Vec<u8>]) -> Vec<u8> {
    let ids: Vec<String> = layers.iter().map(|layer| digest(layer)).collect();
    json!({
        "architecture": "amd64", "os": "linux", "config": {"Entrypoint": ["/bin/one"]},
        "rootfs": {"type": "layers", "diff_ids": ids},
    })
    .to_string()
    .into_bytes()
}

/// As `docker save` writes it.
pub(crate) fn saved(layers: &[Vec<u8>]) -> Vec<u8> {
    let config = config(layers);
    let names: Vec<String> = (0..layers.len()).map(|number| format!("{number}/layer.tar")).collect();
    let manifest = json!([{"Config": "config.json", "RepoTags": ["anything:else"], "Layers": names}]);
    let mut files =
        vec![("manifest.json".to_owned(), manifest.to_string().into_bytes()), ("config.json".to_owned(), config)];
    files.extend(names.into_iter().zip(layers.to_vec()));
    tar_of(&files)
}

/// An image layout with layers that are packed, and an index for two platforms; and the index's digest.
pub(crate) fn layout(layers: &[Vec<u8>]) -> (Vec<u8>, String) {
    let mut files = Vec::new();
    let mut blob = |kind: &str, bytes: Vec<u8>| {
        let described = json!({"digest": digest(&bytes), "size": bytes.len(), "mediaType": format!("application/vnd.oci.image.{kind}")});
        files.push((format!("blobs/sha256/{}", Sha256::of(&bytes)), bytes));
        described
    };
    let layers_in: Vec<Value> = layers.iter().map(|layer| blob("layer.v1.tar+gzip", packed(layer))).collect();
    let config = blob("config.v1+json", config(layers));
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers_in}).to_string();
    let manifest = blob("manifest.v1+json", manifest.into_bytes());
    let of = |mut what: Value, architecture: &str| {
        what["platform"] = json!({"architecture": architecture, "os": "linux"});
        what
    };
    let other = json!({"digest": digest(b"other"), "size": 5});
    let index = json!({"schemaVersion": 2, "manifests": [of(other, "arm64"), of(manifest, "amd64")]});
    let index = blob("index.v1+json", index.to_string().into_bytes());
    let all = json!({"schemaVersion": 2, "manifests": [index]}).to_string().into_bytes();
    files.push(("index.json".to_owned(), all));
    (tar_of(&files), index["digest"].as_str().unwrap().to_owned())
}
