//! QEMU's monitor (QMP): what somebody with hands at the machine could do.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::{HarnessError, io_error};

/// QEMU answers at once, or is busy with the guest for a moment.
const ANSWER: Duration = Duration::from_mins(1);

/// A connection to the monitor of one machine.
#[derive(Debug)]
pub struct Monitor {
    stream: BufReader<UnixStream>,
}

impl Monitor {
    pub(crate) fn connect(socket: &Path) -> Result<Self, HarnessError> {
        let stream = UnixStream::connect(socket).map_err(io_error("connect to", socket))?;
        stream.set_read_timeout(Some(ANSWER)).map_err(io_error("use", socket))?;
        let mut monitor = Self { stream: BufReader::new(stream) };
        monitor.message(|message| message.get("QMP").is_some())?;
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

    fn execute(&mut self, command: &str, arguments: &Value) -> Result<(), HarnessError> {
        let line = format!("{}\n", json!({"execute": command, "arguments": arguments}));
        self.stream.get_mut().write_all(line.as_bytes()).map_err(io_error("write to", "QEMU's monitor".as_ref()))?;
        let answer = self.message(|message| message.get("return").is_some() || message.get("error").is_some())?;
        match answer.get("error") {
            None => Ok(()),
            Some(error) => Err(HarnessError::Unusable(format!("QEMU's monitor, {command}: {error}"))),
        }
    }

    /// The next message that `wanted` accepts; events come in between.
    fn message(&mut self, wanted: impl Fn(&Value) -> bool) -> Result<Value, HarnessError> {
        loop {
            let mut line = String::new();
            let read = self.stream.read_line(&mut line).map_err(io_error("read from", "QEMU's monitor".as_ref()))?;
            if read == 0 {
                return Err(HarnessError::Unusable("QEMU's monitor hung up".into()));
            }
            if let Some(message) = serde_json::from_str(&line).ok().filter(|message| wanted(message)) {
                return Ok(message);
            }
        }
    }
}
