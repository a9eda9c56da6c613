//! Volumes with a few files, by the tools that people make them with: mkfs.vfat and mtools, genisoimage, xorriso.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::output;

/// What makes a volume.
#[derive(Debug, Clone, Copy)]
pub enum Maker {
    /// mkfs.vfat and mtools; the width of the table's entries: 12, 16 or 32 bits.
    Fat(u8),
    /// genisoimage with these options (`-joliet`, `-rock`).
    Genisoimage(&'static [&'static str]),
    /// xorriso as `mkisofs`, with these options (`-J`, `-r`).
    Xorriso(&'static [&'static str]),
}

impl Maker {
    /// Makes a volume with this label at `path`: each file is its path, with slashes, and its content.
    ///
    /// # Panics
    /// A program is missing, or refuses.
    pub fn make(self, path: &Path, label: &str, files: &[(&str, &str)]) {
        let _ = fs::remove_file(path);
        let source = path.with_extension("files");
        for (name, content) in files {
            let file = source.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        match self {
            Self::Fat(bits) => fat(path, label, bits, &source),
            Self::Genisoimage(options) => {
                let mut command = Command::new("genisoimage");
                run(command.args(["-quiet", "-V", label, "-o"]).arg(path).args(options).arg(&source));
            }
            Self::Xorriso(options) => {
                let mut command = Command::new("xorriso");
                command.args(["-as", "mkisofs", "-quiet", "-V", label, "-o"]);
                run(command.arg(path).args(options).arg(&source));
            }
        }
        fs::remove_dir_all(source).unwrap();
    }
}

fn fat(path: &Path, label: &str, bits: u8, source: &Path) {
    // As few sectors in a cluster as there can be: a table of 32 bits has at least 65525 entries.
    let kibibytes = match bits {
        12 => "1440",
        16 => "8192",
        _ => "40960",
    };
    let mut command = Command::new("/usr/sbin/mkfs.vfat");
    command.args(["-C", "-n", label, "-F", &bits.to_string(), "-s", "1"]).arg(path);
    run(command.arg(kibibytes));
    let entries = fs::read_dir(source).unwrap().map(|entry| entry.unwrap().path());
    run(Command::new("mcopy").arg("-s").arg("-i").arg(path).args(entries).arg("::/"));
}

fn run(command: &mut Command) {
    let output = output(command).unwrap_or_else(|error| panic!("{command:?}: {error} (./dev setup)"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
