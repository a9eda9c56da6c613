//! One hash for a directory that a root is made from, which does not depend on where and when it lies, or whose it is.
//!
//! SHA-256 of one line for each file, directory, link and device, the directory itself among them as `.`, sorted by the bytes of
//! their paths, each line ended by a line feed:
//!
//! ```text
//! KIND MODE OWNER:GROUP PATH DATA
//! d 0755 0:0 . -
//! f 0644 0:0 ./etc/hostname 40b8a0d…        SHA-256 of the content
//! l 0777 0:0 ./bin usr/bin                  where the link leads
//! c 0666 0:0 ./dev/null 1:3                 b, c: numbers of the device; p, s: "-"
//! ```
//!
//! Owner and group are root's, as everything in a root made from a directory is. In paths and targets, all bytes but printable
//! ASCII, and spaces and backslashes, are three octal digits behind a backslash. Times and extended attributes are left out,
//! as in the root. Hard links are files like others.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use ring::digest::{Context, SHA256};

use crate::tree::{Entry, EntryKind, Reads, Tree, below};

/// Its hash.
pub(crate) fn hash(directory: &Path) -> io::Result<[u8; 32]> {
    let mut lines = Context::new(&SHA256);
    for (path, entry) in Tree::of_directory(directory, &Reads::default())?.iter() {
        lines.update(&line(directory, path, entry)?);
    }
    Ok(finished(lines))
}

fn line(directory: &Path, path: &[u8], Entry { mode, what }: &Entry) -> io::Result<Vec<u8>> {
    let (kind, data) = match what {
        EntryKind::Directory => ('d', "-".to_owned()),
        EntryKind::File(..) => ('f', hex::encode(content(&below(directory, path))?)),
        EntryKind::Link(target) | EntryKind::Hardlink(target) => ('l', escaped(target)),
        EntryKind::Device(block, major, minor) => (if *block { 'b' } else { 'c' }, format!("{major}:{minor}")),
        EntryKind::Pipe => ('p', "-".to_owned()),
        EntryKind::Socket => ('s', "-".to_owned()),
    };
    let path = if path.is_empty() { ".".to_owned() } else { format!("./{}", escaped(path)) };
    let mut line = Vec::new();
    writeln!(line, "{kind} {mode:04o} 0:0 {path} {data}")?;
    Ok(line)
}

fn escaped(text: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        b'\\' => "\\134".to_owned(),
        byte if byte.is_ascii_graphic() => char::from(*byte).to_string(),
        byte => format!("\\{byte:03o}"),
    };
    text.iter().map(one).collect()
}

fn content(path: &Path) -> io::Result<[u8; 32]> {
    let named = |source: io::Error| io::Error::new(source.kind(), format!("{}: {source}", path.display()));
    let mut file = File::open(path).map_err(named)?;
    let mut context = Context::new(&SHA256);
    let mut piece = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut piece).map_err(named)?;
        let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else { return Ok(finished(context)) };
        context.update(bytes);
    }
}

fn finished(context: Context) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::process::Command;

    fn sample() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("a.b")).unwrap();
        fs::create_dir_all(at("a/deep")).unwrap();
        fs::write(at("a/deep/file"), "content").unwrap();
        fs::write(at("a b\\c\né"), "").unwrap();
        symlink("../x y", at("link")).unwrap();
        for (name, mode) in [("", 0o755), ("a", 0o755), ("a.b", 0o1777), ("a/deep", 0o700), ("a/deep/file", 0o4755)] {
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(at("a b\\c\né"), fs::Permissions::from_mode(0o644)).unwrap();
        directory
    }

    #[test]
    fn the_lines_are_as_documented() {
        let directory = sample();
        let tree = Tree::of_directory(directory.path(), &Reads::default()).unwrap();
        let lines: Vec<u8> =
            tree.iter().flat_map(|(path, entry)| line(directory.path(), path, entry).unwrap()).collect();
        let content = "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73";
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let expected = format!(
            "d 0755 0:0 . -\nd 0755 0:0 ./a -\nf 0644 0:0 ./a\\040b\\134c\\012\\303\\251 {empty}\nd 1777 0:0 ./a.b -\n\
             d 0700 0:0 ./a/deep -\nf 4755 0:0 ./a/deep/file {content}\nl 0777 0:0 ./link ../x\\040y\n"
        );
        // `a b…` sorts before `a.b`, and that before `a/…`, as bytes do.
        assert_eq!(String::from_utf8(lines).unwrap(), expected);
        let hash = ring::digest::digest(&SHA256, expected.as_bytes());
        assert_eq!(hash.as_ref(), super::hash(directory.path()).unwrap());
    }

    #[test]
    fn find_sort_and_sha256sum_come_to_the_same_hash() {
        let directory = sample();
        // Names that need no escape: find's own escapes are others.
        fs::remove_file(directory.path().join("a b\\c\né")).unwrap();
        fs::remove_file(directory.path().join("link")).unwrap();
        symlink("a/deep/file", directory.path().join("link")).unwrap();
        let script = r#"cd "$1" && find . | LC_ALL=C sort | while read -r path; do
            set -- $(stat -c '%a %F' "$path"); mode=$(printf %04o "0$1")
            case $2 in
                directory) echo "d $mode 0:0 $path -" ;;
                regular) echo "f $mode 0:0 $path $(sha256sum "$path" | cut -d' ' -f1)" ;;
                symbolic) echo "l 0777 0:0 $path $(readlink "$path")" ;;
            esac
        done | sha256sum | cut -d' ' -f1"#;
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(directory.path());
        let said = latchkey_test_support::output(&mut shell).unwrap();
        let theirs = String::from_utf8(said.stdout).unwrap();
        assert_eq!(
            theirs.trim(),
            hex::encode(hash(directory.path()).unwrap()),
            "{}",
            String::from_utf8_lossy(&said.stderr)
        );
    }

    #[test]
    fn every_change_that_reaches_the_root_is_another_hash() {
        let first = hash(sample().path()).unwrap();
        assert_eq!(hash(sample().path()).unwrap(), first);
        let changes: [fn(&Path); 5] = [
            |root| fs::write(root.join("a/deep/file"), "other").unwrap(),
            |root| fs::set_permissions(root.join("a"), fs::Permissions::from_mode(0o700)).unwrap(),
            |root| fs::write(root.join("more"), "").unwrap(),
            |root| fs::rename(root.join("a.b"), root.join("a.c")).unwrap(),
            |root| {
                fs::remove_file(root.join("link")).unwrap();
                symlink("../x", root.join("link")).unwrap();
            },
        ];
        for change in changes {
            let directory = sample();
            change(directory.path());
            assert_ne!(hash(directory.path()).unwrap(), first);
        }
    }
}
