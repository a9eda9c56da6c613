//! External programs: which, from which Debian package, and how they are called.
//!
//! They get no input of ours but their arguments, a fixed environment and no terminal, so that neither the user's
//! locale nor its clock gets into what they write.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A program that building may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Makes squashfs.
    Mksquashfs,
    /// Makes erofs.
    MkfsErofs,
    /// Makes qcow2.
    QemuImg,
}

/// Where administrators' programs lie; a user's `PATH` often lacks them.
const ADMINISTRATORS: &[&str] = &["/usr/sbin", "/sbin"];
/// What a failing program said, at most.
const MAX_SAID: u64 = 16 * 1024;
/// As long as a manifest takes a version.
const MAX_VERSION: usize = 200;

impl Program {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mksquashfs => "mksquashfs",
            Self::MkfsErofs => "mkfs.erofs",
            Self::QemuImg => "qemu-img",
        }
    }

    const fn how_to_install(self) -> &'static str {
        match self {
            Self::Mksquashfs => "install the Debian package squashfs-tools: apt-get install squashfs-tools",
            Self::MkfsErofs => "install the Debian package erofs-utils: apt-get install erofs-utils",
            Self::QemuImg => "install the Debian package qemu-utils: apt-get install qemu-utils",
        }
    }

    /// The program's file, or that it is missing.
    fn find(self) -> Result<PathBuf, ProgramError> {
        let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
        let directories = std::env::split_paths(&path).chain(ADMINISTRATORS.iter().map(PathBuf::from));
        let mut files =
            directories.filter(|directory| directory.is_absolute()).map(|directory| directory.join(self.name()));
        files.find(|file| file.is_file()).ok_or(ProgramError::Missing(self))
    }

    /// Its version, as it says it in its first line.
    pub(crate) fn version(self) -> Result<String, ProgramError> {
        let failed = |source| ProgramError::Io { program: self, source };
        let mut command = Command::new(self.find()?);
        // mksquashfs knows no word with two dashes.
        command.arg(if self == Self::Mksquashfs { "-version" } else { "--version" }).env_clear().env("LC_ALL", "C");
        let output = command.stdin(Stdio::null()).output().map_err(failed)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let line: String =
            said.lines().next().unwrap_or_default().chars().filter(char::is_ascii).take(MAX_VERSION).collect();
        let line = line.trim();
        if line.is_empty() {
            return Err(failed(io::Error::other("it does not say its version")));
        }
        Ok(line.to_owned())
    }

    /// Says whether it is there, before work begins that would be for nothing.
    pub(crate) fn demand(self) -> Result<(), ProgramError> {
        self.find().map(drop)
    }

    /// Runs it, with what `input` gives as its standard input.
    pub(crate) fn run(self, arguments: Vec<OsString>, input: Option<&mut dyn Read>) -> Result<(), ProgramError> {
        self.work(Command::new(self.find()?), arguments, input)
    }

    /// Runs it in a directory.
    pub(crate) fn run_in(self, directory: &Path, arguments: Vec<OsString>) -> Result<(), ProgramError> {
        let mut command = Command::new(self.find()?);
        command.current_dir(directory);
        self.work(command, arguments, None)
    }

    fn work(
        self,
        mut command: Command,
        arguments: Vec<OsString>,
        input: Option<&mut dyn Read>,
    ) -> Result<(), ProgramError> {
        let failed = |source| ProgramError::Io { program: self, source };
        command.args(arguments).env_clear().env("LC_ALL", "C").env("TZ", "UTC");
        // It finds the programs and places for temporary files that it needs itself where its user does.
        for name in ["PATH", "TMPDIR"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
        let mut child = command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(failed)?;
        let stderr = child.stderr.take();
        let said = std::thread::spawn(move || stderr.map(listen).unwrap_or_default());
        let fed = input.map_or(Ok(()), |input| feed(&mut child, input));
        let status = child.wait().map_err(failed)?;
        let said = said.join().unwrap_or_default();
        if !status.success() {
            return Err(ProgramError::Failed { program: self, status: status.to_string(), said });
        }
        fed.map_err(failed)
    }
}

/// A program that stops reading says why itself.
fn feed(child: &mut Child, input: &mut dyn Read) -> io::Result<()> {
    let Some(mut stdin) = child.stdin.take() else { return Ok(()) };
    match io::copy(input, &mut stdin) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            // A program must not take half an input for a whole one.
            child.kill()?;
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Reads to the end, so that the program never waits for us, and keeps the beginning.
fn listen(mut stderr: impl Read) -> String {
    let mut kept = Vec::new();
    let read = stderr.by_ref().take(MAX_SAID).read_to_end(&mut kept);
    if read.is_ok() {
        drop(io::copy(&mut stderr, &mut io::sink()));
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}

/// Opens a file, with a reason that names it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    File::open(path).map_err(|source| io::Error::new(source.kind(), format!("{}: {source}", path.display())))
}

/// Why an external program did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is not installed.
    #[error("{} is missing", .0.name())]
    Missing(Program),
    /// It could not be started, or its input not be read.
    #[error("{}: {source}", .program.name())]
    Io {
        /// The program.
        program: Program,
        /// The operating system's reason.
        source: io::Error,
    },
    /// It ended with an error.
    #[error("{}: {status}: {said}", .program.name())]
    Failed {
        /// The program.
        program: Program,
        /// How it ended.
        status: String,
        /// What it said.
        said: String,
    },
}

impl ProgramError {
    /// What to do, where that is more than to look at what the program said.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Missing(program) => Some(program.how_to_install()),
            Self::Io { .. } | Self::Failed { .. } => None,
        }
    }
}
