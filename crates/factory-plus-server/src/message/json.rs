//! JSON bodies.

use super::Refusal;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::error::Category;

/// What a body is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// `application/json`
    Json,
    /// `application/merge-patch+json` (RFC 7396)
    MergePatch,
    /// Something else.
    Other,
    /// Nothing is said.
    Unsaid,
}

impl ContentType {
    /// By the header. Two headers are something else.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(CONTENT_TYPE).iter();
        let Some(value) = values.next() else { return Self::Unsaid };
        if values.next().is_some() {
            return Self::Other;
        }
        let text = value.to_str().unwrap_or_default();
        let (kind, parameters) = text.split_once(';').unwrap_or((text, ""));
        // JSON is UTF-8 (RFC 8259, section 8.1).
        let charset = parameters.split(';').filter_map(|parameter| parameter.trim().split_once('='));
        let foreign = |(name, value): (&str, &str)| {
            name.eq_ignore_ascii_case("charset") && !value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        };
        if charset.into_iter().any(foreign) {
            return Self::Other;
        }
        match kind.trim().to_ascii_lowercase().as_str() {
            "application/json" => Self::Json,
            "application/merge-patch+json" => Self::MergePatch,
            _ => Self::Other,
        }
    }

    /// Whether JSON follows.
    pub(crate) fn check_json(self) -> Result<(), Refusal> {
        match self {
            Self::Json | Self::MergePatch => Ok(()),
            Self::Other | Self::Unsaid => Err(Refusal::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "The body must be JSON: send Content-Type: application/json, or application/merge-patch+json for a patch",
            )),
        }
    }
}

/// Reads a JSON text, whatever value it is.
///
/// # Errors
/// 400 for what is no JSON, with line and column; 422 for JSON that is not what is wanted, with the path of the field.
pub fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        match inner.classify() {
            Category::Data if path != "." => Refusal::unprocessable(format!("The body's field {path}: {inner}")),
            Category::Data => Refusal::unprocessable(format!("The body: {inner}")),
            Category::Syntax | Category::Eof | Category::Io => not_json(&inner),
        }
    })?;
    reader.end().map_err(|error| not_json(&error))?;
    Ok(value)
}

fn not_json(error: &serde_json::Error) -> Refusal {
    Refusal::bad_request(format!("The body is no JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use serde::Deserialize;
    use serde_json::Value;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[expect(dead_code, reason = "only its type is asked for")]
        inner: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[expect(dead_code, reason = "only its type is asked for")]
        port: u16,
    }

    fn refused(text: &str) -> (u16, String) {
        let refusal = read_json::<Outer>(text.as_bytes()).unwrap_err();
        (refusal.status.as_u16(), refusal.text)
    }

    #[test]
    fn errors_name_the_field() {
        let (status, text) = refused(r#"{"inner": [{"port": 1}, {"port": "x"}]}"#);
        assert!(status == 422 && text.contains("inner[1].port: invalid type: string"), "{text}");
        let (status, text) = refused(r#"{"inner": [{"port": 1, "host": 2}]}"#);
        assert!(status == 422 && text.contains("unknown field `host`"), "{text}");
        let (status, text) = refused(r#"{"inner": [}"#);
        assert!(status == 400 && text.contains("line 1 column 12"), "{text}");
        assert_eq!(refused(r#"{"inner": []} x"#).0, 400);
        assert_eq!(refused(&"[".repeat(100_000)).0, 422);
        assert_eq!(read_json::<Value>("[".repeat(100_000).as_bytes()).unwrap_err().status.as_u16(), 400, "deep");
        assert_eq!(read_json::<Value>(b"\xff").unwrap_err().status.as_u16(), 400);
    }

    #[test]
    fn scalars_are_bodies() {
        for (text, value) in [("null", Value::Null), ("0", 0.into()), ("\"x\"", "x".into()), ("false", false.into())] {
            assert_eq!(read_json::<Value>(text.as_bytes()).unwrap(), value);
        }
    }

    #[test]
    fn json_has_two_content_types() {
        let of = |text: &'static str| {
            ContentType::of(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(text))]))
        };
        assert_eq!(of("application/json; charset=utf-8"), ContentType::Json);
        assert_eq!(of("Application/Merge-Patch+JSON"), ContentType::MergePatch);
        assert_eq!([of("text/plain"), of("application/json; charset=latin1")], [ContentType::Other; 2]);
        assert_eq!(ContentType::of(&HeaderMap::new()), ContentType::Unsaid);
        assert!(ContentType::Unsaid.check_json().is_err());
    }
}
