//! A commit, as git-fast-import(1) reads it.

use std::time::{SystemTime, UNIX_EPOCH};

/// What a commit does to a path: first everything is deleted, then written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The file, or the directory with all in it, goes.
    Delete(String),
    /// The file has these contents.
    Write(String, Vec<u8>),
}

/// A commit on top of what `main` has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// What it says of itself.
    pub message: String,
    /// What it does, in this order.
    pub changes: Vec<Change>,
    /// Who commits: `NAME <ADDRESS>`, of our own making.
    pub committer: &'static str,
}

impl Commit {
    /// The stream. Paths are names of our own making: letters, digits, dots, hyphens, underscores and slashes.
    pub(super) fn stream(&self, base: Option<&str>) -> Vec<u8> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let committer = self.committer;
        let mut stream =
            format!("feature done\ncommit refs/heads/main\ncommitter {committer} {now} +0000\n").into_bytes();
        push_data(&mut stream, self.message.as_bytes());
        if let Some(base) = base {
            stream.extend(format!("from {base}^0\n").bytes());
        }
        for change in &self.changes {
            match change {
                Change::Delete(path) => stream.extend(format!("D {path}\n").bytes()),
                Change::Write(path, contents) => {
                    stream.extend(format!("M 100644 inline {path}\n").bytes());
                    push_data(&mut stream, contents);
                }
            }
        }
        stream.extend(b"done\n");
        stream
    }
}

fn push_data(stream: &mut Vec<u8>, data: &[u8]) {
    stream.extend(format!("data {}\n", data.len()).bytes());
    stream.extend(data);
    stream.push(b'\n');
}
