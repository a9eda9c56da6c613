//! Modules as distributions pack them: plain, `.ko.xz` (newer Debian) or `.ko.zst` (Ubuntu, Fedora).

use std::io::{self, Read};
use std::path::Path;

use liblzma::stream::Stream;

use crate::elf::MAX_MODULE;

/// Distributions compress with presets that need at most 64 MiB; a bomb asks for more.
const MAX_XZ_MEMORY: u64 = 128 * 1024 * 1024;
/// 2^27 bytes: what the kernel itself allows as a zstd window (`lib/decompress_unzstd.c`).
const MAX_ZSTD_WINDOW_LOG: u32 = 27;

/// The suffixes of the forms that [`read`] understands.
pub(crate) const SUFFIXES: [&str; 3] = [".ko", ".ko.xz", ".ko.zst"];

/// Reads and decompresses the module at `path`, at most [`MAX_MODULE`] bytes.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = std::fs::File::open(path)?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => {
            let stream = Stream::new_stream_decoder(MAX_XZ_MEMORY, 0)?;
            bounded(liblzma::read::XzDecoder::new_stream(file, stream))
        }
        Some("zst") => {
            let mut decoder = zstd::stream::read::Decoder::new(file)?;
            decoder.window_log_max(MAX_ZSTD_WINDOW_LOG)?;
            bounded(decoder)
        }
        _ => bounded(file),
    }
}

fn bounded(source: impl Read) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(MAX_MODULE).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    source.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_MODULE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than any kernel module"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn temporary(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("latchkey-unpack-{}-{name}", std::process::id()))
    }

    #[test]
    fn each_packing_gives_the_same_bytes() {
        let content = b"a kernel module ".repeat(1000);
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 6);
        xz.write_all(&content).unwrap();
        let packed = [
            ("m.ko", content.clone()),
            ("m.ko.xz", xz.finish().unwrap()),
            ("m.ko.zst", zstd::bulk::compress(&content, 3).unwrap()),
        ];
        for (name, bytes) in packed {
            let path = temporary(name);
            std::fs::write(&path, bytes).unwrap();
            let unpacked = read(&path);
            std::fs::remove_file(&path).unwrap();
            assert_eq!(unpacked.unwrap(), content, "{name}");
        }
    }

    #[test]
    fn a_compression_bomb_stops_at_the_limit() {
        let path = temporary("bomb.ko.zst");
        let zeroes = io::repeat(0).take(MAX_MODULE as u64 + 1);
        std::fs::write(&path, zstd::stream::encode_all(zeroes, 1).unwrap()).unwrap();
        let result = read(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_truncated_xz_stream_is_refused() {
        let path = temporary("cut.ko.xz");
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 6);
        xz.write_all(&b"module".repeat(1000)).unwrap();
        let mut bytes = xz.finish().unwrap();
        bytes.truncate(bytes.len() / 2);
        std::fs::write(&path, bytes).unwrap();
        let result = read(&path);
        std::fs::remove_file(&path).unwrap();
        assert!(result.is_err());
    }
}
