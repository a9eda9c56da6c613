//! What a service is asked by signals.

use crate::program::ProgramError;
use async_signal::{Signal, Signals};
use smol::channel::Receiver;
use smol::stream::StreamExt;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// SIGTERM, SIGINT: finish running calls and end.
    Stop,
    /// SIGHUP: read everything again.
    Reload,
}

/// Signals as they come.
#[derive(Debug)]
pub struct SignalStream(Source);

#[derive(Debug)]
enum Source {
    Signals(Signals),
    Program(Receiver<Asked>),
}

impl SignalStream {
    /// Catches them from this call on.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn catch() -> Result<Self, ProgramError> {
        Signals::new([Signal::Term, Signal::Int, Signal::Hup])
            .map(|signals| Self(Source::Signals(signals)))
            .map_err(ProgramError::running)
    }

    /// What another part of the program asks; when it asks no more, that is a stop.
    pub fn of(program: Receiver<Asked>) -> Self {
        Self(Source::Program(program))
    }

    /// The next one. When signals cannot be told any more, that is a stop: nobody could ask for one later.
    pub async fn next(&mut self) -> Asked {
        match &mut self.0 {
            Source::Signals(signals) => match signals.next().await {
                Some(Ok(Signal::Hup)) => Asked::Reload,
                _ => Asked::Stop,
            },
            Source::Program(asked) => asked.recv().await.unwrap_or(Asked::Stop),
        }
    }
}
