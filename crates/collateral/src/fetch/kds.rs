//! Where AMD's key distribution service has what belongs to a report: AMD 57230, "VCEK Certificate and KDS Interface
//! Specification", chapter 4. Mirrors and directories have the same paths.

use latchkey_attestation::parse::{SigningKey, SnpProduct, SnpReport, Tcb, TcbLayout};
use latchkey_attestation::verify::snp::{SnpCertificate, SnpKind};

use super::error::FetchError;

/// AMD's own.
pub const KDS: &str = "https://kdsintf.amd.com";

/// A file of the service.
pub(super) struct Wanted {
    /// Below the address, query included: a file of a directory has it in its name, as `wget` writes it.
    pub(super) path: String,
    /// Its name in the directory of collateral.
    pub(super) name: String,
    /// What it holds, in alphabetical order.
    pub(super) kinds: &'static [SnpKind],
    pub(super) max: u64,
}

/// What belongs to a report: the chain, the list, and of a chip's key the certificate. That of a provider's key comes from the
/// host alone.
pub(super) fn wanted(report: &SnpReport, product: SnpProduct) -> Result<Vec<Wanted>, FetchError> {
    let (key, chain): (_, &[SnpKind]) = match report.signing_key() {
        SigningKey::Vcek => ("vcek", &[SnpKind::Ark, SnpKind::Ask]),
        SigningKey::Vlek => ("vlek", &[SnpKind::Ark, SnpKind::Asvk]),
    };
    let short = product.name().to_lowercase();
    let file =
        |path: &str, name: String, kinds, max| Wanted { path: format!("{key}/v1/{product}/{path}"), name, kinds, max };
    let mut files = vec![
        file("cert_chain", format!("{key}-{short}-chain.pem"), chain, MAX_CHAIN),
        file("crl", format!("{key}-{short}.crl"), &[SnpKind::Crl], MAX_LIST),
    ];
    if report.signing_key() == SigningKey::Vcek {
        let chip = report.chip_id();
        let chip = chip.get(..product.chip_id_len()).unwrap_or_default();
        if report.chip_masked() || chip.iter().all(|byte| *byte == 0) {
            return Err(FetchError::ChipHidden);
        }
        let layout = product.tcb_layout();
        let Tcb { bootloader, tee, snp, microcode, fmc } = report.reported_tcb(layout);
        let first = match layout {
            TcbLayout::BeforeTurin => String::new(),
            TcbLayout::Turin => format!("fmcSPL={fmc:02}&"),
        };
        let chip = hex::encode(chip);
        let path =
            format!("{chip}?{first}blSPL={bootloader:02}&teeSPL={tee:02}&snpSPL={snp:02}&ucodeSPL={microcode:02}");
        let name = format!("vcek-{short}-{chip}-{fmc:02}-{bootloader:02}-{tee:02}-{snp:02}-{microcode:02}.der");
        files.push(file(&path, name, &[SnpKind::Vcek], SnpCertificate::MAX as u64));
    }
    Ok(files)
}

/// A chain has 5 KiB.
const MAX_CHAIN: u64 = 64 * 1024;
/// A list has 1 KiB, and a line for each authority that was revoked.
const MAX_LIST: u64 = 256 * 1024;
