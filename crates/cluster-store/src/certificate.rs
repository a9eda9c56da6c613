//! When a certificate ends. Whoever is known to the API server by one says so in time: the service itself, and `latchkey status`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_attestation::reference::parse_rfc3339;
use latchkey_pem::PemSection;

/// How long before its end a certificate needs attention, in seconds.
pub const SOON: u64 = 30 * 24 * 60 * 60;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// When the first certificate of a PEM ends, in seconds since the Unix epoch; `None` if that cannot be read.
pub fn end_of_pem(pem: &str) -> Option<u64> {
    end_of_der(&der_of_pem(pem)?)
}

/// The same of what a kubeconfig has: base64 of PEM.
pub fn end_of_data(data: &str) -> Option<u64> {
    end_of_pem(std::str::from_utf8(&STANDARD.decode(data.trim()).ok()?).ok()?)
}

/// Who issued a certificate, and who it is of, as DER.
#[derive(Debug, PartialEq, Eq)]
pub struct Names {
    /// Who issued it.
    pub issuer: Vec<u8>,
    /// Whose it is.
    pub subject: Vec<u8>,
}

/// Those of the first certificate of a PEM; `None` if they cannot be read.
pub fn names_of_pem(pem: &str) -> Option<Names> {
    names_of_der(&der_of_pem(pem)?)
}

/// The key of the first certificate of a PEM, as `SubjectPublicKeyInfo` in DER; `None` if it cannot be read.
pub fn key_of_pem(pem: &str) -> Option<Vec<u8>> {
    key_of_der(&der_of_pem(pem)?)
}

/// RFC 5280, section 4.1: the sixth field behind the version.
fn key_of_der(der: &[u8]) -> Option<Vec<u8>> {
    let mut fields = fields(der)?;
    // Serial number, algorithm, issuer, validity, subject.
    for _ in 0..5 {
        fields = element(fields)?.2;
    }
    let (_, behind) = expect(SEQUENCE, fields)?;
    fields.get(..fields.len() - behind.len()).map(<[u8]>::to_vec)
}

/// RFC 5280, section 4.1: the third field behind the version, and the fifth.
fn names_of_der(der: &[u8]) -> Option<Names> {
    // Serial number, algorithm.
    let rest = element(element(fields(der)?)?.2)?.2;
    let (issuer, rest) = expect(SEQUENCE, rest)?;
    let subject = expect(SEQUENCE, element(rest)?.2)?.0;
    Some(Names { issuer: issuer.to_vec(), subject: subject.to_vec() })
}

/// What is behind the version.
fn fields(der: &[u8]) -> Option<&[u8]> {
    let fields = expect(SEQUENCE, expect(SEQUENCE, der)?.0)?.0;
    Some(expect(VERSION, fields).map_or(fields, |(_, behind)| behind))
}

fn der_of_pem(pem: &str) -> Option<Vec<u8>> {
    PemSection::certificates(pem.as_bytes()).ok()?.next()
}

/// RFC 5280, section 4.1: the second time of the fifth field, or of the fourth where there is no version.
fn end_of_der(der: &[u8]) -> Option<u64> {
    let mut rest = fields(der)?;
    // Serial number, algorithm, issuer.
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let validity = expect(SEQUENCE, rest)?.0;
    let (tag, text, _) = element(element(validity)?.2)?;
    let text = std::str::from_utf8(text).ok()?;
    let text = match tag {
        // Two digits of the year: 50 to 99 are of the last century.
        UTC_TIME => format!("{}{text}", if text.get(..2)? < "50" { "20" } else { "19" }),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| text.get(from..to);
    let (date, time) = ((part(0, 4)?, part(4, 6)?, part(6, 8)?), (part(8, 10)?, part(10, 12)?, part(12, 14)?));
    parse_rfc3339(&format!("{}-{}-{}T{}:{}:{}Z", date.0, date.1, date.2, time.0, time.1, time.2))
}

fn expect(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    element(der).filter(|(found, ..)| *found == tag).map(|(_, content, rest)| (content, rest))
}

/// Tag, content, and what is behind it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        short @ 0..=0x7f => (usize::from(*short), rest),
        long @ 0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(year: i32) -> String {
        let mut params = rcgen::CertificateParams::new(vec!["node".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 2, 3);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
    }

    #[test]
    fn the_end_of_a_certificate_is_read_in_this_century_and_in_the_next_half() {
        for year in [1999, 2027, 2049, 2050, 2100] {
            let end = parse_rfc3339(&format!("{year}-02-03T00:00:00Z"));
            assert!(end.is_some() && end_of_pem(&pem(year)) == end, "{year}");
            assert_eq!(end_of_data(&STANDARD.encode(pem(year))), end);
        }
    }

    #[test]
    fn the_key_of_a_certificate_is_the_one_that_it_was_made_with() {
        use rcgen::PublicKeyData as _;
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = rcgen::CertificateParams::new(vec!["node".to_owned()]).unwrap().self_signed(&key).unwrap().pem();
        assert_eq!(key_of_pem(&pem), Some(key.subject_public_key_info()));
    }

    #[test]
    fn what_is_no_certificate_has_no_end() {
        let whole =
            STANDARD.decode(pem(2027).lines().filter(|line| !line.starts_with('-')).collect::<String>()).unwrap();
        assert!(end_of_der(&whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(end_of_der(&whole[..length]), None, "{length}");
            assert_eq!(names_of_der(&whole[..length]), None, "{length}");
            assert_eq!(key_of_der(&whole[..length]), None, "{length}");
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 0xff;
            // Whatever it says, it does not panic.
            let _ = (end_of_der(&other), names_of_der(&other), key_of_der(&other));
        }
        assert_eq!((end_of_pem(""), end_of_data("%")), (None, None));
    }
}
