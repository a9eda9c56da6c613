//! DER for fakes of vendors: X.509 certificates and lists of them (RFC 5280), field by field.

#![expect(clippy::unwrap_used, reason = "for tests: what fails here fails the test")]

pub(crate) fn name(common_name: &str) -> Vec<u8> {
    let value = sequence(&[&tagged(0x06, &[0x55, 0x04, 0x03]), &tagged(0x0c, common_name.as_bytes())]);
    sequence(&[&tagged(0x31, &value)])
}

pub(crate) fn extension(id: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let critical: &[u8] = if critical { &[0x01, 0x01, 0xff] } else { &[] };
    sequence(&[&tagged(0x06, id), critical, &tagged(0x04, value)])
}

pub(crate) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tagged(0x30, &parts.concat())
}

pub(crate) fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let head = match length {
        0..=127 => vec![tag, u8::try_from(length).unwrap()],
        128..=255 => vec![tag, 0x81, u8::try_from(length).unwrap()],
        _ => [&[tag, 0x82], u16::try_from(length).unwrap().to_be_bytes().as_slice()].concat(),
    };
    [head.as_slice(), content].concat()
}

pub(crate) fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n").into_bytes()
}
