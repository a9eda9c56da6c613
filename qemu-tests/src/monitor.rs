//! QEMU's monitor (QMP): what somebody with hands at the machine could do.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::console::Console;
use crate::error::{HarnessError, io_error};

/// QEMU answers at once, or is busy with the guest for a moment.
const ANSWER: Duration = Duration::from_mins(3);

/// A connection to the monitor of one machine.
#[derive(Debug)]
pub struct Monitor {
    stream: BufReader<UnixStream>,
    /// Shows in errors what the guest was doing.
    console: Console,
}

impl Monitor {
    pub(crate) fn connect(socket: &Path, console: &Console) -> Result<Self, HarnessError> {
        let stream = UnixStream::connect(socket).map_err(io_error("connect to", socket))?;
        stream.set_write_timeout(Some(ANSWER)).map_err(io_error("use", socket))?;
        let mut monitor = Self { stream: BufReader::new(stream), console: console.clone() };
        monitor.message("the greeting", |message| message.get("QMP").is_some())?;
        monitor.execute("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// Holds the serial line low for longer than a character takes: what Linux takes for the magic system request key.
    pub fn serial_break(&mut self) -> Result<(), HarnessError> {
        self.execute("chardev-send-break", &json!({"id": "console"}))
    }

    /// Presses keys together on the keyboard, by QEMU's names (`alt`, `sysrq`, `b`).
    pub fn press(&mut self, keys: &[&str]) -> Result<(), HarnessError> {
        let keys: Vec<_> = keys.iter().map(|key| json!({"type": "qcode", "data": key})).collect();
        self.execute("send-key", &json!({"keys": keys}))
    }

    /// Writes the guest's whole memory into a file (an ELF core), the guest stopped meanwhile.
    pub fn dump_memory(&mut self, file: &Path) -> Result<(), HarnessError> {
        self.execute("dump-guest-memory", &json!({"paging": false, "protocol": format!("file:{}", file.display())}))
    }

    /// Puts a disk in while the machine runs, at a `pcie-root-port` of this name: read-only, its content the file's.
    pub fn plug_in(&mut self, port: &str, file: &Path) -> Result<(), HarnessError> {
        let content = json!({"driver": "file", "filename": file, "read-only": true});
        let node = json!({"driver": "raw", "node-name": "plugged", "read-only": true, "file": content});
        self.execute("blockdev-add", &node)?;
        let device = json!({"driver": "virtio-blk-pci", "drive": "plugged", "id": "plugged-disk", "bus": port});
        self.execute("device_add", &device)
    }

    fn execute(&mut self, command: &str, arguments: &Value) -> Result<(), HarnessError> {
        let line = format!("{}\n", json!({"execute": command, "arguments": arguments}));
        self.stream.get_mut().write_all(line.as_bytes()).map_err(io_error("write to", "QEMU's monitor".as_ref()))?;
        let answers = |message: &Value| message.get("return").is_some() || message.get("error").is_some();
        let answer = self.message(&format!("the answer to {command}"), answers)?;
        match answer.get("error") {
            None => Ok(()),
            Some(error) => Err(HarnessError::Unusable(format!("QEMU's monitor, {command}: {error}"))),
        }
    }

    /// The next message that `wanted` accepts; events come in between.
    fn message(&mut self, event: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value, HarnessError> {
        let deadline = Instant::now() + ANSWER;
        let mut line = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.stream.get_ref().set_read_timeout(Some(left)).map_err(io_error("use", "QEMU's monitor".as_ref()))?;
            let (name, tail) = (|| "QEMU's monitor".to_owned(), || self.console.tail());
            match self.stream.read_until(b'\n', &mut line) {
                Ok(0) => return Err(HarnessError::Ended { name: name(), event: event.into(), tail: tail() }),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Err(HarnessError::Deadline {
                        name: name(),
                        event: event.into(),
                        after: ANSWER,
                        tail: tail(),
                    });
                }
                Err(error) => return Err(io_error("read from", "QEMU's monitor".as_ref())(error)),
            }
            if let Some(message) = serde_json::from_slice(&line).ok().filter(&wanted) {
                return Ok(message);
            }
            line.clear();
        }
    }
}
