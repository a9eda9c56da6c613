//! `latchkey collateral install`: the collateral of a cluster that is kept in its API server. By itself, since the commands of a cluster need
//! what the others of `latchkey collateral` do.

use std::path::Path;

use latchkey_attestation::verify::ProcessorCollateral;
use latchkey_collateral::{Bundle, Collateral};
use serde::Serialize;

use crate::arguments::Arguments;
use crate::collateral::unusable;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machines;
use crate::node::block_on;
use crate::output::{Output, Report, Style, Tone, pairs};

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
    let (file, written) = block_on(api.put_collateral(&entries))?;
    output.say(Tone::Good, "installed", &file);
    output.report(&InstallReport {
        file,
        written,
        files: entries.len(),
        snp: snp.is_some(),
        tdx: tdx.is_some(),
        tpm_lists: tpm.count(),
    })
}

/// Services read it from now on.
#[derive(Serialize)]
struct InstallReport {
    file: String,
    /// Whether it is another one than was there.
    written: bool,
    files: usize,
    snp: bool,
    tdx: bool,
    tpm_lists: usize,
}

impl Report for InstallReport {
    fn text(&self, _: Style) -> String {
        let named = [(self.snp, "AMD's"), (self.tdx, "Intel's")];
        let mut parts: Vec<_> =
            named.into_iter().filter(|(there, _)| *there).map(|(_, whose)| whose.to_owned()).collect();
        parts.extend((self.tpm_lists > 0).then(|| format!("{} lists of TPMs' authorities", self.tpm_lists)));
        let parts = if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") };
        pairs(&[("collateral", self.file.clone()), ("files", self.files.to_string()), ("has", parts)])
    }
}
