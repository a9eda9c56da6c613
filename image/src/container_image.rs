//! A container image of one static program and nothing else, for those who run a service as a pod. Equal programs give equal bytes.
//!
//! It is an OCI image layout in an archive (OCI Image Specification, "Image Layout"), which `ctr images import`, `podman load` and
//! `skopeo copy oci-archive:FILE` take; a docker that knows no layouts reads the same archive by its `manifest.json`. The layer is not
//! compressed, so that no compressor's version is in the digest.

use std::collections::BTreeMap;
use std::io;

use latchkey_initramfs::executable::{ExecutableError, check_static};
use latchkey_kubernetes::Reference;
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use crate::container_store::image::{NAME, OCI_MANIFEST, digest};

/// Whoever runs it says who it is; until then it is nobody (the number that images without users have by custom).
const NOBODY: &str = "65532:65532";

/// A container image, made.
#[derive(Debug)]
pub struct ContainerImage {
    /// The archive.
    pub archive: Vec<u8>,
    /// `sha256:` and what its manifest hashes to: what a pod is pinned by.
    pub digest: String,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum ContainerImageError {
    /// The program needs what the image has not.
    #[error("the program: {0}")]
    Program(#[from] ExecutableError),
    /// Its file has no name that can be one in the image.
    #[error("the program's file name is not 1 to 64 letters, digits, '-', '_' and '.'")]
    FileName,
    /// The archive could not be put together.
    #[error("{0}")]
    Archive(#[from] io::Error),
}

impl ContainerImage {
    /// The image of `program`, whose file is called `file_name`: it lies there as `/FILE_NAME` and is what is started.
    ///
    /// # Errors
    /// [`ContainerImageError`].
    pub fn new(program: &[u8], file_name: &str, reference: &Reference) -> Result<Self, ContainerImageError> {
        Self::with(program, file_name, reference, &BTreeMap::new())
    }

    /// The same with more files, by path without a slash at its beginning: what the program starts or loads. Each can be read and
    /// executed.
    ///
    /// # Errors
    /// [`ContainerImageError`].
    pub fn with(
        program: &[u8],
        file_name: &str,
        reference: &Reference,
        more: &BTreeMap<String, Vec<u8>>,
    ) -> Result<Self, ContainerImageError> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if file_name.starts_with('.') || !(1..=64).contains(&file_name.len()) || !file_name.bytes().all(is_name) {
            return Err(ContainerImageError::FileName);
        }
        check_static(program)?;

        let mut files = vec![(file_name.to_owned(), 0o555, program)];
        files.extend(more.iter().map(|(path, content)| (path.clone(), 0o555, content.as_slice())));
        let layer = archive(&files)?;
        let config = json!({
            "architecture": "amd64", "os": "linux",
            "config": {"User": NOBODY, "Entrypoint": [format!("/{file_name}")], "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]}
        });
        let config = config.to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": OCI_MANIFEST,
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)]
        });
        let manifest = manifest.to_string().into_bytes();
        let mut named = descriptor(OCI_MANIFEST, &manifest);
        // What containerd calls it, and what others do.
        named["annotations"] =
            json!({NAME: reference.to_string(), "org.opencontainers.image.ref.name": reference.tag()});
        let index = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [named]
        });
        let index = index.to_string().into_bytes();

        let blob = |bytes: &[u8]| format!("blobs/sha256/{}", digest(bytes).trim_start_matches("sha256:"));
        let docker = json!([{"Config": blob(&config), "RepoTags": [reference.to_string()], "Layers": [blob(&layer)]}]);
        let docker = docker.to_string().into_bytes();
        let archive = archive(&[
            ("manifest.json".to_owned(), 0o444, &docker),
            ("oci-layout".to_owned(), 0o444, br#"{"imageLayoutVersion":"1.0.0"}"#),
            ("index.json".to_owned(), 0o444, &index),
            (blob(&manifest), 0o444, &manifest),
            (blob(&config), 0o444, &config),
            (blob(&layer), 0o444, &layer),
        ])?;
        Ok(Self { archive, digest: digest(&manifest) })
    }
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": digest(bytes), "size": bytes.len()})
}

/// Files of root, without a time.
fn archive(files: &[(String, u32, &[u8])]) -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for (path, mode, content) in files {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(*mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, path, *content)?;
    }
    builder.into_inner()
}
