//! Getting components: from a folder, a mirror or their official addresses.
//!
//! Whatever a file comes from, it counts only if it hashes to what the table says, and no more of it is read than the table
//! allows. It is written beside its place under another name (`.NAME.part`), hashed while it comes, and renamed when it is
//! right. What a broken connection left is continued, by this run or a later one.

mod client;
mod code;
mod error;
mod origin;
mod part;
mod unpack;

use std::fs;
use std::path::{Path, PathBuf};

use latchkey_mirror::Client;
pub use latchkey_mirror::Limits;

pub use code::FetchCode;
pub use error::FetchError;
pub use origin::Origin;
use part::Part;
pub use part::{is_lost, is_right};
pub use unpack::{Content, Unpacked, contents, unpack};

use crate::component::Download;

/// How far a file has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Its name.
    pub file: &'a str,
    /// Bytes that are there.
    pub got: u64,
    /// Bytes that it has, as its source says; nobody has checked it.
    pub of: Option<u64>,
}

/// A file that is there, and right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Where.
    pub path: PathBuf,
    /// Whether it lay there before.
    pub was_there: bool,
}

/// Gets files from one origin.
#[derive(Debug)]
pub struct Fetcher {
    origin: Origin,
    client: Option<Client>,
}

impl Fetcher {
    /// Prepares to get files from there.
    pub fn new(origin: Origin, limits: Limits) -> Result<Self, FetchError> {
        let client = match &origin {
            Origin::Folder(_) => None,
            Origin::Mirror(address) => Some(Client::new(Some(address), limits)?),
            Origin::Official => Some(Client::new(None, limits)?),
        };
        Ok(Self { origin, client })
    }

    /// Gets a file into a directory, which is made if it is not there. A file that lies there under its name is left alone if
    /// it is right, and replaced if it is not.
    pub fn fetch(
        &self,
        wanted: &Download,
        into: &Path,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Fetched, FetchError> {
        fs::create_dir_all(into).map_err(error::at(into))?;
        let path = into.join(&wanted.file);
        if part::is_right(&path, wanted)? {
            return Ok(Fetched { path, was_there: true });
        }
        let place = self.origin.place(wanted)?;
        let mut part = Part::open(into, wanted)?;
        if !part.is_right() {
            let got = match &self.client {
                Some(client) => client::get(client, &place, &mut part, progress),
                None => copy(Path::new(&place), &mut part, progress),
            };
            got.inspect_err(|_| part.leave())?;
        }
        part.publish(&path)?;
        Ok(Fetched { path, was_there: false })
    }
}

/// From a folder. Nothing is continued: reading it again is as fast as hashing what is there.
fn copy(from: &Path, part: &mut Part<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), FetchError> {
    let Some((file, size)) = part::open(from)? else { return Err(FetchError::Missing(from.display().to_string())) };
    part.restart()?;
    part.read(file, Some(size), &from.display().to_string(), progress)?;
    part.judge(&from.display().to_string())
}
