//! The helper process of latchkey-kerberos: MIT's libraries behind a pipe.
//!
//! It reads one request after another from its standard input, and writes an answer for each to its standard output
//! ([`latchkey_kerberos::wire`]). It ends when its input does, even if a library hangs; so it never outlives the service.
//! It has no arguments, and of its environment only MIT's libraries read: `KRB5_CONFIG`, `KRB5RCACHENAME`.

mod accept;
mod admin;
mod confine;
mod error;
mod holder;
mod libraries;
mod verify;
mod worker;

use latchkey_kerberos::wire::{MAX_REQUEST, Request, read_frame};
use latchkey_wiping_allocator::WipingAllocator;
use std::io::{self, stdin};
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;

/// Passwords and keys pass through this program: every block is wiped before it is given back.
#[global_allocator]
static ALLOCATOR: WipingAllocator = WipingAllocator::new();

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("latchkey-kerberos-helper: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The libraries work in a thread of their own. When this one returns, the program ends, whatever they do.
fn run() -> io::Result<()> {
    let answers = confine::confine()?;
    let (requests, work) = sync_channel::<Request>(1);
    std::thread::Builder::new().spawn(move || worker::run(work, answers))?;
    let mut input = stdin().lock();
    while let Some(message) = read_frame(&mut input, MAX_REQUEST)? {
        let request = Request::decode(&message).map_err(io::Error::other)?;
        if requests.send(request).is_err() {
            return Err(io::Error::other("the pipe for answers is closed"));
        }
    }
    Ok(())
}
