//! A centre's directory that is there already, whether the centre runs or not.

use std::ffi::OsStr;
use std::path::Path;

use latchkey_centre_site::{Layout, Parameters};

use super::site;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files;

/// A centre that `latchkey centre up` made.
pub(super) struct Existing {
    pub(super) parameters: Parameters,
    pub(super) layout: Layout,
}

impl Existing {
    /// The one in this directory.
    pub(super) fn open(named: Option<&OsStr>) -> Result<Self, CommandError> {
        let layout = layout(named)?;
        let path = layout.parameters();
        if !path.exists() {
            let what = format!("there is no centre in {}", layout.root().display());
            return Err(CommandError::local(CommandCode::CentreMissing, what));
        }
        let parameters: Parameters = site::read(&path)?;
        parameters.check().map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))?;
        Ok(Self { parameters, layout })
    }
}

/// The layout of a directory that an argument names.
pub(super) fn layout(named: Option<&OsStr>) -> Result<Layout, CommandError> {
    let named = Path::new(named.ok_or_else(|| CommandError::usage("an argument is missing"))?);
    let root = std::path::absolute(named).map_err(|error| files::unwritable(named, &error))?;
    Ok(Layout::new(root))
}
