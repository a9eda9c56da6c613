//! What a machine proves, in words.

use latchkey_attestation::policy::Demand;
use latchkey_attestation::reference::format_rfc3339;
use latchkey_attestation::validate::{AdmittedImage, AdmittedProcessor};
use latchkey_attestation::{Admission, EkDigest, EkTrust, End, KnownBy};
use latchkey_tpm::wire::EkTemplate;

use crate::output::printable;
use crate::reference::authority_in_words;
use crate::trust::Trust;

/// The image in one phrase.
pub(super) fn image_in_words(image: &AdmittedImage) -> String {
    let AdmittedImage { manifest, serial, source, name, version, machine } = image;
    format!("{name} {version} on {machine} (manifest {manifest}, serial {serial}, {})", source.as_str())
}

/// Who vouches for the image's values, and whether an older word of theirs would have been noticed.
pub(super) fn vouched_in_words(image: &AdmittedImage, trust: &Trust) -> String {
    let manifest = trust.references.manifest(&image.manifest);
    let mut text = manifest.map_or_else(String::new, |manifest| authority_in_words(manifest.authority()));
    if !trust.remembers {
        text.push_str("\nan older revision would not be noticed: no --cluster remembers what was accepted");
    }
    text
}

/// The processor that vouched for the machine, how up to date it is, and until when that holds.
pub(super) fn processor_in_words(processor: &AdmittedProcessor) -> String {
    match processor {
        AdmittedProcessor::Snp(admitted) => {
            let key = match admitted.provider() {
                Some(provider) => format!("the {} of {}", admitted.signed_by(), printable(provider)),
                None => format!("its {}", admitted.signed_by()),
            };
            format!("{processor}\n{key} signed; the certificate ends {}", format_rfc3339(admitted.certificate_ends()))
        }
        AdmittedProcessor::Tdx(admitted) => {
            let (tcb, ends) = (format_rfc3339(admitted.tcb_date()), format_rfc3339(admitted.collateral_ends()));
            let open = admitted.advisories().join(", ");
            let open =
                if open.is_empty() { "no advisory is open".to_owned() } else { format!("open and tolerated: {open}") };
            format!(
                "{processor}\npackage {}, its TCB of {tcb}, by Intel's evaluation {}\n{open}\nwhat Intel says of it holds until {ends}",
                admitted.ppid(),
                admitted.tcb_evaluation(),
            )
        }
    }
}

/// Why the TPM is trusted, in one phrase.
pub(super) fn trust_in_words(trust: &EkTrust) -> String {
    match trust {
        EkTrust::PinnedEk => "its endorsement key is pinned by the policy".to_owned(),
        EkTrust::EkChain { root_sha256 } => format!("certified by the authority {root_sha256}"),
        EkTrust::AkChain { root_sha256 } => format!("its attestation key is certified by the authority {root_sha256}"),
        EkTrust::EkSvsm => "a SEV-SNP processor vouches for its endorsement key, as its SVSM's (ek-svsm)".to_owned(),
        EkTrust::AkAzureHcl => {
            "a SEV-SNP processor vouches for its attestation key, as its paravisor's (ak-azure-hcl)".to_owned()
        }
    }
}

/// By which of its keys a TPM is known.
pub(super) fn tpm_in_words(identity: EkDigest, template: EkTemplate, trust: &EkTrust) -> String {
    match trust.known_by() {
        KnownBy::AttestationKey => format!("{identity} (attestation key)\n{}", identity.words()),
        KnownBy::EndorsementKey => format!("{identity} ({template})\n{}", identity.words()),
    }
}

/// Proven claims for a line of progress.
pub(crate) fn proven_in_words(admission: &Admission) -> String {
    let warnings: Vec<String> = admission.warnings().iter().map(|warning| warning.pcr.to_string()).collect();
    let mut text = format!(
        "image {}\nTPM {}, {}",
        image_in_words(admission.image()),
        admission.ek_digest(),
        trust_in_words(admission.trust())
    );
    if let Some(processor) = admission.processor() {
        text.push_str("\nprocessor ");
        text.push_str(&processor.to_string());
    }
    if !warnings.is_empty() {
        text.push_str("\nnot as recorded, but only warned about: PCR ");
        text.push_str(&warnings.join(", "));
    }
    text
}

/// What the policy demanded of it, a line for each field.
pub(super) fn demanded_in_words(demanded: &[Demand]) -> String {
    let line = |demand: &Demand| format!("{}: {}", demand.field, printable(&demand.value));
    demanded.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What ends, the first one first.
pub(super) fn ends_in_words(ends: &[End]) -> String {
    let line = |end: &End| format!("{}  {}", format_rfc3339(end.ends), printable(&end.what));
    ends.iter().map(line).collect::<Vec<_>>().join("\n")
}
