//! The cpio archives ("newc") that systemd-stub makes of sections of the image, for the initramfs to find.

/// An archive with the directory `.extra` and one file in it, readable by everybody.
pub(super) fn extra_file(name: &str, content: &[u8]) -> Vec<u8> {
    let mut archive = Vec::with_capacity(content.len() + 512);
    entry(&mut archive, ".extra", DIRECTORY, 1, b"");
    entry(&mut archive, &format!(".extra/{name}"), FILE, 2, content);
    archive.extend_from_slice(TRAILER);
    archive
}

/// One entry, padded to four bytes after the name and after the content. Thirteen fields of eight digits.
fn entry(archive: &mut Vec<u8>, name: &str, mode: u32, inode: u32, content: &[u8]) {
    let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let name_size = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
    // Inode, mode, user, group, links, time, size, two device numbers, two more, size of the name, checksum.
    let fields = [inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
    archive.extend_from_slice(b"070701");
    for field in fields {
        archive.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    pad(archive);
    archive.extend_from_slice(content);
    pad(archive);
}

fn pad(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(4), 0);
}

const DIRECTORY: u32 = 0o040_555;
const FILE: u32 = 0o100_444;
/// Written by the stub as a constant, with an upper-case digit in it.
const TRAILER: &[u8] = b"070701\
    00000000000000000000000000000000\
    00000001\
    000000000000000000000000000000000000000000000000\
    0000000B\
    00000000\
    TRAILER!!!\0\0\0\0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_is_what_gnu_cpio_would_write_but_for_the_digits() {
        let archive = extra_file("os-release", b"ID=test");
        let text = String::from_utf8(archive.clone()).unwrap();
        assert!(text.starts_with("070701000000010000416d"), "{text}");
        assert!(text.contains("0707010000000200008124"), "{text}");
        assert!(text.contains(".extra/os-release\0"), "{text}");
        assert!(text.contains("ID=test\x00070701"), "{text}");
        assert_eq!((archive.len() % 4, TRAILER.len()), (0, 124));
    }
}
