//! A program that works until somebody asks for the end.

use std::convert::Infallible;
use std::sync::Arc;

use latchkey_service_runtime::pages::{Pages, PagesConfig, VersionPage};
use latchkey_service_runtime::program::{ProgramError, print};
use latchkey_service_runtime::signals::{Asked, SignalStream};
use smol::future::FutureExt as _;

/// What `--help` says of every program at an edge.
pub const RUNNING: &str = "Prints a line that begins with READY once it works.
SIGTERM and SIGINT stop it. What is away, the centre or the API server, is asked again
until it is back.
";

/// Says that `program` works, answers its pages, and does `work`, which never ends by itself, until SIGTERM or SIGINT. SIGHUP changes nothing: what may be
/// another tomorrow is read again by itself.
///
/// # Errors
/// The handlers of signals cannot be installed, the pages not answered, or nobody reads standard output.
pub fn work(
    program: &str,
    (pages, page): (Option<PagesConfig>, VersionPage),
    work: impl Future<Output = Infallible>,
) -> Result<(), ProgramError> {
    let (mut signals, pages) = (SignalStream::catch()?, Pages::open(pages)?);
    print(&format!("READY {program}{}\n", pages.in_ready_line()?))?;
    let stopped = async {
        while signals.next().await != Asked::Stop {}
        Ok(())
    };
    let telling = pages.answer(Arc::new(page));
    smol::block_on(stopped.or(telling).or(async { match work.await {} })).map_err(ProgramError::running)
}
