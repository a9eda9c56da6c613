//! A repository of our own for one exchange with the git server.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus_client::BaseUrl;
use zeroize::Zeroizing;

/// A bare repository that goes with the value. Its configuration holds the token: nobody else may read it.
#[derive(Debug)]
pub(super) struct Workspace(PathBuf);

impl Workspace {
    /// A new one below `directory`, for one service and who we are there.
    pub(super) fn make(
        directory: &Path,
        service: &BaseUrl,
        authorization: &Zeroizing<String>,
        authorities: Option<&Path>,
    ) -> io::Result<Self> {
        let workspace = Self(directory.join(Uuid::random().to_string()));
        let mut private = DirBuilder::new();
        private.mode(0o700);
        private.create(&workspace.0)?;
        for name in ["objects", "refs"] {
            private.create(workspace.0.join(name))?;
        }
        fs::write(workspace.0.join("HEAD"), "ref: refs/heads/main\n")?;
        let text = configuration(service, authorization, authorities)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(workspace.0.join("config"))?;
        file.write_all(text.as_bytes())?;
        Ok(workspace)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the directory of workspaces, without those that a crash left behind.
    pub(super) fn prepare(directory: &Path) -> io::Result<()> {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        DirBuilder::new().mode(0o700).create(directory)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "Cannot remove a working copy");
        }
    }
}

/// The configuration. The header is sent to the service's own URL alone, and no redirect is followed.
fn configuration(
    service: &BaseUrl,
    authorization: &Zeroizing<String>,
    authorities: Option<&Path>,
) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::with_capacity(1024 + authorization.len()));
    text.push_str(
        "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\thooksPath = /dev/null\n\tfsync = none\n\
         [gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[transfer]\n\tfsckObjects = true\n\
         [pack]\n\tthreads = 1\n\twindowMemory = 32m\n[http]\n\tfollowRedirects = false\n",
    );
    if let Some(path) = authorities {
        text.push_str("\tsslCAInfo = ");
        let path = path.to_str().ok_or_else(|| io::Error::other("`centre.authorities` is no UTF-8"))?;
        push_quoted(&mut text, path)?;
        text.push('\n');
    }
    text.push_str("[http ");
    push_quoted(&mut text, &service.to_string())?;
    text.push_str("]\n\textraHeader = ");
    let mut header = Zeroizing::new(String::with_capacity(16 + authorization.len()));
    header.push_str("Authorization: ");
    header.push_str(authorization);
    push_quoted(&mut text, &header)?;
    text.push('\n');
    Ok(text)
}

/// A value as git-config(1) quotes it.
fn push_quoted(text: &mut String, value: &str) -> io::Result<()> {
    if value.chars().any(char::is_control) {
        return Err(io::Error::other("a value for git has control characters"));
    }
    text.push('"');
    for character in value.chars() {
        if matches!(character, '"' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    text.push('"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn nobody_else_reads_the_token_and_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let service = "https://git.example.org".parse().unwrap();
        let token = Zeroizing::new("Bearer a\"b\\c".to_owned());
        let workspace = Workspace::make(directory.path(), &service, &token, Some(Path::new("/a b/c.pem"))).unwrap();
        let path = workspace.path().to_path_buf();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("config"))), (0o700, 0o600));
        let read = |key: &str| {
            let arguments = ["config", "--get", key];
            let run = crate::process::run(&path, &arguments, b"");
            String::from_utf8(latchkey_test_support::block_on(run).unwrap()).unwrap()
        };
        assert_eq!(read("http.https://git.example.org.extraHeader"), "Authorization: Bearer a\"b\\c\n");
        assert_eq!(read("http.sslCAInfo"), "/a b/c.pem\n");
        drop(workspace);
        assert!(!path.exists());
    }
}
