//! Kubernetes' next release: an image of it, and the operator's command with a program that has machines boot it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::site::site_words;
use super::{PodNetwork, Site, Which};
use crate::error::{HarnessError, io_error};
use crate::osimage::OsImage;
use crate::service::Service;

/// Says which machine is to be restarted, and ends as it is told: well if it reads `done`.
const RESTART: &str = r#"#!/bin/sh
[ -p "$0.$1" ] || mkfifo "$0.$1"
echo "to boot: $1 ($2) with $3" >&2
read -r answer < "$0.$1"
echo "$1: $answer" >&2
[ "$answer" = done ]
"#;

/// The program that the operator gives to `latchkey upgrade`.
#[derive(Debug)]
pub struct RestartProgram {
    path: PathBuf,
}

impl RestartProgram {
    /// Ends the program for this node, which has said what is to be booted.
    pub fn answer(&self, node: &str, answer: &str) -> Result<(), HarnessError> {
        let pipe = PathBuf::from(format!("{}.{node}", self.path.display()));
        std::fs::write(&pipe, format!("{answer}\n")).map_err(io_error("write", &pipe))
    }
}

impl Site {
    /// Builds an image with Kubernetes' next release, which the site's manifest admits beside the first one.
    pub fn next_image(&self, network: PodNetwork) -> Result<OsImage, HarnessError> {
        let kubernetes = super::provide(Which::Next)?.configuration(network);
        let image = self.fleet.build_image_with(&kubernetes, "next", "2.0.0", &site_words())?;
        self.fleet.admit_image_of("next")?;
        Ok(image)
    }

    /// Has the mirror serve the next release, too. What `latchkey` is told of it.
    pub fn next_components(&self) -> Result<[String; 4], HarnessError> {
        let mirror = self.mirror.as_ref();
        let mirror = mirror.ok_or_else(|| HarnessError::Unusable("machines of this site have no mirror".into()))?;
        let folder = super::folder(Which::Next)?;
        mirror.add(folder.clone());
        Ok(mirror.named(&folder))
    }

    /// Writes such a program.
    pub fn restart_program(&self) -> Result<RestartProgram, HarnessError> {
        let path = self.fleet.run().write("restart", RESTART)?;
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).map_err(io_error("chmod", &path))?;
        Ok(RestartProgram { path })
    }

    /// Starts `latchkey upgrade` with these arguments and the program.
    pub fn upgrade(&self, arguments: &[&str], program: &RestartProgram) -> Result<Service, HarnessError> {
        let (kubeconfig, backups) = (self.fleet.path("admin.conf"), self.fleet.path("backups"));
        let program = program.path.display().to_string();
        let means = ["--kubeconfig", &kubeconfig, "--backups", &backups, "--restart", &program];
        let means = [&means[..], &["--wait", "45m", "--output", "json"]].concat();
        let name = format!("upgrade-{}", arguments.first().copied().unwrap_or_default());
        self.fleet.cli_in_background(&name, &[&["upgrade"], arguments, &means[..]].concat())
    }
}
