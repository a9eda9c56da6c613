//! The question that a human answers, on a real terminal: a pseudo-terminal of the kernel.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use latchkey_test_support::in_time;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use support::command::{Ran, finish};
use support::node::FakeNode;
use support::operator::Operator;

/// A program on a terminal of its own.
struct OnTerminal {
    child: Child,
    /// The side of the human.
    human: File,
    seen: String,
}

impl OnTerminal {
    /// Standard input and standard error are the terminal; the result goes elsewhere, as with `> file`.
    fn start(operator: &Operator, arguments: &[&str]) -> Self {
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
    fn until(mut self, text: &'static str) -> Self {
        in_time(text, move || {
            while !self.seen.contains(text) {
                let mut bytes = [0; 256];
                let count = self.human.read(&mut bytes).unwrap_or_else(|error| panic!("{error}: {}", self.seen));
                self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
            self
        })
    }

    fn answer(mut self, text: &str) -> (Ran, String) {
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

const QUESTION: &str = "Is this the machine that you mean? [yes/no]";

fn init(address: &str) -> Vec<&str> {
    let files = ["--master-secret", "master.json", "--init-secret", "init.secret", "--policy", "policy.json"];
    let rest = ["--reference", "demo.json", "--cluster", "plant", "--name", "plant", "--timeout", "60"];
    [&["init", address][..], &files, &rest].concat()
}

/// A policy that trusts two machines, of which one answers.
fn two_machines() -> (Operator, FakeNode, FakeNode) {
    let (operator, node) = Operator::with_node();
    let other = FakeNode::start(&operator.init_secret());
    operator.trust(&[&node, &other]);
    (operator, node, other)
}

#[test]
fn a_human_who_does_not_know_the_machine_sends_it_nothing() {
    let (operator, node, _other) = two_machines();
    let address = node.address();
    for answer in ["no\n", "\n", "y\n", "YES!\n"] {
        let asked = OnTerminal::start(&operator, &init(&address)).until(QUESTION);
        assert!(asked.seen.contains(&node.ek().to_string()), "the endorsement key is shown: {}", asked.seen);
        assert_eq!(node.shown(), (0, 0), "before the answer");
        let (ran, screen) = asked.answer(answer);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{screen}");
        assert!(screen.contains("you said that this is another machine"), "{screen}");
        assert_eq!(node.shown(), (0, 0), "neither secret nor key was sent after {answer:?}");
    }
}

#[test]
fn a_human_who_knows_the_machine_goes_on_with_it() {
    let (operator, node, _other) = two_machines();
    let address = node.address();
    let asked = OnTerminal::start(&operator, &init(&address)).until(QUESTION);
    assert!(asked.seen.contains(&node.ek().to_string()), "{}", asked.seen);
    let (ran, screen) = asked.answer("yes\n");
    assert_eq!(ran.code, 0, "{screen}");
    assert!(ran.out.contains(&node.ek().to_string()), "{}", ran.out);
    assert_eq!(node.shown(), (1, 1));
    assert_eq!(screen.matches(QUESTION).count(), 1, "it is asked once: {screen}");
}
