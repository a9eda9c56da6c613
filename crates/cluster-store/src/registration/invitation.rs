//! Invitations: whoever has the token may register one cluster, whose name the operator chose.
//!
//! The service's directory has the hash of the token alone. The token itself stands in one private file, which `latchkey cluster invite`
//! makes for the operator to give to one machine.

use super::rules::Wanted;
use crate::cluster::{VERSION, check_version};
use crate::error::ContentError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use latchkey_factory_plus::ClusterName;
use latchkey_keys::read_private_file;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use zeroize::{Zeroize as _, Zeroizing};

/// Bytes of a token.
const TOKEN: usize = 32;
/// More than a token's file has.
const MAX_FILE: usize = 4096;

/// What stands in an invitation: 256 random bits.
pub struct InvitationToken(Zeroizing<[u8; TOKEN]>);

/// SHA-256 of a token, which tells nobody the token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InvitationHash([u8; 32]);

/// An invitation, as the service knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invitation {
    /// Schema: 1.
    pub version: u64,
    /// Of the token; also the file's name.
    pub sha256: InvitationHash,
    /// The cluster.
    pub cluster: Wanted,
    /// When it was made, in seconds since the Unix epoch.
    pub made: u64,
    /// When it ends, in seconds since the Unix epoch.
    pub expires: u64,
}

/// The file that the operator gives to a node. As secret as the token.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvitationFile {
    version: u64,
    cluster: ClusterName,
    expires: u64,
    token: String,
}

impl InvitationToken {
    /// A new one; `None` where the kernel gives no random numbers.
    pub fn random() -> Option<Self> {
        let mut bytes = Zeroizing::new([0; TOKEN]);
        SystemRandom::new().fill(&mut *bytes).ok()?;
        Some(Self(bytes))
    }

    /// Of what a node sent; `None` if it is none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; TOKEN] = bytes.try_into().ok()?;
        Some(Self(Zeroizing::new(bytes)))
    }

    /// What it is known by.
    pub fn hash(&self) -> InvitationHash {
        let mut hash = [0; 32];
        hash.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, &*self.0).as_ref());
        InvitationHash(hash)
    }

    /// Its bytes.
    pub fn expose(&self) -> &[u8] {
        &*self.0
    }
}

impl fmt::Debug for InvitationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InvitationToken([secret])")
    }
}

impl Invitation {
    /// An invitation to register this cluster.
    pub const fn new(sha256: InvitationHash, cluster: Wanted, made: u64, expires: u64) -> Self {
        Self { version: VERSION, sha256, cluster, made, expires }
    }

    /// Reads the file's JSON.
    ///
    /// # Errors
    /// [`ContentError`].
    pub fn parse(json: &[u8]) -> Result<Self, ContentError> {
        check_version(json)?;
        let invitation: Self = serde_json::from_slice(json).map_err(ContentError::Syntax)?;
        invitation.cluster.check()?;
        Ok(invitation)
    }
}

impl InvitationFile {
    /// The file of an invitation.
    pub fn new(token: &InvitationToken, invitation: &Invitation) -> Self {
        let token = URL_SAFE_NO_PAD.encode(token.expose());
        Self { version: VERSION, cluster: invitation.cluster.name.clone(), expires: invitation.expires, token }
    }

    /// Reads one, which nobody but its owner may read.
    ///
    /// # Errors
    /// What is wrong with it, and how to mend it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let bytes = read_private_file(path, MAX_FILE).map_err(|error| format!("{error}; {}", error.code().remedy()))?;
        let text = |error: ContentError| format!("{} is no invitation: {error}", path.display());
        check_version(bytes.expose()).map_err(text)?;
        let file: Self = serde_json::from_slice(bytes.expose()).map_err(|error| text(ContentError::Syntax(error)))?;
        file.token().ok_or_else(|| text(ContentError::Rule("`token` is cut off, or changed".to_owned())))?;
        Ok(file)
    }

    /// Its JSON.
    pub fn to_json(&self) -> Zeroizing<String> {
        Zeroizing::new(serde_json::to_string_pretty(self).unwrap_or_default())
    }

    /// The cluster that it is for.
    pub const fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// When it ends, in seconds since the Unix epoch.
    pub const fn expires(&self) -> u64 {
        self.expires
    }

    /// The token; `None` if it is none.
    pub fn token(&self) -> Option<InvitationToken> {
        let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(self.token.as_bytes()).ok()?);
        InvitationToken::read(&bytes)
    }
}

impl Drop for InvitationFile {
    fn drop(&mut self) {
        self.token.zeroize();
    }
}

impl fmt::Debug for InvitationFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InvitationFile").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl TryFrom<String> for InvitationHash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let mut bytes = [0; 32];
        let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        match hex::decode_to_slice(&text, &mut bytes) {
            Ok(()) if lower => Ok(Self(bytes)),
            _ => Err("expected 64 lower-case hex digits"),
        }
    }
}

impl From<InvitationHash> for String {
    fn from(hash: InvitationHash) -> Self {
        hash.to_string()
    }
}

impl fmt::Display for InvitationHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for InvitationHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn invitation(token: &InvitationToken) -> Invitation {
        Invitation::new(token.hash(), Wanted::called("Line_1".parse().unwrap()), 1, 2)
    }

    #[test]
    fn the_services_file_tells_nobody_the_token() {
        let token = InvitationToken::random().unwrap();
        let known = serde_json::to_string(&invitation(&token)).unwrap();
        assert!(!known.contains(&hex::encode(token.expose())));
        assert!(!known.contains(&URL_SAFE_NO_PAD.encode(token.expose())));
        assert_eq!(Invitation::parse(known.as_bytes()).unwrap(), invitation(&token));
        assert!(!format!("{token:?}").contains(&hex::encode(token.expose())));
    }

    #[test]
    fn a_nodes_file_is_private_and_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("line-1.invitation");
        let token = InvitationToken::random().unwrap();
        let file = InvitationFile::new(&token, &invitation(&token));
        let write = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            InvitationFile::read(&path)
        };
        let read = write(&file.to_json(), 0o600).unwrap();
        assert_eq!(read.token().unwrap().hash(), token.hash());
        assert!(!format!("{read:?}").contains(file.token.as_str()));
        assert!(write(&file.to_json(), 0o644).unwrap_err().contains("chmod"));
        let cut = file.to_json().replace(file.token.as_str(), &file.token[1..]);
        assert!(write(&cut, 0o600).unwrap_err().contains("cut off"));
        assert!(write("{}", 0o600).unwrap_err().contains("no invitation"));
    }
}
