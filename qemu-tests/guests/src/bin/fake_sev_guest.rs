//! A fake: `/dev/sev-guest` of a SEV-SNP guest, in front of the agent that is appended to this program.
//!
//! As process 1 it starts itself once more, waits until that serves the device (CUSE: a character device in user space, which the
//! kernel gives the node's real ioctls), and then becomes the agent. The chip that signs comes from the host (`fw_cfg`), so one
//! measured image is any guest; without a chip there is no device.
//!
//! The chip's file is what `FakeAmd`'s guest writes: the report (1184 bytes), the length of its key (2 bytes, big endian), the key
//! (PKCS #8), the host's table of certificates. Reports are signed with that key over whatever they are asked for.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair};
use rustix::mount::{MountFlags, mount};

const CHIP: &str = "/sys/firmware/qemu_fw_cfg/by_name/opt/latchkey-test/chip/raw";
const MODULES: &str = "/lib/modules";
const AGENT: &str = "/agent";
const REPORT: usize = 1184;

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return serve(&Chip::read()?);
    }
    for (kind, place) in [("devtmpfs", "/dev"), ("sysfs", "/sys")] {
        let _ = fs::create_dir(place);
        mount(kind, place, kind, MountFlags::empty(), None)?;
    }
    load_modules()?;
    if Path::new(CHIP).exists() {
        let mut server = Command::new("/init").arg("serve").stdout(Stdio::piped()).spawn()?;
        let ready = server.stdout.as_mut().map(|output| output.read_exact(&mut [0]));
        ready.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))?;
    }
    fs::write(AGENT, appended(&fs::read("/init")?)?)?;
    fs::set_permissions(AGENT, fs::Permissions::from_mode(0o755))?;
    Err(Command::new(AGENT).exec())
}

/// What follows this program in its own file; the last eight bytes say how long it is.
fn appended(whole: &[u8]) -> io::Result<&[u8]> {
    let missing = || io::Error::other("no agent is appended");
    let (rest, length) = whole.split_last_chunk().ok_or_else(missing)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok().filter(|length| *length <= rest.len());
    length.and_then(|length| rest.get(rest.len() - length..)).ok_or_else(missing)
}

/// Those of the image's list that are needed here.
fn load_modules() -> io::Result<()> {
    let list = fs::read_to_string(format!("{MODULES}/order"))?;
    for path in list.lines().map(|line| line.trim_start_matches('?')) {
        if ["fuse.ko", "cuse.ko", "qemu_fw_cfg.ko"].iter().any(|name| Path::new(path).ends_with(name)) {
            match rustix::system::finit_module(File::open(format!("{MODULES}/{path}"))?, c"", 0) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

struct Chip {
    report: Vec<u8>,
    key: EcdsaKeyPair,
    table: Vec<u8>,
}

impl Chip {
    fn read() -> io::Result<Self> {
        let file = fs::read(CHIP)?;
        let parts = || {
            let (report, rest) = file.split_at_checked(REPORT)?;
            let (length, rest) = rest.split_first_chunk()?;
            let (key, table) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
            let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, key, &SystemRandom::new()).ok()?;
            Some(Self { report: report.to_vec(), key, table: table.to_vec() })
        };
        parts().ok_or_else(|| io::Error::other("the chip's file is none"))
    }

    /// `MSG_REPORT_RSP` with a report over these data.
    fn answer(&self, report_data: &[u8]) -> io::Result<Vec<u8>> {
        let mut report = self.report.clone();
        report[0x50..0x90].copy_from_slice(report_data);
        let signature = self.key.sign(&SystemRandom::new(), &report[..0x2a0]).map_err(io::Error::other)?;
        for (number, place) in signature.as_ref().chunks_exact(48).zip([0x2a0, 0x2a0 + 72]) {
            report[place..place + 48].copy_from_slice(&number.iter().rev().copied().collect::<Vec<_>>());
        }
        let mut answer = vec![0; 4000];
        answer[4..8].copy_from_slice(&1184_u32.to_le_bytes());
        answer[32..32 + REPORT].copy_from_slice(&report);
        Ok(answer)
    }
}

/// Serves the device (`include/uapi/linux/fuse.h`, `CUSE_INIT` and what follows it).
fn serve(chip: &Chip) -> io::Result<()> {
    let mut kernel = File::options().read(true).write(true).open("/dev/cuse")?;
    let mut buffer = vec![0; 256 * 1024];
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
        let total = u32::try_from(16 + answer.len()).map_err(io::Error::other)?;
        let head = [&total.to_le_bytes()[..], &[0; 4], &buffer[8..16]].concat();
        let sent = kernel.write(&[head, answer].concat())?;
        if u32::try_from(sent).ok() != Some(total) {
            return Err(io::ErrorKind::WriteZero.into());
        }
        if Request(&buffer[..length]).opcode() == CUSE_INIT {
            // It made the device before it took the answer.
            io::stdout().write_all(b".")?;
            io::stdout().flush()?;
        }
    }
}

/// An ioctl in steps: each time the kernel is told which memory of the caller it has to bring along, and where the answer goes.
fn ioctl(chip: &Chip, request: &Request<'_>) -> io::Result<Vec<u8>> {
    let (command, argument) = (request.word(40 + 12), request.long(40 + 16));
    let (given, room) = (request.word(40 + 24), request.word(40 + 28));
    let data = |at: usize| request.long(72 + at);
    let call = (argument, 32);
    let asked = if command == GET_EXTENDED_REPORT { 112 } else { 96 };
    if room != 0 {
        let answer = chip.answer(request.bytes(72 + 32, 64))?;
        let mut table = chip.table.clone();
        table.resize(usize::try_from(room).map_err(io::Error::other)?.saturating_sub(32 + answer.len()), 0);
        return Ok([&[0; 16], request.bytes(72, 32), &answer, &table].concat());
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

/// A message of the kernel: a head of 40 bytes, then what its opcode says. What is missing is zero.
struct Request<'a>(&'a [u8]);

impl Request<'_> {
    fn opcode(&self) -> u32 {
        self.word(4)
    }

    fn word(&self, at: usize) -> u32 {
        self.0.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
    }

    fn long(&self, at: usize) -> u64 {
        self.0.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    }

    fn bytes(&self, at: usize, length: usize) -> &[u8] {
        self.0.get(at..at + length).unwrap_or_default()
    }
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
