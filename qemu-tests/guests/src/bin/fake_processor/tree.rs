//! configfs-tsm (`Documentation/ABI/testing/configfs-tsm`) by FUSE: the root has `tsm/report`, in which an entry is a directory that has
//! its attributes when it is made, and loses them when it is removed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;

use rustix::io::Errno;

use crate::chip::Chip;
use crate::message::{ROOM, Request};

/// Numbers of directories; those of entries, and of what is in them, come after.
const ROOT: u64 = 1;
const TSM: u64 = 2;
const REPORT: u64 = 3;
/// Entry `n` is `STEP * n`, its attributes the numbers after it.
const STEP: u64 = 16;
const ATTRIBUTES: [&str; 5] = ["provider", "inblob", "outblob", "auxblob", "generation"];

/// Serves the file system that is mounted with standard input as its end.
pub(crate) fn serve(chip: &Chip, provider: &'static str) -> io::Result<()> {
    let mut kernel = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut tree = Tree { chip, provider, entries: BTreeMap::new(), made: 0 };
    let mut buffer = vec![0; ROOM];
    loop {
        let length = kernel.read(&mut buffer)?;
        let request = Request(&buffer[..length]);
        if ![FORGET, BATCH_FORGET, INTERRUPT].contains(&request.opcode()) {
            request.answer(&kernel, tree.answer(&request))?;
        }
    }
}

struct Tree<'a> {
    chip: &'a Chip,
    provider: &'static str,
    entries: BTreeMap<u64, Entry>,
    made: u64,
}

struct Entry {
    name: Vec<u8>,
    /// Counts what was written.
    generation: u64,
    /// Over what was written last.
    report: Option<Vec<u8>>,
}

impl Tree<'_> {
    fn answer(&mut self, request: &Request<'_>) -> Result<Vec<u8>, Errno> {
        let node = request.long(16);
        match request.opcode() {
            INIT => {
                let words = [7, request.word(40 + 4), 0, 0, 0, 4096];
                Ok([&words.map(u32::to_le_bytes).concat()[..], &[0; 40]].concat())
            }
            LOOKUP => self.find(node, request.name(40)).map(found),
            // What is written replaces what was, so there is nothing to cut off.
            GETATTR | SETATTR => self.known(node).map(|()| [&[0; 16][..], &attributes(node)].concat()),
            MKDIR => self.make(node, request.name(48)).map(found),
            RMDIR => self.remove(node, request.name(40)),
            OPEN => self.known(node).map(|()| [[0; 8], DIRECT_IO.to_le_bytes()].concat()),
            READ => {
                let content = self.read(node)?;
                let rest = usize::try_from(request.long(40 + 8)).ok().and_then(|at| content.get(at..));
                let size = usize::try_from(request.word(40 + 16)).unwrap_or_default();
                Ok(rest.unwrap_or_default().iter().copied().take(size).collect())
            }
            WRITE => {
                let size = request.word(40 + 16);
                self.write(node, request.bytes(80, usize::try_from(size).unwrap_or_default()))?;
                Ok([size, 0].map(u32::to_le_bytes).concat())
            }
            FLUSH | RELEASE => Ok(Vec::new()),
            _ => Err(Errno::NOSYS),
        }
    }

    fn find(&self, parent: u64, name: &[u8]) -> Result<u64, Errno> {
        let node = match (parent, name) {
            (ROOT, b"tsm") => Some(TSM),
            (TSM, b"report") => Some(REPORT),
            (REPORT, _) => self.entries.iter().find(|(_, entry)| entry.name == name).map(|(number, _)| STEP * number),
            (ROOT | TSM, _) => None,
            _ => {
                (parent + 1..).zip(ATTRIBUTES).find(|(_, attribute)| attribute.as_bytes() == name).map(|(node, _)| node)
            }
        };
        let node = node.ok_or(Errno::NOENT)?;
        // Some kernels show it only where it can have something in it.
        if attribute(node) == Some("auxblob") && self.chip.table().is_none() {
            return Err(Errno::NOENT);
        }
        self.known(node).map(|()| node)
    }

    fn known(&self, node: u64) -> Result<(), Errno> {
        let there = node < STEP || self.entries.contains_key(&(node / STEP));
        there.then_some(()).ok_or(Errno::NOENT)
    }

    fn make(&mut self, parent: u64, name: &[u8]) -> Result<u64, Errno> {
        if parent != REPORT {
            return Err(Errno::PERM);
        }
        self.made += 1;
        self.entries.insert(self.made, Entry { name: name.to_vec(), generation: 0, report: None });
        Ok(STEP * self.made)
    }

    fn remove(&mut self, parent: u64, name: &[u8]) -> Result<Vec<u8>, Errno> {
        if parent != REPORT {
            return Err(Errno::PERM);
        }
        let node = self.find(parent, name)?;
        self.entries.remove(&(node / STEP)).map(|_| Vec::new()).ok_or(Errno::NOENT)
    }

    fn read(&self, node: u64) -> Result<Vec<u8>, Errno> {
        let entry = self.entries.get(&(node / STEP)).ok_or(Errno::NOENT)?;
        match attribute(node) {
            Some("provider") => Ok(format!("{}\n", self.provider).into_bytes()),
            Some("generation") => Ok(format!("{}\n", entry.generation).into_bytes()),
            Some("outblob") => entry.report.clone().ok_or(Errno::INVAL),
            Some("auxblob") if entry.report.is_some() => Ok(self.chip.table().unwrap_or_default().to_vec()),
            _ => Err(Errno::INVAL),
        }
    }

    fn write(&mut self, node: u64, content: &[u8]) -> Result<(), Errno> {
        let entry = self.entries.get_mut(&(node / STEP)).ok_or(Errno::NOENT)?;
        if attribute(node) != Some("inblob") || content.len() != 64 {
            return Err(Errno::INVAL);
        }
        entry.report = Some(self.chip.report(content).map_err(|_| Errno::IO)?);
        entry.generation += 1;
        Ok(())
    }
}

/// Which attribute of an entry it is.
fn attribute(node: u64) -> Option<&'static str> {
    let index = (node % STEP).checked_sub(1).filter(|_| node >= STEP)?;
    ATTRIBUTES.get(usize::try_from(index).ok()?).copied()
}

/// `fuse_entry_out`: nothing of it may be kept.
fn found(node: u64) -> Vec<u8> {
    [&node.to_le_bytes()[..], &[0; 32], &attributes(node)].concat()
}

/// `fuse_attr`.
fn attributes(node: u64) -> Vec<u8> {
    let (mode, links) = match attribute(node) {
        None => (0o040_755_u32, 2_u32),
        Some("inblob") => (0o100_200, 1),
        Some(_) => (0o100_400, 1),
    };
    [&node.to_le_bytes()[..], &[0; 52], &mode.to_le_bytes(), &links.to_le_bytes(), &[0; 20]].concat()
}

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const MKDIR: u32 = 9;
const RMDIR: u32 = 11;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
/// `FOPEN_DIRECT_IO`, and padding: what is read has no size before.
const DIRECT_IO: u64 = 1;
