//! Paths below a service's root, as calls and subscriptions name them: `v2/app/…`, without a slash at first.

use std::fmt::Write as _;

/// One segment of a path, for any text: what is neither letter, digit nor one of `-._~` is percent-encoded (RFC 3986, 2.3).
/// `.` and `..` stay as they are, and no call takes them: they are steps of a relative path, encoded or not (RFC 3986, 5.2.4).
pub fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Longest path, bytes.
const LONGEST: usize = 4096;

/// Whether a path can be asked for; what is wrong with it otherwise.
pub(crate) fn check(path: &str) -> Result<(), &'static str> {
    let (path_alone, _) = path.split_once('?').unwrap_or((path, ""));
    if path.len() > LONGEST {
        Err("its path has more than 4096 bytes")
    } else if path.starts_with('/') {
        Err("its path is given from the root, without a slash at first")
    } else if !path.bytes().all(|byte| byte.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&byte)) {
        Err("its path has characters that must be percent-encoded")
    } else if path_alone.split('/').any(|step| step == "." || step == "..") {
        Err("its path has a segment of dots")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_stay_below_the_root() {
        assert!(check("v2/class/x/member/").is_ok() && check("v1/app/x/search?a=%22b%22").is_ok() && check("").is_ok());
        for bad in ["/v2", "//host/x", "v2/../x", "..", "a b", "a\r\nHost: x", "a#b", "é", &"a".repeat(5000)] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_one_segment(text in ".{0,40}") {
            let segment = segment(&text);
            prop_assert!(!segment.contains(['/', '?', '#']));
            prop_assert!(text == "." || text == ".." || check(&segment).is_ok());
        }
    }
}
