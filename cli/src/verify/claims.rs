//! Claims as a table.

use latchkey_attestation::reference::Rule;
use latchkey_attestation::validate::{AdmittedImage, AdmittedProcessor, Warning};
use latchkey_attestation::{Component, Digest, EkTrust, FirmwareStanding, PcrValues, Policy};

use super::words::{
    demanded_in_words, ends_in_words, image_in_words, processor_in_words, trust_in_words, vouched_in_words,
};
use super::{Beside, Rests};
use crate::output::{Style, Table, Tone, pairs, printable};

/// What is proven, for the table.
pub(super) struct Claims<'a> {
    pub(super) subject: String,
    pub(super) ek: String,
    pub(super) tpm_trust: &'a EkTrust,
    pub(super) image: &'a AdmittedImage,
    pub(super) pcrs: &'a PcrValues,
    pub(super) warnings: &'a [Warning],
    pub(super) resets: (u32, u32),
    pub(super) firmware: &'a FirmwareStanding,
    pub(super) tpm_firmware: u64,
    pub(super) processor: Option<&'a AdmittedProcessor>,
    pub(super) rests: &'a Rests,
    pub(super) beside: Beside<'a>,
}

impl Claims<'_> {
    pub(super) fn text(&self, verdict: &str, style: Style) -> String {
        let (resets, restarts) = self.resets;
        let mut rows = vec![
            ("node", printable(&self.subject)),
            ("verdict", style.paint(Tone::Good, verdict)),
            ("image", image_in_words(self.image)),
            ("vouched by", vouched_in_words(self.image, self.beside.trust)),
            ("TPM", format!("{}\n{}", self.ek, trust_in_words(self.tpm_trust))),
            ("lock", self.lock_in_words()),
            ("TPM state", format!("{resets} resets, {restarts} restarts, firmware {:#018x}", self.tpm_firmware)),
            ("firmware", printable(&self.firmware.describe())),
        ];
        rows.extend(self.processor.map(|processor| ("processor", processor_in_words(processor))));
        let Rests { demanded, ends } = self.rests;
        rows.extend((!demanded.is_empty()).then(|| ("demanded", demanded_in_words(demanded))));
        rows.extend((!ends.is_empty()).then(|| ("ends", ends_in_words(ends))));
        format!("{}\n{}", pairs(&rows), self.registers())
    }

    fn lock_in_words(&self) -> String {
        match (self.beside.cluster, self.pcrs.value(Policy::LOCK_PCR)) {
            (Some(cluster), _) => format!("locked to cluster {cluster}"),
            (None, Some(value)) if value != Digest::ZERO => {
                format!("locked; --locked CLUSTER_ID tells whether to yours\nPCR 15 {value}")
            }
            (None, _) => "open: no operating system has run in this boot".to_owned(),
        }
    }

    fn registers(&self) -> Table {
        let mut table = Table::new(&["PCR", "AS EXPECTED", "VALUE", "WHAT IS MEASURED"]);
        for (index, value) in self.pcrs.iter() {
            let described = Component::of(index).describe().to_owned();
            table.row([index.to_string(), self.comparison(index).to_owned(), value.to_string(), described]);
        }
        table
    }

    fn comparison(&self, index: u8) -> &'static str {
        if index == Policy::LOCK_PCR {
            return if self.beside.cluster.is_some() { "yes" } else { "-" };
        }
        if self.warnings.iter().any(|warning| warning.pcr == index) {
            return "no (warning)";
        }
        let manifest = self.beside.trust.references.manifest(&self.image.manifest);
        let images = manifest.into_iter().flat_map(|manifest| manifest.values().images());
        let same = images.filter(|image| image.name() == self.image.name && image.version() == self.image.version);
        let mut machines = same.filter_map(|image| image.machine(&self.image.machine));
        match machines.find_map(|machine| machine.pcrs().get(&index)).map(|reference| reference.rule) {
            Some(Rule::Enforce) => "yes",
            Some(Rule::Warn) => "yes (not enforced)",
            None => "-",
        }
    }
}
