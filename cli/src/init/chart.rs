//! Our chart, which this command carries: the bytes of `charts/latchkey`.

use std::io;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::charts::Archive;
use crate::codes::CommandCode;
use crate::error::CommandError;

macro_rules! chart {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../charts/latchkey/", $name)))),*]
    };
}

const FILES: [(&str, &str); 15] = chart![
    "Chart.yaml",
    "values.yaml",
    "values.schema.json",
    "templates/NOTES.txt",
    "templates/_helpers.tpl",
    "templates/approvals.yaml",
    "templates/definitions.yaml",
    "templates/documents.yaml",
    "templates/events.yaml",
    "templates/joining.yaml",
    "templates/lease.yaml",
    "templates/pods.yaml",
    "templates/policies.yaml",
    "templates/records.yaml",
    "templates/tokens.yaml",
];

/// The chart as helm takes it, in memory: no directory is so safe that helm could be sent there as cluster administrator.
pub(super) fn archive(name: &str) -> Result<Archive, CommandError> {
    let packed = packed(name).map_err(|error| {
        let what = format!("the chart {name}, which this command carries, cannot be packed");
        CommandError::local(CommandCode::FileUnwritable, what).because(error.to_string())
    })?;
    Archive::of(&packed, Path::new(name))
}

/// As `helm package` does it: every file is in a directory of the chart's name.
fn packed(name: &str) -> io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (file, text) in FILES {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, format!("{name}/{file}"), text.as_bytes())?;
    }
    tar.into_inner()?.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    #[test]
    fn the_command_carries_every_file_of_the_chart() {
        let chart = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/latchkey"));
        let mut there = BTreeSet::new();
        for directory in ["", "templates/"] {
            for entry in fs::read_dir(chart.join(directory)).unwrap() {
                let entry = entry.unwrap();
                if entry.path().is_file() {
                    there.insert(format!("{directory}{}", entry.file_name().to_str().unwrap()));
                }
            }
        }
        assert_eq!(FILES.iter().map(|(name, _)| (*name).to_owned()).collect::<BTreeSet<_>>(), there);
    }
}
