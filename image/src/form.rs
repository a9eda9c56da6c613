//! Forms of a disk that are made of the raw one.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::error::{ImageError, at};
use crate::program::Program;

/// A form of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// The bytes of the disk.
    Raw,
    /// QEMU's.
    Qcow2,
    /// A virtual hard disk of fixed size, a whole number of MiB.
    Vhd,
    /// A compressed archive of `disk.raw`, whose size is a whole number of GiB.
    TarGz,
}

impl Form {
    /// Forms that are made of the raw one: the part's name, and the ending of the file's.
    pub(crate) const MADE: [(Self, &'static str, &'static str); 3] =
        [(Self::Qcow2, "disk-qcow2", "qcow2"), (Self::Vhd, "disk-vhd", "vhd"), (Self::TarGz, "disk-tar-gz", "tar.gz")];

    /// Makes this form of the raw disk. `id` is what a virtual hard disk is known by.
    pub(crate) fn make(self, raw: &Path, made: &Path, id: [u8; 16]) -> Result<(), ImageError> {
        match self {
            Self::Raw => std::fs::copy(raw, made).map(drop).map_err(at(made)),
            Self::Qcow2 => write_qcow2(raw, made),
            Self::Vhd => write_vhd(raw, made, id).map_err(at(made)),
            Self::TarGz => write_tar_gz(raw, made).map_err(at(made)),
        }
    }
}

fn write_qcow2(raw: &Path, qcow2: &Path) -> Result<(), ImageError> {
    let mut arguments: Vec<OsString> = ["convert", "-f", "raw", "-O", "qcow2"].iter().map(OsString::from).collect();
    for path in [raw, qcow2] {
        arguments.push(std::path::absolute(path).map_err(at(path))?.into());
    }
    Ok(Program::QemuImg.run(arguments, None)?)
}

/// Writes the raw disk as a fixed virtual hard disk: its bytes, and the footer. Its size is a whole number of MiB, as every disk of
/// ours is.
fn write_vhd(raw: &Path, vhd: &Path, id: [u8; 16]) -> io::Result<()> {
    let (mut from, mut to) = (File::open(raw)?, File::create_new(vhd)?);
    let size = from.metadata()?.len();
    copy_with_holes(&mut from, &mut to)?;
    to.seek(SeekFrom::Start(size))?;
    to.write_all(&footer(size, id))
}

