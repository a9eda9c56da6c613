//! The node agent as a library: the binary is a thin `main`.

pub mod cluster;
mod flows;
pub mod handover;
pub mod lifecycle;
pub mod platform;
pub mod stage1;
pub mod stage2;

/// What the TPM is asked for. Both stages ask for the same key: it is the node's identity.
pub(crate) const fn ek_template(choice: latchkey_node_config::EkChoice) -> latchkey_tpm::wire::EkTemplate {
    use latchkey_node_config::EkChoice;
    use latchkey_tpm::wire::EkTemplate;
    match choice {
        EkChoice::EccP256 => EkTemplate::P256L2,
        EkChoice::EccP384 => EkTemplate::P384H3,
        EkChoice::Rsa2048 => EkTemplate::RsaL1,
        EkChoice::EccP256High => EkTemplate::P256H2,
        EkChoice::Rsa2048High => EkTemplate::RsaH1,
    }
}

#[cfg(test)]
mod tests {
    use latchkey_node_config::Config;
    use latchkey_tpm::wire::EkTemplate;

    /// Policies, `latchkey tpm ek` and the kernel command line call a template by one name.
    #[test]
    fn latchkey_ek_takes_the_names_of_templates() {
        for template in EkTemplate::ALL {
            let config = Config::parse(format!("latchkey.ek={template}").as_bytes()).unwrap();
            assert_eq!(super::ek_template(config.ek), template);
        }
    }
}
