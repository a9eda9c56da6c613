//! Cuts a file into records, each with the byte at which it begins.

use super::error::{CelError, CelErrorKind};
use super::{CelLog, Form};

/// The byte at which a record begins, and its text.
type Text<'a> = (usize, &'a [u8]);

/// By the first byte: a record separator, or a bracket after white space.
pub(super) fn form(file: &[u8]) -> Option<Form> {
    match file.trim_ascii_start().first() {
        _ if file.first() == Some(&RECORD_SEPARATOR) => Some(Form::Sequence),
        Some(b'[') => Some(Form::Array),
        _ => None,
    }
}

pub(super) fn split(file: &[u8]) -> Result<(Form, Vec<Text<'_>>), CelError> {
    let error = |kind| CelError { record: 0, offset: 0, kind };
    if file.len() > CelLog::MAX_SIZE {
        return Err(error(CelErrorKind::TooLarge { size: file.len(), limit: CelLog::MAX_SIZE }));
    }
    let form = form(file).ok_or_else(|| error(CelErrorKind::NoForm))?;
    let records = match form {
        Form::Sequence => sequence(file)?,
        Form::Array => array(file)?,
    };
    if records.is_empty() { Err(error(CelErrorKind::Empty)) } else { Ok((form, records)) }
}

/// RFC 7464, section 2.2: "any number of JSON texts, all encoded in UTF-8, each JSON text preceded by one ASCII RS
/// character and each followed by an ASCII Line Feed character". Its section 2.3 on incomplete texts is for readers that
/// may go on; this one may not.
fn sequence(file: &[u8]) -> Result<Vec<Text<'_>>, CelError> {
    let mut records = Vec::new();
    let mut offset = 0;
    while offset < file.len() {
        let error = |kind| CelError { record: records.len(), offset, kind };
        let after = file.get(offset..).unwrap_or_default();
        let Some((&RECORD_SEPARATOR, text)) = after.split_first() else { return Err(error(CelErrorKind::Stray)) };
        let end = text.iter().position(|&byte| byte == RECORD_SEPARATOR).unwrap_or(text.len());
        let text = text.get(..end).unwrap_or_default();
        if text.last() != Some(&b'\n') {
            return Err(error(CelErrorKind::Truncated));
        }
        if records.len() == MAX_RECORDS {
            return Err(error(CelErrorKind::TooManyRecords { limit: MAX_RECORDS }));
        }
        records.push((offset, text));
        offset += 1 + end;
    }
    Ok(records)
}

/// The objects of a JSON array. Only their ends are looked for; what is within is for the record's reader.
fn array(file: &[u8]) -> Result<Vec<Text<'_>>, CelError> {
    let mut records = Vec::new();
    let mut bytes = file.iter().enumerate().filter(|(_, byte)| !byte.is_ascii_whitespace()).skip(1).peekable();
    if bytes.next_if(|(_, byte)| **byte == b']').is_none() {
        loop {
            let next = bytes.peek().map_or(file.len(), |(offset, _)| *offset);
            let error = |kind| CelError { record: records.len(), offset: next, kind };
            let text = object(file.get(next..).unwrap_or_default()).map_err(error)?;
            if records.len() == MAX_RECORDS {
                return Err(error(CelErrorKind::TooManyRecords { limit: MAX_RECORDS }));
            }
            let end = next + text.len();
            while bytes.next_if(|(offset, _)| *offset < end).is_some() {}
            let separator = bytes.next();
            match separator {
                Some((_, b',')) => records.push((next, text)),
                Some((_, b']')) => {
                    records.push((next, text));
                    break;
                }
                Some(_) => return Err(error(CelErrorKind::Stray)),
                None => return Err(error(CelErrorKind::Truncated)),
            }
        }
    }
    match bytes.next() {
        Some((offset, _)) => Err(CelError { record: records.len(), offset, kind: CelErrorKind::Stray }),
        None => Ok(records),
    }
}

/// The object that `text` begins with, to the brace that closes it.
fn object(text: &[u8]) -> Result<&[u8], CelErrorKind> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if *byte == b'}' {
                text.get(..=at).ok_or(CelErrorKind::Truncated)
            } else {
                Err(CelErrorKind::Stray)
            };
        }
    }
    Err(CelErrorKind::Truncated)
}

/// RFC 7464, section 2.2: ASCII RS.
const RECORD_SEPARATOR: u8 = 0x1e;
/// IMA's log grows with every file that is measured; a node's has hundreds.
const MAX_RECORDS: usize = 16 * 1024;
