//! Commands of a TPM: transports, HMAC sessions, typed commands, and the node's [`AttestingTpm`].
//!
//! Whatever decides something (PCR values, quotes, extensions, activation) runs in an HMAC session whose key is
//! derived from a salt encrypted to a key of this TPM, so that somebody on the bus who changes a command or an
//! answer is noticed. See [`Session`] for what remains.

mod attestation_key;
mod attesting_tpm;
mod bank;
mod capability;
mod command;
mod endorsement;
mod error;
mod keys;
mod nv;
mod pcr;
mod response_code;
mod session;
mod transport;

pub use attestation_key::AttestationKeySource;
pub use attesting_tpm::{AttestingTpm, Quote};
pub use command::Tpm;
pub use endorsement::EndorsementKey;
pub use error::{TpmCode, TpmError, reason_codes};
pub use keys::{Hierarchy, Key};
pub use response_code::{ResponseCode, ResponseReason};
pub use session::Session;
pub use transport::{CharDevice, MAX_RESPONSE, Socket, Transport};
