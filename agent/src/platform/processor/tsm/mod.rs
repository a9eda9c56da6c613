//! What a confidential machine's processor says: the kernel's reports (`Documentation/ABI/testing/configfs-tsm`, Linux 6.7 and newer).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use latchkey_attestation::Refusal;
use latchkey_attestation::parse::{ProcessorEvidence, ProcessorKind, SnpEvidence, SvsmEvidence, TdxEvidence};
use latchkey_reason::reason_codes;
use rustix::io::Errno;

use super::super::mounts;

/// Who answers, by kind of processor: the kernel's word for it.
const PROVIDERS: [(&str, ProcessorKind); 3] =
    [("sev_guest", ProcessorKind::SnpSvsm), ("sev_guest", ProcessorKind::Snp), ("tdx_guest", ProcessorKind::Tdx)];
/// What makes the kernel ask the SVSM, with the services manifest of its TPM (*Secure VM Service Module for SEV-SNP Guests*, 58019
/// revision 1.00, section 8.3.1): attributes of Linux 6.11 and newer, which are there in a guest that has an SVSM.
const SVSM: [(&str, &str); 3] = [
    ("service_provider", "svsm"),
    ("service_guid", "c476f1eb-0123-45a5-9641-b4e7dde5bfe3"),
    ("service_manifest_version", "0"),
];
/// A SEV-SNP report has 1184 bytes, a TDX quote 5 KiB; a host's table of certificates at most 16 KiB.
const MAX_REPORT: u64 = TdxEvidence::MAX_QUOTE as u64;
const MAX_TABLE: u64 = 16 * 1024;
const MAX_TEXT: u64 = 64;
/// The kernel has room for so much; a public area has a tenth of it.
const MAX_MANIFEST: u64 = 4096;

/// Asks the kernel for reports.
#[derive(Debug)]
pub(super) struct Tsm {
    directory: PathBuf,
    /// Numbers the entries of this process: no two of them share one.
    asked: AtomicU32,
}

impl Default for Tsm {
    fn default() -> Self {
        Self::at(Path::new(mounts::CONFIGFS).join("tsm/report"))
    }
}

