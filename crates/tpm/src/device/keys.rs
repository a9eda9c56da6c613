//! Keys in the TPM: making primaries, reading public areas, activating credentials.

use super::command::{Auth, Command};
use super::{Session, Tpm, TpmError};
use crate::wire::{Credential, HashAlg, Public, Reader, WireError, Writer};
use zeroize::Zeroizing;

/// The seed a primary key comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hierarchy {
    /// The owner's: storage.
    Owner,
    /// The manufacturer's, for endorsement keys and what is proven by them.
    Endorsement,
    /// A new one at every reset; its authorisation is always empty.
    Null,
}

impl Hierarchy {
    /// `TPM_RH`.
    pub const fn handle(self) -> u32 {
        match self {
            Self::Owner => 0x4000_0001,
            Self::Null => 0x4000_0007,
            Self::Endorsement => 0x4000_000b,
        }
    }
}

/// A loaded or persistent key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub(super) handle: u32,
    pub(super) public: Public,
    pub(super) name: Vec<u8>,
}

impl Key {
    /// `TPM_HANDLE`.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// The public area.
    pub fn public(&self) -> &Public {
        &self.public
    }

    /// The name, computed from the public area.
    pub fn name(&self) -> &[u8] {
        &self.name
    }
}

impl Tpm {
    /// Makes the primary key of `template` in `hierarchy`, whose authorisation is empty. With a session the answer
    /// is authenticated.
    pub fn create_primary(
        &mut self,
        hierarchy: Hierarchy,
        template: &Public,
        session: Option<&mut Session>,
    ) -> Result<Key, TpmError> {
        let handle = hierarchy.handle();
        let parameters = Writer::build(|out| {
            // No authorisation value and no data: TPM2B_SENSITIVE_CREATE of two empty fields.
            out.u16(4).sized(&[]).sized(&[]).sized(&template.marshal());
            // No outside information, no creation PCRs.
            out.sized(&[]).u32(0);
        });
        let command = Command {
            name: "TPM2_CreatePrimary",
            code: 0x131,
            handles: &[(handle, &handle.to_be_bytes())],
            parameters: &parameters,
            returns_handle: true,
        };
        let mut auth = [session.map_or(Auth::Empty, Auth::Hmac)];
        let response = self.run(&command, &mut auth)?;
        let handle = response.handle.unwrap_or(Hierarchy::Null.handle());
        let made =
            read_created(&response.parameters).map_err(|error| command.malformed(error)).and_then(|(public, name)| {
                if public.name() != name || !public.matches(template) {
                    return Err(TpmError::Unexpected { command: command.name, what: "a key of another template" });
                }
                Ok(Key { handle, public, name })
            });
        if made.is_err() {
            self.flush(handle)?;
        }
        made
    }

    /// Reads the public area of a key and checks that the TPM's name for it is the one computed. With a session the
    /// answer is authenticated.
    pub fn read_public(&mut self, handle: u32, session: Option<&mut Session>) -> Result<Key, TpmError> {
        // The command takes no authorisation, but the handle's name enters the session's HMAC, and the name is what
        // is asked for: only a session-less read can come first.
        let key = self.read_public_named(handle, &[], None)?;
        match session {
            None => Ok(key),
            Some(session) => {
                let again = self.read_public_named(handle, &key.name, Some(session))?;
                if again == key { Ok(key) } else { Err(TpmError::Tampered { command: "TPM2_ReadPublic" }) }
            }
        }
    }

    fn read_public_named(&mut self, handle: u32, name: &[u8], session: Option<&mut Session>) -> Result<Key, TpmError> {
        let command = Command {
            name: "TPM2_ReadPublic",
            code: 0x173,
            handles: &[(handle, name)],
            parameters: &[],
            returns_handle: false,
        };
        let mut auths: Vec<Auth<'_>> = session.map(Auth::Audit).into_iter().collect();
        let response = self.run(&command, &mut auths)?;
        let (public, name) = Reader::all(&response.parameters, |reader| {
            let public = Public::parse(reader.sized("public area", Public::MAX_SIZE)?)?;
            let name = reader.sized("name", MAX_NAME)?.to_vec();
            reader.sized("qualified name", MAX_NAME)?;
            Ok((public, name))
        })
        .map_err(|error| command.malformed(error))?;
        if public.name() != name {
            return Err(TpmError::Unexpected { command: command.name, what: "a name of another key" });
        }
        Ok(Key { handle, public, name })
    }

    /// Decrypts a credential made for `ek` and the name of `ak` (`TPM2_ActivateCredential`), satisfying the policy of
    /// the template `ek` comes from. The secret is at most 64 bytes long, and encrypted on its way from the TPM.
    pub fn activate_credential(
        &mut self,
        ak: &Key,
        ek: &Key,
        credential: &Credential,
        session: &mut Session,
    ) -> Result<Zeroizing<Vec<u8>>, TpmError> {
        let hash = ek.public.name_alg;
        let policy = self.start_policy(hash)?;
        let result = self.activate_under_policy(ak, ek, credential, session, policy);
        match &result {
            // A policy session without continueSession ends with the command that used it.
            Ok(_) => self.forget(policy),
            // It may have ended nevertheless. The first error says more than one about that.
            Err(_) => drop(self.flush(policy)),
        }
        result
    }

    fn activate_under_policy(
        &mut self,
        ak: &Key,
        ek: &Key,
        credential: &Credential,
        session: &mut Session,
        policy: u32,
    ) -> Result<Zeroizing<Vec<u8>>, TpmError> {
        self.policy_secret(policy, session)?;
        if ek.public.endorsement_template().is_some_and(crate::wire::EkTemplate::is_high_range) {
            self.policy_or(policy, ek.public.name_alg)?;
        }
        let parameters = credential.marshal();
        let command = Command {
            name: "TPM2_ActivateCredential",
            code: 0x147,
            handles: &[(ak.handle, &ak.name), (ek.handle, &ek.name)],
            parameters: &parameters,
            returns_handle: false,
        };
        let response = self.run(&command, &mut [Auth::Encrypting(session), Auth::Policy(policy)])?;
        Reader::all(&response.parameters, |reader| reader.sized("activated secret", HashAlg::MAX_SIZE))
            .map(|secret| Zeroizing::new(secret.to_vec()))
            .map_err(|error| command.malformed(error))
    }
}

const MAX_NAME: usize = 2 + HashAlg::MAX_SIZE;

/// Public area and name from what `TPM2_CreatePrimary` returns; creation data, hash and ticket are of no use here.
fn read_created(parameters: &[u8]) -> Result<(Public, Vec<u8>), WireError> {
    Reader::all(parameters, |reader| {
        let public = Public::parse(reader.sized("public area", Public::MAX_SIZE)?)?;
        reader.sized("creation data", 512)?;
        reader.sized("creation hash", HashAlg::MAX_SIZE)?;
        reader.u16()?;
        reader.u32()?;
        reader.sized("creation ticket", HashAlg::MAX_SIZE)?;
        let name = reader.sized("name", MAX_NAME)?.to_vec();
        Ok((public, name))
    })
}