/// Copies what is not zero: what is nothing in the disk stays a hole in the file.
fn copy_with_holes(from: &mut File, to: &mut File) -> io::Result<()> {
    let mut from = BufReader::with_capacity(1 << 20, from);
    let mut block = vec![0; 64 * 1024];
    let mut at = 0;
    loop {
        let mut filled = 0;
        while filled < block.len() {
            match from.read(&mut block[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        let part = &block[..filled];
        if part.iter().any(|byte| *byte != 0) {
            to.seek(SeekFrom::Start(at))?;
            to.write_all(part)?;
        }
        at += filled as u64;
        if filled < block.len() {
            return Ok(());
        }
    }
}

/// "Virtual Hard Disk Image Format Specification" 1.0, "Hard Disk Footer Format"; all numbers big endian.
fn footer(size: u64, id: [u8; 16]) -> [u8; 512] {
    const RESERVED: u32 = 2;
    const VERSION: u32 = 0x0001_0000;
    const FIXED: u32 = 2;
    let mut footer = Vec::with_capacity(512);
    footer.extend(b"conectix");
    footer.extend(RESERVED.to_be_bytes());
    footer.extend(VERSION.to_be_bytes());
    // No further structure: the disk is fixed.
    footer.extend(u64::MAX.to_be_bytes());
    // When it was made: nobody knows, so that equal inputs give equal bytes.
    footer.extend([0; 4]);
    footer.extend(b"ltck");
    footer.extend(VERSION.to_be_bytes());
    footer.extend(b"Wi2k");
    footer.extend(size.to_be_bytes());
    footer.extend(size.to_be_bytes());
    footer.extend(GEOMETRY);
    footer.extend(FIXED.to_be_bytes());
    footer.extend([0; 4]);
    footer.extend(id);
    footer.resize(512, 0);
    let sum: u32 = footer.iter().map(|byte| u32::from(*byte)).sum();
    footer[64..68].copy_from_slice(&(!sum).to_be_bytes());
    let mut bytes = [0; 512];
    bytes.copy_from_slice(&footer);
    bytes
}

/// Cylinders, heads, sectors of a track: the largest there are. By these readers know that the size counts, which such numbers can only
/// round.
const GEOMETRY: [u8; 4] = [0xff, 0xff, 16, 255];

/// Writes the archive that Google Compute Engine imports: `disk.raw`, GNU's form, gzip. Behind the disk comes nothing up to the next
/// GiB: a node finds the end of its table there, and its state disk grows into it.
fn write_tar_gz(raw: &Path, archive: &Path) -> io::Result<()> {
    let from = File::open(raw)?;
    let size = from.metadata()?.len();
    let whole = size.next_multiple_of(1 << 30);
    let mut header = tar::Header::new_gnu();
    header.set_size(whole);
    header.set_mode(0o644);
    header.set_mtime(0);
    let gzip = GzEncoder::new(BufWriter::new(File::create_new(archive)?), Compression::fast());
    let mut tar = tar::Builder::new(gzip);
    tar.append_data(&mut header, "disk.raw", from.chain(io::repeat(0).take(whole - size)))?;
    tar.into_inner()?.finish()?.flush()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// QEMU writes such disks for Azure and Hyper-V. Of what both say, only who made the disk, and when, and its own id differ.
    #[test]
    fn the_footer_of_a_virtual_hard_disk_is_qemu_s_field_by_field() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for mebibytes in [3, 64, 2048, 130 * 1024] {
            let size = mebibytes << 20;
            File::create(at("raw")).unwrap().set_len(size).unwrap();
            let mut convert = Command::new("qemu-img");
            convert.args(["convert", "-f", "raw", "-O", "vpc", "-o", "subformat=fixed,force_size=on"]);
            let Ok(made) = convert.args([at("raw"), at("vhd")]).output() else {
                return latchkey_test_support::skip("qemu-img is missing: apt-get install qemu-utils");
            };
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            let mut vhd = File::open(at("vhd")).unwrap();
            assert_eq!(vhd.metadata().unwrap().len(), size + 512, "{mebibytes}");
            vhd.seek(SeekFrom::Start(size)).unwrap();
            let (mut theirs, mut ours) = ([0; 512], footer(size, [7; 16]));
            vhd.read_exact(&mut theirs).unwrap();
            for (footer, who) in [(&mut theirs, "QEMU"), (&mut ours, "us")] {
                let sum: u32 = footer.iter().map(|byte| u32::from(*byte)).sum();
                let said = u32::from_be_bytes(footer[64..68].try_into().unwrap());
                let own: u32 = footer[64..68].iter().map(|byte| u32::from(*byte)).sum();
                assert_eq!(said, !(sum - own), "the checksum of {who}");
                // Time and name and version of the program; the checksum and the id behind it.
                footer[24..36].fill(0);
                footer[64..84].fill(0);
            }
            assert_eq!(theirs, ours, "{mebibytes}");
        }
    }

    /// By QEMU, which reads both forms and has read those of others.
    #[test]
    fn the_disk_comes_back_from_every_form_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let mut disk = vec![0; 3 << 20];
        disk[..512].fill(0x5a);
        disk[(2 << 20) + 7..(2 << 20) + 9].fill(0xa5);
        fs::write(at("disk"), &disk).unwrap();

        write_vhd(&at("disk"), &at("vhd"), [7; 16]).unwrap();
        assert_eq!(fs::metadata(at("vhd")).unwrap().len(), (3 << 20) + 512);
        match Command::new("qemu-img")
            .args(["convert", "-f", "vpc", "-O", "raw"])
            .args([at("vhd"), at("back")])
            .status()
        {
            Ok(status) => assert!(status.success() && fs::read(at("back")).unwrap() == disk),
            Err(_) => latchkey_test_support::skip(format_args!("qemu-img is missing: apt-get install qemu-utils")),
        }

        write_tar_gz(&at("disk"), &at("tar.gz")).unwrap();
        let listed = Command::new("tar").arg("-tvzf").arg(at("tar.gz")).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert!(listed.contains("1073741824") && listed.trim_end().ends_with("disk.raw"), "{listed}");
        let first = Command::new("sh").arg("-c").arg("tar -xOzf \"$0\" | head -c 3145728").arg(at("tar.gz")).output();
        assert!(first.unwrap().stdout == disk);
    }
}
