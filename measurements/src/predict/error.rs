//! Why nothing is predicted.

use std::fmt;

use super::variables::VariableFault;
use crate::pe::PeError;

/// Why nothing certain can be said about what an image measures on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PredictError {
    /// The image is no usable PE file.
    Image(PeError),
    /// The kernel in it is none.
    Kernel(PeError),
    /// It is no unified kernel image with systemd's boot stub.
    NoStub,
    /// What a boot stub of this name measures is not known here.
    UnknownStub(String),
    /// A needed section is missing or empty.
    NoSection(&'static str),
    /// A section is there twice.
    SectionTwice(&'static str),
    /// A section has more bytes in memory than in the file.
    SectionLargerInMemory(&'static str),
    /// What is measured because of this section depends on more than the image.
    UnpredictableSection(&'static str),
    /// Sections overlap in the file.
    OverlappingSections,
    /// The stub would change the command line in a way that is not known here.
    CommandLine(&'static str),
    /// The kernel does not measure its command line and initrd.
    SilentKernel,
    /// Secure Boot does not start an unsigned image.
    Unsigned,
    /// No enrolled certificate is that of a signer of exactly this image.
    NotAdmitted,
    /// The image or its signer is in the list of what may not boot.
    Forbidden,
    /// This database is malformed.
    BadSignatureDatabase(&'static str),
    /// The file of variables is malformed.
    Variables(VariableFault),
    /// The description of a machine is unusable.
    Machine(String),
    /// A direct boot measures the whole image, whose digest was not computed.
    NoFileDigest,
    /// The image cannot be read; in the system's words.
    Unreadable(String),
    /// A thread that hashes could not do its work.
    ThreadFailed,
}

impl fmt::Display for PredictError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(error) => error.fmt(f),
            Self::Kernel(error) => write!(f, "the kernel in the image: {error}"),
            Self::NoStub => f.write_str("no unified kernel image: it has no boot stub of systemd (section .sdmagic)"),
            Self::UnknownStub(info) => {
                write!(f, "what the boot stub {info:?} measures is not known: systemd-stub 252 and 257 are")
            }
            Self::NoSection(name) => write!(f, "no unified kernel image: section {name} is missing or empty"),
            Self::SectionTwice(name) => write!(f, "section {name} is there twice"),
            Self::SectionLargerInMemory(name) => write!(f, "section {name} has more bytes in memory than in the file"),
            Self::UnpredictableSection(name) => {
                write!(f, "with a section {name}, what is measured depends on more than the image")
            }
            Self::OverlappingSections => f.write_str("sections overlap in the file"),
            Self::CommandLine(why) => write!(f, "the command line {why}: the boot stub would change it"),
            Self::SilentKernel => f.write_str(
                "the kernel does not measure its command line and initrd: use Linux 6.1 of Debian 12 or newer",
            ),
            Self::Unsigned => f.write_str("the image is not signed: with Secure Boot on it does not start"),
            Self::NotAdmitted => f.write_str(
                "no certificate in db is that of a signer of this image: with Secure Boot on it does not start",
            ),
            Self::Forbidden => {
                f.write_str("dbx forbids the image or its signer: with Secure Boot on it does not start")
            }
            Self::BadSignatureDatabase(name) => write!(f, "the signature database {name} is malformed"),
            Self::Variables(fault) => fault.fmt(f),
            Self::Machine(why) | Self::Unreadable(why) => f.write_str(why),
            Self::NoFileDigest => f.write_str("the launch digest of a direct boot needs the digest of the whole image"),
            Self::ThreadFailed => f.write_str("a thread that hashes could not do its work"),
        }
    }
}

impl std::error::Error for PredictError {}

impl From<PeError> for PredictError {
    fn from(error: PeError) -> Self {
        Self::Image(error)
    }
}

impl From<VariableFault> for PredictError {
    fn from(fault: VariableFault) -> Self {
        Self::Variables(fault)
    }
}
