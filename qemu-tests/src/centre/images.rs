//! The container images of the programs at edges, as a site's operator makes them.

use std::path::{Path, PathBuf};

use latchkey_factory_plus::{EdgeImages, EdgeProgram};

use crate::build;
use crate::error::{HarnessError, io_error};

/// Archives, and which images they are.
#[derive(Debug)]
pub struct EdgeArchives {
    /// What a centre's parameters say of them.
    pub images: EdgeImages,
    directory: PathBuf,
}

impl EdgeArchives {
    /// Builds them, by `edge/images/build`.
    pub fn build(directory: &Path) -> Result<Self, HarnessError> {
        build::by_script("edge/images/build", directory)?;
        let path = directory.join("images.json");
        let text = std::fs::read(&path).map_err(io_error("read", &path))?;
        let images = serde_json::from_slice(&text)
            .map_err(|error| HarnessError::Unusable(format!("{}: {error}", path.display())))?;
        Ok(Self { images, directory: directory.to_owned() })
    }

    /// The archive of a program's image.
    pub fn archive(&self, program: EdgeProgram) -> PathBuf {
        self.directory.join(format!("{}.tar", program.name()))
    }

    /// All archives.
    pub fn archives(&self) -> Vec<PathBuf> {
        EdgeProgram::ALL.map(|program| self.archive(program)).into()
    }
}
