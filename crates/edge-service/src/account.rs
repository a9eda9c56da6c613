//! Who a program is at the centre.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use latchkey_factory_plus::Upn;
use latchkey_factory_plus_client::{BaseUrl, Credentials, Identity, IdentityError, Pending};
use latchkey_kubernetes_client::read_mounted;
use serde::Deserialize;
use zeroize::Zeroizing;

/// Who a program is at the centre: a principal with a password, which `krb-keys` makes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountSection {
    /// The principal, with realm, such as `op1sync/Bolt@FACTORY.EXAMPLE`.
    pub principal: Upn,
    /// The file with its password, from a Secret.
    pub password_file: PathBuf,
}

/// A password that may be another tomorrow: its file is read whenever a service asks who we are, which it does when the last token
/// ends or is refused.
#[derive(Clone, Debug)]
pub struct PasswordFile {
    principal: Upn,
    path: PathBuf,
}

/// Longest password, bytes.
const LONGEST: usize = 1000;

impl AccountSection {
    /// The identity. The file is read now, too, to say what is wrong with it.
    ///
    /// # Errors
    /// A sentence: what is wrong with the principal or the file.
    pub fn identity(&self) -> Result<Identity, String> {
        let file = PasswordFile { principal: self.principal.clone(), path: self.password_file.clone() };
        file.read()?;
        Ok(Identity::new(Arc::new(file)))
    }

    /// The password as it is now: for a server that is shown it otherwise than by HTTP.
    ///
    /// # Errors
    /// A sentence: what is wrong with the file.
    pub fn password(&self) -> Result<Zeroizing<String>, String> {
        password(&self.password_file)
    }
}

impl PasswordFile {
    fn read(&self) -> Result<Identity, String> {
        Identity::basic(&self.principal, &password(&self.path)?).map_err(|error| format!("`account`: {error}"))
    }
}

/// The password in a file; one line end at its end is not part of it.
fn password(path: &Path) -> Result<Zeroizing<String>, String> {
    let bytes = read_mounted(path, LONGEST + 2).map_err(|why| format!("`account.password_file`: {why}"))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| IdentityError::Password.to_string())?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    Ok(Zeroizing::new(text.strip_suffix('\r').unwrap_or(text).to_owned()))
}

impl Credentials for PasswordFile {
    fn authorization<'a>(&'a self, service: &'a BaseUrl) -> Pending<'a, Result<Zeroizing<String>, String>> {
        Box::pin(async move { self.read()?.authorization(service).await })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_password_that_was_written_anew_is_the_one_that_is_sent() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        let write = |password: &str| {
            fs::write(&path, password).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        };
        let account = AccountSection { principal: "op1sync/Bolt@R".parse().unwrap(), password_file: path.clone() };
        assert!(account.identity().err().unwrap().contains("password_file"));
        write("a:b\n");
        let identity = account.identity().unwrap();
        let url = "https://h".parse().unwrap();
        // The oracle: printf 'op1sync/Bolt@R:a:b' | base64
        let first = smol::block_on(identity.authorization(&url)).unwrap();
        assert_eq!(first.as_str(), "Basic b3Axc3luYy9Cb2x0QFI6YTpi");
        assert_eq!(account.password().unwrap().as_str(), "a:b");
        write("c");
        assert_eq!(smol::block_on(identity.authorization(&url)).unwrap().as_str(), "Basic b3Axc3luYy9Cb2x0QFI6Yw==");
        write("");
        assert!(smol::block_on(identity.authorization(&url)).is_err());
    }
}
