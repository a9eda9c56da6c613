//! A quantity: how much of something there is.

use serde::{Deserialize, Serialize};

/// A count, of bytes or of things. One line of JSON, `{"id":…}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// A stable name, `crate/what`.
    pub id: String,
    /// The same for people, with the unit.
    pub what: String,
    /// How many.
    pub count: u64,
}

impl Quantity {
    /// So many of that.
    pub fn new(id: &str, what: &str, count: u64) -> Self {
        Self { id: id.to_owned(), what: what.to_owned(), count }
    }

    /// Reads a line, `None` if it is none.
    pub fn from_line(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Figure};

    #[test]
    fn a_line_is_a_quantity_or_a_figure_and_never_both() {
        let quantity = Quantity::new("a/b", "b, bytes", 7);
        let line = serde_json::to_string(&quantity).unwrap();
        assert_eq!((Quantity::from_line(&line), Figure::from_line(&line)), (Some(quantity), None));
        let figure = Figure::from_batches("a/b", "b", Clock::Wall, 1, &[std::time::Duration::from_micros(7)]);
        assert_eq!(Quantity::from_line(&serde_json::to_string(&figure).unwrap()), None);
    }
}
