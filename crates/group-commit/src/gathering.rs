//! How long a group waits for more writers, so that one fsync is enough for them.

use std::time::{Duration, Instant};

use async_channel::Receiver;
use smol::future::FutureExt;
use smol::{Timer, block_on};

/// The longest wait.
const LONGEST: Duration = Duration::from_millis(5);
/// A wait that is shorter costs more than it gains.
const SHORTEST: Duration = Duration::from_micros(100);

/// Decides how long a group that is about to be written waits for others.
///
/// Writers that write again and again are answered together, and come back one after the other. Where the first one is written at
/// once, the others wait for two fsyncs. So as many as there were the last time are waited for, for at most a quarter of the
/// time that the last group took. One writer alone waits for nobody.
#[derive(Debug)]
pub struct Gathering {
    /// How many writers there were: in the last group, and waiting when it was written.
    expected: usize,
    patience: Duration,
    begun: Instant,
}

impl Gathering {
    /// Nobody is waited for yet.
    pub fn new() -> Self {
        Self { expected: 0, patience: Duration::ZERO, begun: Instant::now() }
    }

    /// A group begins, with its first writer.
    pub fn begin(&mut self) {
        self.begun = Instant::now();
    }

    /// What comes next, while `gathered` writers are in the group; none when it is to be written. Blocks.
    pub fn next<T>(&self, orders: &Receiver<T>, gathered: usize) -> Option<T> {
        if let Ok(order) = orders.try_recv() {
            return Some(order);
        }
        if gathered >= self.expected || self.patience < SHORTEST {
            return None;
        }
        let late = async {
            Timer::at(self.begun + self.patience).await;
            None
        };
        block_on(async { orders.recv().await.ok() }.or(late))
    }

    /// A group of so many was written, in this time, while so many others came.
    pub fn written(&mut self, gathered: usize, waiting: usize, took: Duration) {
        self.expected = gathered + waiting;
        self.patience = (took / 4).min(LONGEST);
    }
}

impl Default for Gathering {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use async_channel::unbounded;

    use super::*;

    fn gathering(expected: usize, patience: Duration) -> Gathering {
        Gathering { expected, patience, begun: Instant::now() }
    }

    #[test]
    fn who_is_there_is_taken_and_one_writer_alone_waits_for_nobody() {
        let (sender, orders) = unbounded();
        sender.try_send(1).unwrap();
        let mut gathering = gathering(0, Duration::from_hours(1));
        assert_eq!(gathering.next(&orders, 5), Some(1));
        assert_eq!(gathering.next(&orders, 5), None);
        gathering.written(1, 0, Duration::from_hours(1));
        assert_eq!(gathering.next(&orders, 1), None);
        assert_eq!(gathering.patience, LONGEST);
    }

    #[test]
    fn as_many_as_there_were_are_waited_for() {
        let (sender, orders) = unbounded();
        let mut gathering = gathering(0, Duration::ZERO);
        gathering.written(1, 2, Duration::from_hours(1));
        gathering.patience = Duration::from_hours(1);
        std::thread::scope(|scope| {
            scope.spawn(|| sender.try_send(7).unwrap());
            assert_eq!(gathering.next(&orders, 2), Some(7));
        });
        assert_eq!(gathering.next(&orders, 3), None, "all are there");
    }

    #[test]
    fn the_wait_for_those_who_stay_away_ends() {
        let (sender, orders) = unbounded::<u8>();
        assert_eq!(gathering(2, Duration::from_millis(1)).next(&orders, 1), None);
        drop(sender);
        assert_eq!(gathering(2, Duration::from_hours(1)).next(&orders, 1), None, "nobody can come");
    }
}
