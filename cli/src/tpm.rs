//! `latchkey tpm ek`: the endorsement keys of this machine's TPM, one of each template that it implements.

use std::fmt::Display;
use std::path::Path;

use latchkey_attestation::EkDigest;
use latchkey_tpm::device::{CharDevice, Tpm};
use serde::Serialize;

use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style, Table, Tone};

pub(crate) fn ek(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let device = arguments.path("device").unwrap_or(Path::new(CharDevice::DEFAULT));
    output.say(Tone::Plain, "asking", "the TPM for each of its keys; one on a bus of its own may take a minute");
    let open = CharDevice::open(device).map_err(|error| unusable(device, &error))?;
    let endorsement_keys = listed(&mut Tpm::new(open)).map_err(|error| unusable(device, &error))?;
    output.report(&EndorsementKeysReport { device: device.display().to_string(), endorsement_keys })
}

/// The keys of one TPM.
#[derive(Serialize)]
struct EndorsementKeysReport {
    device: String,
    endorsement_keys: Vec<Listed>,
}

impl Report for EndorsementKeysReport {
    fn text(&self, _: Style) -> String {
        let mut table = Table::new(&["TEMPLATE", "CERTIFICATE", "EK DIGEST"]);
        for Listed { template, ek_sha256, certified } in &self.endorsement_keys {
            let certified = if *certified { "yes" } else { "no" };
            table.row([(*template).to_owned(), certified.to_owned(), ek_sha256.to_string()]);
        }
        table.to_string()
    }
}

/// One row.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Listed {
    template: &'static str,
    ek_sha256: EkDigest,
    certified: bool,
}

fn listed(tpm: &mut Tpm) -> Result<Vec<Listed>, Box<dyn Display>> {
    let keys = tpm.endorsement_keys().map_err(|error| Box::new(error) as Box<dyn Display>)?;
    let row = |key: &latchkey_tpm::device::EndorsementKey| {
        let ek_sha256 =
            EkDigest::of_public_area(&key.public.marshal()).map_err(|refusal| Box::new(refusal) as Box<dyn Display>)?;
        Ok(Listed { template: key.template.name(), ek_sha256, certified: key.certificate.is_some() })
    };
    keys.iter().map(row).collect()
}

fn unusable(device: &Path, why: &dyn Display) -> CommandError {
    let code = CommandCode::TpmUnusable;
    CommandError::new(Exit::Failed, code, format!("the TPM at {} cannot be used: {why}", device.display()))
        .fix(code.remedy())
}

#[cfg(test)]
mod tests {
    use latchkey_swtpm_rig::Swtpm;
    use latchkey_tpm::device::AttestingTpm;
    use latchkey_tpm::wire::EkTemplate;

    use super::*;

    #[test]
    fn every_endorsement_key_of_a_tpm_is_listed_with_its_digest() {
        let Some(swtpm) = Swtpm::start() else { return };
        let keys = listed(&mut swtpm.connect().unwrap()).unwrap_or_default();
        let names: Vec<&str> = keys.iter().map(|key| key.template).collect();
        assert_eq!(
            names,
            ["rsa-2048", "ecc-p256", "rsa-2048-high", "ecc-p256-high", "ecc-p384", "ecc-p521", "rsa-3072"]
        );
        for (key, template) in keys.into_iter().zip(EkTemplate::ALL) {
            let attester = AttestingTpm::new(swtpm.connect().unwrap(), template).unwrap();
            let ek_sha256 = EkDigest::of_public_area(&attester.ek_public().marshal()).unwrap();
            let certified = attester.ek_certificate().is_some();
            assert_eq!(key, Listed { template: template.name(), ek_sha256, certified });
        }
    }
}
