//! What a unified kernel image brings to a boot: the digests of everything of it that is measured.

use std::thread;

use latchkey_attestation::Digest;
use ring::digest::{Context, SHA256};

use super::pair::sha256_of_both;
use super::{PredictError, StubVersion, authenticode, cpio, stub};
use crate::pe::Image;

/// A unified kernel image, every measured byte of it hashed.
///
/// Independent of the machine: one value serves the predictions for all of them.
#[derive(Debug, Clone)]
pub struct Uki<'a> {
    /// The signatures, for Secure Boot.
    pub(super) certificates: Option<&'a [u8]>,
    pub(super) stub: StubVersion,
    pub(super) command_line: &'a str,
    /// The Authenticode hash of the image.
    pub(super) authenticode: Digest,
    /// The Authenticode hash of the kernel in it.
    pub(super) linux_authenticode: Digest,
    /// Name and digest of the content of each section that the stub measures, in the stub's order.
    pub(super) sections: Vec<(&'static str, Digest)>,
    /// What the kernel gets as its initrd: bytes and digest; `None` without one.
    pub(super) initrd: Option<(usize, Digest)>,
}

impl<'a> Uki<'a> {
    /// Reads and hashes a unified kernel image.
    ///
    /// # Errors
    /// [`PredictError`]: the file is none, or nothing certain can be said about what it would measure.
    pub fn measure(bytes: &'a [u8]) -> Result<Self, PredictError> {
        let hash = |file: &[&[u8]]| (sha256(file), ());
        Self::measured(bytes, hash).map(|(uki, ())| uki)
    }

    /// The same, and SHA-256 of the whole file, which is what a direct boot measures of it: for less than both cost alone.
    ///
    /// # Errors
    /// As [`Self::measure`].
    pub fn measure_with_file(bytes: &'a [u8]) -> Result<(Self, Digest), PredictError> {
        let hash = |file: &[&[u8]]| sha256_of_both([file, &[bytes]]).into();
        Self::measured(bytes, hash)
    }

    /// Hashes the parts at the same time, on threads of their own: `hash_file` those of the file for its Authenticode hash,
    /// and whatever else.
    fn measured<T: Send>(
        bytes: &'a [u8],
        hash_file: impl FnOnce(&[&[u8]]) -> (Digest, T) + Send,
    ) -> Result<(Self, T), PredictError> {
        let image = Image::parse(bytes)?;
        let version = StubVersion::of(&image)?;
        let parts = Parts::of(&image, version)?;
        let file = authenticode::parts(&image)?;
        let kernel = Image::parse(parts.linux).map_err(PredictError::Kernel)?;
        let kernel = authenticode::parts(&kernel)?;
        let (file, kernel, (rest, initrd)) = thread::scope(|scope| {
            let file = scope.spawn(|| hash_file(&file));
            let kernel = scope.spawn(|| sha256_of_both([&kernel, &[parts.linux]]));
            let rest = parts.hash_all_but_linux();
            Some((file.join().ok()?, kernel.join().ok()?, rest))
        })
        .ok_or(PredictError::ThreadFailed)?;
        let ((authenticode, more), [linux_authenticode, linux]) = (file, kernel);
        let sections = parts.sections.iter().zip(rest).map(|((name, _), digest)| (*name, digest.unwrap_or(linux)));
        let uki = Self {
            certificates: image.certificates()?,
            stub: version,
            command_line: parts.command_line,
            authenticode,
            linux_authenticode,
            sections: sections.collect(),
            initrd,
        };
        Ok((uki, more))
    }

    /// The version of the boot stub.
    pub fn stub(&self) -> StubVersion {
        self.stub
    }

    /// The command line inside.
    pub fn command_line(&self) -> &'a str {
        self.command_line
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

/// The measured sections, found and checked.
struct Parts<'a> {
    linux: &'a [u8],
    command_line: &'a str,
    sections: Vec<(&'static str, &'a [u8])>,
    /// What the initrd is made of besides `.initrd`: before it, and behind it.
    before: Option<&'a [u8]>,
    behind: Vec<Vec<u8>>,
}

