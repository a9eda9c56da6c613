//! What a record says was measured, by the type of its content.

use serde_json::{Map, Value};

use super::error::CelErrorKind;
use crate::event::EventType;

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// `systemd`: what its userspace measures.
    Systemd(SystemdEvent),
    /// `pcclient_std`: an event of the firmware's log.
    PcClient {
        /// What kind of thing was measured.
        kind: EventType,
        /// The event's own data.
        data: Vec<u8>,
    },
    /// `ima_template`: an entry of the kernel's list of measured files.
    Ima {
        /// Name of the template, as `ima-ng`.
        template: String,
        /// The template's data, which is what was measured.
        data: Vec<u8>,
    },
    /// `cel`: about the log itself; extends nothing.
    Management,
    /// Content of a type that is unknown here.
    Other(String),
}

/// What systemd says of a measurement of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemdEvent {
    /// `phase`, `machine-id`, `filesystem`, `volume-key` and others; none in records of systemd before 255.
    pub kind: Option<String>,
    /// What was measured, or which thing it belongs to.
    pub text: Option<String>,
    /// The boot it belongs to, which the log has for readers; nothing proves it.
    pub boot: Option<String>,
    /// The name of the NV index, where one was extended.
    pub nv_name: Option<String>,
}

impl Content {
    pub(super) fn of(kind: &str, content: &Value) -> Result<Self, CelErrorKind> {
        let fields = content.as_object();
        match kind {
            "systemd" => {
                fields.and_then(systemd).map(Self::Systemd).ok_or(CelErrorKind::Content("an object of systemd's"))
            }
            "pcclient_std" => fields.and_then(pcclient).ok_or(CelErrorKind::Content("an event's type and data")),
            "ima_template" => fields.and_then(ima).ok_or(CelErrorKind::Content("an IMA template's name and data")),
            "cel" => Ok(Self::Management),
            other if is_word(other) => Ok(Self::Other(other.to_owned())),
            _ => Err(CelErrorKind::ContentType),
        }
    }

    pub(super) fn only_informs(&self) -> bool {
        matches!(self, Self::Management | Self::PcClient { kind: EventType::NO_ACTION, .. })
    }

    /// As a column of a table; safe to print.
    pub(super) fn kind(&self) -> String {
        match self {
            Self::Systemd(SystemdEvent { kind: Some(kind), .. }) => format!("systemd {kind}"),
            Self::Systemd(_) => "systemd".to_owned(),
            Self::PcClient { kind, .. } => kind.to_string(),
            Self::Ima { template, .. } => format!("IMA {template}"),
            Self::Management => "log management".to_owned(),
            Self::Other(kind) => kind.clone(),
        }
    }

    /// Bytes of what is in the log of it.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Systemd(event) => event.text.as_ref().map_or(0, String::len),
            Self::PcClient { data, .. } | Self::Ima { data, .. } => data.len(),
            Self::Management | Self::Other(_) => 0,
        }
    }
}

/// Fields that later versions add are for readers too, and do not matter to a replay.
fn systemd(fields: &Map<String, Value>) -> Option<SystemdEvent> {
    let text = |name| match fields.get(name) {
        None => Some(None),
        Some(value) => value.as_str().map(|text| Some(text.to_owned())),
    };
    let kind = text("eventType")?.filter(|kind| is_word(kind));
    Some(SystemdEvent { kind, text: text("string")?, boot: text("bootId")?, nv_name: text("nvIndexName")? })
}

fn pcclient(fields: &Map<String, Value>) -> Option<Content> {
    let kind = match fields.get("event_type")? {
        Value::String(name) => EventType::of_name(name)?,
        Value::Number(number) => EventType(number.as_u64()?.try_into().ok()?),
        _ => return None,
    };
    Some(Content::PcClient { kind, data: bytes(fields, "event_data")? })
}

fn ima(fields: &Map<String, Value>) -> Option<Content> {
    let template = fields.get("template_name")?.as_str().filter(|name| is_word(name))?.to_owned();
    Some(Content::Ima { template, data: bytes(fields, "template_data")? })
}

fn bytes(fields: &Map<String, Value>, name: &str) -> Option<Vec<u8>> {
    hex::decode(fields.get(name)?.as_str()?).ok()
}

/// What names of types and templates are made of.
fn is_word(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=40).contains(&text.len()) && text.bytes().all(plain)
}
