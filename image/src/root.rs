//! The root file system: made from a directory or a tar archive, or taken as it is.
//!
//! | from | owners | modes, links, devices | times | extended attributes |
//! |---|---|---|---|---|
//! | directory | root | as they are | the build's | left out |
//! | tar (plain, `.xz`, `.zst`) | as in the archive | as in the archive (`/` itself: 0755) | the build's | left out |
//! | squashfs or erofs | as it is, to the byte | | | |
//!
//! Additions (what an image brings for systemd) go into squashfs only, made from a directory or an archive.
//!
//! mksquashfs and mkfs.erofs sort what they find, so that equal trees give equal bytes, wherever they lie.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::archive::{self, ArchiveError, Without};
use crate::identity::uuid_text;
use crate::overlay::{self, Added};
use crate::preflight::PreflightError;
use crate::program::{Program, ProgramError, open};
use crate::systemd::Addition;
use crate::tree::{Reads, Tree};
use crate::tree_digest;
use crate::verity::BLOCK;

/// A file system for the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RootFormat {
    /// Smallest; what the tests boot.
    Squashfs,
    /// Faster at random reads.
    Erofs,
}

impl RootFormat {
    /// As `latchkey.root_fs` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Squashfs => "squashfs",
            Self::Erofs => "erofs",
        }
    }
}

/// How file contents are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Small, and fast to read (squashfs).
    Zstd,
    /// Fast to build and to read, larger.
    Lz4,
    /// Smallest, slow to build and to read (squashfs).
    Xz,
    /// Not at all.
    None,
}

impl Compression {
    /// As the configuration has it.
    fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Xz => "xz",
            Self::None => "none",
        }
    }
}

/// Level 15, mksquashfs's default, takes nine times the processor time for 6 % less (Debian root of 270 MB).
pub(crate) const ZSTD_LEVEL: &str = "9";
/// `struct squashfs_super_block`: `s_magic`.
const SQUASHFS_MAGIC: (u64, [u8; 4]) = (0, *b"hsqs");
/// `struct erofs_super_block` at offset 1024: `magic`, 0xE0F5E1E2.
const EROFS_MAGIC: (u64, [u8; 4]) = (1024, [0xe2, 0xe1, 0xf5, 0xe0]);
/// POSIX.1-2001, "ustar Interchange Format"; GNU tar has the same five letters.
const TAR_MAGIC: (u64, [u8; 5]) = (257, *b"ustar");
const XZ_MAGIC: (u64, [u8; 6]) = (0, *b"\xfd7zXZ\0");
const ZSTD_MAGIC: (u64, [u8; 4]) = (0, [0x28, 0xb5, 0x2f, 0xfd]);
/// Enough for archives packed with `xz -9`.
const MAX_XZ_MEMORY: u64 = 128 << 20;

/// What a root is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    Tar(Packing),
    Ready(RootFormat),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Plain,
    Xz,
    Zstd,
}

/// Why there is no root file system.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// A file of no form that is understood.
    #[error("root: {} is no directory, tar archive (plain, xz, zstd), squashfs or erofs", .0.display())]
    Unknown(PathBuf),
    /// mkfs.erofs of Debian 12 reads no archives.
    #[error("root: erofs is made from a directory only")]
    ErofsFromTar,
    /// The format cannot be compressed so.
    #[error("root: {} is not compressed with {} here", .0.name(), .1.name())]
    Compression(RootFormat, Compression),
    /// The form of the root takes no additions.
    #[error("root: nothing is added to {0}, so \"systemd\" needs a directory or an archive, and squashfs")]
    Additions(&'static str),
    /// The root has something at this path that additions do not fit over.
    #[error(
        "root: /{0} is in the way of what \"systemd\" adds: it must be a directory where files lie in it, and a file or nothing where one is put"
    )]
    InTheWay(String),
    /// A ready file system is not of the format, or compressed as, the configuration says.
    #[error("root: it is a finished {}, so \"root_format\" can only say that, and \"compression\" nothing", .0.name())]
    Contradiction(RootFormat),
    /// It lacks what the agent looks for in it.
    #[error("root: {0}")]
    Preflight(#[from] PreflightError),
    /// The archive is not usable.
    #[error("root: {0}")]
    Archive(#[from] ArchiveError),
    /// A program is missing or failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A file could not be read or written.
    #[error("root: {0}")]
    Io(#[from] io::Error),
}

impl RootError {
    /// What to do, where that is more than to correct what the message names.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::ErofsFromTar => "unpack the archive, or take squashfs",
            Self::Compression(..) => "see \"compression\" in `latchkey image build --help`",
            Self::Additions(_) => {
                "put the files that `latchkey image units` writes into the root yourself, and say \"in_root\": true"
            }
            Self::Archive(error) => return error.remedy(),
            Self::Program(error) => return error.remedy(),
            Self::Preflight(error) => return error.remedy(),
            _ => return None,
        })
    }
}

