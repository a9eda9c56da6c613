//! What a unified kernel image brings to a boot: the digests of everything of it that is measured.

use std::io;
use std::ops::Range;
use std::thread;

use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};

use latchkey_attestation::Digest;
use latchkey_boot_formats::ReadAt;

use super::pass::{Hash, Message, hashes};
use super::sha256::{Sha256, sha256};
use super::{PredictError, StubVersion, authenticode, cpio, stub};
use crate::pe::{Headers, PeError};
use crate::read_at::read_range;

/// A unified kernel image, every measured byte of it hashed.
///
/// Independent of the machine: one value serves the predictions for all of them.
#[derive(Debug, Clone)]
pub struct Uki {
    /// The signatures, for Secure Boot.
    pub(super) certificates: Option<Vec<u8>>,
    pub(super) stub: StubVersion,
    pub(super) command_line: String,
    /// The Authenticode hash of the image.
    pub(super) authenticode: Digest,
    /// The Authenticode hash of the kernel in it.
    pub(super) linux_authenticode: Digest,
    /// Name and digest of the content of each section that the stub measures, in the stub's order.
    pub(super) sections: Vec<(&'static str, Digest)>,
    /// What the kernel gets as its initrd: bytes and digest; `None` without one.
    pub(super) initrd: Option<(u64, Digest)>,
}

/// What becomes of the file as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// Its digest is wanted.
    Hashed,
    /// Nobody needs its digest.
    Left,
}

impl Uki {
    /// Reads and hashes a unified kernel image: a file, or bytes in memory.
    ///
    /// # Errors
    /// [`PredictError`]: the file is none, or nothing certain can be said about what it would measure.
    pub fn measure<R: ReadAt + ?Sized>(file: &R) -> Result<Self, PredictError> {
        Self::measure_beside(file, Whole::Left, None::<fn()>).map(|(uki, _, _)| uki)
    }

    /// The same, and SHA-256 of the whole file if it is wanted, which is what a direct boot measures of it. `other` is done
    /// meanwhile, on this thread, which then has less to hash: two processors end at about the same time.
    ///
    /// # Errors
    /// As [`Self::measure`].
    pub fn measure_beside<R: ReadAt + ?Sized, T>(
        file: &R,
        whole: Whole,
        other: Option<impl FnOnce() -> T>,
    ) -> Result<(Self, Option<Digest>, Option<T>), PredictError> {
        Parts::of(file)?.measure(file, whole, other)
    }

    /// The version of the boot stub.
    pub fn stub(&self) -> StubVersion {
        self.stub
    }

    /// The command line inside.
    pub fn command_line(&self) -> &str {
        &self.command_line
    }

    /// The Authenticode hash of the image: a signature does not change it.
    pub fn authenticode(&self) -> Digest {
        self.authenticode
    }

    /// SHA-256 of a measured section's content, for example `.linux`.
    pub fn section(&self, name: &str) -> Option<Digest> {
        self.sections.iter().find(|(other, _)| *other == name).map(|(_, digest)| *digest)
    }
}

/// What is measured, found and checked: all that is small, and where the rest is.
pub(super) struct Parts {
    /// Bytes of the file.
    size: u64,
    certificates: Option<Vec<u8>>,
    pub(super) stub: StubVersion,
    pub(super) command_line: String,
    /// What is hashed of the file for its Authenticode hash.
    pub(super) authenticode: Vec<Range<u64>>,
    pub(super) linux: Range<u64>,
    /// The same of the kernel, from its own beginning.
    pub(super) linux_authenticode: Vec<Range<u64>>,
    pub(super) initrd: Option<Range<u64>>,
    /// The sections that are measured, with their content; `None` for those that are large.
    pub(super) sections: Vec<(&'static str, Option<Vec<u8>>)>,
    /// What the initrd is made of besides `.initrd`: before it, and behind it.
    before: Option<Vec<u8>>,
    behind: Vec<Vec<u8>>,
}

pub(super) const LINUX: &str = ".linux";
const INITRD: &str = ".initrd";

impl Parts {
    pub(super) fn of<R: ReadAt + ?Sized>(file: &R) -> Result<Self, PredictError> {
        let size = file.size().map_err(unreadable)?;
        let image = headers(file, 0..size)?;
        let bytes = |range| read_range(file, range).map_err(unreadable);
        let content = |name| stub::content(&image, name)?.map(bytes).transpose();
        let stub = StubVersion::named_by(&content(".sdmagic")?.ok_or(PredictError::NoStub)?)?;
        for name in stub.refused_sections() {
            if image.sections.iter().any(|section| section.name == *name) {
                return Err(PredictError::UnpredictableSection(name));
            }
        }
        let mut sections = Vec::new();
        for name in stub.measured_sections() {
            match *name {
                LINUX | INITRD if stub::content(&image, name)?.is_some() => sections.push((*name, None)),
                _ => sections.extend(content(name)?.map(|content| (*name, Some(content)))),
            }
        }
        let linux = stub::content(&image, LINUX)?.ok_or(PredictError::NoSection(LINUX))?;
        let kernel = headers(file, linux.clone()).map_err(|error| match error {
            PredictError::Image(error) => PredictError::Kernel(error),
            other => other,
        })?;
        if !is_measuring(file, &linux)? {
            return Err(PredictError::SilentKernel);
        }
        let command_line = command_line(&content(".cmdline")?.ok_or(PredictError::NoSection(".cmdline"))?)?.to_owned();
        let mut behind = Vec::new();
        for (section, name) in stub.extra_files() {
            behind.extend(content(section)?.map(|content| cpio::extra_file(name, &content)));
        }
        Ok(Self {
            size,
            certificates: image.certificates(size)?.map(bytes).transpose()?,
            stub,
            command_line,
            authenticode: authenticode::ranges(&image, size)?,
            linux_authenticode: authenticode::ranges(&kernel, linux.end - linux.start)?,
            linux,
            initrd: stub::content(&image, INITRD)?,
            sections,
            before: stub.first_in_initrd().map(content).transpose()?.flatten(),
            behind,
        })
    }

