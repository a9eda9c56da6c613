//! `latchkey init-secret`.

use std::path::Path;

use latchkey_keys::Secret;
use ring::rand::{SecureRandom, SystemRandom};
use serde::Serialize;
use zeroize::Zeroizing;

use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::output::{Output, Report, Style, Tone};

/// bcrypt's cost: some 50 ms for each try on a small machine, within what nodes accept. The secret has 256 bits, so the
/// hash need not be dearer.
const COST: u32 = 10;

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let path = arguments.required_path("out")?;
    let (secret, hash) = make()?;
    write(path, &secret)?;
    output.say(Tone::Good, "written", &format!("init secret to {}", path.display()));
    output.say(Tone::Plain, "metadata", "the node's init_secret_hash is printed next");
    let printed = output.report(&InitSecretReport { file: path.display().to_string(), hash });
    if matches!(printed, Ok(Exit::Done)) {
        return printed;
    }
    // Nobody has the hash, and it cannot be made of the secret again: such a file would only stand in the way of another.
    let removed = std::fs::remove_file(path);
    let shown = path.display();
    printed.map_err(|failure| match removed {
        Ok(()) => failure.because(format!("without its hash the secret is of no use: {shown} was removed")),
        Err(error) => failure.because(format!("without its hash the secret is of no use; remove {shown}: {error}")),
    })
}

/// An init secret was made.
#[derive(Serialize)]
struct InitSecretReport {
    file: String,
    /// For the node's instance metadata.
    hash: String,
}

impl Report for InitSecretReport {
    fn text(&self, _: Style) -> String {
        format!("{}\n", self.hash)
    }
}

/// A secret of 64 characters and its hash.
fn make() -> Result<(Zeroizing<String>, String), CommandError> {
    let random = Secret::<32>::random()?;
    let secret = Zeroizing::new(hex::encode(random.expose()));
    let mut salt = [0; 16];
    SystemRandom::new().fill(&mut salt).map_err(|_| CommandError::from(latchkey_keys::KeyError::Random))?;
    let hash = bcrypt::hash_with_salt(secret.as_bytes(), COST, salt).map_err(|error| {
        CommandError::local(CommandCode::HashFailed, "the secret could not be hashed").because(error.to_string())
    })?;
    Ok((secret, hash.to_string()))
}

fn write(path: &Path, secret: &str) -> Result<(), CommandError> {
    let mut line = Zeroizing::new(String::with_capacity(secret.len() + 1));
    line.push_str(secret);
    line.push('\n');
    files::write_new(path, line.as_bytes(), Readers::OwnerOnly)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_secret_and_in_the_form_that_nodes_accept() {
        let (secret, hash) = make().unwrap();
        assert_eq!(secret.len(), 64);
        assert!(bcrypt::verify(secret.as_bytes(), &hash).unwrap());
        assert!(hash.starts_with("$2b$10$"), "{hash}");
        assert_ne!(make().unwrap().1, hash);
    }
}
