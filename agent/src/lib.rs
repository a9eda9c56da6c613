//! The node agent as a library: the binary is a thin `main`.

pub mod cluster;
mod flows;
pub mod handover;
pub mod lifecycle;
pub mod platform;
pub mod stage1;
pub mod stage2;

/// What the TPM is asked for. Both stages ask for the same key: it is the node's identity.
pub(crate) const fn ek_preference(choice: latchkey_node_config::EkChoice) -> latchkey_tpm::device::EkPreference {
    use latchkey_node_config::EkChoice;
    use latchkey_tpm::device::EkPreference;
    use latchkey_tpm::wire::EkTemplate;
    match choice {
        EkChoice::Auto => EkPreference::Certified,
        EkChoice::EccP256 => EkPreference::Template(EkTemplate::P256L2),
        EkChoice::EccP384 => EkPreference::Template(EkTemplate::P384H3),
        EkChoice::Rsa2048 => EkPreference::Template(EkTemplate::RsaL1),
    }
}
