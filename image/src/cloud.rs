//! What clouds take: a disk in a form of their own, drivers for their devices, a console, and where metadata are.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

/// Somewhere an image is brought to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cloud {
    /// Amazon EC2, by a snapshot.
    Aws,
    /// Google Compute Engine.
    Gcp,
    /// Azure.
    Azure,
    /// `OpenStack`'s image service.
    Openstack,
    /// Hetzner, by its rescue system.
    Hetzner,
    /// QEMU and libvirt.
    Qemu,
}

impl Cloud {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Aws, Self::Gcp, Self::Azure, Self::Openstack, Self::Hetzner, Self::Qemu];

    /// Its word in configurations and arguments.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Gcp => "gcp",
            Self::Azure => "azure",
            Self::Openstack => "openstack",
            Self::Hetzner => "hetzner",
            Self::Qemu => "qemu",
        }
    }

    /// The form of the disk that it takes.
    pub fn form(self) -> Form {
        match self {
            Self::Aws | Self::Hetzner => Form::Raw,
            Self::Gcp => Form::TarGz,
            Self::Azure => Form::Vhd,
            Self::Openstack | Self::Qemu => Form::Qcow2,
        }
    }

    /// Drivers of its disks and networks, beside virtio and NVMe: those that a kernel lacks are left out.
    pub(crate) fn modules(self) -> &'static [&'static str] {
        match self {
            Self::Aws => &["?ena"],
            Self::Gcp => &["?gve", "?virtio_scsi", "?sd_mod"],
            // What is behind Hyper-V's virtual PCI is found by its bus, not by a symbol.
            Self::Azure => &["?hv_vmbus", "?pci_hyperv", "?hv_storvsc", "?sd_mod", "?hv_netvsc", "?mana", "?hv_utils"],
            Self::Openstack | Self::Hetzner => &["?virtio_scsi", "?sd_mod"],
            Self::Qemu => &[],
        }
    }
}

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
}

/// Words of the command line that an image for these clouds has, unless the operator said others: consoles, so that the cloud's
/// serial log and screen have what a node says, and where metadata are, which the machine itself knows.
pub(crate) fn words(clouds: &BTreeSet<Cloud>, cmdline: &str) -> Vec<String> {
    let says = |start: &str| cmdline.split_ascii_whitespace().any(|word| word.starts_with(start));
    let mut words = Vec::new();
    if clouds.is_empty() {
        return words;
    }
    if !says("console=") {
        words.push("console=tty0 console=ttyS0,115200".to_owned());
    }
    if !says("latchkey.metadata=") {
        words.push("latchkey.metadata=auto".to_owned());
    }
    words
}

/// Writes the raw disk as a fixed virtual hard disk: its bytes, and the footer. Its size is a whole number of MiB, as every disk of
/// ours is.
pub(crate) fn write_vhd(raw: &Path, vhd: &Path, id: [u8; 16]) -> io::Result<()> {
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
pub(crate) fn write_tar_gz(raw: &Path, archive: &Path) -> io::Result<()> {
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

    #[test]
    fn words_are_added_where_the_operator_said_nothing() {
        let clouds = BTreeSet::from([Cloud::Aws]);
        assert_eq!(words(&clouds, "quiet"), ["console=tty0 console=ttyS0,115200", "latchkey.metadata=auto"]);
        assert_eq!(words(&clouds, "console=ttyS1 latchkey.metadata=aws"), [""; 0]);
        assert_eq!(words(&BTreeSet::new(), "quiet"), [""; 0]);
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
