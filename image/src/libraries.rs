//! The libraries that a dynamically linked program needs, from a root of this machine: for the one program of ours that has any, which
//! loads MIT Kerberos.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use latchkey_initramfs::executable::ExecutableError;
use latchkey_initramfs::needed::Needed;

/// What the helper loads by name when it runs (package libkrb5-3, libgssapi-krb5-2, libkadm5clnt-mit12), and what MIT's library loads
/// itself: without SPAKE nobody who has a password alone is let in where timestamps are not taken.
pub const KERBEROS: [&str; 4] =
    ["libkrb5.so.3", "libgssapi_krb5.so.2", "libkadm5clnt_mit.so.12", "krb5/plugins/preauth/spake.so"];

/// Where Debian's dynamic linker looks, and where the linker itself is. Below `/usr` first: MIT looks for what it loads there alone, and
/// an image has no link from `/lib` to it.
const PLACES: [&str; 5] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "lib64", "usr/lib", "lib"];
/// The most bytes of a library, and the most libraries.
const MAX_LIBRARY: u64 = 32 << 20;
const MAX_LIBRARIES: usize = 64;

/// Why libraries are not gathered.
#[derive(Debug, thiserror::Error)]
pub enum LibrariesError {
    /// One is nowhere.
    #[error("there is no library {0} here; install the package that brings it")]
    Missing(String),
    /// One cannot be read.
    #[error("{0}: {1}")]
    Unreadable(String, std::io::Error),
    /// One is no library.
    #[error("{0}: {1}")]
    Damaged(String, ExecutableError),
    /// There are very many, or one is very large.
    #[error("{0}: more libraries, or larger ones, than any program of ours needs")]
    TooMany(String),
}

/// Libraries by path, without a slash at its beginning.
pub type Libraries = BTreeMap<String, Vec<u8>>;

/// What `program` and the libraries of these names need, in `root`: all libraries, and the dynamic linker.
///
/// # Errors
/// [`LibrariesError`].
pub fn libraries(root: &Path, program: &[u8], names: &[&str]) -> Result<Libraries, LibrariesError> {
    let mut found = Libraries::new();
    let needed = Needed::read(program).map_err(|error| LibrariesError::Damaged("the program".into(), error))?;
    let mut waiting: VecDeque<String> = needed.interpreter.into_iter().chain(needed.libraries).collect();
    waiting.extend(names.iter().map(|name| (*name).to_owned()));
    while let Some(name) = waiting.pop_front() {
        let (path, bytes) = find(root, &name)?;
        if found.contains_key(&path) {
            continue;
        }
        let needed = Needed::read(&bytes).map_err(|error| LibrariesError::Damaged(path.clone(), error))?;
        waiting.extend(needed.interpreter.into_iter().chain(needed.libraries));
        found.insert(path, bytes);
        if found.len() > MAX_LIBRARIES {
            return Err(LibrariesError::TooMany(name));
        }
    }
    Ok(found)
}

/// A library by its name, or by its whole path.
fn find(root: &Path, name: &str) -> Result<(String, Vec<u8>), LibrariesError> {
    let paths = match name.strip_prefix('/') {
        Some(path) => vec![path.to_owned()],
        None => PLACES.iter().map(|place| format!("{place}/{name}")).collect(),
    };
    let path = paths.into_iter().find(|path| root.join(path).is_file());
    let path = path.filter(|path| !path.contains("..")).ok_or_else(|| LibrariesError::Missing(name.to_owned()))?;
    let unreadable = |error| LibrariesError::Unreadable(path.clone(), error);
    let mut bytes = Vec::new();
    let file = File::open(root.join(&path)).map_err(unreadable)?;
    file.take(MAX_LIBRARY + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_LIBRARY { Err(LibrariesError::TooMany(path)) } else { Ok((path, bytes)) }
}
