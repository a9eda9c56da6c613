//! The thread that writes.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use async_channel::{Receiver, Sender};
use latchkey_group_commit::Gathering;

use super::{Shared, Shown};
use crate::access::{Caller, Permitted};
use crate::engine::{Engine, EngineError, ForeignRow};
use crate::execute::{Transaction, execute};
use crate::model::{Row, special};
use crate::operation::{Outcome, Refusal, Write};
use crate::schema::Schemas;
use crate::{Model, Mutation};

/// How many writes become durable at once, at most.
const GROUP: usize = 256;
/// How many bytes of JSON are enough for a group, so that it does not hold the next one for long.
const GROUP_BYTES: usize = 8 << 20;

/// Where a write's caller waits.
type Done = Sender<Result<Outcome, Refusal>>;

pub(super) enum Order {
    Write {
        caller: Caller,
        write: Write,
        done: Sender<Result<Outcome, Refusal>>,
    },
    /// Another process wrote something.
    Foreign,
    Copy {
        path: PathBuf,
        done: Sender<Result<(), EngineError>>,
    },
}

pub(super) struct Writer<E> {
    engine: E,
    shared: Arc<Shared>,
    ahead: Model,
    schemas: Schemas,
    gathering: Gathering,
}

/// Writes of one group: what each came to, and what is to be kept.
#[derive(Default)]
struct Group {
    done: Vec<(Done, Result<Outcome, Refusal>)>,
    mutations: Vec<Mutation>,
    inverses: Vec<Mutation>,
    bytes: usize,
}

impl<E: Engine> Writer<E> {
    /// Loads all rows; an empty database gets what every database has.
    pub(super) fn load(mut engine: E, shared: Arc<Shared>) -> Result<Self, EngineError> {
        let mut ahead = Model::default();
        engine.load(&mut |table, key, value| {
            ahead.apply(&Row::read(table, key, Some(value))?);
            Ok(())
        })?;
        shared.write().model = ahead.clone();
        let mut writer = Self { engine, shared, ahead, schemas: Schemas::default(), gathering: Gathering::new() };
        writer.begin()?;
        let beginning = if writer.ahead.objects().len() == 0 { special::beginning() } else { Vec::new() };
        writer.engine.commit(&rows(&beginning))?;
        for mutation in &beginning {
            writer.ahead.apply(mutation);
        }
        writer.publish(&beginning);
        Ok(writer)
    }

    pub(super) fn on_foreign(&mut self, wake: Box<dyn Fn() + Send + Sync>) {
        self.engine.on_foreign(wake);
    }

    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        let mut next = orders.recv_blocking().ok();
        while let Some(order) = next.take() {
            next = match order {
                Order::Write { .. } => self.write_group(order, orders),
                Order::Foreign => {
                    self.catch_up();
                    None
                }
                Order::Copy { path, done } => {
                    self.copy(path, done);
                    None
                }
            };
            next = next.or_else(|| orders.recv_blocking().ok());
        }
    }

    /// Writes `first` and what waits behind it, or is about to come; gives the order that is no write.
    fn write_group(&mut self, first: Order, orders: &Receiver<Order>) -> Option<Order> {
        let mut group = Group::default();
        self.gathering.begin();
        let begun = self.begin();
        let mut order = Some(first);
        while let Some(Order::Write { caller, write, done }) = order {
            let outcome = match &begun {
                Ok(()) => self.execute(&mut group, &caller, &write),
                Err(error) => Err(Refusal::Unavailable(error.to_string())),
            };
            group.done.push((done, outcome));
            let room = group.done.len() < GROUP && group.bytes < GROUP_BYTES;
            order = if room { self.gathering.next(orders, group.done.len()) } else { None };
        }
        if begun.is_ok() {
            let start = Instant::now();
            self.commit(&mut group);
            self.gathering.written(group.done.len(), orders.len(), start.elapsed());
        }
        for (done, outcome) in group.done {
            drop(done.try_send(outcome)); // whoever no longer waits does not want to know
        }
        order
    }

    fn execute(&mut self, group: &mut Group, caller: &Caller, write: &Write) -> Result<Outcome, Refusal> {
        let permitted = Permitted::check(&self.ahead, caller, write)?;
        let mut transaction = Transaction::on(&mut self.ahead);
        let outcome = execute(&mut transaction, &mut self.schemas, &permitted);
        let (mutations, inverses) = transaction.into_parts();
        group.bytes += mutations.iter().map(size).sum::<usize>();
        group.mutations.extend(mutations);
        group.inverses.extend(inverses);
        outcome
    }

    /// Makes a group durable, and shows it. Where that fails, nothing of it was.
    fn commit(&mut self, group: &mut Group) {
        match self.engine.commit(&rows(&group.mutations)) {
            Ok(()) => self.publish(&group.mutations),
            Err(error) => {
                tracing::error!(%error, writes = group.done.len(), "a group of writes was not kept");
                for inverse in group.inverses.iter().rev() {
                    self.ahead.apply(inverse);
                }
                // Refusals, too: one may be for what an earlier write of the group did.
                for (_, outcome) in &mut group.done {
                    *outcome = Err(Refusal::Unavailable(error.to_string()));
                }
            }
        }
    }

    /// Begins a group with what other processes wrote.
    fn begin(&mut self) -> Result<(), EngineError> {
        let foreign = self.engine.begin()?;
        let read = |(table, key, value): &ForeignRow| Row::read(table, key, value.as_deref()).map_err(EngineError);
        let mutations = foreign.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        for mutation in &mutations {
            self.ahead.apply(mutation);
        }
        self.publish(&mutations);
        Ok(())
    }

    fn catch_up(&mut self) {
        if let Err(error) = self.begin().and_then(|()| self.engine.commit(&[])) {
            tracing::error!(%error, "cannot read what another process wrote; the next write tries again");
        }
    }

    fn publish(&self, mutations: &[Mutation]) {
        if !mutations.is_empty() {
            let mut shown = self.shared.write();
            let Shown { model, watchers } = &mut *shown;
            watchers.publish(model, mutations);
        }
    }

    /// Takes the moment here, in the order of writes; the copying itself has a thread of its own.
    fn copy(&mut self, path: PathBuf, done: Sender<Result<(), EngineError>>) {
        match self.engine.moment() {
            Ok(copying) => {
                let copy = move || drop(done.try_send(copying(&path)));
                // Without a thread the sender is dropped, and who waits is told that there is no database to copy.
                drop(thread::Builder::new().name("copy".into()).spawn(copy));
            }
            Err(error) => drop(done.try_send(Err(error))),
        }
    }
}

fn rows(mutations: &[Mutation]) -> Vec<latchkey_group_commit::Change> {
    mutations.iter().map(Row::of).collect()
}

/// Bytes of JSON.
fn size(mutation: &Mutation) -> usize {
    match mutation {
        Mutation::Entry(_, _, Some(entry)) => entry.json.text().len(),
        _ => 0,
    }
}
