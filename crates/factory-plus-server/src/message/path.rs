//! Paths and queries: percent-encoding decoded once, and nothing that means another place.

use super::Refusal;

/// The most segments of a path.
const MAX_SEGMENTS: usize = 64;

/// The most pairs of a query.
const MAX_PAIRS: usize = 64;

/// The segments of a path, each decoded once. A slash at the end is left out.
///
/// # Errors
/// 400 for what can be no name: an empty segment, `.`, `..`, one with `/`, `\` or a control character (NUL) in it, encoded or not,
/// percent-encoding that is none, and what is no UTF-8.
pub fn segments(path: &str) -> Result<Vec<String>, Refusal> {
    let path = path.strip_prefix('/').ok_or_else(|| Refusal::bad_request("The path does not begin with /"))?;
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.split('/').count() > MAX_SEGMENTS {
        return Err(Refusal::bad_request(format!("The path has more than {MAX_SEGMENTS} segments")));
    }
    path.split('/').map(name).collect()
}

fn name(segment: &str) -> Result<String, Refusal> {
    let name = decode(segment, false)?;
    let shown = || segment.escape_debug().to_string();
    if name.is_empty() {
        return Err(Refusal::bad_request("The path has an empty segment: //"));
    }
    if name == "." || name == ".." {
        return Err(Refusal::bad_request(format!("The path has the segment {}, which is no name", shown())));
    }
    if name.chars().any(|character| character == '/' || character == '\\' || character.is_control()) {
        let what = "a slash, a backslash or a control character in it";
        return Err(Refusal::bad_request(format!("The path has the segment {} with {what}", shown())));
    }
    Ok(name)
}

/// The pairs of a query, decoded once, in their order; `+` is a space, as in forms. A name without `=` has the empty value.
///
/// # Errors
/// 400 for more than 64 pairs, percent-encoding that is none, and what is no UTF-8.
pub fn query_pairs(query: &str) -> Result<Vec<(String, String)>, Refusal> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    if pairs.clone().count() > MAX_PAIRS {
        return Err(Refusal::bad_request(format!("The query has more than {MAX_PAIRS} parameters")));
    }
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decode(name, true)?, decode(value, true)?))
    };
    pairs.map(pair).collect()
}

/// Decodes strictly: each `%` has two hexadecimal digits behind it.
fn decode(text: &str, form: bool) -> Result<String, Refusal> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next(), rest.next()].map(|digit| digit.and_then(hex));
                let [Some(high), Some(low)] = digits else {
                    return Err(Refusal::bad_request("A % in the URL has no two hexadecimal digits behind it"));
                };
                high << 4 | low
            }
            b'+' if form => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| Refusal::bad_request("The URL decodes to bytes that are no UTF-8"))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn segments_are_decoded_once() {
        assert_eq!(segments("/").unwrap(), [""; 0]);
        assert_eq!(segments("/v2/app/x/object/").unwrap(), ["v2", "app", "x", "object"]);
        assert_eq!(segments("/a%20b/%2541/%C3%BC").unwrap(), ["a b", "%41", "ü"]);
    }

    #[test]
    fn what_means_another_place_is_refused() {
        for path in [
            "",
            "a",
            "//",
            "/a//b",
            "/a/../b",
            "/%2e%2E/x",
            "/.",
            "/a%2fb",
            "/a%2Fb",
            "/a%00",
            "/a%0a",
            "/a%5cb",
            "/%",
            "/%4",
            "/%zz",
            "/%ff",
            "/%+1",
        ] {
            assert_eq!(segments(path).map_err(|refusal| refusal.status().as_u16()), Err(400), "{path}");
        }
        assert!(segments(&"/a".repeat(MAX_SEGMENTS + 1)).is_err());
    }

    #[test]
    fn queries_are_pairs_in_order() {
        let pairs = query_pairs("path=%22a+b%22&@x=y.z&flag&&k=v=w").unwrap();
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("path", "\"a b\""), ("@x", "y.z"), ("flag", ""), ("k", "v=w")]);
        assert!(query_pairs(&"a&".repeat(MAX_PAIRS + 1)).is_err() && query_pairs("a=%f").is_err());
    }

    proptest! {
        #[test]
        fn no_path_gives_a_segment_that_leads_elsewhere(path in "/[a-zA-Z0-9%./\\\\+]{0,40}") {
            for segment in segments(&path).unwrap_or_default() {
                prop_assert!(!segment.is_empty() && segment != "." && segment != "..");
                prop_assert!(!segment.contains(['/', '\\', '\0']));
            }
        }
    }
}
