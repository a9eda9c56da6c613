//! The certificate of a secure processor's key, VCEK or VLEK: what AMD says of the key in its extensions.

use x509_cert::Certificate;
use x509_cert::der::asn1::{Ia5StringRef, ObjectIdentifier};
use x509_cert::der::{Decode as _, Encode as _};

use crate::parse::{Digest, SigningKey, SnpProduct, SnpReport, Tcb, TcbLayout};
use crate::refusal::{ReasonCode, Refusal};
use crate::verify::published::Validity;

/// A certificate as somebody sent it: read, and not trusted.
#[derive(Debug, Clone)]
pub struct SnpCertificate {
    der: Vec<u8>,
    signer: Signer,
    product: SnpProduct,
    tcb: Tcb,
    public_key: Vec<u8>,
    validity: Validity,
}

/// Whose key it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signer {
    /// A chip's: `hwID`, as many bytes as its product uses.
    Chip(Vec<u8>),
    /// A cloud provider's, on all of its chips: `cspID`.
    Provider(String),
}

impl SnpCertificate {
    /// Largest that is read: AMD's have 1.4 KiB.
    pub const MAX: usize = 4096;

    /// Reads the DER of a VCEK's or VLEK's certificate: P-384, with a product, firmware versions, and either a chip or a
    /// provider.
    ///
    /// # Errors
    /// `snp-certificate-malformed`, `snp-product-unknown`.
    pub fn parse(der: &[u8]) -> Result<Self, Refusal> {
        if der.len() > Self::MAX {
            return Err(malformed(format!("{} bytes, at most {}", der.len(), Self::MAX)));
        }
        let certificate = Certificate::from_der(der).map_err(|error| malformed(error.to_string()))?;
        let fields = certificate.tbs_certificate();
        let extensions = Extensions::of(&certificate)?;
        let name = extensions.text(PRODUCT_NAME)?.ok_or_else(|| malformed("without productName"))?;
        let product = SnpProduct::of_certificate(name).ok_or_else(|| {
            Refusal::new(ReasonCode::SnpProductUnknown, format!("the certificate is of product {name:?}"))
        })?;
        let public_key = fields.subject_public_key_info().to_der().map_err(|error| malformed(error.to_string()))?;
        let public_key = public_key.strip_prefix(SPKI_P384).filter(|point| point.len() == P384_POINT);
        let seconds = |time: x509_cert::time::Time| time.to_unix_duration().as_secs();
        Ok(Self {
            signer: extensions.signer(product)?,
            tcb: extensions.tcb(product.tcb_layout())?,
            product,
            public_key: public_key.ok_or_else(|| malformed("its key is not one of P-384"))?.to_vec(),
            validity: Validity {
                from: seconds(fields.validity().not_before),
                to: seconds(fields.validity().not_after),
            },
            der: der.to_vec(),
        })
    }

    /// Its DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Whose key it is.
    pub fn signer(&self) -> &Signer {
        &self.signer
    }

    /// The processor's generation.
    pub fn product(&self) -> SnpProduct {
        self.product
    }

    /// Firmware versions that the key was derived from.
    pub fn tcb(&self) -> Tcb {
        self.tcb
    }

    /// When it is valid.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Which kind of key it is for.
    pub fn kind(&self) -> SigningKey {
        match self.signer {
            Signer::Chip(_) => SigningKey::Vcek,
            Signer::Provider(_) => SigningKey::Vlek,
        }
    }

    /// The uncompressed point.
    pub(super) fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    pub(super) fn digest(&self) -> Digest {
        let mut digest = Digest::ZERO;
        digest.0.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &self.der).as_ref());
        digest
    }

    /// Whether it is for the key that made this report: its kind, product, chip and firmware.
    pub(super) fn check_report(&self, report: &SnpReport) -> Result<(), Refusal> {
        let differs = |code, detail| Err(Refusal::new(code, detail));
        if self.kind() != report.signing_key() {
            let (certificate, report) = (self.kind().name(), report.signing_key().name());
            let detail = format!("the certificate is a {certificate}'s, the report says that a {report} signed");
            return differs(ReasonCode::SnpCertificateOfAnotherKind, detail);
        }
        if let Some(product) = report.product().filter(|product| *product != self.product) {
            let detail = format!("the certificate is for {}, the report of {product}", self.product);
            return differs(ReasonCode::SnpCertificateOfAnotherProduct, detail);
        }
        if let Signer::Chip(chip) = &self.signer {
            let id = report.chip_id();
            // Turin's numbers are short: what follows is zero.
            let same = id.starts_with(chip) && id[chip.len()..].iter().all(|byte| *byte == 0);
            // A masked chip is no chip: nothing then says that this certificate is the one.
            if report.chip_masked() || !same {
                let detail = if report.chip_masked() {
                    "the host hides which chip it is (MASK_CHIP_ID)".to_owned()
                } else {
                    format!("the certificate is of chip {}…", hex::encode(chip.get(..8).unwrap_or(chip)))
                };
                return differs(ReasonCode::SnpCertificateOfAnotherChip, detail);
            }
        }
        let reported = report.reported_tcb(self.product.tcb_layout());
        if reported != self.tcb {
            let detail = format!("the certificate is for {}, the report says {reported}", self.tcb);
            return differs(ReasonCode::SnpCertificateOfAnotherTcb, detail);
        }
        Ok(())
    }
}

