//! A pseudo-terminal of the kernel, with a human at its other end.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use latchkey_test_support::in_time;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::command::{Ran, finish};
use super::operator::Operator;

/// A program on a terminal of its own.
pub struct OnTerminal {
    child: Child,
    /// The side of the human.
    human: File,
    pub seen: String,
}

impl OnTerminal {
    /// Standard input and standard error are the terminal; the result goes elsewhere, as with `> file`.
    pub fn start(operator: &Operator, arguments: &[&str]) -> Self {
        let human = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&human).unwrap();
        unlockpt(&human).unwrap();
        let name = ptsname(&human, Vec::new()).unwrap();
        let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_latchkey"))
            .args(arguments)
            .current_dir(operator.directory())
            .env("NO_COLOR", "1")
            .stdin(Stdio::from(terminal.try_clone().unwrap()))
            .stderr(Stdio::from(terminal))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, human: File::from(human), seen: String::new() }
    }

    /// Reads until the text is on the screen.
    pub fn until(mut self, text: &'static str) -> Self {
        in_time(text, move || {
            while !self.seen.contains(text) {
                let mut bytes = [0; 256];
                let count = self.human.read(&mut bytes).unwrap_or_else(|error| panic!("{error}: {}", self.seen));
                self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
            self
        })
    }

    pub fn answer(mut self, text: &str) -> (Ran, String) {
        self.human.write_all(text.as_bytes()).unwrap();
        // The kernel answers with an error once nobody has the other side open.
        let mut human = self.human;
        let rest = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            drop(human.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let ran = finish(self.child);
        (ran, self.seen + &in_time("the end of the terminal", move || rest.join().unwrap()))
    }
}
