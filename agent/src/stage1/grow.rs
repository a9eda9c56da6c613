//! The state partition grows to the disk's end, once, while it is blank: an image is built small and its disk is larger.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use latchkey_disk::{BlockDevice as _, Disk, Probe, probe};

use super::{BootCode, BootError};
use crate::platform::devices::{BlockDevice, Growth, Kind, Step, plan_growth};
use crate::platform::sys::resize_partition::resize_partition;

/// Grows the state partition if it is the last of its disk, has room behind it and holds nothing. Gives the device as it
/// is then, and what was done or why nothing was.
pub(super) fn grow(state: BlockDevice) -> Result<(BlockDevice, String), BootError> {
    let Kind::Partition { disk, .. } = &state.kind else { return Ok((state, "a whole disk".to_owned())) };
    let disk = Path::new("/dev").join(disk);
    let failed = |error: io::Error| {
        let sentence = format!("{} cannot be grown to the end of {} ({error})", state.name, disk.display());
        BootError::new("grow-state", BootCode::NotGrown, &sentence)
    };
    match planned(&state, &disk).map_err(failed)? {
        Err(why) => Ok((state, format!("stays as it is: {why}"))),
        Ok(growth) => {
            apply(&disk, &growth).map_err(failed)?;
            let note = format!("grown to {} MiB", growth.length >> 20);
            Ok((BlockDevice { bytes: growth.length, ..state }, note))
        }
    }
}

fn planned(state: &BlockDevice, disk: &Path) -> io::Result<Result<Growth, &'static str>> {
    let Kind::Partition { number, begin, .. } = state.kind else { return Ok(Err("it is a whole disk")) };
    if state.read_only {
        return Ok(Err("it cannot be written"));
    }
    let table = File::open(disk)?;
    let bytes = Disk::open_shared(disk)?.size()?;
    let growth = match plan_growth(&table, bytes, state.sector, number) {
        Ok(growth) if growth.begin == begin => growth,
        Ok(_) => return Ok(Err("the kernel knows another table than the disk has")),
        Err(why) => return Ok(Err(why)),
    };
    // What holds a header, ours or another, keeps its end.
    let content = Disk::open_exclusive(&state.path()).and_then(|state| probe(&state).map_err(io::Error::other))?;
    Ok(if matches!(content, Probe::Fresh(_)) { Ok(growth) } else { Err("it is not blank") })
}

fn apply(disk: &Path, growth: &Growth) -> io::Result<()> {
    let disk = File::options().read(true).write(true).open(disk)?;
    for step in &growth.steps {
        match step {
            Step::Write { at, bytes } => disk.write_all_at(bytes, *at)?,
            Step::Zero { at, length } => zero(&disk, *at, *length)?,
            Step::Flush => disk.sync_all()?,
        }
    }
    resize_partition(&disk, growth.number, growth.begin, growth.length)
}

fn zero(disk: &File, at: u64, length: u64) -> io::Result<()> {
    let piece = [0; 1 << 14];
    let mut done = 0;
    while done < length {
        let rest = usize::try_from(length - done).unwrap_or(piece.len()).min(piece.len());
        disk.write_all_at(piece.get(..rest).unwrap_or_default(), at + done)?;
        done += rest as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_reach_the_last_byte_and_no_further() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![7; 50_000], 0).unwrap();
        zero(&file, 1000, 40_000).unwrap();
        let mut bytes = vec![0; 50_000];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let other: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at] == 7).collect();
        assert_eq!(other, (0..1000).chain(41_000..50_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_whole_disk_has_no_end_to_grow_to() {
        let disk = BlockDevice {
            name: "vdz".into(),
            kind: Kind::Disk,
            bytes: 1 << 30,
            sector: 512,
            read_only: false,
            removable: false,
            serial: None,
        };
        let (same, note) = grow(disk.clone()).unwrap();
        assert_eq!((same, note.as_str()), (disk, "a whole disk"));
    }
}
