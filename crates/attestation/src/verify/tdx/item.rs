//! What a file of Intel's holds, by what it says of itself: certificates, lists of revoked ones, and signed JSON.

use dcap_qvl::{QeIdentity, TcbInfo};
use rustls_pki_types::CertificateDer;
use serde::Deserialize;
use serde_json::value::RawValue;
use webpki::{CertRevocationList, OwnedCertRevocationList};

use super::authority::{PckAuthority, Subject, subject};
use crate::reference::parse_rfc3339;
use crate::refusal::Refusal;
use crate::verify::chain_words;
use crate::verify::published::{CollateralFile, MAX_FILE, Piece, PieceKind, Validity, pieces};

/// One thing that a file holds.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) validity: Validity,
    /// Of JSON, the number of Intel's evaluation: of two, the later one knows more, whenever it was signed.
    pub(super) evaluation: u32,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Certificate(Subject, CertificateDer<'static>, Serial),
    /// What the root (`None`) or an authority revoked.
    List(Option<PckAuthority>, Box<CertRevocationList<'static>>, Vec<u8>),
    /// Of the platforms with this FMSPC.
    TcbInfo([u8; 6], SignedJson),
    /// Which enclaves of Intel's may sign quotes.
    Enclave(SignedJson),
}

pub(super) type Serial = Vec<u8>;

/// JSON as Intel's service answers: the text that is signed, byte for byte, and the signature (ECDSA P-256, two numbers of 32 bytes).
#[derive(Debug, Clone)]
pub(super) struct SignedJson {
    pub(super) text: String,
    pub(super) signature: Vec<u8>,
}

/// What a file holds.
pub(super) fn items(file: &CollateralFile<'_>) -> Result<Vec<Item>, Refusal> {
    if file.content.trim_ascii_start().starts_with(b"{") {
        return Ok(vec![json(file)?]);
    }
    pieces(file)?.into_iter().map(|piece| item(file, piece)).collect()
}

fn item(file: &CollateralFile<'_>, piece: Piece) -> Result<Item, Refusal> {
    let name = piece.common_name();
    let whose = subject(name.as_deref());
    let name = name.unwrap_or_default();
    match (piece.what, whose) {
        (PieceKind::Certificate(certificate), Some(subject)) => {
            let serial = certificate.tbs_certificate().serial_number().as_bytes().to_vec();
            let validity = Validity::of_certificate(&certificate);
            Ok(Item { validity, evaluation: 0, what: What::Certificate(subject, piece.der.into(), serial) })
        }
        (PieceKind::Certificate(_), None) => {
            Err(file.malformed(format!("a certificate of {name:?}, which is nobody of Intel's")))
        }
        (PieceKind::List(list), Some(Subject::Root | Subject::Authority(_))) => {
            let validity = Validity::of_list(&list)
                .ok_or_else(|| file.malformed("a list that does not say when the next one comes"))?;
            let parsed =
                OwnedCertRevocationList::from_der(&piece.der).map_err(|error| file.malformed(chain_words(&error)))?;
            let parsed = CertRevocationList::from(parsed);
            // Of a part of what was revoked the rest would be taken for good.
            if parsed.issuing_distribution_point().is_some() {
                return Err(file.malformed("a list of a part of what was revoked"));
            }
            // A list counts until its next one, and not at that moment.
            let validity = Validity { to: validity.to.saturating_sub(1), ..validity };
            let whose = match whose {
                Some(Subject::Authority(authority)) => Some(authority),
                _ => None,
            };
            Ok(Item { validity, evaluation: 0, what: What::List(whose, Box::new(parsed), piece.der) })
        }
        (PieceKind::List(_), _) => {
            Err(file.malformed(format!("a list of revoked certificates of {name:?}, who is no authority of Intel's")))
        }
    }
}

/// One of the two, with its signature.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Answer<'a> {
    #[serde(borrow)]
    tcb_info: Option<&'a RawValue>,
    #[serde(borrow)]
    enclave_identity: Option<&'a RawValue>,
    signature: String,
}

fn json(file: &CollateralFile<'_>) -> Result<Item, Refusal> {
    if file.content.len() > MAX_FILE {
        return Err(file.malformed(format!("{} bytes, at most {MAX_FILE}", file.content.len())));
    }
    let answer: Answer<'_> = serde_json::from_slice(file.content).map_err(|error| file.malformed(error))?;
    let signature = hex::decode(&answer.signature).ok().filter(|signature| signature.len() == SIGNATURE);
    let signature = signature.ok_or_else(|| file.malformed("its signature is not 128 hexadecimal digits"))?;
    let signed = |text: &RawValue| SignedJson { text: text.get().to_owned(), signature };
    match (answer.tcb_info, answer.enclave_identity) {
        (Some(text), None) => {
            let info: TcbInfo = serde_json::from_str(text.get()).map_err(|error| file.malformed(error))?;
            if info.id != "TDX" {
                return Err(file.malformed(format!("TCB information of {}, and not of TDX", info.id)));
            }
            let mut fmspc = [0; 6];
            hex::decode_to_slice(&info.fmspc, &mut fmspc).map_err(|_| file.malformed("an FMSPC is not 6 bytes"))?;
            let validity = validity(file, &info.issue_date, &info.next_update)?;
            Ok(Item { validity, evaluation: info.tcb_evaluation_data_number, what: What::TcbInfo(fmspc, signed(text)) })
        }
        (None, Some(text)) => {
            let identity: QeIdentity = serde_json::from_str(text.get()).map_err(|error| file.malformed(error))?;
            if identity.id != "TD_QE" {
                return Err(
                    file.malformed(format!("the identity of {}, and not of TDX's quoting enclave", identity.id))
                );
            }
            let validity = validity(file, &identity.issue_date, &identity.next_update)?;
            Ok(Item { validity, evaluation: identity.tcb_evaluation_data_number, what: What::Enclave(signed(text)) })
        }
        _ => Err(file.malformed("neither TCB information nor the identity of a quoting enclave")),
    }
}

fn validity(file: &CollateralFile<'_>, from: &str, to: &str) -> Result<Validity, Refusal> {
    match (parse_rfc3339(from), parse_rfc3339(to)) {
        (Some(from), Some(to)) => Ok(Validity { from, to }),
        _ => Err(file.malformed("`issueDate` or `nextUpdate` is no instant")),
    }
}

/// Two numbers of P-256.
const SIGNATURE: usize = 64;
