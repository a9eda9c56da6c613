//! What other programs put on a disk is never called blank. On plain files, as root or not.

use latchkey_disk::{Disk, DiskRefusal, Foreign, Probe, probe};
use latchkey_test_support::{output, skip};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Enough for XFS; almost all of it holes.
const SIZE: u64 = 512 << 20;
/// Where disks of others have their headers: in the beginning, and at the end.
const BEGINNING: usize = 8 << 20;
const END: usize = 1 << 20;

fn looked_at(path: &Path) -> Result<Probe, String> {
    let disk = Disk::open_exclusive(path).map_err(|error| error.to_string())?;
    probe(&disk).map_err(|error| error.to_string())
}

fn refusal(path: &Path, what: &str) -> DiskRefusal {
    match looked_at(path).unwrap() {
        Probe::Refused(refusal) => refusal,
        other => panic!("{what}: {other:?}"),
    }
}

/// Runs a shell's line with `$disk`, a file of [`SIZE`], and `$tree`, a directory with something in it.
fn made_by(line: &str) -> Option<tempfile::TempDir> {
    let directory = tempfile::tempdir().unwrap();
    let [disk, tree] = ["disk", "tree"].map(|name| directory.path().join(name));
    File::create_new(&disk).unwrap().set_len(SIZE).unwrap();
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), "something").unwrap();
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    let ran = output(shell.args(["-euc", line]).env("PATH", path).env("disk", &disk).env("tree", &tree)).unwrap();
    if ran.status.code() == Some(127) {
        skip(format_args!(
            "`{line}`: install what qemu-tests/tools.txt says: {}",
            String::from_utf8_lossy(&ran.stderr)
        ));
        return None;
    }
    assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
    // Images end where their content does; a disk goes on.
    File::options().write(true).open(&disk).unwrap().set_len(SIZE).unwrap();
    Some(directory)
}

#[test]
fn what_stock_programs_make_is_refused_and_named() {
    for (line, expected) in [
        ("mkfs.ext4 -q $disk", Foreign::Ext),
        ("mkfs.xfs -q $disk", Foreign::Xfs),
        ("mkfs.btrfs -q $disk", Foreign::Btrfs),
        ("mkfs.vfat $disk", Foreign::Mbr),
        ("mkfs.minix $disk", Foreign::Unknown),
        ("mkfs.bfs $disk", Foreign::Unknown),
        ("mkfs.cramfs $tree $disk", Foreign::Unknown),
        ("mkswap $disk", Foreign::Swap),
        ("mkswap --pagesize 65536 $disk", Foreign::Unknown),
        ("mksquashfs $tree $disk -noappend", Foreign::Squashfs),
        ("mkfs.erofs $disk $tree", Foreign::Erofs),
        ("genisoimage -quiet -o $disk $tree", Foreign::Iso9660),
        ("truncate -s 1M $tree/data; veritysetup format $tree/data $disk", Foreign::Verity),
        ("sgdisk -n 1 $disk", Foreign::Gpt),
        ("echo 'label: dos\n,' | sfdisk -q $disk", Foreign::Mbr),
        ("echo 'label: sun\n,' | sfdisk -q $disk", Foreign::Unknown),
        ("echo 'label: sgi\n,' | sfdisk -q $disk", Foreign::Unknown),
    ] {
        let Some(directory) = made_by(line) else { continue };
        assert_eq!(refusal(&directory.path().join("disk"), line), DiskRefusal::Foreign(expected), "{line}");
    }
}

#[test]
fn what_lost_its_beginning_is_refused_for_its_end() {
    let line = "sgdisk -n 1 $disk; dd if=/dev/zero of=$disk bs=1M count=1 conv=notrunc status=none";
    let Some(directory) = made_by(line) else { return };
    assert_eq!(refusal(&directory.path().join("disk"), line), DiskRefusal::EndNotBlank);
}

/// The disks that util-linux tests its `blkid` with: physical volumes of LVM, members of md and of makers' RAIDs, of ZFS, Ceph,
/// bcache and many more, as those who know them made them.
#[test]
#[ignore = "needs the directory that LATCHKEY_DISK_IMAGES names: ./dev e2e disk-images"]
fn no_disk_of_a_store_of_foreign_ones_is_called_blank_but_vmfs() {
    let store = std::env::var_os("LATCHKEY_DISK_IMAGES").expect("a directory with NAME.img.xz, below it or in it");
    let (mut tried, mut existing, mut blank) = (0, Vec::new(), Vec::new());
    let mut left = vec![Path::new(&store).to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(".img.xz") else { continue };
        tried += 1;
        let disk = tempfile::NamedTempFile::new().unwrap();
        ends_of(&path, disk.as_file());
        match looked_at(disk.path()).unwrap() {
            Probe::Refused(refusal) => println!("{name}: {refusal}"),
            Probe::Existing(_) => existing.push(name.to_owned()),
            Probe::Fresh(_) => blank.push(name.to_owned()),
        }
    }
    existing.sort_unstable();
    assert!(tried > 100, "{tried} disks in {}", Path::new(&store).display());
    println!("{tried} disks, called blank: {blank:?}; LUKS: {existing:?}");
    // VMFS has its first header behind the first MiB, which is all that is looked at of a beginning (LIMITATIONS.md).
    assert_eq!(blank, ["vmfs_volume"]);
    assert!(existing.iter().all(|name| name.contains("luks")), "{existing:?}");
}

/// Makes a disk with both ends of an image. Many images are cut to what `blkid` reads: what they have at their end is at the end of a
/// disk of any size.
fn ends_of(image: &Path, disk: &File) {
    let mut unpack = Command::new("xz").arg("-dc").arg(image).stdout(Stdio::piped()).spawn().unwrap();
    let mut content = unpack.stdout.take().unwrap();
    let (mut first, mut last, mut piece) = (Vec::new(), Vec::new(), vec![0; END]);
    loop {
        let read = std::io::Read::read(&mut content, &mut piece).unwrap();
        if read == 0 {
            break;
        }
        first.extend(&piece[..read.min(BEGINNING - first.len())]);
        last.extend(&piece[..read]);
        last.drain(..last.len().saturating_sub(END));
    }
    assert!(latchkey_test_support::wait("xz", &mut unpack).success(), "{}", image.display());
    disk.set_len(SIZE).unwrap();
    disk.write_all_at(&last, SIZE - last.len() as u64).unwrap();
    disk.write_all_at(&first, 0).unwrap();
}
