//! What the manifest says of where an image comes from: everything that its bytes follow from.
//!
//! | what | how |
//! |---|---|
//! | `kernel`, `boot-stub`, `agent`, `os-release` | SHA-256 of the file |
//! | `root` | SHA-256 of the archive or the finished file system |
//! | `root-listing` | of a root from a directory: see [`crate::tree_digest`] |
//! | `module NAME` | each kernel module in the initramfs, decompressed |
//! | `initramfs-file PATH` | each further file in it |
//! | `kubernetes-table`, `kubernetes NAME VERSION` | the version table, and each component as it comes |
//! | `kubernetes image NAME:TAG` | each container image in it: its archive, or its manifest where the table has no archive |
//! | `join-service`, `key-service` | the programs that control planes carry |
//! | `…-certificate`, `empty-variables` | what signs the image and is enrolled, DER; what it is enrolled in |
//!
//! What the configuration asks for are options; the kernel's release is a fact that the builder found; programs that it
//! runs stand with their versions.

use std::collections::BTreeMap;

use latchkey_attestation::Digest;
use latchkey_attestation::reference::Origin;
use ring::digest::{Context, SHA256};

use crate::error::ImageError;
use crate::form::Form;
use crate::image::Image;
use crate::parts::hash_of_file;
use crate::program::Program;
use crate::root::Root;
use crate::systemd::{StateDirectory, Systemd};

/// As long as a manifest takes an option.
const MAX_OPTION: usize = 4096;

/// What is known of an image's origin so far.
#[derive(Debug, Default)]
pub(crate) struct Record(Origin);

impl Record {
    /// What follows from the configuration.
    pub(crate) fn of(image: &Image, words: &str, root: &Root<'_>) -> Result<Self, ImageError> {
        let mut record = Self::default();
        record.0.command_line = Some(words.to_owned());
        let (format, compression) = root.form();
        let names: Vec<String> = image
            .module_names
            .iter()
            .map(|wanted| format!("{}{}", if wanted.optional { "?" } else { "" }, wanted.name))
            .collect();
        record.option("rootFormat", format);
        record.option("compression", &compression);
        record.option("moduleNames", &names.join(" "));
        record.option("stateSize", &image.state_size.to_string());
        if !image.clouds.is_empty() {
            let names: Vec<&str> = image.clouds.iter().map(|cloud| cloud.name()).collect();
            record.option("clouds", &names.join(" "));
        }
        if let Some(systemd) = &image.systemd {
            record.option("systemd", &in_words(systemd));
        }
        if let Some(kubernetes) = &image.kubernetes {
            record.option("kubernetes", &kubernetes.in_words());
            record.0.sources.extend(kubernetes.sources()?.into_iter().map(|(name, hash)| (name, Digest(hash.0))));
        }
        if let Some(size) = image.esp_size {
            record.option("espSize", &size.to_string());
        }
        if let Some(os_release) = &image.os_release {
            record.source("os-release", &os_release.read()?);
        }
        for (path, permissions, content) in &image.initramfs_files {
            record.source(&format!("initramfs-file {path} {permissions:04o}"), content);
        }
        record.secure_boot(image);
        let programs =
            root.program().into_iter().chain(image.forms().contains(&Form::Qcow2).then_some(Program::QemuImg));
        for program in programs {
            record.0.tools.insert(program.name().to_owned(), program.version()?);
        }
        Ok(record)
    }

    fn secure_boot(&mut self, image: &Image) {
        let Some(secure_boot) = &image.secure_boot else { return };
        let keys = secure_boot.keys();
        self.source("image-certificate", &keys.image);
        self.source("platform-certificate", &keys.platform);
        self.source("exchange-certificate", &keys.exchange);
        if let Some(template) = &secure_boot.variables {
            self.source("empty-variables", template);
        }
    }

    /// Something that the image is made of.
    pub(crate) fn source(&mut self, what: &str, bytes: &[u8]) {
        let mut context = Context::new(&SHA256);
        context.update(bytes);
        let mut hash = [0; 32];
        hash.copy_from_slice(context.finish().as_ref());
        self.0.sources.insert(what.to_owned(), Digest(hash));
    }

    /// The root, as it lies there.
    pub(crate) fn root(&mut self, root: &Root<'_>) -> Result<(), ImageError> {
        let (name, hash) = match root.tree_digest()? {
            Some(hash) => ("root-listing", hash),
            None => ("root", hash_of_file(root.path())?),
        };
        self.0.sources.insert(name.to_owned(), Digest(hash));
        Ok(())
    }

    /// Something that the configuration asks for. What is too long for a manifest stands there by its hash.
    pub(crate) fn option(&mut self, name: &str, value: &str) {
        let digest = || latchkey_boot_formats::sha256(&[value.as_bytes()]);
        let value =
            if value.len() > MAX_OPTION { format!("sha256:{}", hex::encode(digest())) } else { value.to_owned() };
        self.0.options.insert(name.to_owned(), value);
    }

    /// Something that the builder found.
    pub(crate) fn fact(&mut self, name: &str, value: &str) {
        self.0.facts.insert(name.to_owned(), value.to_owned());
    }

    /// All of it, with what came out.
    pub(crate) fn finish(self, products: BTreeMap<String, Digest>) -> Origin {
        Origin { products, ..self.0 }
    }
}

/// What is brought for systemd.
fn in_words(systemd: &Systemd) -> String {
    let place = if systemd.in_root { "in-root" } else { "added" };
    let Some(state) = &systemd.state else { return place.to_owned() };
    let directories: Vec<_> = state.persist.directories().iter().map(StateDirectory::path).collect();
    format!("{place} {} {}", state.file_system.name(), directories.join(","))
}
