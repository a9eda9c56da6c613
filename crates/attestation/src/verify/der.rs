//! As much of DER as tells extensions of certificates. What is no good DER, webpki refuses.

use std::ops::Range;

/// An extension of a certificate (RFC 5280, section 4.1.2.9): where its parts are.
pub(super) struct Extension {
    pub(super) id: Range<usize>,
    /// The flag that it is critical, where it is there.
    pub(super) critical: Option<Range<usize>>,
    pub(super) value: Range<usize>,
}

impl Extension {
    /// Which part of a certificate is signed (`tbsCertificate`), and the extensions in it; `None` where there are none, or one is cut.
    pub(super) fn all(der: &[u8]) -> Option<(Range<usize>, Vec<Self>)> {
        let certificate = Elements::of(der).next_as(SEQUENCE)?;
        let fields = Elements { at: certificate.start, end: certificate.end, der }.next_as(SEQUENCE)?;
        let signed = certificate.start..fields.end;
        let mut fields = Elements { at: fields.start, end: fields.end, der };
        let extensions = fields.find_map(|(tag, content)| (tag == EXTENSIONS).then_some(content))?;
        let list = Elements { at: extensions.start, end: extensions.end, der }.next_as(SEQUENCE)?;
        let list = Elements { at: list.start, end: list.end, der };
        let extensions = list.map(|(_, parts)| {
            let mut parts = Elements { at: parts.start, end: parts.end, der };
            let id = parts.next_as(OBJECT_IDENTIFIER)?;
            let (mut tag, mut content) = parts.next()?;
            let critical = (tag == BOOLEAN).then(|| content.clone());
            if critical.is_some() {
                (tag, content) = parts.next()?;
            }
            (tag == OCTET_STRING).then_some(Self { id, critical, value: content })
        });
        Some((signed, extensions.collect::<Option<_>>()?))
    }
}

/// The content of an extension of `der`, by the DER of its object identifier.
pub(super) fn extension<'a>(der: &'a [u8], id: &[u8]) -> Option<&'a [u8]> {
    let (_, extensions) = Extension::all(der)?;
    let found = extensions.into_iter().find(|extension| der.get(extension.id.clone()) == Some(id))?;
    der.get(found.value)
}

/// Elements of DER one after the other: tag, and where the content is. Ends where one is cut or of more than 64 KiB; whether it is good
/// DER, webpki says.
pub(super) struct Elements<'a> {
    pub(super) der: &'a [u8],
    pub(super) at: usize,
    pub(super) end: usize,
}

impl<'a> Elements<'a> {
    pub(super) fn of(der: &'a [u8]) -> Self {
        Self { der, at: 0, end: der.len() }
    }

    /// The content of the next one, if it is of this kind.
    pub(super) fn next_as(&mut self, tag: u8) -> Option<Range<usize>> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }
}

impl Iterator for Elements<'_> {
    type Item = (u8, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let [tag, first, rest @ ..] = self.der.get(self.at..self.end)? else { return None };
        let (head, length) = match (first, rest) {
            (0..=0x7f, _) => (2, usize::from(*first)),
            (0x81, [length, ..]) => (3, usize::from(*length)),
            (0x82, [high, low, ..]) => (4, usize::from(u16::from_be_bytes([*high, *low]))),
            _ => return None,
        };
        let content = self.at + head..self.at + head + length;
        if content.end > self.end {
            return None;
        }
        self.at = content.end;
        Some((*tag, content))
    }
}

pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
/// `extensions` of `TBSCertificate`: `[3]`.
const EXTENSIONS: u8 = 0xa3;
