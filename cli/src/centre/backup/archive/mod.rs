//! The file of a backup: plain files in a tar, in zstd, the manifest first.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use zeroize::Zeroizing;

use super::damaged;
use super::manifest::{self, Listed, Manifest};
use super::member::Member;
use crate::error::CommandError;

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;
/// Fast, and small enough: what is large here is packed already.
const LEVEL: i32 = 3;
/// The largest window that is taken, as a power of two: 128 MiB of memory.
const WINDOW: u32 = 27;
/// What may follow the last file: a tar ends with two empty blocks, and some writers fill up to 10 KiB.
const MOST_AFTER: u64 = 64 << 10;

/// Copies to the end; gives the number of bytes, and their SHA-256 in hexadecimal. What goes through may be a secret.
pub(super) fn copy(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<(u64, String)> {
    let mut piece = Zeroizing::new(vec![0; PIECE]);
    let (mut size, mut digest) = (0, Context::new(&SHA256));
    loop {
        let count = match from.read(&mut piece) {
            Ok(0) => return Ok((size, hex::encode(digest.finish()))),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let read = piece.get(..count).unwrap_or_default();
        digest.update(read);
        to.write_all(read)?;
        size += count as u64;
    }
}

/// A file as the manifest lists it.
pub(super) fn listed(member: &Member, path: &Path) -> io::Result<Listed> {
    let (size, sha256) = copy(&mut File::open(path)?, &mut io::sink())?;
    Ok(Listed { name: member.name(), size, sha256 })
}

/// Writes an archive. The files must be those that were listed, and still be the same.
pub(super) fn write(to: File, manifest: &Manifest, files: &[PathBuf]) -> io::Result<File> {
    let mut compressed = zstd::Encoder::new(to, LEVEL)?;
    compressed.include_checksum(true)?;
    let mut archive = tar::Builder::new(compressed);
    let text = serde_json::to_vec_pretty(manifest)?;
    archive.append(&header(manifest::NAME, text.len() as u64)?, text.as_slice())?;
    for (listed, path) in manifest.members.iter().zip(files) {
        let mut reading = Hashing::new(File::open(path)?.take(listed.size));
        archive.append(&header(&listed.name, listed.size)?, &mut reading)?;
        if reading.finish() != (listed.size, listed.sha256.clone()) {
            return Err(io::Error::other(format!("{} was changed meanwhile", path.display())));
        }
    }
    let file = archive.into_inner()?.finish()?;
    file.sync_all()?;
    Ok(file)
}

fn header(name: &str, size: u64) -> io::Result<tar::Header> {
    let mut header = tar::Header::new_ustar();
    header.set_path(name)?;
    header.set_mode(0o600);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(size);
    header.set_cksum();
    Ok(header)
}

/// Reads an archive from its beginning to its end, and hands each file over: nothing of it is wrong when this returns. Nothing is
/// read of what a manifest lists that is not wanted. What `each` does not read of a file is read here.
pub(super) fn read(
    path: &Path,
    wanted: &dyn Fn(&Manifest) -> Result<(), CommandError>,
    each: &mut dyn FnMut(&Member, &mut dyn Read) -> Result<(), CommandError>,
) -> Result<Manifest, CommandError> {
    let broken = |error: io::Error| damaged("it cannot be read to its end").because(error.to_string());
    let mut decoder = File::open(path).and_then(zstd::Decoder::new).map_err(|error| unreadable(path, &error))?;
    decoder.window_log_max(WINDOW).map_err(broken)?;
    let mut archive = tar::Archive::new(decoder);
    // Raw: long names, extended headers and links are entries like others, and refused by their kind.
    let mut entries = archive.entries().map_err(broken)?.raw(true);
    let mut next = |name: &str| -> Result<_, CommandError> {
        let entry = entries.next().ok_or_else(|| damaged(format!("{name} is missing")))?.map_err(broken)?;
        let header = entry.header();
        if header.entry_type() != tar::EntryType::Regular {
            return Err(damaged(format!("where {name} must be is something that is no plain file")));
        }
        if *header.path_bytes() != *name.as_bytes() {
            return Err(damaged(format!("where {name} must be is another file")));
        }
        let size = header.entry_size().map_err(broken)?;
        Ok((size, entry))
    };
    let (size, entry) = next(manifest::NAME)?;
    if size > manifest::LARGEST {
        return Err(damaged(format!("{} has more than {} bytes", manifest::NAME, manifest::LARGEST)));
    }
    let mut text = Vec::new();
    entry.take(manifest::LARGEST).read_to_end(&mut text).map_err(broken)?;
    let manifest = Manifest::parse(&text)?;
    let members = manifest.check()?;
    wanted(&manifest)?;
    for (member, listed) in members {
        let (size, entry) = next(&listed.name)?;
        if size != listed.size {
            return Err(damaged(format!("{} has another size than the manifest says", listed.name)));
        }
        let mut reading = Hashing::new(entry);
        each(&member, &mut reading)?;
        copy(&mut reading, &mut io::sink()).map_err(broken)?;
        if reading.finish() != (listed.size, listed.sha256.clone()) {
            return Err(damaged(format!("{} is not the one that the manifest says", listed.name)));
        }
    }
    if entries.next().is_some() {
        return Err(damaged("it has files that its manifest does not list"));
    }
    // The checksum of the compression is at the very end.
    let (after, _) = copy(&mut archive.into_inner().take(MOST_AFTER), &mut io::sink()).map_err(broken)?;
    if after == MOST_AFTER { Err(damaged("something follows its last file")) } else { Ok(manifest) }
}

fn unreadable(path: &Path, error: &io::Error) -> CommandError {
    CommandError::local(crate::codes::CommandCode::FileUnreadable, format!("cannot read {}", path.display()))
        .because(error.to_string())
}

/// Counts and hashes what is read through it.
struct Hashing<R> {
    inner: R,
    size: u64,
    digest: Context,
}

impl<R: Read> Hashing<R> {
    fn new(inner: R) -> Self {
        Self { inner, size: 0, digest: Context::new(&SHA256) }
    }

    /// Bytes, and their SHA-256 in hexadecimal.
    fn finish(self) -> (u64, String) {
        (self.size, hex::encode(self.digest.finish()))
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.digest.update(buffer.get(..count).unwrap_or_default());
        self.size += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
