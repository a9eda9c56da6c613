//! The log: one event is one line on stderr, whatever a peer wrote into its certificate, its names or its errors.
//!
//! Both formats are made here, from the same fields, so that no call site has to think of quoting: in the text format a value
//! stands bare only if it is made of characters that end neither a value nor a line, and is quoted and escaped otherwise; in the
//! JSON format every value is a JSON string, number or boolean of one object per line.

use serde_json::{Map, Value};
use std::fmt::{self, Debug, Write};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `TIME LEVEL TARGET: MESSAGE FIELD=VALUE …`
    #[default]
    Text,
    /// `{"time":…,"level":…,"target":…,"message":…,"fields":{…}}`
    Json,
}

impl LogFormat {
    /// The format of this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// Log lines on stderr from here on.
pub fn to_stderr(format: LogFormat) {
    // A line that cannot be written, since the disk is full, must not end the request that it is about.
    let builder = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).log_internal_errors(false);
    builder.event_format(Lines(format)).finish().with(heard()).init();
}

/// Whose events become lines. The Kubernetes client logs each failed request, a dozen a second while an API server is away;
/// whoever asked has the error, and says with its code what follows from it.
fn heard() -> Targets {
    Targets::new().with_default(LevelFilter::INFO).with_target("kube_client", LevelFilter::OFF)
}

struct Lines(LogFormat);

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let (level, target) = (event.metadata().level(), event.metadata().target());
        match self.0 {
            LogFormat::Text => writeln!(writer, "{time} {level:>5} {target}:{}", fields.to_text()),
            LogFormat::Json => {
                let line = serde_json::json!({
                    "time": time, "level": level.as_str(), "target": target, "message": fields.message,
                    "fields": fields.named.into_iter().map(|(name, value, _)| (name.to_owned(), value)).collect::<Map<_, _>>(),
                });
                writeln!(writer, "{line}")
            }
        }
    }
}

/// An event's content.
#[derive(Default)]
struct Fields {
    message: String,
    named: Vec<(&'static str, Value, Bare)>,
}

/// Whether the text format may leave the quotes away: never of what is text by type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bare {
    IfPlain,
    Never,
}

impl Fields {
    fn to_text(&self) -> String {
        let mut text = String::new();
        if !self.message.is_empty() {
            text.push(' ');
        }
        // A message may quote what a peer wrote: no quotation mark of its own, and no end of the line.
        for character in self.message.chars() {
            if character == '\'' { text.push(character) } else { text.extend(character.escape_debug()) }
        }
        for (name, value, bare) in &self.named {
            // Writing to a String does not fail.
            let _ = match value {
                Value::String(value) if *bare == Bare::IfPlain && is_plain(value) => write!(text, " {name}={value}"),
                Value::String(value) => write!(text, " {name}={value:?}"),
                other => write!(text, " {name}={other}"),
            };
        }
        text
    }

    fn add(&mut self, field: &Field, value: Value, bare: Bare) {
        match (field.name(), value) {
            ("message", Value::String(message)) => self.message = message,
            (name, value) => self.named.push((name, value, bare)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, Value::String(format!("{value:?}")), Bare::IfPlain);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, Value::String(value.to_owned()), Bare::Never);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into(), Bare::IfPlain);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into(), Bare::IfPlain);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into(), Bare::IfPlain);
    }
}

/// Made of characters that end neither a value nor a line: digests, addresses, numbers, names.
fn is_plain(value: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':' | b'_' | b'[' | b']');
    !value.is_empty() && value.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, write: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let builder = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false);
        tracing::subscriber::with_default(builder.event_format(Lines(format)).finish().with(heard()), write);
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    const HOSTILE: &str = "x\" outcome=\"granted\n2026-01-01T00:00:00Z  INFO audit: \u{1b}[2J\u{2028}\\";

    fn event() {
        tracing::warn!(
            target: "audit", caller = %HOSTILE, name = HOSTILE, seen = ?HOSTILE, ek = %"00ff", length = 32, left_out = 0_u64,
            good = true, "{HOSTILE}"
        );
    }

    #[test]
    fn what_a_library_repeats_is_no_line() {
        let text = logged(LogFormat::Text, || {
            tracing::error!(target: "kube_client::client::builder", "failed");
            tracing::info!(target: "latchkey_join_service", "said");
        });
        assert!(text.ends_with(" INFO latchkey_join_service: said\n") && text.lines().count() == 1, "{text}");
    }

    #[test]
    fn what_a_peer_wrote_forges_no_line_and_no_field_of_the_text() {
        let text = logged(LogFormat::Text, event);
        assert_eq!(text.matches('\n').count(), 1, "{text:?}");
        assert!(text.ends_with('\n') && text.chars().filter(|c| *c != '\n').all(|c| !c.is_control()), "{text:?}");
        let escaped = format!("{HOSTILE:?}");
        assert!(text.contains(&format!(" caller={escaped} name={escaped} ")), "{text:?}");
        let rest = text.replace(&escaped, "").replace(&format!("{escaped:?}"), "");
        let fields = rest.split_once("\\\\").map_or(rest.as_str(), |(_, fields)| fields);
        assert!(!fields.contains("outcome="), "{text:?}");
        assert!(text.contains(" ek=00ff length=32 left_out=0 good=true"), "{text:?}");
    }

    #[test]
    fn what_a_peer_wrote_stays_one_string_of_one_object_of_the_json() {
        let text = logged(LogFormat::Json, event);
        assert_eq!(text.matches('\n').count(), 1, "{text:?}");
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&line["level"], &line["target"], &line["message"]),
            (&"WARN".into(), &"audit".into(), &HOSTILE.into())
        );
        let fields = line["fields"].as_object().unwrap();
        assert_eq!((&fields["caller"], &fields["name"]), (&HOSTILE.into(), &HOSTILE.into()));
        assert_eq!((&fields["length"], &fields["good"]), (&32.into(), &true.into()));
        assert!(!fields.contains_key("outcome"));
    }

    #[test]
    fn formats_have_names() {
        assert_eq!(["text", "json", "xml"].map(LogFormat::parse), [Some(LogFormat::Text), Some(LogFormat::Json), None]);
    }
}
