//! A metrics page, Prometheus text format 0.0.4.

use std::fmt::{Display, Write};

/// Builds the page; every name gets the service's prefix.
#[derive(Debug)]
pub struct Page {
    prefix: &'static str,
    text: String,
}

impl Page {
    /// A page that says which version runs, and nothing else yet. `prefix` includes the last underscore.
    pub fn new(prefix: &'static str) -> Self {
        let mut page = Self::bare(prefix);
        page.family("build_info", "gauge", "The running version");
        page.line("build_info", concat!("{version=\"", env!("CARGO_PKG_VERSION"), "\"}"), 1);
        page
    }

    /// An empty page.
    pub(crate) fn bare(prefix: &'static str) -> Self {
        Self { prefix, text: String::with_capacity(4096) }
    }

    /// Begins a family. `kind` is `counter`, `gauge` or `summary`; `help` has no full stop.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let prefix = self.prefix;
        self.write(format_args!("# HELP {prefix}{name} {help}.\n# TYPE {prefix}{name} {kind}\n"));
    }

    /// One value. `labels` is empty or in braces.
    pub fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        let prefix = self.prefix;
        self.write(format_args!("{prefix}{name}{labels} {value}\n"));
    }

    /// The same with one label whose value comes from outside: a file's name, say.
    pub fn labelled(&mut self, name: &str, label: &str, outside: &str, value: impl Display) {
        // The format knows three escapes; what else is no text gets a mark that says so.
        let mut escaped = String::new();
        for character in outside.chars() {
            match character {
                '\\' => escaped.push_str("\\\\"),
                '"' => escaped.push_str("\\\""),
                '\n' => escaped.push_str("\\n"),
                character => escaped.extend(latchkey_reason::printable(character.encode_utf8(&mut [0; 4]))),
            }
        }
        self.line(name, &format!("{{{label}=\"{escaped}\"}}"), value);
    }

    /// The page.
    pub fn into_text(self) -> String {
        self.text
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = self.text.write_fmt(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_from_outside_stays_one_label_on_one_line() {
        let mut page = Page::bare("x_");
        page.labelled("y", "file", "a\"} 1\nx_z{b=\"\\'\u{1b}", 2);
        assert_eq!(page.into_text(), "x_y{file=\"a\\\"} 1\\nx_z{b=\\\"\\\\'\u{fffd}\"} 2\n");
    }
}
