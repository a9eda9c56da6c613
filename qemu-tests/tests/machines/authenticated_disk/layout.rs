//! Where dm-integrity puts a sector and its tag, for the attacker of these tests.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify;

const UNIT: u64 = 512;
const SECTOR: u64 = 4096;
const TAG: u64 = 48;
/// Units of data between two runs of tags, and of one run: 4096 tags of 48 bytes.
const INTERLEAVE: u64 = 32768;
const RUN: u64 = 4096 * TAG / UNIT;

/// Byte offsets on the disk.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) data: u64,
    pub(crate) tag: u64,
}

/// Ciphertext and tag.
#[derive(Clone)]
pub(crate) struct Sector {
    data: Vec<u8>,
    tag: Vec<u8>,
}

impl Sector {
    /// As if never written.
    pub(crate) fn blank() -> Self {
        Self { data: vec![0; 4096], tag: vec![0; 48] }
    }

    /// Whether both are there.
    pub(crate) fn is_used(&self) -> bool {
        self.data.iter().any(|&byte| byte != 0) && self.tag.iter().any(|&byte| byte != 0)
    }
}

/// The layout behind superblock and journal.
pub(crate) struct Layout {
    /// In units.
    start: u64,
}

impl Layout {
    /// From the live table: `DISK table state_dif integrity DEVICE START 48 J N … journal_sectors:N …`.
    pub(crate) fn of(table: &str) -> Self {
        let words: Vec<_> = table.split_whitespace().collect();
        let number = |text: &str| text.parse::<u64>().unwrap();
        let journal = words.iter().find_map(|word| word.strip_prefix("journal_sectors:")).unwrap();
        Self { start: number(words[5]) + 8 + number(journal) }
    }

    /// Of the 4096-byte sector `number` of the data.
    pub(crate) fn sector(&self, number: u64) -> Place {
        let unit = number * (SECTOR / UNIT);
        let (area, offset) = (unit / INTERLEAVE, unit % INTERLEAVE);
        let area = self.start + area * (RUN + INTERLEAVE);
        Place { data: (area + RUN + offset) * UNIT, tag: area * UNIT + offset / (SECTOR / UNIT) * TAG }
    }
}

/// A disk in an attacker's hands.
pub(crate) struct DiskFile(File);

impl DiskFile {
    pub(crate) fn open(path: &Path) -> Self {
        Self(File::options().read(true).write(true).open(path).unwrap())
    }

    /// Bytes that take space.
    pub(crate) fn stored(&self) -> u64 {
        self.0.metadata().unwrap().blocks() * UNIT
    }

    pub(crate) fn read(&self, place: Place) -> Sector {
        let mut sector = Sector::blank();
        self.0.read_exact_at(&mut sector.data, place.data).unwrap();
        self.0.read_exact_at(&mut sector.tag, place.tag).unwrap();
        sector
    }

    pub(crate) fn write(&self, place: Place, sector: &Sector) {
        self.write_data(place, sector);
        self.0.write_all_at(&sector.tag, place.tag).unwrap();
    }

    pub(crate) fn write_data(&self, place: Place, sector: &Sector) {
        self.0.write_all_at(&sector.data, place.data).unwrap();
    }

    pub(crate) fn flip(&self, at: u64) {
        let mut byte = [0];
        self.0.read_exact_at(&mut byte, at).unwrap();
        self.0.write_all_at(&[byte[0] ^ 1], at).unwrap();
    }

    pub(crate) fn truncate(&self, size: u64) {
        self.0.set_len(size).unwrap();
    }

    /// Waits until one of `expected` stands at `at`; the kernel says when the file was written to. False at the deadline.
    pub(crate) fn wait_for(&self, at: u64, expected: &[&[u8]], within: Duration) -> bool {
        let watcher = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&self.0));
        inotify::add_watch(&watcher, path, inotify::WatchFlags::MODIFY).unwrap();
        let deadline = std::time::Instant::now() + within;
        let mut there = [0; 16];
        loop {
            self.0.read_exact_at(&mut there, at).unwrap();
            if expected.iter().any(|bytes| there.starts_with(bytes)) {
                return true;
            }
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return false;
            }
            let mut polled = [PollFd::new(&watcher, PollFlags::IN)];
            poll(&mut polled, Some(&left.try_into().unwrap())).unwrap();
            // What the events say is of no interest: something was written.
            let mut events = [std::mem::MaybeUninit::uninit(); 4096];
            let mut reader = inotify::Reader::new(&watcher, &mut events);
            if !polled[0].revents().is_empty() {
                reader.next().unwrap();
            }
        }
    }
}
