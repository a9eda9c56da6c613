//! Text that somebody else wrote, on a terminal.

/// The text without what could steer a terminal. Nodes and files are not trusted to be kind.
pub(crate) fn printable(text: &str) -> String {
    latchkey_reason::printable(text).collect()
}
