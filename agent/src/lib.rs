//! The node agent as a library: the binary is a thin `main`.

pub mod cluster;
pub mod enrol;
mod flows;
pub mod handover;
pub mod lifecycle;
pub mod platform;
pub mod stage1;
pub mod stage2;

use latchkey_reason::{Reason, reasons};

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = Reason> {
    platform::reason_codes()
        .chain(reasons::<stage1::BootCode>())
        .chain(reasons::<lifecycle::NodeCode>())
        .chain(flows::reason_codes())
        .chain(reasons::<cluster::StepCode>())
        .chain(reasons::<stage2::Stage2Code>())
        .chain(reasons::<enrol::EnrolCode>())
}

/// Every code that a node can record: its own, and those of the crates that it stands on.
fn known_codes() -> impl Iterator<Item = Reason> {
    reason_codes()
        .chain(latchkey_api::reason_codes())
        .chain(latchkey_attestation::reason_codes())
        .chain(latchkey_channel::reason_codes())
        .chain(latchkey_disk::reason_codes())
        .chain(latchkey_node_config::reason_codes())
        .chain(latchkey_tpm::device::reason_codes())
}

/// What the TPM is asked for. Both stages ask for the same key: it is the node's identity.
pub(crate) const fn ek_template(choice: latchkey_node_config::EkChoice) -> latchkey_tpm::wire::EkTemplate {
    use latchkey_node_config::EkChoice;
    use latchkey_tpm::wire::EkTemplate;
    match choice {
        EkChoice::EccP256 => EkTemplate::P256L2,
        EkChoice::EccP384 => EkTemplate::P384H3,
        EkChoice::EccP521 => EkTemplate::P521H4,
        EkChoice::Rsa2048 => EkTemplate::RsaL1,
        EkChoice::Rsa3072 => EkTemplate::Rsa3072H6,
        EkChoice::Rsa4096 => EkTemplate::Rsa4096H7,
        EkChoice::EccP256High => EkTemplate::P256H2,
        EkChoice::Rsa2048High => EkTemplate::RsaH1,
    }
}

/// The same of the attestation key.
pub(crate) const fn attestation_key(
    choice: latchkey_node_config::AkChoice,
) -> latchkey_tpm::device::AttestationKeySource {
    use latchkey_node_config::AkChoice;
    use latchkey_tpm::device::AttestationKeySource;
    match choice {
        AkChoice::Own => AttestationKeySource::Own,
        AkChoice::GoogleEcc => AttestationKeySource::GoogleEcc,
        AkChoice::GoogleRsa => AttestationKeySource::GoogleRsa,
        AkChoice::Azure => AttestationKeySource::Azure,
        AkChoice::AzureHcl => AttestationKeySource::AzureHcl,
    }
}

#[cfg(test)]
mod tests {
    use latchkey_node_config::Config;
    use latchkey_tpm::device::AttestationKeySource;
    use latchkey_tpm::wire::EkTemplate;

    /// Policies, `latchkey tpm ek` and the kernel command line call a template by one name.
    #[test]
    fn latchkey_ek_takes_the_names_of_templates() {
        for template in EkTemplate::ALL {
            let config = Config::parse(format!("latchkey.ek={template}").as_bytes()).unwrap();
            assert_eq!(super::ek_template(config.ek), template);
        }
    }

    /// What a TPM error calls a key is what the command line calls it.
    #[test]
    fn latchkey_ak_takes_the_names_of_attestation_keys() {
        for source in AttestationKeySource::ALL {
            let config = Config::parse(format!("latchkey.ak={}", source.name()).as_bytes()).unwrap();
            assert_eq!(super::attestation_key(config.ak), source);
        }
    }
}