/// A root that was looked at, and what shall become of it.
#[derive(Debug)]
pub(crate) struct Root<'a> {
    path: &'a Path,
    kind: Kind,
    pub(crate) format: RootFormat,
    compression: Compression,
    /// What of an archive is left out: members that later ones replace. Known by the survey.
    replaced: Vec<Range<u64>>,
}

impl<'a> Root<'a> {
    /// Looks at what lies at `path`, and whether it can become what is asked for.
    pub(crate) fn look(
        path: &'a Path,
        format: Option<RootFormat>,
        compression: Option<Compression>,
    ) -> Result<Self, RootError> {
        let kind = kind(path)?;
        if let Kind::Ready(ready) = kind {
            let contradicts = format.is_some_and(|format| format != ready) || compression.is_some();
            return if contradicts {
                Err(RootError::Contradiction(ready))
            } else {
                Ok(Self { path, kind, format: ready, compression: Compression::None, replaced: Vec::new() })
            };
        }
        let format = format.unwrap_or(RootFormat::Squashfs);
        let compression = compression.unwrap_or(match format {
            RootFormat::Squashfs => Compression::Zstd,
            RootFormat::Erofs => Compression::Lz4,
        });
        match (format, kind, compression) {
            (RootFormat::Erofs, Kind::Tar(_), _) => return Err(RootError::ErofsFromTar),
            (RootFormat::Erofs, _, Compression::Zstd | Compression::Xz) => {
                return Err(RootError::Compression(format, compression));
            }
            (RootFormat::Squashfs, ..) => Program::Mksquashfs.demand()?,
            (RootFormat::Erofs, ..) => Program::MkfsErofs.demand()?,
        }
        Ok(Self { path, kind, format, compression, replaced: Vec::new() })
    }

    /// Whether files can be added to it.
    pub(crate) fn takes_additions(&self) -> Result<(), RootError> {
        match (self.kind, self.format) {
            (Kind::Ready(_), _) => Err(RootError::Additions("a finished file system")),
            (_, RootFormat::Erofs) => Err(RootError::Additions("erofs")),
            (_, RootFormat::Squashfs) => Ok(()),
        }
    }

