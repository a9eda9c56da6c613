//! `grpc-message` on the wire: UTF-8, percent-encoded.
//!
//! "Percent-Byte-Unencoded → 1*( %x20-%x24 / %x26-%x7E ) ; space and VCHAR, except %" (gRPC over HTTP/2, Responses).

use http::HeaderValue;

/// Longest message sent, in bytes before encoding: peers bound their header lists, and status must get through.
pub(crate) const MAX_MESSAGE: usize = 1024;

/// Encodes a message, cut at a character boundary when longer than [`MAX_MESSAGE`].
pub(crate) fn encode(message: &str) -> HeaderValue {
    let end = message.floor_char_boundary(MAX_MESSAGE);
    let mut encoded = String::with_capacity(end);
    for byte in message.bytes().take(end) {
        match byte {
            0x20..=0x24 | 0x26..=0x7e => encoded.push(char::from(byte)),
            _ => {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                encoded.push('%');
                encoded.extend(
                    [byte >> 4, byte & 15].into_iter().filter_map(|n| HEX.get(usize::from(n))).map(|&c| char::from(c)),
                );
            }
        }
    }
    HeaderValue::try_from(encoded).unwrap_or_else(|_| HeaderValue::from_static("unprintable"))
}

/// Decodes a message; what is not valid encoding stays as it is.
///
/// "When decoding invalid values, implementations MUST NOT error or throw away the message."
pub(crate) fn decode(value: &[u8]) -> String {
    let mut decoded = Vec::with_capacity(value.len());
    let mut rest = value;
    while let [first, after @ ..] = rest {
        if let (b'%', [high, low, after_escape @ ..]) = (first, after)
            && let (Some(high), Some(low)) = (nibble(*high), nibble(*low))
        {
            decoded.push(high << 4 | low);
            rest = after_escape;
        } else {
            decoded.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_characters_and_percent_signs_are_escaped() {
        assert_eq!(encode("50 % of\nü").as_bytes(), b"50 %25 of%0A%C3%BC");
    }

    #[test]
    fn invalid_escapes_are_kept() {
        assert_eq!(decode(b"100%, %zz %4"), "100%, %zz %4");
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        assert_eq!(decode(encode(&"ü€".repeat(1000)).as_bytes()).len(), 1022);
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes(message in ".{0,250}") {
            prop_assert_eq!(decode(encode(&message).as_bytes()), message);
        }

        #[test]
        fn decoding_takes_any_bytes(value: Vec<u8>) {
            decode(&value);
        }
    }
}
