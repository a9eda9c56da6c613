//! For tests: waits that end, ports that nobody else takes, and skips that are seen.
//!
//! A test that waits for ever says nothing; cargo waits with it, and so does everybody behind. Here every wait has an end
//! and a panic that names what was waited for. [`PATIENCE`] is for what takes a moment: it is no promise about speed.
//!
//! Only tests depend on this; nothing that ships does.

mod cargo;
mod clock;
mod extent;
mod flood;
pub mod metadata;
pub mod mirror;
mod npm;
mod port;
mod process;
mod skip;
mod stop;
mod stream;
mod tied;
mod vector;
pub mod volume;

pub use cargo::{calls_cargo, cargo};
pub use clock::wrong_clock;
pub use extent::{ALL_CASES, first};
pub use flood::{Flood, FloodSize, connect_from, first_words, open_many_files};
pub use npm::Npm;
pub use port::Port;
pub use process::{finish, finish_within, output, output_within, status_within, wait};
pub use skip::skip;
pub use stop::StopOnDrop;
pub use stream::{Lines, drained};
pub use tied::{Process, spawn, tie};
pub use vector::{vector, vector_path};

use smol::Timer;
use smol::future::FutureExt;
use std::fmt::Display;
use std::panic::{Location, resume_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// No honest step of a test comes near it, not even on a busy machine that is five times slower.
pub const PATIENCE: Duration = Duration::from_mins(2);
/// Between two looks of [`until`].
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Runs a future to its end.
///
/// # Panics
/// If it has none within [`PATIENCE`]: names the caller's place.
#[track_caller]
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let place = Location::caller();
    smol::block_on(within(format_args!("the future of {place}"), future))
}

/// What a future gives.
///
/// # Panics
/// If it gives nothing within [`PATIENCE`]: names `what` was waited for.
pub async fn within<T>(what: impl Display, future: impl Future<Output = T>) -> T {
    let late = async {
        Timer::after(PATIENCE).await;
        overdue(&what, PATIENCE)
    };
    future.or(late).await
}

/// Runs something that blocks, in a thread of its own; a panic of it is one of the caller.
///
/// # Panics
/// If it does not end within [`PATIENCE`]: names `what` was waited for. The thread stays.
pub fn in_time<T: Send + 'static>(what: impl Display, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = channel();
    let thread = std::thread::spawn(move || drop(done.send(work())));
    match ended.recv_timeout(PATIENCE) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => overdue(&what, PATIENCE),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => unreachable!("it sends before it ends"),
        },
    }
}

/// What `look` finds, for states that nobody announces: it looks again a moment later until there is something.
///
/// # Panics
/// If it finds nothing within [`PATIENCE`]: names `what` was waited for.
pub fn until<T>(what: impl Display, look: impl FnMut() -> Option<T>) -> T {
    until_within(what, PATIENCE, LOOK_AGAIN, look)
}

/// The same with another patience, for what is slow, and another pause, for a look that costs something.
///
/// # Panics
/// If it finds nothing within `patience`: names `what` was waited for.
pub fn until_within<T>(
    what: impl Display,
    patience: Duration,
    pause: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + patience;
    loop {
        if let Some(found) = look() {
            return found;
        }
        if Instant::now() > end {
            overdue(&what, patience);
        }
        smol::block_on(Timer::after(pause));
    }
}

fn overdue(what: &dyn Display, patience: Duration) -> ! {
    let name = std::thread::current().name().unwrap_or("a thread").to_owned();
    panic!("{name} waited {} s in vain for {what}", patience.as_secs());
}
