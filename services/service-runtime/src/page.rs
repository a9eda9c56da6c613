//! A metrics page, Prometheus text format 0.0.4.

use std::fmt::{Display, Write};

/// Builds the page; every name gets the service's prefix.
#[derive(Debug)]
pub struct Page {
    prefix: &'static str,
    text: String,
}

impl Page {
    /// An empty page. `prefix` includes the last underscore.
    pub fn new(prefix: &'static str) -> Self {
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

    /// The page.
    pub fn into_text(self) -> String {
        self.text
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = self.text.write_fmt(text);
    }
}