    /// Whether these fit, and what there is to do.
    fn fit<'b>(additions: &'b [Addition], tree: Option<&Tree>) -> Result<Added<'b>, RootError> {
        let mut places = overlay::paths(additions);
        if let Some(tree) = tree {
            overlay::look(tree, &mut places);
        }
        Added::fit(additions, &places).map_err(|path| RootError::InTheWay(path.to_owned()))
    }

    pub(crate) fn path(&self) -> &Path {
        self.path
    }

    /// Its format, and how it is compressed.
    pub(crate) fn form(&self) -> (&'static str, String) {
        let compression = match self.kind {
            Kind::Ready(_) => "as it is".to_owned(),
            _ => format!("{:?}", self.compression).to_lowercase(),
        };
        (self.format.name(), compression)
    }

    /// What makes it.
    pub(crate) fn program(&self) -> Option<Program> {
        match (self.kind, self.format) {
            (Kind::Ready(_), _) => None,
            (_, RootFormat::Squashfs) => Some(Program::Mksquashfs),
            (_, RootFormat::Erofs) => Some(Program::MkfsErofs),
        }
    }

    /// The hash of a directory; none of a file, which has its own.
    pub(crate) fn tree_digest(&self) -> Result<Option<[u8; 32]>, RootError> {
        Ok(if self.kind == Kind::Directory { Some(tree_digest::hash(self.path)?) } else { None })
    }

    /// What it holds; none of a finished file system, which is not looked into.
    pub(crate) fn survey(&mut self, reads: &Reads) -> Result<Option<Tree>, RootError> {
        Ok(match self.kind {
            Kind::Directory => Some(Tree::of_directory(self.path, reads)?),
            Kind::Tar(packing) => {
                let survey = archive::survey(unpacked(self.path, packing)?, reads)?;
                self.replaced = survey.replaced;
                Some(survey.tree)
            }
            Kind::Ready(_) => None,
        })
    }

    /// Writes the file system to `out`, in whole blocks, and says how many. What is on the way to it lies in the directory
    /// `shed`, which is made. `tree` is what the survey found.
    pub(crate) fn make(
        &self,
        out: &Path,
        shed: &Path,
        (additions, tree): (&[Addition], Option<&Tree>),
        (epoch, uuid): (u32, [u8; 16]),
    ) -> Result<u64, RootError> {
        match (self.kind, self.format) {
            (Kind::Ready(_), _) => drop(fs::copy(self.path, out)?),
            (_, RootFormat::Squashfs) => self.squashfs(out, shed, &Self::fit(additions, tree)?, epoch)?,
            (_, RootFormat::Erofs) => self.erofs(out, epoch, uuid)?,
        }
        let file = fs::OpenOptions::new().write(true).open(out)?;
        let blocks = file.metadata()?.len().div_ceil(BLOCK as u64);
        file.set_len(blocks * BLOCK as u64)?;
        Ok(blocks)
    }

    fn squashfs(&self, out: &Path, shed: &Path, added: &Added<'_>, epoch: u32) -> Result<(), RootError> {
        let epoch = epoch.to_string();
        let directory = self.kind == Kind::Directory;
        let source = if directory { absolute(self.path)? } else { "-".into() };
        let mut arguments: Vec<OsString> = vec![source, absolute(out)?];
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(OsString::from));
        // Without -exit-on-error a file that cannot be read becomes an empty one.
        add(&["-noappend", "-exit-on-error", "-no-xattrs", "-quiet", "-no-progress"]);
        add(&["-mkfs-time", &epoch, "-all-time", &epoch]);
        match self.compression {
            Compression::Zstd => add(&["-comp", "zstd", "-Xcompression-level", ZSTD_LEVEL]),
            Compression::Lz4 => add(&["-comp", "lz4"]),
            Compression::Xz => add(&["-comp", "xz"]),
            Compression::None => add(&["-noI", "-noD", "-noF", "-noX"]),
        }
        fs::create_dir(shed)?;
        let Kind::Tar(packing) = self.kind else {
            add(&["-all-root"]);
            arguments.extend(added.pseudo(shed)?);
            return Ok(Program::Mksquashfs.run_in(shed, arguments)?);
        };
        // Not every archive names the root itself.
        add(&["-tar", "-root-mode", "755", "-root-uid", "0", "-root-gid", "0"]);
        let ours = io::BufReader::new(added.archive(&shed.join("additions.tar"))?);
        let theirs = Without::new(unpacked(self.path, packing)?, &self.replaced);
        Ok(Program::Mksquashfs.run(arguments, Some(&mut ours.chain(theirs)))?)
    }

    fn erofs(&self, out: &Path, epoch: u32, uuid: [u8; 16]) -> Result<(), RootError> {
        let mut arguments: Vec<OsString> = vec![format!("-T{epoch}").into(), "-U".into(), uuid_text(uuid).into()];
        // `-x-1`: no extended attributes.
        arguments.extend(["--all-root", "-x-1", "--quiet"].map(OsString::from));
        if self.compression == Compression::Lz4 {
            arguments.push("-zlz4hc".into());
        }
        arguments.extend([absolute(out)?, absolute(self.path)?]);
        Ok(Program::MkfsErofs.run(arguments, None)?)
    }
}

fn kind(path: &Path) -> Result<Kind, RootError> {
    let file = open(path)?;
    if file.metadata()?.is_dir() {
        return Ok(Kind::Directory);
    }
    Ok(if begins(&file, SQUASHFS_MAGIC)? {
        Kind::Ready(RootFormat::Squashfs)
    } else if begins(&file, EROFS_MAGIC)? {
        Kind::Ready(RootFormat::Erofs)
    } else if begins(&file, TAR_MAGIC)? {
        Kind::Tar(Packing::Plain)
    } else if begins(&file, XZ_MAGIC)? {
        Kind::Tar(Packing::Xz)
    } else if begins(&file, ZSTD_MAGIC)? {
        Kind::Tar(Packing::Zstd)
    } else {
        return Err(RootError::Unknown(path.into()));
    })
}

fn begins<const N: usize>(file: &File, (at, magic): (u64, [u8; N])) -> io::Result<bool> {
    let mut bytes = [0; N];
    match file.read_exact_at(&mut bytes, at) {
        Ok(()) => Ok(bytes == magic),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn unpacked(path: &Path, packing: Packing) -> io::Result<Box<dyn Read>> {
    let mut file = open(path)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(match packing {
        Packing::Plain => Box::new(io::BufReader::with_capacity(1 << 20, file)),
        Packing::Xz => {
            let stream = liblzma::stream::Stream::new_stream_decoder(MAX_XZ_MEMORY, 0)?;
            Box::new(liblzma::read::XzDecoder::new_stream(file, stream))
        }
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::new(file)?),
    })
}

/// No program takes an absolute path for an option.
fn absolute(path: &Path) -> io::Result<OsString> {
    std::path::absolute(path).map(PathBuf::into_os_string)
}
