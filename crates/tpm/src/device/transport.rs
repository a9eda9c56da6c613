//! How command bytes reach a TPM and answers come back.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest answer accepted, in bytes: what the Linux driver's buffer holds.
pub const MAX_RESPONSE: usize = 4096;
/// Tag, size and code of a response (part 1, section 18).
const HEADER: usize = 10;
/// Longer than the slowest command (making an RSA key in a firmware TPM): beyond it the peer is dead.
const SOCKET_DEADLINE: Duration = Duration::from_mins(2);

/// Carries one command and brings back one answer.
pub trait Transport {
    /// Sends `command` and replaces the content of `response` with the answer, at most [`MAX_RESPONSE`] bytes.
    fn transmit(&mut self, command: &[u8], response: &mut Vec<u8>) -> io::Result<()>;
}

/// A TPM character device: one write is a command, one read its answer.
#[derive(Debug)]
pub struct CharDevice {
    file: File,
}

impl CharDevice {
    /// The device behind the kernel's resource manager, which also repeats commands the TPM asks to be repeated.
    pub const DEFAULT: &str = "/dev/tpmrm0";

    /// Opens `path`, usually [`Self::DEFAULT`].
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().read(true).write(true).open(path)? })
    }
}

impl Transport for CharDevice {
    fn transmit(&mut self, command: &[u8], response: &mut Vec<u8>) -> io::Result<()> {
        // The driver takes a command in one piece or not at all: `write_all` would send the rest as a second one.
        if self.file.write(command)? != command.len() {
            return Err(io::Error::new(io::ErrorKind::WriteZero, "TPM driver took only a part of the command"));
        }
        response.clear();
        response.resize(MAX_RESPONSE, 0);
        loop {
            match self.file.read(response) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => {
                    response.truncate(other?);
                    return Ok(());
                }
            }
        }
    }
}

/// A Unix stream to a TPM that speaks bare commands, such as `swtpm socket --server type=unixio`.
#[derive(Debug)]
pub struct Socket {
    stream: UnixStream,
}

impl Socket {
    /// Connects to the socket at `path`.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::new(UnixStream::connect(path)?)
    }

    /// Speaks over a connected stream.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(SOCKET_DEADLINE))?;
        stream.set_write_timeout(Some(SOCKET_DEADLINE))?;
        Ok(Self { stream })
    }
}

impl Transport for Socket {
    fn transmit(&mut self, command: &[u8], response: &mut Vec<u8>) -> io::Result<()> {
        self.stream.write_all(command)?;
        let mut header = [0; HEADER];
        self.stream.read_exact(&mut header)?;
        let [_, _, size @ .., _, _, _, _] = header;
        let size = u32::from_be_bytes(size) as usize;
        if !(HEADER..=MAX_RESPONSE).contains(&size) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "response size out of bounds"));
        }
        response.clear();
        response.extend_from_slice(&header);
        response.resize(size, 0);
        self.stream.read_exact(response.get_mut(HEADER..).unwrap_or_default())
    }
}
