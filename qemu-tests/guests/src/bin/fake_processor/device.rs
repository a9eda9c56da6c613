//! `/dev/sev-guest` of a SEV-SNP guest by CUSE: a character device in user space, which the kernel gives the node's real ioctls.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

use crate::chip::{Chip, SNP_REPORT};
use crate::message::{ROOM, Request};

/// Serves the device (`CUSE_INIT` and what follows it); prints a byte when it is there.
pub(crate) fn serve(chip: &Chip) -> io::Result<()> {
    let mut kernel = File::options().read(true).write(true).open("/dev/cuse")?;
    let mut buffer = vec![0; ROOM];
    loop {
        let length = kernel.read(&mut buffer)?;
        let request = Request(&buffer[..length]);
        let answer = match request.opcode() {
            CUSE_INIT => {
                let words = [7, request.word(40 + 4), 0, UNRESTRICTED_IOCTL, 4096, 4096];
                [&words.map(u32::to_le_bytes).concat()[..], &[0; 48], b"DEVNAME=sev-guest\0"].concat()
            }
            FUSE_OPEN => vec![0; 16],
            FUSE_IOCTL => ioctl(chip, &request)?,
            FUSE_INTERRUPT => continue,
            _ => Vec::new(),
        };
        request.answer(&kernel, Ok(answer))?;
        if request.opcode() == CUSE_INIT {
            // It made the device before it took the answer.
            io::stdout().write_all(b".")?;
            io::stdout().flush()?;
        }
    }
}

/// `MSG_REPORT_RSP` with a report over these data.
fn response(chip: &Chip, report_data: &[u8]) -> io::Result<Vec<u8>> {
    let mut response = vec![0; 4000];
    response[4..8].copy_from_slice(&1184_u32.to_le_bytes());
    response[32..32 + SNP_REPORT].copy_from_slice(&chip.report(report_data)?);
    Ok(response)
}

/// An ioctl in steps: each time the kernel is told which memory of the caller it has to bring along, and where the answer goes.
fn ioctl(chip: &Chip, request: &Request<'_>) -> io::Result<Vec<u8>> {
    let (command, argument) = (request.word(40 + 12), request.long(40 + 16));
    let (given, room) = (request.word(40 + 24), request.word(40 + 28));
    let data = |at: usize| request.long(72 + at);
    let call = (argument, 32);
    let asked = if command == GET_EXTENDED_REPORT { 112 } else { 96 };
    if room != 0 {
        let response = response(chip, request.bytes(72 + 32, 64))?;
        let mut table = chip.table().unwrap_or_default().to_vec();
        table.resize(usize::try_from(room).map_err(io::Error::other)?.saturating_sub(32 + response.len()), 0);
        return Ok([&[0; 16], request.bytes(72, 32), &response, &table].concat());
    }
    let (inputs, mut outputs) = match given {
        0 => (vec![call], vec![]),
        32 => (vec![call, (data(8), asked)], vec![]),
        _ => (vec![call, (data(8), asked)], vec![call, (data(16), 4000)]),
    };
    if !outputs.is_empty() && command == GET_EXTENDED_REPORT {
        outputs.push((data(32 + 96), request.word(72 + 32 + 104).into()));
    }
    let counts = [0, RETRY, count(&inputs), count(&outputs)].map(u32::to_le_bytes).concat();
    let places = inputs.iter().chain(&outputs).flat_map(|(at, length)| [at.to_le_bytes(), length.to_le_bytes()]);
    Ok([counts, places.flatten().collect()].concat())
}

fn count(places: &[(u64, u64)]) -> u32 {
    u32::try_from(places.len()).unwrap_or_default()
}

const CUSE_INIT: u32 = 4096;
const UNRESTRICTED_IOCTL: u32 = 1;
const FUSE_OPEN: u32 = 14;
const FUSE_INTERRUPT: u32 = 36;
const FUSE_IOCTL: u32 = 39;
/// `FUSE_IOCTL_RETRY`
const RETRY: u32 = 4;
/// `SNP_GET_EXT_REPORT`
const GET_EXTENDED_REPORT: u32 = 0xc020_5302;
