//! Packets out of a stream of bytes. Lengths are checked before anything is kept; what a packet says is read by mqtt-proto.

use mqtt_proto::v3::{Header, Packet};
use zeroize::Zeroizing;

/// Largest packet that is taken, bytes: what a broker sends to a monitor are commands and short answers.
pub const MAX_PACKET: usize = 256 << 10;

/// Bytes of the longest fixed header: type, and a length of up to four bytes (MQTT 3.1.1, section 2.2).
const LONGEST_HEADER: usize = 5;

/// Why bytes are no packet. The connection is of no use after it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A packet of more than [`MAX_PACKET`] bytes is announced.
    #[error("a packet of {0} bytes, more than the {MAX_PACKET} that are taken")]
    TooLarge(usize),
    /// Its length has more than four bytes.
    #[error("a packet whose length has more than four bytes")]
    Length,
    /// Not a packet of MQTT 3.1.1.
    #[error("no packet of MQTT 3.1.1: {0}")]
    Malformed(String),
}

/// Bytes that were received and not yet read. It never holds more than one packet and one read.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Takes what was received.
    pub fn push(&mut self, received: &[u8]) {
        self.bytes.extend_from_slice(received);
    }

    /// The next whole packet, if there is one.
    ///
    /// # Errors
    /// What comes next is no packet, or too large.
    pub fn packet(&mut self) -> Result<Option<Packet>, FrameError> {
        if let Some(first) = self.bytes.first() {
            // What is no MQTT is known by its first byte, before anybody waits for the rest of it.
            Header::new_with(*first, 0, 0).map_err(|error| FrameError::Malformed(error.to_string()))?;
        }
        let Some(length) = length(&self.bytes)? else { return Ok(None) };
        if length > MAX_PACKET {
            return Err(FrameError::TooLarge(length));
        }
        let Some(frame) = self.bytes.get(..length) else { return Ok(None) };
        let packet = read(frame)?;
        self.bytes.drain(..length);
        Ok(Some(packet))
    }
}

/// The length of the packet that begins here, header included; `None` until its header is there.
fn length(bytes: &[u8]) -> Result<Option<usize>, FrameError> {
    let mut rest = 0_usize;
    for (place, byte) in bytes.iter().enumerate().skip(1).take(LONGEST_HEADER - 1) {
        rest |= usize::from(byte & 0x7f) << (7 * (place - 1));
        if byte & 0x80 == 0 {
            return Ok(Some(place + 1 + rest));
        }
    }
    if bytes.len() >= LONGEST_HEADER { Err(FrameError::Length) } else { Ok(None) }
}

/// Reads one packet, which is all of `frame`.
fn read(frame: &[u8]) -> Result<Packet, FrameError> {
    let malformed = |why: &dyn std::fmt::Display| FrameError::Malformed(why.to_string());
    let packet = Packet::decode(frame).map_err(|error| malformed(&error))?;
    let packet = packet.ok_or_else(|| malformed(&"it ends before its fields do"))?;
    // Also what has more bytes than its fields, or a length that is longer than it need be: no broker sends either.
    match packet.encode_len() {
        Ok(length) if length == frame.len() => Ok(packet),
        _ => Err(malformed(&"it is longer than its fields")),
    }
}

/// A packet's bytes. They are wiped, since they may have a password.
///
/// # Errors
/// It is larger than MQTT allows.
pub fn encode(packet: &Packet) -> Result<Zeroizing<Vec<u8>>, FrameError> {
    let bytes = packet.encode().map_err(|error| FrameError::Malformed(error.to_string()))?;
    Ok(Zeroizing::new(match bytes {
        mqtt_proto::VarBytes::Dynamic(bytes) => bytes,
        other => other.as_ref().to_vec(),
    }))
}

#[cfg(test)]
mod tests {
    use mqtt_proto::v3::Publish;
    use mqtt_proto::{QosPid, TopicName};
    use proptest::prelude::*;

    use super::*;

    fn publish(payload: usize) -> Packet {
        let topic = TopicName::try_from("a/b").unwrap();
        Packet::Publish(Publish::new(QosPid::Level0, topic, vec![7; payload].into()))
    }

    #[test]
    fn packets_come_out_however_they_are_cut() {
        let packets = [publish(0), Packet::Pingresp, publish(200), publish(20_000)];
        let bytes: Vec<u8> = packets.iter().flat_map(|packet| encode(packet).unwrap().to_vec()).collect();
        for size in [1, 2, 3, 1000, bytes.len()] {
            let (mut frames, mut seen) = (Frames::default(), Vec::new());
            for piece in bytes.chunks(size) {
                frames.push(piece);
                while let Some(packet) = frames.packet().unwrap() {
                    seen.push(packet);
                }
            }
            assert_eq!(seen, packets, "{size}");
            assert!(frames.bytes.is_empty());
        }
    }

    #[test]
    fn what_is_too_large_is_refused_by_its_header() {
        let next = |bytes: &[u8]| {
            let mut frames = Frames::default();
            frames.push(bytes);
            frames.packet()
        };
        assert_eq!(next(&[0x30, 0xff, 0xff, 0xff, 0x7f]), Err(FrameError::TooLarge(268_435_455 + 5)));
        assert_eq!(next(&[0x30, 0xff, 0xff, 0xff, 0xff]), Err(FrameError::Length));
        assert_eq!(next(&[0x30, 0xff, 0xff, 0xff]), Ok(None));
        assert_eq!(next(&[]), Ok(None));
        // A topic longer than the packet; bytes behind a PUBACK; a type that does not exist; a length of two bytes for none.
        for bad in [
            &[0x30, 3, 0, 9, b'a'][..],
            &[0x40, 3, 0, 1, 0],
            &[0xf0, 0],
            &[0xd0, 0x80, 0],
            &[0x20, 2, 0, 9],
            b"H",
            &[0x36],
        ] {
            assert!(matches!(next(bad), Err(FrameError::Malformed(_))), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(pieces: Vec<Vec<u8>>) {
            let mut frames = Frames::default();
            for piece in pieces {
                frames.push(&piece);
                while let Ok(Some(packet)) = frames.packet() {
                    prop_assert!(encode(&packet).is_ok());
                }
            }
        }
    }
}
