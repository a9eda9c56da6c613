//! Paths, taken apart.

use super::Answer;

/// The longest path: the longest Kerberos name, each byte escaped, and what stands before it.
const LONGEST: usize = 1024;
/// The most segments of any path here.
const MOST_SEGMENTS: usize = 4;

/// The segments of a path, decoded once (RFC 3986, section 2.1). A slash that is escaped is a part of its segment, since names
/// of Kerberos have some. One slash at the end is left out.
///
/// # Errors
/// An answer: 404 where nothing can be called so, 400 where an escape is none.
pub(super) fn segments(path: &str) -> Result<Vec<String>, Answer> {
    if path.len() > LONGEST {
        return Err(Answer::refused(404, format_args!("a path has at most {LONGEST} bytes here")));
    }
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.split('/').count() > MOST_SEGMENTS {
        return Err(nothing());
    }
    path.split('/').map(|segment| decoded(segment).ok_or_else(bad)).collect()
}

/// That there is nothing of this path.
pub(super) fn nothing() -> Answer {
    Answer::refused(404, "there is nothing here; the interface begins at /v2")
}

fn bad() -> Answer {
    Answer::refused(400, "an escape in the path is wrong: write % and two hexadecimal digits, of UTF-8")
}

fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
            bytes.push((high << 4) | low);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

fn digit(character: u8) -> Option<u8> {
    char::from(character).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_slash_is_a_part_of_its_segment() {
        let read = |path| segments(path).unwrap();
        assert_eq!(read("/v2/acl/kerberos/op1flux%2FA%40R"), ["v2", "acl", "kerberos", "op1flux/A@R"]);
        assert_eq!(read("v2/principal/"), ["v2", "principal"]);
        assert_eq!(read("/"), [""]);
        assert_eq!(read("/v2/%252F"), ["v2", "%2F"]);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        let status = |path: &str| segments(path).unwrap_err().status;
        for path in ["/%", "/%4", "/%zz", "/%ff", "/%00", "/%+1"] {
            assert_eq!(status(path), 400, "{path}");
        }
        assert_eq!(status("/a/b/c/d/e"), 404);
        assert_eq!(status(&"a".repeat(LONGEST + 1)), 404);
    }
}