reason_codes! {
    /// What of a processor's report neither the kernel nor this program can mend.
    pub enum ReportCode {
        /// The guest runs at a lower privilege level than the peer takes reports of.
        Level = "snp-level-not-granted": "let the peer's policy take a level that the guest may ask at (`snp.vmpl`), or launch the guest so that it runs at the policy's";
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum TsmError {
    /// The kernel offers none.
    #[error("{}: {source}", path.display())]
    None {
        /// What is missing.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is a confidential guest of another kind.
    #[error("the kernel's reports are of {provider:?}, and the peer takes {demanded}")]
    Provider {
        /// The kernel's word for it.
        provider: String,
        /// The kinds that would do.
        demanded: String,
    },
    /// It is a SEV-SNP guest without an SVSM, or its kernel cannot ask one.
    #[error("{}: {source}: the peer trusts the TPM of an SVSM: that needs a guest with one, and Linux 6.11 or newer", path.display())]
    NoSvsm {
        /// Which attribute.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The guest runs at a lower privilege level than the peer takes reports of.
    #[error(
        "{code}: this guest asks for reports at VMPL {floor} and lower ones, and the peer takes those of VMPL {demanded}: {remedy}",
        code = ReportCode::Level, remedy = ReportCode::Level.remedy()
    )]
    Level {
        /// The highest level that it may ask at.
        floor: u32,
        /// The peer's.
        demanded: u32,
    },
    /// The kernel did not answer as it should.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which attribute.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The entry is not this process's alone.
    #[error("somebody else asked by the same entry: generation {first}, then {then}")]
    Raced {
        /// Before the report was read.
        first: String,
        /// After it.
        then: String,
    },
    /// What the kernel gave is no report.
    #[error(transparent)]
    Unusable(#[from] Refusal),
}

/// A directory of configfs: the kernel fills it when it is made.
struct Entry(PathBuf);

impl Tsm {
    pub(super) fn at(directory: PathBuf) -> Self {
        Self { directory, asked: AtomicU32::new(0) }
    }

    /// Asks for what the processor says over these data, and for the certificates that the host has beside it.
    pub(super) fn report(
        &self,
        kinds: &BTreeSet<ProcessorKind>,
        vmpl: u32,
        report_data: &[u8; 64],
    ) -> Result<ProcessorEvidence, TsmError> {
        self.entry()?.ask(kinds, vmpl, report_data)
    }

    fn entry(&self) -> Result<Entry, TsmError> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(format!("latchkey-{}-{number}", std::process::id()));
        fs::create_dir(&path).map_err(|source| not_made(self.directory.clone(), source))?;
        Ok(Entry(path))
    }
}

/// Why there is no entry in `path`. ENXIO: the kernel can ask, and no driver of a processor told it how (`tsm_report_make_item`).
fn not_made(path: PathBuf, source: io::Error) -> TsmError {
    let nobody = Some(Errno::NXIO.raw_os_error());
    if source.kind() == io::ErrorKind::NotFound || source.raw_os_error() == nobody {
        return TsmError::None { path, source };
    }
    TsmError::Io { path, source }
}

impl Entry {
    /// Writes the data, and reads what the processor made of them.
    fn ask(
        &self,
        kinds: &BTreeSet<ProcessorKind>,
        vmpl: u32,
        report_data: &[u8; 64],
    ) -> Result<ProcessorEvidence, TsmError> {
        let provider = self.text("provider")?;
        let known = PROVIDERS.iter().find(|(name, kind)| *name == provider && kinds.contains(kind));
        let Some((_, kind)) = known else {
            let demanded: Vec<_> = kinds.iter().map(ProcessorKind::to_string).collect();
            return Err(TsmError::Provider { provider, demanded: demanded.join(" or ") });
        };
        match kind {
            // It asks for itself, at its own level.
            ProcessorKind::SnpSvsm => self.choose_svsm()?,
            ProcessorKind::Snp => self.choose_level(vmpl)?,
            ProcessorKind::SnpAzureHcl | ProcessorKind::Tdx => {}
        }
        let place = self.0.join("inblob");
        fs::write(&place, report_data).map_err(|source| TsmError::Io { path: place, source })?;
        let first = self.text("generation")?;
        let report = self.bytes("outblob", MAX_REPORT)?;
        // Not every kernel shows it where the host gave nothing.
        let table = match self.bytes("auxblob", MAX_TABLE) {
            Err(TsmError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Vec::new(),
            table => table?,
        };
        let manifest = match kind {
            ProcessorKind::SnpSvsm => self.bytes("manifestblob", MAX_MANIFEST)?,
            _ => Vec::new(),
        };
        let then = self.text("generation")?;
        if first != then {
            return Err(TsmError::Raced { first, then });
        }
        let table = (!table.is_empty()).then_some(table);
        Ok(match kind {
            ProcessorKind::Snp | ProcessorKind::SnpAzureHcl => SnpEvidence::new(report, table)?.into(),
            ProcessorKind::SnpSvsm => SvsmEvidence::new(SnpEvidence::new(report, table)?, manifest)?.into(),
            ProcessorKind::Tdx => TdxEvidence::new(report)?.into(),
        })
    }

    /// Has the kernel ask at this level. Unasked it asks at 0, which a guest below another one (an SVSM, a paravisor) may not.
    fn choose_level(&self, vmpl: u32) -> Result<(), TsmError> {
        let floor = match self.text("privlevel_floor") {
            // Not every provider has levels.
            Err(TsmError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => 0,
            floor => floor?.parse().unwrap_or(0),
        };
        if floor > vmpl {
            return Err(TsmError::Level { floor, demanded: vmpl });
        }
        if vmpl == 0 {
            return Ok(());
        }
        let path = self.0.join("privlevel");
        let written = File::options().write(true).open(&path);
        let written = written.and_then(|mut file| file.write_all(vmpl.to_string().as_bytes()));
        written.map_err(|source| TsmError::Io { path, source })
    }

    /// Has the SVSM ask for the report.
    fn choose_svsm(&self) -> Result<(), TsmError> {
        for (name, value) in SVSM {
            let path = self.0.join(name);
            let written = File::options().write(true).open(&path).and_then(|mut file| file.write_all(value.as_bytes()));
            written.map_err(|source| TsmError::NoSvsm { path, source })?;
        }
        Ok(())
    }

    fn text(&self, name: &str) -> Result<String, TsmError> {
        let text = self.bytes(name, MAX_TEXT)?;
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    }

    fn bytes(&self, name: &str, limit: u64) -> Result<Vec<u8>, TsmError> {
        let path = self.0.join(name);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
        match read {
            Ok(_) if bytes.len() as u64 <= limit => Ok(bytes),
            Ok(_) => Err(TsmError::Io { path, source: io::Error::other(format!("more than {limit} bytes")) }),
            Err(source) => Err(TsmError::Io { path, source }),
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // In configfs the attributes go with it.
        let _ = fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests;