    /// Hashes on two threads, each on one way through the file. Messages of the same bytes go by turns, where two cost 1.4 times
    /// what one does; so the kernel, which is in three of them, is twice on one thread and once on the other: where this thread has
    /// `other` to do, the once.
    fn measure<R: ReadAt + ?Sized, T>(
        self,
        file: &R,
        whole: Whole,
        other: Option<impl FnOnce() -> T>,
    ) -> Result<(Uki, Option<Digest>, Option<T>), PredictError> {
        let everything = match whole {
            Whole::Hashed => Message::default().file(0..self.size),
            Whole::Left => Message::default(),
        };
        let kernel = Message::of_file(self.linux_authenticode.iter().cloned(), self.linux.start);
        let linux = Message::default().file(self.linux.clone());
        let image = Message::of_file(self.authenticode.iter().cloned(), 0);
        let initrd = self.initrd.iter().cloned().fold(Message::default(), Message::file);
        // Handed over as it is or with more behind it, it needs no hash of its own.
        let behind_more = self.behind_more();
        let handed_over_size = behind_more.as_ref().map_or(initrd.size(), Message::size);
        let section_is_away = other.is_some();
        let initrds_are_away = other.is_none() || whole == Whole::Hashed;
        let (linux_here, linux_away) = here_or_away(section_is_away, linux);
        let (initrd_here, initrd_away) = here_or_away(initrds_are_away, initrd);
        let (more_here, more_away) = here_or_away(initrds_are_away, behind_more.unwrap_or_default());
        let processor = sched_getcpu();
        let both = thread::scope(|scope| {
            let away = scope.spawn(move || {
                leave(processor);
                hashes(file, [image, linux_away, initrd_away, more_away])
            });
            let here = hashes(file, [kernel, everything, linux_here, initrd_here, more_here]);
            let other = other.map(|other| other());
            Some((here, away.join().ok()?, other))
        });
        let (here, away, other) = both.ok_or(PredictError::ThreadFailed)?;
        let [linux_authenticode, everything, linux_here, initrd_here, more_here] = here.map_err(unreadable)?;
        let [image, linux_away, initrd_away, more_away]: [Sha256; 4] = away.map_err(unreadable)?;
        let linux = if section_is_away { linux_away } else { linux_here }.finish();
        let (initrd, behind_more) = if initrds_are_away { (initrd_away, more_away) } else { (initrd_here, more_here) };
        let handed_over = if self.before.is_some() { behind_more } else { initrd.clone() };
        let initrd = initrd.finish();
        let digest_of = |name| if name == LINUX { linux } else { initrd };
        let sections = self.sections.iter().map(|(name, content)| {
            (*name, content.as_ref().map_or_else(|| digest_of(*name), |content| sha256(&[content])))
        });
        let uki = Uki {
            sections: sections.collect(),
            initrd: self.handed_over(handed_over, handed_over_size).map(|(size, hash)| (size, hash.finish())),
            certificates: self.certificates,
            stub: self.stub,
            command_line: self.command_line,
            authenticode: image.finish(),
            linux_authenticode: linux_authenticode.finish(),
        };
        Ok((uki, (whole == Whole::Hashed).then(|| everything.finish()), other))
    }

