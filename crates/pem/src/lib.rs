//! PEM (RFC 7468), read in one place: what is wrong is told with its line.
//!
//! It reads what is public. The text of a private key is held to the same form and never decoded: a copy of it would stay in memory. Who
//! needs the key reads it with what wipes it (`PrivateKeyDer` of `rustls-pki-types`).

#![forbid(unsafe_code)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_reason::{Reason, reason_codes, reasons};

reason_codes! {
    /// Why a PEM file is not read.
    pub enum PemCode {
        /// A line is none of PEM, or a section is not whole.
        Malformed = "pem-malformed": "mend the line that is named, or write the file anew: each section is base64 between its BEGIN and its END";
    }
}

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = Reason> {
    reasons::<PemCode>()
}

/// One section of a PEM file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PemSection<'a> {
    /// What it says it is, such as `CERTIFICATE`.
    pub label: &'a str,
    /// The bytes in it; none of a private key.
    pub der: Vec<u8>,
    /// The section as it stands, both its boundaries included.
    pub text: &'a str,
    /// The line at which it begins, from 1.
    pub line: usize,
}

/// What is wrong with a PEM file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct PemError {
    /// From 1.
    pub line: usize,
    /// What is wrong.
    pub why: &'static str,
}

impl PemError {
    /// Its reason code.
    pub const fn code(&self) -> PemCode {
        PemCode::Malformed
    }
}

impl<'a> PemSection<'a> {
    /// Whether a file is PEM, and not DER.
    pub fn is_in(file: &[u8]) -> bool {
        file.windows(BEGIN.len()).any(|window| window == BEGIN.as_bytes())
    }

    /// The certificates of a file, in its order, as DER; sections of other kinds are passed over.
    ///
    /// # Errors
    /// [`PemError`].
    pub fn certificates(file: &'a [u8]) -> Result<impl Iterator<Item = Vec<u8>> + 'a, PemError> {
        let sections = Self::all(file)?.into_iter();
        Ok(sections.filter(|section| section.label == CERTIFICATE).map(|section| section.der))
    }

    /// The sections of a file. Text around them explains (RFC 7468, section 2) and is passed over; what looks like a boundary and is none
    /// is refused, so that no section is lost by a slip.
    ///
    /// # Errors
    /// [`PemError`].
    pub fn all(file: &'a [u8]) -> Result<Vec<Self>, PemError> {
        let text = str::from_utf8(file).map_err(|error| {
            let before = file.get(..error.valid_up_to()).unwrap_or_default();
            PemError { line: before.split(|byte| *byte == b'\n').count(), why: "bytes that are no text" }
        })?;
        let (mut found, mut open, mut at) = (Vec::new(), None::<Open<'_>>, 0);
        for (index, whole) in text.split_inclusive('\n').enumerate() {
            let (number, start, line) = (index + 1, at, whole.trim_end());
            at += whole.len();
            open = match open {
                None if line.starts_with(BEGIN) => {
                    let label = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(DASHES));
                    let label = label.ok_or(PemError { line: number, why: "a BEGIN without its closing dashes" })?;
                    Some(Open { label, line: number, start, base64: String::new() })
                }
                None if line.contains(DASHES) => {
                    return Err(PemError {
                        line: number,
                        why: "dashes that begin no section: expected -----BEGIN …-----",
                    });
                }
                None => None,
                Some(section) if line.starts_with(END) => {
                    let of = line.strip_prefix(END).and_then(|rest| rest.strip_suffix(DASHES));
                    if of != Some(section.label) {
                        return Err(PemError { line: number, why: "an END that is not the one of its BEGIN" });
                    }
                    let no_base64 = PemError { line: section.line, why: "the section is not base64" };
                    let der = STANDARD.decode(&section.base64).map_err(|_| no_base64)?;
                    let text = text.get(section.start..start + line.len()).unwrap_or_default();
                    found.push(Self { label: section.label, der, text, line: section.line });
                    None
                }
                Some(section) if line.contains(DASHES) => {
                    return Err(PemError { line: section.line, why: "the section does not end" });
                }
                Some(mut section) => {
                    if !section.label.ends_with(PRIVATE_KEY) {
                        section.base64.push_str(line.trim_start());
                    }
                    Some(section)
                }
            };
        }
        match open {
            Some(section) => Err(PemError { line: section.line, why: "the section does not end" }),
            None => Ok(found),
        }
    }
}

/// A section whose end did not come yet.
struct Open<'a> {
    label: &'a str,
    line: usize,
    start: usize,
    base64: String,
}

/// Ends the labels of PKCS#8, SEC1 and PKCS#1, encrypted or not.
const PRIVATE_KEY: &str = "PRIVATE KEY";
/// RFC 7468, section 5.1.
const CERTIFICATE: &str = "CERTIFICATE";
const DASHES: &str = "-----";
const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "-----BEGIN CERTIFICATE-----\nAQID\nBA==\n-----END CERTIFICATE-----\n";

    #[test]
    fn sections_are_read_with_their_lines_and_text_around_them_is_passed_over() {
        let file =
            format!("subject=CN = a\r\n{ONE}behind it\n-----BEGIN X509 CRL-----\r\nBQ==\r\n-----END X509 CRL-----");
        let found = PemSection::all(file.as_bytes()).unwrap();
        let read: Vec<_> = found.iter().map(|section| (section.label, section.der.as_slice(), section.line)).collect();
        assert_eq!(read, [("CERTIFICATE", &[1, 2, 3, 4][..], 2), ("X509 CRL", &[5], 7)]);
        assert_eq!(found[0].text, ONE.trim_end());
        assert_eq!(PemSection::all(b"").unwrap(), []);
        assert!(PemSection::is_in(ONE.as_bytes()) && !PemSection::is_in(&[0x30, 0x82]));
    }

    /// kubelets keep certificate and key in one file.
    #[test]
    fn beside_a_private_key_certificates_are_read_and_the_key_is_not() {
        let key = ONE.replace("CERTIFICATE", "EC PRIVATE KEY");
        let file = format!("{key}{ONE}");
        let found = PemSection::all(file.as_bytes()).unwrap();
        assert_eq!((found[0].label, found[0].der.len(), found[1].der.len()), ("EC PRIVATE KEY", 0, 4));
        assert_eq!(PemSection::certificates(file.as_bytes()).unwrap().collect::<Vec<_>>(), [[1, 2, 3, 4]]);
        assert_eq!(PemSection::all(&key.as_bytes()[..40]).unwrap_err().code(), PemCode::Malformed);
    }

    #[test]
    fn what_is_no_section_is_refused_with_its_line() {
        for (file, line, why) in [
            (format!("{ONE}----- BEGIN CERTIFICATE-----\n"), 5, "dashes"),
            (format!("{ONE}{}", &ONE[..40]), 5, "does not end"),
            (format!("{}{ONE}", &ONE[..33]), 1, "does not end"),
            (format!("a\n  {ONE}"), 2, "dashes"),
            (ONE.replace("AQID", "AQ!D"), 1, "base64"),
            (ONE.replace("BA==", "BA="), 1, "base64"),
            (ONE.replace("END CERTIFICATE", "END KEY"), 4, "END"),
            (ONE.replace("BEGIN CERTIFICATE-----", "BEGIN CERTIFICATE"), 1, "closing"),
        ] {
            let error = PemSection::all(file.as_bytes()).unwrap_err();
            assert_eq!(error.line, line, "{error} in {file}");
            assert!(error.why.contains(why), "{error} in {file}");
        }
        assert_eq!(PemSection::all(b"a\n\xff").unwrap_err().line, 2);
    }
}