impl<'a> Parts<'a> {
    fn of(image: &Image<'a>, version: StubVersion) -> Result<Self, PredictError> {
        for name in version.refused_sections() {
            if image.sections.iter().any(|section| section.name == *name) {
                return Err(PredictError::UnpredictableSection(name));
            }
        }
        let mut sections = Vec::new();
        for name in version.measured_sections() {
            if let Some(content) = stub::content(image, name)? {
                sections.push((*name, content));
            }
        }
        let find = |name: &'static str| {
            let found = sections.iter().find(|(other, _)| *other == name).map(|(_, content)| *content);
            found.ok_or(PredictError::NoSection(name))
        };
        let linux = find(".linux")?;
        if !is_measuring(linux) {
            return Err(PredictError::SilentKernel);
        }
        let command_line = command_line(find(".cmdline")?)?;
        let mut behind = Vec::new();
        for (section, name) in version.extra_files() {
            behind.extend(stub::content(image, section)?.map(|content| cpio::extra_file(name, content)));
        }
        let before = version.first_in_initrd().map(|name| stub::content(image, name)).transpose()?.flatten();
        Ok(Self { linux, command_line, sections, before, behind })
    }

    /// The digest of each section, `None` for the kernel, and the initrd as it is handed over.
    ///
    /// The stub hands `.initrd` over as it is, unless there is more to hand over: then every piece is padded to four bytes.
    fn hash_all_but_linux(&self) -> (Vec<Option<Digest>>, Option<(usize, Digest)>) {
        let initrd = self.sections.iter().find(|(name, _)| *name == ".initrd").map(|(_, content)| *content);
        let plain = initrd.map(started);
        let handed_over = match (self.before, self.behind.as_slice(), &plain) {
            (None, [], plain) => plain.clone(),
            (None, behind, plain) => {
                let start = plain.clone().map_or_else(Running::new, Running::padded);
                Some(behind.iter().fold(start, |running, archive| running.with(archive).padded()))
            }
            (Some(before), behind, _) => {
                let pieces = std::iter::once(before).chain(initrd).chain(behind.iter().map(Vec::as_slice));
                Some(pieces.fold(Running::new(), |running, piece| running.with(piece).padded()))
            }
        };
        let plain = plain.map(|running| running.finish().1);
        let digests = self.sections.iter().map(|(name, content)| match *name {
            ".linux" => None,
            ".initrd" => plain,
            _ => Some(sha256(&[content])),
        });
        (digests.collect(), handed_over.map(Running::finish))
    }
}

fn started(content: &[u8]) -> Running {
    Running::new().with(content)
}

/// A hash in the making, and how much went into it.
#[derive(Clone)]
struct Running(Context, usize);

impl Running {
    fn new() -> Self {
        Self(Context::new(&SHA256), 0)
    }

    fn with(mut self, bytes: &[u8]) -> Self {
        self.0.update(bytes);
        self.1 += bytes.len();
        self
    }

    fn padded(self) -> Self {
        let missing = self.1.next_multiple_of(4) - self.1;
        self.with([0; 4].get(..missing).unwrap_or_default())
    }

    fn finish(self) -> (usize, Digest) {
        (self.1, digest_of(self.0))
    }
}

/// SHA-256 of `parts`, one after the other.
pub(super) fn sha256(parts: &[&[u8]]) -> Digest {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    digest_of(context)
}

fn digest_of(context: Context) -> Digest {
    // A SHA-256 digest always has this length.
    Digest(context.finish().as_ref().try_into().unwrap_or([0; 32]))
}

/// Whether the kernel's EFI stub measures its command line and initrd: older ones measure less. The texts are
/// those of its events (Linux, `drivers/firmware/efi/libstub/efi-stub-helper.c`), in the part that is never compressed.
fn is_measuring(linux: &[u8]) -> bool {
    [&b"LOADED_IMAGE::LoadOptions\0"[..], b"Linux initrd\0"].iter().all(|text| contains_near_end(linux, text))
}

/// The uncompressed part lies behind the compressed one: looking backwards finds it at once.
fn contains_near_end(linux: &[u8], text: &[u8]) -> bool {
    linux.windows(text.len()).rev().any(|window| window.first() == text.first() && window == text)
}

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
