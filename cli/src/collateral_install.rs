//! `latchkey collateral install`: the collateral of a cluster that is kept in its API server. Not in `collateral/`: that module is used by
//! the commands of a cluster, which this one uses; inside, the two would need each other.

use std::fmt;
use std::path::Path;

use latchkey_attestation::reference::format_rfc3339;
use latchkey_attestation::verify::ProcessorCollateral;
use latchkey_attestation::verify::snp::SnpCollateral;
use latchkey_attestation::verify::tdx::TdxCollateral;
use latchkey_collateral::{Bundle, Collateral, MAX_OBJECT};
use serde::Serialize;

use crate::arguments::Arguments;
use crate::clock::now;
use crate::collateral::unusable;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machines;
use crate::node::block_on;
use crate::output::{Output, Report, Style, Tone, pairs, printable};

pub(crate) fn install(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let directory =
        arguments.operand(0).map(Path::new).ok_or_else(|| CommandError::usage("COLLATERAL-DIR is missing"))?;
    // What cannot be read is not put where services read it.
    let bundle = Bundle::of_directory(directory).map_err(|error| unusable(&error))?;
    let Collateral { processors, tpm } = bundle.read().map_err(|error| unusable(&error))?;
    let entries = bundle.entries().map_err(|error| unusable(&error))?;
    let api = machines::api_server(arguments)?.ok_or_else(|| {
        let failure =
            CommandError::usage("the cluster is kept in its directory, and its join service reads another one");
        failure.fix("put the files into the directory that `collateral` in the service's configuration names")
    })?;
    let ProcessorCollateral { snp, tdx } = &processors;
    let ends = [snp.as_ref().and_then(SnpCollateral::first_end), tdx.as_ref().and_then(TdxCollateral::first_end)];
    let first_end = ends.into_iter().flatten().min_by_key(|(_, end)| *end);
    let first_end = first_end.map(|(what, ends)| FirstEnd { what, ends });
    if let Some(first) = first_end.as_ref().filter(|first| first.ends < now().saturating_add(SOON)) {
        output.say(Tone::Warning, "ends soon", &format!("{first}: fetch it anew, and install it again"));
    }
    let (file, written) = block_on(api.put_collateral(&entries))?;
    output.say(Tone::Good, "installed", &file);
    output.report(&InstallReport {
        file,
        written,
        files: entries.len(),
        bytes: entries.iter().map(|(name, content)| name.len() + content.len()).sum(),
        snp: snp.is_some(),
        tdx: tdx.is_some(),
        tpm_lists: tpm.count(),
        first_end,
    })
}

/// Services read it from now on.
#[derive(Serialize)]
struct InstallReport {
    file: String,
    /// Whether it is another one than was there.
    written: bool,
    files: usize,
    /// Of names and contents.
    bytes: usize,
    snp: bool,
    tdx: bool,
    tpm_lists: usize,
    /// Of the processors' part.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_end: Option<FirstEnd>,
}

/// The part that ends first.
#[derive(Serialize)]
struct FirstEnd {
    what: String,
    /// Seconds since the Unix epoch.
    ends: u64,
}

impl fmt::Display for FirstEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", format_rfc3339(self.ends), printable(&self.what))
    }
}

impl Report for InstallReport {
    fn text(&self, _: Style) -> String {
        let named = [(self.snp, "AMD's"), (self.tdx, "Intel's")];
        let mut parts: Vec<_> =
            named.into_iter().filter(|(there, _)| *there).map(|(_, whose)| whose.to_owned()).collect();
        parts.extend((self.tpm_lists > 0).then(|| format!("{} lists of TPMs' authorities", self.tpm_lists)));
        let parts = if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") };
        let changed = if self.written { "yes" } else { "no: the same was there" };
        let mut rows = vec![
            ("collateral", self.file.clone()),
            ("changed", changed.to_owned()),
            ("files", self.files.to_string()),
            ("size", format!("{} of at most {MAX_OBJECT} bytes", self.bytes)),
            ("has", parts),
        ];
        rows.extend(self.first_end.iter().map(|first| ("first end", first.to_string())));
        pairs(&rows)
    }
}

/// 30 days, as the join service warns.
const SOON: u64 = 30 * 24 * 60 * 60;
