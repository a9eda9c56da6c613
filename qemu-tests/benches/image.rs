//! How long an image takes to build, as a whole and its parts: `cargo bench -p latchkey-qemu-tests --bench image`.
//!
//! The root is 200 MB of this machine's `/usr/lib`, the first in the order of their names: as compressible as a root is, and
//! the same each time. Kernel, modules and agent are those of the test machines; disk, qcow2 and manifest are made.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot prepare its rig shall fail there")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use latchkey_bench::{Bench, Clock, Figure};
use latchkey_image::{Image, Progress, Source};
use latchkey_measurements::predict::MachineType;
use latchkey_qemu_tests::build;
use latchkey_qemu_tests::kernel::Kernel;
use latchkey_qemu_tests::run::Run;

const LIBRARIES: &str = "/usr/lib";
const ROOT: u64 = 200_000_000;
const BUILDS: usize = 3;
/// What [`Progress`] calls the parts that have a figure of their own; the rest is kernel image, disk, qcow2 and manifest.
const PARTS: [(&str, &str); 3] =
    [("root", "mksquashfs, and its hash"), ("root-verity", "the hash tree"), ("initramfs", "the initramfs")];

fn main() {
    let bench = Bench::from_args();
    let run = Run::new("bench-image").unwrap();
    let root = run.subdirectory("root").unwrap();
    let size = fill(&root).unwrap();
    if size < ROOT {
        eprintln!("left out: {LIBRARIES} of this machine has {size} bytes to make a root of, {ROOT} are needed");
        return;
    }
    let image = image(&root);
    let mut whole = Vec::new();
    let mut parts: Vec<Vec<Duration>> = vec![Vec::new(); PARTS.len()];
    let mut rest = Vec::new();
    for number in 0..BUILDS {
        let (all, each) = timed(&image, &run.subdirectory(&format!("out-{number}")).unwrap());
        rest.push(all.saturating_sub(each.iter().sum()));
        whole.push(all);
        parts.iter_mut().zip(each).for_each(|(times, time)| times.push(time));
    }
    let report = |id: &str, what: &str, times: &[Duration]| {
        bench.report(&Figure::from_batches(id, what, Clock::Wall, 1, times));
    };
    report("image/build", "building the image of a root of 200 MB, qcow2 and manifest too", &whole);
    for ((name, what), times) in PARTS.iter().zip(&parts) {
        report(&format!("image/build-{name}"), &format!("of it, {what}"), times);
    }
    report("image/build-rest", "of it, the rest", &rest);
}

/// Builds once; gives the time of all of it, and of each of [`PARTS`].
fn timed(image: &Image, out: &Path) -> (Duration, Vec<Duration>) {
    let start = Instant::now();
    let mut begun: Vec<(&str, Duration)> = Vec::new();
    image
        .build(out, &mut |progress| {
            if let Progress::Begins(what) = progress {
                begun.push((what, start.elapsed()));
            }
        })
        .unwrap();
    let all = start.elapsed();
    fs::remove_dir_all(out).unwrap();
    let ends = begun.iter().map(|(_, time)| *time).skip(1).chain([all]);
    let times: Vec<_> =
        begun.iter().zip(ends).map(|((what, begin), end)| (*what, end.saturating_sub(*begin))).collect();
    let of = |name: &str| times.iter().filter(|(what, _)| *what == name).map(|(_, time)| *time).sum();
    (all, PARTS.iter().map(|(name, _)| of(name)).collect())
}

fn image(root: &Path) -> Image {
    let kernel = Kernel::provision().unwrap();
    let (version, agent) = ("1.0.0".parse().unwrap(), Source::File(build::agent().unwrap()));
    let mut image = Image::new("bench", version, Source::File(kernel.image), kernel.modules, agent, root);
    image.is_agent = false;
    image.os_release = Some(Source::Bytes(b"ID=bench\nNAME=\"Bench\"\nVERSION_ID=1\n".to_vec()));
    image.qcow2 = true;
    let machine = MachineType::builtin("debian-12-ovmf").unwrap();
    image.machines = vec![machine.with_variables(None).unwrap()];
    image
}

/// Copies files until there are enough; gives their bytes.
fn fill(root: &Path) -> io::Result<u64> {
    let (mut size, mut directories) = (0, vec![PathBuf::from(LIBRARIES)]);
    while let Some(directory) = directories.pop() {
        // What may not be read here is not in the root.
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        let mut entries: Vec<_> = entries.collect::<Result<_, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        let within = root.join(directory.strip_prefix("/").unwrap_or(&directory));
        fs::create_dir_all(&within)?;
        for entry in &entries {
            let kind = entry.file_type()?;
            if kind.is_file() && size < ROOT {
                size += fs::copy(entry.path(), within.join(entry.file_name())).unwrap_or(0);
            }
        }
        // The last is taken first.
        directories.extend(
            entries
                .iter()
                .rev()
                .filter(|entry| entry.path().is_dir() && !entry.path().is_symlink())
                .map(fs::DirEntry::path),
        );
        if size >= ROOT {
            break;
        }
    }
    Ok(size)
}
