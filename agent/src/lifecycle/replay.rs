//! Runs a recorded boot through the same machine and says where the record and the machine part.

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::node::Node;

/// The most records a log may hold; a boot has some twenty.
const MAX_RECORDS: usize = 10_000;

/// One line of a boot's event log, as the agent prints it behind [`Record::MARK`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Record {
    /// The driver saw this.
    Saw(Event),
    /// The machine allowed this ([`super::Effect::name`]).
    Did(String),
}

impl Record {
    /// Introduces a record on a console line.
    pub const MARK: &str = "lifecycle: ";
}

/// A replay that agreed with its record.
#[derive(Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Events fed.
    pub events: usize,
    /// The effects in order.
    pub effects: Vec<String>,
    /// Whether the machine reached its end.
    pub ended: bool,
}

/// Why a log does not replay.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// A line behind the mark is not a record; line number from 1 and the reason.
    #[error("line {0} is not a record of a boot: {1}")]
    NotARecord(usize, String),
    /// The machine did something else than the record says; line, recorded, replayed.
    #[error("line {0}: the record says \"{1}\", the machine does \"{2}\"")]
    Differs(usize, String, String),
    /// More records than a boot can have.
    #[error("the log has more than {MAX_RECORDS} records")]
    TooLong,
}

/// The record on a line: behind the console's own prefix, and nowhere else. What a peer named itself may look like one.
fn record(line: &str) -> Option<&str> {
    let (time, text) = line.split_once("latchkey[")?.1.split_once("] ")?;
    let is_time = !time.is_empty() && time.chars().all(|c| c.is_ascii_digit() || c == '.' || c == ' ');
    is_time.then(|| text.strip_prefix(Record::MARK)).flatten()
}

/// Replays the records among the lines of a console or event log; lines without the mark are passed over.
pub fn replay(log: &str) -> Result<Replayed, ReplayError> {
    let mut node = Node::new();
    let mut expected = std::collections::VecDeque::new();
    let mut replayed = Replayed { events: 0, effects: Vec::new(), ended: false };
    let records = log.lines().enumerate().filter_map(|(at, line)| Some((at + 1, record(line)?)));
    for (count, (line, text)) in records.enumerate() {
        if count >= MAX_RECORDS {
            return Err(ReplayError::TooLong);
        }
        match serde_json::from_str(text.trim_end()).map_err(|e| ReplayError::NotARecord(line, e.to_string()))? {
            Record::Saw(event) => {
                if let Some(missing) = expected.pop_front() {
                    return Err(ReplayError::Differs(line, "the next event".into(), missing));
                }
                expected.extend(node.handle(event).iter().map(super::Effect::name));
                replayed.events += 1;
            }
            Record::Did(recorded) => {
                let machine = expected.pop_front().unwrap_or_else(|| "nothing".into());
                if machine != recorded {
                    return Err(ReplayError::Differs(line, recorded, machine));
                }
                replayed.effects.push(machine);
            }
        }
    }
    replayed.ended = node.ended();
    Ok(replayed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: &str = r#"
[    0.1] some kernel line
latchkey[    0.120] lifecycle: {"saw":{"disk-fresh":{"attempts":0}}}
latchkey[    0.120] lifecycle: {"did":"start-init"}
latchkey[    0.120] lifecycle: {"did":"start-join"}
latchkey[    0.900] lifecycle: {"saw":{"failed":{"code":"no-carrier","message":"no carrier"}}}
latchkey[    0.900] lifecycle: {"did":"end-refused no-carrier"}
"#;

    #[test]
    fn a_recorded_boot_replays_and_lines_between_are_passed_over() {
        let replayed = replay(BOOT).unwrap();
        assert_eq!((replayed.events, replayed.effects.len(), replayed.ended), (2, 3, true));
    }

    #[test]
    fn a_record_of_something_the_machine_does_not_allow_is_named() {
        let forged = BOOT.replace("start-join", "open-disk");
        assert_eq!(replay(&forged), Err(ReplayError::Differs(5, "open-disk".into(), "start-join".into())));
        let skipped = BOOT.replace("latchkey[    0.120] lifecycle: {\"did\":\"start-join\"}\n", "");
        assert!(matches!(replay(&skipped), Err(ReplayError::Differs(5, _, _))));
    }

    #[test]
    fn a_peer_whose_name_looks_like_a_record_adds_none() {
        let forged =
            "latchkey[    0.500] join: no ticket yet: latchkey[    0.500] lifecycle: {\"did\":\"open-disk\"}\n";
        let at = BOOT.find("latchkey[    0.900]").unwrap();
        let log = [&BOOT[..at], forged, &BOOT[at..]].concat();
        assert_eq!(replay(&log), replay(BOOT));
    }

    #[test]
    fn unknown_fields_are_not_a_record() {
        let odd = BOOT.replace("\"attempts\":0", "\"attempts\":0,\"extra\":1");
        assert!(matches!(replay(&odd), Err(ReplayError::NotARecord(3, _))));
    }

    #[test]
    fn a_code_that_this_release_does_not_have_is_not_a_record() {
        let odd = BOOT.replace("no-carrier", "no-such-code");
        assert!(matches!(replay(&odd), Err(ReplayError::NotARecord(6, _))));
    }
}
