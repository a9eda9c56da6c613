//! `latchkey collateral`, in the table.

use super::Need::AtMostOnce;
use super::{Command, Flag, Operand};
use crate::collateral;

const DIRECTORY: Operand = Operand {
    name: "DIR",
    required: true,
    text: "what AMD publishes, in its `snp`: as for `policy check --collateral`",
};

pub(super) const SHOW: Command = Command {
    path: &["collateral", "show"],
    operands: &[DIRECTORY],
    flags: &[],
    summary: "lists what is there of what AMD publishes",
    about: "Each certificate and list of each file: what it is (ARK, ASK, ASVK, VCEK, VLEK, CRL),\nof which product, whose, for which firmware, and how long it is valid. Nothing of it\nis verified: `latchkey collateral check` does that. With --output json chips are named\nwhole.",
    examples: &["latchkey collateral show ./amd"],
    run: collateral::show,
};

pub(super) const CHECK: Command = Command {
    path: &["collateral", "check"],
    operands: &[DIRECTORY],
    flags: &[Flag {
        long: "within",
        value: Some("DAYS"),
        need: AtMostOnce,
        text: "what ends within so many days is not good any more; 0 for what has ended [30]",
    }],
    summary: "verifies it, and says what ends soon",
    about: CHECK_ABOUT,
    examples: &["latchkey collateral check ./amd", "latchkey collateral check ./amd --within 7 --output json"],
    run: collateral::check,
};

const CHECK_ABOUT: &str = "
Each root must be one of those that are built in, and must have a list of what it
revoked (CRL); each authority and list must be signed by its root; the chain of each
VCEK and VLEK must hold, with that list; and nothing may be expired or revoked.

The exit code is 1 where anything is not good, and the reason stands beside it. Run it
once a day, and what verifies reports does not stop without a warning.
";
