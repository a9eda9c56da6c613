//! `latchkey reference check`: who signed a manifest, and what is in it.

use std::path::Path;

use latchkey_attestation::reference::{
    Artefact, Authority, Image, PlatformProfile, Reference, Rule, Signature, format_rfc3339,
};
use latchkey_attestation::{Digest, ManifestFile, ReferenceValues};
use serde::Serialize;

use super::{authority_in_words, signer_key};
use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::output::{Output, Report, Style, Table, Tone, pairs};
use crate::trust::signature_beside;

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let path = arguments.operand(0).map(Path::new).ok_or_else(|| CommandError::usage("MANIFEST is missing"))?;
    let signers = arguments.texts("signer")?.into_iter().map(signer_key).collect::<Result<Vec<_>, _>>()?;
    let signature = match arguments.path("signature") {
        Some(path) => Some(files::read(path, Signature::MAX)?),
        None => signature_beside(path)?,
    };
    let file = ManifestFile::new(files::read(path, ReferenceValues::MAX_JSON)?, signature);
    let checked = file.signed_by_one_of(&signers);
    let manifest = checked.map_err(|refusal| {
        CommandError::refused(Exit::Usage, format!("{} cannot be used", path.display()), &refusal)
    })?;
    let (authority, sha256) = (manifest.authority(), manifest.sha256());
    output.report(&CheckReport { authority, sha256, manifest: manifest.values() })
}

/// A manifest and who vouches for it.
#[derive(Serialize)]
struct CheckReport<'a> {
    authority: &'a Authority,
    sha256: Digest,
    manifest: &'a ReferenceValues,
}

impl Report for CheckReport<'_> {
    fn text(&self, style: Style) -> String {
        let values = self.manifest;
        let head = pairs(&[
            ("manifest", format!("{}, serial {}", values.name(), values.serial())),
            ("signed by", style.paint(Tone::Good, &authority_in_words(self.authority))),
            ("SHA-256", self.sha256.to_string()),
        ]);
        format!("{head}\n{}{}", table(values), provenance(values))
    }
}

/// Images and machine types, and what is revoked.
pub(super) fn table(values: &ReferenceValues) -> String {
    let mut table = Table::new(&["IMAGE", "SOURCE", "WINDOW", "REVOKED", "MACHINE", "PCRS", "SNP"]);
    for image in values.images() {
        let revoked = values.revocation(image.name(), image.version()).map_or("-", |revoked| revoked.why.as_str());
        for machine in image.machines() {
            table.row([
                image.label(),
                image.source().as_str().to_owned(),
                window(image),
                revoked.to_owned(),
                machine.name().to_owned(),
                registers(machine),
                match machine.snp_launch().len() {
                    0 => "-".to_owned(),
                    1 => "1 launch digest".to_owned(),
                    count => format!("{count} launch digests"),
                },
            ]);
        }
    }
    let mut text = table.to_string();
    text.push_str(&launches(values.images().iter()));
    let machines = values.images().iter().flat_map(|image| {
        image.machines().iter().map(|machine| (format!("{} on {}", image.label(), machine.name()), machine))
    });
    text.push_str(&tdx_registers(machines));
    // Revocations of what is not listed any more have no row there.
    let listed =
        |name: &str, version| values.images().iter().any(|image| image.name() == name && image.version() == version);
    for revoked in values.revoked().iter().filter(|revoked| !listed(&revoked.name, revoked.version)) {
        let line = format!("revoked, and not listed: {} {}: {}\n", revoked.name, revoked.version, revoked.why);
        text.push_str(&crate::output::printable(line.trim_end()));
        text.push('\n');
    }
    text
}

/// What SEV-SNP guests of these images will report; nothing where there are none.
pub(crate) fn launches<'a>(images: impl Iterator<Item = &'a Image>) -> String {
    let mut table = Table::new(&["IMAGE", "MACHINE", "SEV-SNP GUEST", "FIRMWARE, SHA-256", "LAUNCH DIGEST, SHA-384"]);
    let mut any = false;
    for image in images {
        for machine in image.machines() {
            for launch in machine.snp_launch() {
                let (firmware, digest) = (launch.firmware_sha256.to_string(), launch.digest.to_string());
                table.row([image.label(), machine.name().to_owned(), launch.to_string(), firmware, digest]);
                any = true;
            }
        }
    }
    if any { format!("\n{table}") } else { String::new() }
}

/// What TDX guests of these types of machines will have in their registers; nothing where there are none.
pub(crate) fn tdx_registers<'a>(machines: impl Iterator<Item = (String, &'a PlatformProfile)>) -> String {
    let mut table = Table::new(&["MACHINE", "KERNEL MEASURES", "REGISTER OF A TDX GUEST", "SHA-384"]);
    let mut any = false;
    for (label, tdx) in machines.filter_map(|(label, machine)| Some((label, machine.tdx()?))) {
        for (register, value) in &tdx.rtmrs {
            table.row([
                label.clone(),
                tdx.kernel_measures.as_str().to_owned(),
                register.to_string(),
                value.to_string(),
            ]);
            any = true;
        }
    }
    if any { format!("\n{table}") } else { String::new() }
}

fn provenance(values: &ReferenceValues) -> String {
    let mut text = String::new();
    for image in values.images() {
        let provenance = image.provenance();
        let files = |list: &[Artefact]| {
            let lines: Vec<_> = list.iter().map(|file| format!("{}  {}", file.digest.sha256, file.name)).collect();
            if lines.is_empty() { "-".to_owned() } else { lines.join("\n") }
        };
        let with: Vec<_> = provenance.circumstances().map(|(name, value)| format!("{name}: {value}")).collect();
        let made = format!("{}, {}", provenance.by(), provenance.at().unwrap_or("at a time not said"));
        text.push('\n');
        text.push_str(&pairs(
            &[
                ("image", image.label()),
                ("made by", made),
                ("command line", provenance.command_line().unwrap_or("-").to_owned()),
                ("made with", if with.is_empty() { "-".to_owned() } else { with.join("\n") }),
                ("outputs", files(provenance.products())),
                ("from", files(provenance.sources())),
            ]
            .map(|(name, value)| (name, value.lines().map(crate::output::printable).collect::<Vec<_>>().join("\n"))),
        ));
    }
    text
}

/// When an image may run.
pub(crate) fn window(image: &Image) -> String {
    match (image.not_before().map(format_rfc3339), image.not_after().map(format_rfc3339)) {
        (None, None) => "always".to_owned(),
        (Some(from), None) => format!("from {from}"),
        (None, Some(until)) => format!("until {until}"),
        (Some(from), Some(until)) => format!("{from} to {until}"),
    }
}

/// Enforced registers, and in parentheses those that are only warned about.
fn registers(machine: &PlatformProfile) -> String {
    let shown = |(index, reference): (&u8, &Reference)| match reference.rule {
        Rule::Enforce => index.to_string(),
        Rule::Warn => format!("({index})"),
    };
    machine.pcrs().iter().map(shown).collect::<Vec<_>>().join(" ")
}
