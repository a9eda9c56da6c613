//! The commands: one table, by which arguments are read and from which help is printed.

mod centre;
mod charts;
mod collateral;
mod completions;
mod help;
mod image;
mod init;
mod kubernetes;
mod manual;
mod measure;
mod node;
mod parse;
mod policy;
mod reference;
mod table;
mod upgrade;

use crate::arguments::Arguments;
pub(crate) use parse::{Parsed, parse};

use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;

/// One command.
pub(crate) struct Command {
    /// The words that name it.
    pub(crate) path: &'static [&'static str],
    /// What stands behind them, in order.
    pub(crate) operands: &'static [Operand],
    pub(crate) flags: &'static [Flag],
    /// One line without a full stop.
    pub(crate) summary: &'static str,
    /// What one must know to use it, already broken into lines.
    pub(crate) about: &'static str,
    /// Command lines that work.
    pub(crate) examples: &'static [&'static str],
    pub(crate) run: fn(&Arguments, &Output) -> Result<Exit, CommandError>,
}

impl Command {
    pub(crate) fn name(&self) -> String {
        self.path.join(" ")
    }
}

/// An argument without a name.
pub(crate) struct Operand {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) text: &'static str,
}

/// An argument with a name.
pub(crate) struct Flag {
    pub(crate) long: &'static str,
    /// What its value is called; `None` for a switch.
    pub(crate) value: Option<&'static str>,
    pub(crate) need: Need,
    pub(crate) text: &'static str,
}

/// How often a flag stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Once,
    AtMostOnce,
    AtLeastOnce,
    AnyNumber,
}

impl Need {
    fn repeats(self) -> bool {
        matches!(self, Self::AtLeastOnce | Self::AnyNumber)
    }

    fn required(self) -> bool {
        matches!(self, Self::Once | Self::AtLeastOnce)
    }
}
