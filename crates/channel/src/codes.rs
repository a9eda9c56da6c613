//! The reason codes of the channel. What attestation refuses keeps its code, and so does what the peer says.

use latchkey_reason::{Reason, reason_codes, reasons};

use crate::peer_reason::PeerReason;

reason_codes! {
    /// Why there is no proven channel.
    pub enum ChannelCode {
        /// TLS failed: version, suite, alert.
        TlsRefused = "tls-refused": "check that a Latchkey program of this release listens at that address";
        /// The peer shows no P-256 key of the one form, or does not hold it.
        TlsKey = "tls-key-refused": "run the same release on both sides";
        /// The peer did not name the channel's protocol.
        TlsProtocolName = "tls-protocol-name": "check the address: another program listens there";
        /// The session was not made by a full handshake.
        TlsResumed = "tls-resumed": "run the same release on both sides";
        /// The other end has our own key.
        TlsOwnKey = "tls-own-key": "check the address: it leads back to this program";
        /// More bytes before the proof than a handshake can have.
        HandshakeTooLong = "handshake-too-long": "check the address: another program listens there";
        /// This machine gave no random numbers.
        NoRandomness = "no-randomness": "check that getrandom(2) works here";
        /// The connection broke.
        Transport = "transport-failed": "check the network between the two, and whether the peer still runs";
        /// The handshake was not done in time.
        Deadline = "handshake-deadline": "check the network between the two, and the load of both machines";
        /// A frame beyond its bound.
        FrameTooLong = "frame-too-long": "run the same release on both sides";
        /// A frame that was cut.
        FrameTruncated = "frame-truncated": "look at the peer's log: it ended the connection";
        /// A frame that is not of the schema.
        FrameMalformed = "frame-malformed": "run the same release on both sides";
        /// A well-formed message at the wrong place.
        OutOfTurn = "message-out-of-turn": "run the same release on both sides";
        /// The peer speaks another version.
        Version = "version-unsupported": "run the same release on both sides";
        /// The peer's key is none of the pinned ones.
        KeyNotPinned = "key-not-pinned": "pin the peer's key if the peer is yours; else somebody is in the middle";
        /// The signature with the pinned key does not cover this session.
        KeySignature = "key-signature-invalid": "find out who is in the middle: somebody relays or replays evidence";
        /// The peer shows a kind of evidence that is not taken here.
        KindRefused = "evidence-kind-refused": "compare what the peer can show with what this side demands";
        /// This side can show no kind of evidence that the peer takes.
        NoCommonKind = "no-common-evidence-kind": "change what the peer demands, or give this side a TPM or a key";
        /// Evidence is of another kind than was agreed upon.
        KindChanged = "evidence-kind-changed": "run the same release on both sides";
        /// The purpose is not served here.
        Purpose = "purpose-refused": "let the peer check the address it asked: this program serves other purposes";
        /// This side could not prove itself: its TPM or key failed.
        ProofUnavailable = "proof-unavailable": "fix what the sentence names: this side's TPM or key";
        /// The caller asked for what the table of purposes forbids.
        Misuse = "channel-misuse": "report this: it is a defect of Latchkey";
    }
}

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = Reason> {
    reasons::<ChannelCode>().chain(reasons::<PeerReason>())
}
