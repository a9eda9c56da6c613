//! Keys that services prove themselves with to nodes, which have the hash on their measured command line.

use latchkey_channel::PinnedKeyAttester;
use latchkey_keys::SecretVec;
use rcgen::KeyPair;
use zeroize::Zeroizing;

/// The hash of a P-256 key in PEM, as nodes know it; `None` if it is none.
pub(crate) fn hash_of(identity: &SecretVec) -> Option<String> {
    let key = KeyPair::from_pem(std::str::from_utf8(identity.expose()).ok()?).ok()?;
    let der = Zeroizing::new(key.serialize_der());
    Some(PinnedKeyAttester::from_pkcs8(&der).ok()?.hash().to_string())
}
