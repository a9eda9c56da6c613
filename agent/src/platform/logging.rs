//! Log events of the code (`tracing`) become console lines.
//!
//! Our own subscriber instead of the usual formatter: the agent needs one line per event and no spans, and this way
//! nine crates and their registry of spans stay out of the boot path. Only events of Latchkey's own crates are shown;
//! what libraries log may quote what they work on, and that may be a secret.
//!
//! An event becomes `MODULE: message key=value`, after `warning:`, `error:` or `debug:` where it is not plain
//! information.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::metadata::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::console;
use latchkey_node_config::LogLevel;

/// Shows events of this level and above from now on. Only the first call of a process counts.
pub fn install(level: LogLevel) {
    let level = filter(level);
    // It fails only if a subscriber is there already, and that one then keeps its level.
    let _ = tracing::subscriber::set_global_default(ConsoleSubscriber { level });
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    }
}

struct ConsoleSubscriber {
    level: LevelFilter,
}

impl ConsoleSubscriber {
    fn shows(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.is_event() && metadata.target().starts_with("latchkey")
    }
}

impl Subscriber for ConsoleSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.shows(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        console::line(&step_of(metadata.target()), &message_of(*metadata.level(), event));
    }

    // Spans are never enabled; the number means nothing.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The last part of a module path, in the alphabet of step names.
fn step_of(target: &str) -> String {
    let module = target.rsplit("::").next().unwrap_or(target);
    module.replace('_', "-").to_ascii_lowercase()
}

fn message_of(level: Level, event: &Event<'_>) -> String {
    let prefix = match level {
        Level::ERROR => "error: ",
        Level::WARN => "warning: ",
        Level::INFO => "",
        _ => "debug: ",
    };
    let mut text = Text(prefix.to_owned());
    event.record(&mut text);
    text.0
}

struct Text(String);

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

    /// The real subscriber, except that it keeps its lines.
    struct Recorder(ConsoleSubscriber);

    impl Subscriber for Recorder {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            self.0.enabled(metadata)
        }
        fn event(&self, event: &Event<'_>) {
            let metadata = event.metadata();
            let line = format!("{}: {}", step_of(metadata.target()), message_of(*metadata.level(), event));
            SEEN.lock().unwrap().push(line);
        }
        fn new_span(&self, span: &Attributes<'_>) -> Id {
            self.0.new_span(span)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn events_of_our_crates_become_lines_and_others_stay_silent() {
        let recorder = Recorder(ConsoleSubscriber { level: LevelFilter::INFO });
        tracing::subscriber::with_default(recorder, || {
            tracing::info!(target: "latchkey_channel::tls_stream", peer = "10.0.2.2", frames = 3, "Connected");
            tracing::warn!(target: "latchkey_agent::platform::net", "No carrier");
            tracing::debug!(target: "latchkey_agent::platform::net", "too detailed");
            tracing::error!(target: "h2::codec", "frame with a secret in it");
        });
        assert_eq!(*SEEN.lock().unwrap(), ["tls-stream: Connected peer=10.0.2.2 frames=3", "net: warning: No carrier"]);
    }
}
