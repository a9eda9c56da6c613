//! Counts the metrics of a payload without allocating any: an empty one has two bytes in a message, and a hundred in memory.

/// How often field `number` stands in a message of protobuf, at its top; `None` where the bytes are none, or have groups, which
/// no version of Sparkplug has.
pub(crate) fn count(mut bytes: &[u8], number: u64) -> Option<usize> {
    let mut found = 0;
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        found += usize::from(key >> 3 == number);
        match key & 7 {
            0 => drop(varint(&mut bytes)?),
            1 => skip(&mut bytes, 8)?,
            2 => {
                let length = varint(&mut bytes)?;
                skip(&mut bytes, length)?;
            }
            5 => skip(&mut bytes, 4)?,
            _ => return None,
        }
    }
    Some(found)
}

fn skip(bytes: &mut &[u8], length: u64) -> Option<()> {
    *bytes = bytes.get(usize::try_from(length).ok()?..)?;
    Some(())
}

/// At most ten bytes of seven bits each, the lowest first.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for place in 0..10 {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f).checked_shl(7 * place)?;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
