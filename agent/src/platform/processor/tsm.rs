//! What a confidential machine's processor says: the kernel's reports (`Documentation/ABI/testing/configfs-tsm`, Linux 6.7 and newer).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use latchkey_attestation::Refusal;
use latchkey_attestation::parse::{ProcessorEvidence, ProcessorKind, SnpEvidence, TdxEvidence};

use super::super::mounts;

/// Who answers, by kind of processor: the kernel's word for it.
const PROVIDERS: [(&str, ProcessorKind); 2] = [("sev_guest", ProcessorKind::Snp), ("tdx_guest", ProcessorKind::Tdx)];
/// A SEV-SNP report has 1184 bytes, a TDX quote 5 KiB; a host's table of certificates at most 16 KiB.
const MAX_REPORT: u64 = TdxEvidence::MAX_QUOTE as u64;
const MAX_TABLE: u64 = 16 * 1024;
const MAX_TEXT: u64 = 64;

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
        report_data: &[u8; 64],
    ) -> Result<ProcessorEvidence, TsmError> {
        self.entry()?.ask(kinds, report_data)
    }

    fn entry(&self) -> Result<Entry, TsmError> {
        let none = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => TsmError::None { path: self.directory.clone(), source },
            _ => TsmError::Io { path: self.directory.clone(), source },
        };
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(format!("latchkey-{}-{number}", std::process::id()));
        fs::create_dir(&path).map_err(none)?;
        Ok(Entry(path))
    }
}

impl Entry {
    /// Writes the data, and reads what the processor made of them.
    fn ask(&self, kinds: &BTreeSet<ProcessorKind>, report_data: &[u8; 64]) -> Result<ProcessorEvidence, TsmError> {
        let provider = self.text("provider")?;
        let known = PROVIDERS.iter().find(|(name, kind)| *name == provider && kinds.contains(kind));
        let Some((_, kind)) = known else {
            let demanded: Vec<_> = kinds.iter().map(ProcessorKind::to_string).collect();
            return Err(TsmError::Provider { provider, demanded: demanded.join(" or ") });
        };
        let place = self.0.join("inblob");
        fs::write(&place, report_data).map_err(|source| TsmError::Io { path: place, source })?;
        let first = self.text("generation")?;
        let report = self.bytes("outblob", MAX_REPORT)?;
        // Not every kernel shows it where the host gave nothing.
        let table = match self.bytes("auxblob", MAX_TABLE) {
            Err(TsmError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Vec::new(),
            table => table?,
        };
        let then = self.text("generation")?;
        if first != then {
            return Err(TsmError::Raced { first, then });
        }
        Ok(match kind {
            ProcessorKind::Snp => SnpEvidence::new(report, (!table.is_empty()).then_some(table))?.into(),
            ProcessorKind::Tdx => TdxEvidence::new(report)?.into(),
        })
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
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::io::Write as _;
    use std::thread;

    const REPORT: [u8; 1184] = [7; 1184];

    fn both() -> BTreeSet<ProcessorKind> {
        [ProcessorKind::Snp, ProcessorKind::Tdx].into()
    }

    /// A fake of an entry as the kernel fills it: files, which answer whatever is asked.
    fn filled(attributes: &[(&str, &[u8])]) -> (tempfile::TempDir, Entry) {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in attributes {
            fs::write(directory.path().join(name), content).unwrap();
        }
        let entry = Entry(directory.path().to_owned());
        (directory, entry)
    }

    fn refusal(attributes: &[(&str, &[u8])]) -> String {
        let (_directory, entry) = filled(attributes);
        entry.ask(&both(), &[1; 64]).unwrap_err().to_string()
    }

    #[test]
    fn the_data_go_in_and_report_and_certificates_come_out() {
        let rest: [(&str, &[u8]); 3] = [("provider", b"sev_guest\n"), ("generation", b"1\n"), ("outblob", &REPORT)];
        for (table, shown) in [(Some(&b"table"[..]), &b"table"[..]), (Some(b""), b""), (None, b"")] {
            let table = table.map(|table| ("auxblob", table));
            let (directory, entry) = filled(&[&rest[..], table.as_slice()].concat());
            let evidence = entry.ask(&both(), &[1; 64]).unwrap();
            let evidence = evidence.snp().unwrap();
            assert_eq!((evidence.report(), evidence.certificates()), (&REPORT[..], shown));
            assert_eq!(fs::read(directory.path().join("inblob")).unwrap(), [1; 64]);
        }
    }

    #[test]
    fn a_quote_of_a_tdx_guest_comes_the_same_way_where_the_peer_takes_one() {
        let quote = [4; 5006];
        let (_directory, entry) = filled(&[("provider", b"tdx_guest\n"), ("generation", b"1\n"), ("outblob", &quote)]);
        let evidence = entry.ask(&both(), &[1; 64]).unwrap();
        assert_eq!(evidence.tdx().unwrap().quote(), quote);
        let error = entry.ask(&[ProcessorKind::Snp].into(), &[1; 64]).unwrap_err().to_string();
        assert!(error.contains("tdx_guest") && error.contains("a SEV-SNP report"), "{error}");
    }

    #[test]
    fn what_is_no_report_is_refused_by_name() {
        let generation: (&str, &[u8]) = ("generation", b"1\n");
        assert!(refusal(&[("provider", b"arm_cca_guest\n")]).contains("arm_cca_guest"));
        assert!(refusal(&[]).contains("provider"));
        let sev = ("provider", &b"sev_guest\n"[..]);
        assert!(refusal(&[sev, generation]).contains("outblob"));
        assert!(refusal(&[sev, generation, ("outblob", &vec![0; 16 * 1024 + 1])]).contains("more than 16384 bytes"));
        assert!(refusal(&[sev, generation, ("outblob", &[0; 1185])]).contains("report is larger"));
        let table = vec![0; 16 * 1024 + 1];
        assert!(refusal(&[sev, generation, ("outblob", &REPORT), ("auxblob", &table)]).contains("auxblob: more than"));
    }

    #[test]
    fn a_report_that_somebody_else_asked_for_meanwhile_is_refused() {
        let rest: [(&str, &[u8]); 3] = [("provider", b"sev_guest\n"), ("generation", b"1\n"), ("auxblob", b"")];
        let (directory, entry) = filled(&rest);
        let [generation, report] = ["generation", "outblob"].map(|name| directory.path().join(name));
        mknodat(CWD, &report, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let kernel = thread::spawn(move || {
            // A pipe opens when the other side does: the first generation was read by then.
            let mut report = File::options().write(true).open(&report).unwrap();
            fs::write(&generation, "2\n").unwrap();
            report.write_all(&REPORT).unwrap();
        });
        let error = entry.ask(&both(), &[1; 64]).unwrap_err();
        kernel.join().unwrap();
        assert!(matches!(&error, TsmError::Raced { first, then } if first == "1" && then == "2"), "{error}");
    }
}
