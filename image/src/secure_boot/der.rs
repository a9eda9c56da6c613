//! The little of DER (ITU-T X.690) that a signature needs: writing elements, and taking a certificate apart.

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
/// Context-specific, constructed, number 0.
pub(super) const CONTEXT_0: u8 = 0xa0;

/// An element of these parts.
pub(super) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len().to_be_bytes();
    let digits: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut bytes = vec![tag];
    match (content.len(), u8::try_from(digits.len())) {
        (0..0x80, _) => bytes.push(digits.first().copied().unwrap_or(0)),
        // The long form: how many octets, then these.
        (_, count) => {
            bytes.push(0x80 | count.unwrap_or(8));
            bytes.extend(digits);
        }
    }
    bytes.extend(content);
    bytes
}

/// Elements one after another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next element, which must have this tag: all of it, and its content.
    pub(super) fn take(&mut self, tag: u8) -> Option<(&'a [u8], &'a [u8])> {
        let [found, first, rest @ ..] = self.0 else { return None };
        let (length, rest) = if *first < 0x80 {
            (usize::from(*first), rest)
        } else {
            // Certificates are shorter than 16 MiB.
            let count = usize::from(first & 0x7f);
            let digits = rest.get(..count).filter(|_| (1..=3).contains(&count))?;
            (digits.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest.get(count..)?)
        };
        let content = rest.get(..length).filter(|_| *found == tag)?;
        let whole = self.0.get(..self.0.len() - rest.len() + length)?;
        self.0 = rest.get(length..)?;
        Some((whole, content))
    }

    /// The content of the next element.
    pub(super) fn inside(&mut self, tag: u8) -> Option<Reader<'a>> {
        self.take(tag).map(|(_, content)| Reader(content))
    }
}

/// What a signature names of a certificate (RFC 5280, section 4.1).
#[derive(Debug)]
pub(super) struct Certificate<'a> {
    pub(super) issuer: &'a [u8],
    pub(super) serial: &'a [u8],
    /// The subject's public key, as its algorithm encodes it.
    pub(super) public_key: &'a [u8],
}

impl<'a> Certificate<'a> {
    pub(super) fn parse(der: &'a [u8]) -> Option<Self> {
        let mut fields = Reader(der).inside(SEQUENCE)?.inside(SEQUENCE)?;
        // The version; certificates of version 1 have none.
        if fields.0.first() == Some(&CONTEXT_0) {
            fields.take(CONTEXT_0)?;
        }
        let (serial, _) = fields.take(INTEGER)?;
        let _algorithm = fields.take(SEQUENCE)?;
        let (issuer, _) = fields.take(SEQUENCE)?;
        let _validity = fields.take(SEQUENCE)?;
        let _subject = fields.take(SEQUENCE)?;
        let mut key = fields.inside(SEQUENCE)?;
        let _algorithm = key.take(SEQUENCE)?;
        // The first octet: no unused bits.
        let (_, bits) = key.take(BIT_STRING)?;
        Some(Self { issuer, serial, public_key: bits.strip_prefix(&[0])? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_as_short_as_can_be() {
        for (length, header) in [
            (0, &[4, 0][..]),
            (127, &[4, 127]),
            (128, &[4, 0x81, 128]),
            (256, &[4, 0x82, 1, 0]),
            (70_000, &[4, 0x83, 1, 0x11, 0x70]),
        ] {
            let content = vec![7; length];
            let bytes = element(OCTET_STRING, &[&content]);
            assert_eq!(&bytes[..header.len()], header);
            assert_eq!(Reader(&bytes).take(OCTET_STRING), Some((&bytes[..], &content[..])));
            assert_eq!(Reader(&bytes).take(OID), None);
            assert_eq!(Reader(&bytes[..bytes.len() - 1]).take(OCTET_STRING), None);
        }
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for bytes in [&[4, 0x80][..], &[4, 0x84, 0, 0, 0, 1, 7], &[4, 0x81], &[4, 0xff], &[4], &[]] {
            assert_eq!(Reader(bytes).take(OCTET_STRING), None, "{bytes:?}");
        }
        assert!(Certificate::parse(&element(SEQUENCE, &[&element(SEQUENCE, &[])])).is_none());
    }
}