/// Identifiers and values of AMD's extensions; each once.
struct Extensions<'a>(Vec<(ObjectIdentifier, &'a [u8])>);

impl<'a> Extensions<'a> {
    fn of(certificate: &'a Certificate) -> Result<Self, Refusal> {
        let all = certificate.tbs_certificate().extensions().map_or(&[][..], Vec::as_slice);
        let mut found: Vec<(ObjectIdentifier, &[u8])> = Vec::new();
        for extension in all {
            if found.iter().any(|(id, _)| *id == extension.extn_id) {
                return Err(malformed(format!("the extension {} twice", extension.extn_id)));
            }
            found.push((extension.extn_id, extension.extn_value.as_bytes()));
        }
        Ok(Self(found))
    }

    fn value(&self, id: &str) -> Option<&'a [u8]> {
        let id = ObjectIdentifier::new(id).ok()?;
        self.0.iter().find(|(found, _)| *found == id).map(|(_, value)| *value)
    }

    fn text(&self, id: &str) -> Result<Option<&'a str>, Refusal> {
        let read = |value| {
            let text = Ia5StringRef::from_der(value).map_err(|error| malformed(format!("extension {id}: {error}")))?;
            Ok(text.as_str())
        };
        self.value(id).map(read).transpose()
    }

    fn number(&self, id: &str) -> Result<u8, Refusal> {
        let value = self.value(id).ok_or_else(|| malformed(format!("without extension {id}")))?;
        u8::from_der(value).map_err(|error| malformed(format!("extension {id}: {error}")))
    }

    fn tcb(&self, layout: TcbLayout) -> Result<Tcb, Refusal> {
        Ok(Tcb {
            bootloader: self.number(BOOTLOADER)?,
            tee: self.number(TEE)?,
            snp: self.number(SNP)?,
            microcode: self.number(MICROCODE)?,
            fmc: match layout {
                TcbLayout::Turin => self.number(FMC)?,
                TcbLayout::BeforeTurin => 0,
            },
        })
    }

    /// "hwID" of a VCEK, as it is, in no structure; "cspID" of a VLEK. One of both.
    fn signer(&self, product: SnpProduct) -> Result<Signer, Refusal> {
        match (self.value(CHIP_ID), self.text(PROVIDER_ID)?) {
            (Some(chip), None) if chip.len() == product.chip_id_len() && chip.iter().any(|byte| *byte != 0) => {
                Ok(Signer::Chip(chip.to_vec()))
            }
            (Some(chip), None) => Err(malformed(format!(
                "a hwID of {} bytes, expected {} that are not all zero",
                chip.len(),
                product.chip_id_len()
            ))),
            (None, Some(provider)) => Ok(Signer::Provider(provider.to_owned())),
            (Some(_), Some(_)) => Err(malformed("with hwID and cspID")),
            (None, None) => Err(malformed("without hwID and cspID")),
        }
    }
}

fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::new(ReasonCode::SnpCertificateMalformed, detail)
}

// AMD 57230, table "VCEK Certificate Custom Extensions": below 1.3.6.1.4.1.3704.1.
const PRODUCT_NAME: &str = "1.3.6.1.4.1.3704.1.2";
const BOOTLOADER: &str = "1.3.6.1.4.1.3704.1.3.1";
const TEE: &str = "1.3.6.1.4.1.3704.1.3.2";
const SNP: &str = "1.3.6.1.4.1.3704.1.3.3";
const MICROCODE: &str = "1.3.6.1.4.1.3704.1.3.8";
const FMC: &str = "1.3.6.1.4.1.3704.1.3.9";
const CHIP_ID: &str = "1.3.6.1.4.1.3704.1.4";
const PROVIDER_ID: &str = "1.3.6.1.4.1.3704.1.5";
/// RFC 5480, section 2: id-ecPublicKey with secp384r1, up to the point.
const SPKI_P384: &[u8] = &[
    0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00,
    0x22, 0x03, 0x62, 0x00,
];
/// An uncompressed point: 04h and two coordinates.
const P384_POINT: usize = 97;
