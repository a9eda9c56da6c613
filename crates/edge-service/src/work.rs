//! A program that works until somebody asks for the end.

use std::convert::Infallible;

use latchkey_service_runtime::program::{ProgramError, print};
use latchkey_service_runtime::signals::{Asked, SignalStream};
use smol::future::FutureExt as _;

/// What `--help` says of every program at an edge.
pub const RUNNING: &str = "Prints a line that begins with READY once it works.
SIGTERM and SIGINT stop it. What is away, the centre or the API server, is asked again
until it is back.
";

/// Says that `program` works, and does `work`, which never ends by itself, until SIGTERM or SIGINT. SIGHUP changes nothing: what may be
/// another tomorrow is read again by itself.
///
/// # Errors
/// The handlers of signals cannot be installed, or nobody reads standard output.
pub fn work(program: &str, work: impl Future<Output = Infallible>) -> Result<(), ProgramError> {
    let mut signals = SignalStream::catch()?;
    print(&format!("READY {program}\n"))?;
    let stopped = async { while signals.next().await != Asked::Stop {} };
    smol::block_on(stopped.or(async { match work.await {} }));
    Ok(())
}
