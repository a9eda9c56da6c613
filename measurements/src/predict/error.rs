//! Why nothing is predicted.

use super::variables::VariableError;
use crate::MeasurementCode;
use crate::pe::PeError;

/// Why nothing certain can be said about what an image measures on a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PredictError {
    /// The image is no usable PE file.
    #[error(transparent)]
    Image(#[from] PeError),
    /// The kernel in it is none.
    #[error("the kernel in the image: {0}")]
    Kernel(#[source] PeError),
    /// It is no unified kernel image with systemd-stub.
    #[error("no unified kernel image: it has no boot stub of systemd (section .sdmagic)")]
    NoStub,
    /// What a boot stub of this name measures is not known here.
    #[error("what the boot stub {0:?} measures is not known: systemd-stub 252 and 257 are")]
    UnknownStub(String),
    /// A needed section is missing or empty.
    #[error("no unified kernel image: section {0} is missing or empty")]
    NoSection(&'static str),
    /// A section is there twice.
    #[error("section {0} is there twice")]
    SectionTwice(&'static str),
    /// A section has more bytes in memory than in the file.
    #[error("section {0} has more bytes in memory than in the file")]
    SectionLargerInMemory(&'static str),
    /// What is measured because of this section depends on more than the image.
    #[error("with a section {0}, what is measured depends on more than the image")]
    UnpredictableSection(&'static str),
    /// Sections overlap in the file.
    #[error("sections overlap in the file")]
    OverlappingSections,
    /// The stub would change the command line in a way that is not known here.
    #[error("the command line {0}: the boot stub would change it")]
    CommandLine(&'static str),
    /// The kernel does not measure its command line and initrd.
    #[error("the kernel does not measure its command line and initrd: use Linux 6.1 of Debian 12 or newer")]
    SilentKernel,
    /// In a TDX guest the kernel would measure into the TPM or nowhere.
    #[error("the kernel does not know the protocol of confidential machines: use Linux 6.9 or newer, or a TPM (`tpm`)")]
    KernelWithoutCc,
    /// Nothing of the image comes into the register that is predicted.
    #[error(
        "the boot stub {0} measures nothing into a TDX guest's RTMR 2, and the kernel measures into the TPM: use systemd-stub 257"
    )]
    RegisterUntouched(u16),
    /// Secure Boot does not start an unsigned image.
    #[error("the image is not signed: with Secure Boot on it does not start")]
    Unsigned,
    /// No enrolled certificate is that of a signer of exactly this image.
    #[error("no certificate in db is that of a signer of this image: with Secure Boot on it does not start")]
    NotAdmitted,
    /// The image or its signer is in the list of what may not boot.
    #[error("dbx forbids the image or its signer: with Secure Boot on it does not start")]
    Forbidden,
    /// This database is malformed.
    #[error("the signature database {0} is malformed")]
    BadSignatureDatabase(&'static str),
    /// The file of variables is malformed.
    #[error(transparent)]
    Variables(#[from] VariableError),
    /// The description of a machine is unusable.
    #[error("{0}")]
    Machine(String),
    /// A direct boot measures the whole image, whose digest was not computed.
    #[error("the launch digest of a direct boot needs the digest of the whole image")]
    NoFileDigest,
    /// The image cannot be read; in the system's words.
    #[error("{0}")]
    Unreadable(String),
    /// A thread that hashes could not do its work.
    #[error("a thread that hashes could not do its work")]
    ThreadFailed,
}

impl PredictError {
    /// The stable reason code.
    pub fn code(&self) -> MeasurementCode {
        MeasurementCode::ImageUnpredictable
    }
}
