//! Splits a kernel command line the way the kernel does.

use super::ConfigError;

pub(super) const PREFIX: &str = "latchkey.";

/// The `latchkey.` words of a command line as (key, value).
///
/// Words end at white space outside of double quotes (`next_arg` in the kernel's `lib/cmdline.c`). A quoted
/// `latchkey.` word is an error, since other readers of the command line may see it differently; one inside the quoted
/// value of another word is not ours. A prefix in other letter case counts as ours and then is an unknown key. The
/// words after `--` count too.
pub(super) fn latchkey_words(line: &[u8]) -> impl Iterator<Item = Result<(&str, &str), ConfigError>> {
    let mut in_quotes = false;
    line.split(move |&byte| {
        in_quotes ^= byte == b'"';
        !in_quotes && (byte.is_ascii_whitespace() || byte == 0x0b || byte == 0)
    })
    .filter(|word| is_ours(word))
    .map(key_and_value)
}

fn is_ours(word: &[u8]) -> bool {
    let bare = word.strip_prefix(b"\"").unwrap_or(word);
    bare.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX.as_bytes()))
}

fn key_and_value(word: &[u8]) -> Result<(&str, &str), ConfigError> {
    let plain = word.iter().all(|&byte| byte.is_ascii_graphic() && byte != b'"');
    let split = std::str::from_utf8(word).ok().filter(|_| plain).and_then(|word| word.split_once('='));
    split.ok_or_else(|| ConfigError::Form { word: String::from_utf8_lossy(word).into_owned() })
}