    /// What the stub hands over up to the end of `.initrd`, where something comes before that.
    pub(super) fn behind_more(&self) -> Option<Message> {
        self.before.as_ref().map(|before| {
            let start = Message::default().memory(before.clone()).padded();
            self.initrd.iter().cloned().fold(start, Message::file).padded()
        })
    }

    /// The stub hands `.initrd` over as it is, unless there is more to hand over: then every piece is padded to four bytes.
    pub(super) fn handed_over<H: Hash>(&self, hash: H, size: u64) -> Option<(u64, H)> {
        let pieces = self.behind.iter().map(Vec::as_slice);
        let pad = |(mut hash, size): (H, u64)| {
            let padded = size.next_multiple_of(4);
            hash.update([0; 4].get(..usize::try_from(padded - size).unwrap_or(0)).unwrap_or_default());
            (hash, padded)
        };
        let start = if self.behind.is_empty() { (hash, size) } else { pad((hash, size)) };
        let (hash, size) = pieces.fold(start, |(mut hash, size), piece| {
            hash.update(piece);
            pad((hash, size + piece.len() as u64))
        });
        (self.initrd.is_some() || self.before.is_some() || !self.behind.is_empty()).then_some((size, hash))
    }
}

/// The message for this thread, and for the other one: one of them is of nothing.
fn here_or_away(is_away: bool, message: Message) -> (Message, Message) {
    if is_away { (Message::default(), message) } else { (message, Message::default()) }
}

/// Has this thread run elsewhere than on `processor`, if it may: a new one is often put behind the one that made it, and stays
/// there for its first milliseconds while another processor idles. A kernel that says no leaves it where it is.
fn leave(processor: usize) {
    let Ok(mut others) = sched_getaffinity(None) else { return };
    others.unset(processor);
    if others.count() > 0 {
        let _ = sched_setaffinity(None, &others);
    }
}

/// The headers of the PE file that is this range of `file`.
fn headers<R: ReadAt + ?Sized>(file: &R, range: Range<u64>) -> Result<Headers, PredictError> {
    let size = range.end - range.start;
    let end = size.min(Headers::MAX_SIZE as u64) + range.start;
    let bytes = read_range(file, range.start..end).map_err(unreadable)?;
    Ok(Headers::parse(&bytes, size)?)
}

/// Whether the kernel's EFI stub measures its command line and initrd: older ones measure less. The texts are
/// those of its events (Linux, `drivers/firmware/efi/libstub/efi-stub-helper.c`), in the part that is never compressed.
fn is_measuring<R: ReadAt + ?Sized>(file: &R, linux: &Range<u64>) -> Result<bool, PredictError> {
    has_all(file, linux, vec![&b"LOADED_IMAGE::LoadOptions\0"[..], b"Linux initrd\0"])
}

/// Whether each of these texts, of at most 32 bytes, is somewhere in the kernel.
pub(super) fn has_all<R: ReadAt + ?Sized>(
    file: &R,
    linux: &Range<u64>,
    mut missing: Vec<&[u8]>,
) -> Result<bool, PredictError> {
    // The uncompressed part lies behind the compressed one: looking backwards finds it at once. Pieces overlap by what a
    // text could lie across.
    let mut end = linux.end;
    while !missing.is_empty() && end > linux.start {
        let start = linux.start.max(end.saturating_sub(SEARCHED));
        let piece = read_range(file, start..linux.end.min(end + OVERLAP)).map_err(unreadable)?;
        missing.retain(|text| !contains(&piece, text));
        end = start;
    }
    Ok(missing.is_empty())
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window.first() == text.first() && window == text)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn unreadable(error: io::Error) -> PredictError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => PredictError::Image(PeError::Truncated),
        _ => PredictError::Unreadable(error.to_string()),
    }
}

const SEARCHED: u64 = 64 * 1024;
const OVERLAP: u64 = 32;

/// What the stub passes on: it changes control characters and white space at the ends, differently from version to
/// version, so these are refused.
fn command_line(section: &[u8]) -> Result<&str, PredictError> {
    let text = std::str::from_utf8(section).map_err(|_| PredictError::CommandLine("is no UTF-8"))?;
    let text = text.trim_end_matches('\0');
    if text.is_empty() || text.trim() != text {
        return Err(PredictError::CommandLine("is empty, or has white space at an end"));
    }
    // Each must be one UTF-16 unit: the stub's converter knows no others.
    if text.chars().any(|c| c.is_control() || c.len_utf16() > 1) {
        return Err(PredictError::CommandLine("has a control character, or one beyond U+FFFF"));
    }
    Ok(text)
}
