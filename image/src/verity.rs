//! Hashes a file system into a dm-verity tree, on disk as veritysetup writes it.
//!
//! Format: the kernel's Documentation/admin-guide/device-mapper/verity.rst and cryptsetup's wiki page
//! `DMVerity`, version 1 of the superblock, hash type 1 (the salt stands before the block). A tree of
//! SHA-256 over blocks of 4096 bytes: each block of a level holds the hashes of 128 blocks below it.
//! The levels lie behind the superblock, the topmost first.
//!
//! The data is read in pieces and by two threads; only the tree, 1/128 of it, is held in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::thread;

use ring::digest::{Context, SHA256};

/// Bytes of a block of data, and of a block of hashes.
pub const BLOCK: usize = 4096;
/// Bytes of SHA-256.
const HASH: usize = 32;
/// The superblock has room for no more salt.
pub const MAX_SALT: usize = 256;
/// Blocks read at a time.
const PIECE: usize = 256;
/// Threads that hash; a build machine has two processors at least.
const THREADS: u64 = 2;

/// A finished tree.
#[derive(Clone, PartialEq, Eq)]
pub struct Tree {
    /// The hash that stands for all data.
    pub root_hash: [u8; HASH],
    /// How many blocks of data it covers.
    pub data_blocks: u64,
    /// The hash partition's content: the superblock's block, then the tree.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { root_hash, data_blocks, bytes } = self;
        write!(f, "Tree({}, {data_blocks} blocks, {} bytes)", hex::encode(root_hash), bytes.len())
    }
}

/// Hashes the first `data_blocks` blocks of a file.
///
/// Fails if the file is shorter, there is no block, or the salt is longer than [`MAX_SALT`].
pub fn hash(data: &File, data_blocks: u64, salt: &[u8], uuid: [u8; 16]) -> io::Result<Tree> {
    if data_blocks == 0 || salt.len() > MAX_SALT {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no data, or more salt than the superblock can hold"));
    }
    let mut level = hash_data(data, data_blocks, salt)?;
    let mut levels = Vec::new();
    while level.len() > HASH {
        level.resize(level.len().next_multiple_of(BLOCK), 0);
        let above = hash_blocks(&level, salt);
        levels.push(level);
        level = above;
    }
    let mut bytes = superblock(data_blocks, salt, uuid);
    bytes.extend(levels.iter().rev().flatten());
    let root_hash = level.try_into().map_err(|_| io::Error::other("a level of hashes is not whole"))?;
    Ok(Tree { root_hash, data_blocks, bytes })
}

/// The lowest level: one part of the data for each thread.
fn hash_data(data: &File, blocks: u64, salt: &[u8]) -> io::Result<Vec<u8>> {
    let share = blocks.div_ceil(THREADS);
    let part = |first: u64| hash_range(data, first.min(blocks), (first + share).min(blocks), salt);
    let parts: Vec<io::Result<Vec<u8>>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|index| scope.spawn(move || part(index * share))).collect();
        let crashed = |_| Err(io::Error::other("a hashing thread crashed"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(crashed)).collect()
    });
    parts.into_iter().collect::<io::Result<Vec<_>>>().map(|parts| parts.concat())
}

fn hash_range(data: &File, first: u64, end: u64, salt: &[u8]) -> io::Result<Vec<u8>> {
    let mut hashes = Vec::new();
    let mut piece = vec![0; PIECE * BLOCK];
    let mut next = first;
    while next < end {
        let count = PIECE.min(usize::try_from(end - next).unwrap_or(PIECE));
        let piece = piece.get_mut(..count * BLOCK).unwrap_or_default();
        data.read_exact_at(piece, next * BLOCK as u64)?;
        hashes.extend(hash_blocks(piece, salt));
        next += count as u64;
    }
    Ok(hashes)
}

/// Hash type 1: the salt stands before the block.
fn hash_blocks(blocks: &[u8], salt: &[u8]) -> Vec<u8> {
    let mut salted = Context::new(&SHA256);
    salted.update(salt);
    let mut hashes = Vec::with_capacity(blocks.len() / BLOCK * HASH);
    for block in blocks.chunks(BLOCK) {
        let mut context = salted.clone();
        context.update(block);
        hashes.extend_from_slice(context.finish().as_ref());
    }
    hashes
}

/// `struct verity_sb` of cryptsetup, alone in its block.
fn superblock(data_blocks: u64, salt: &[u8], uuid: [u8; 16]) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK);
    block.extend_from_slice(b"verity\0\0");
    // Version 1, hash type 1.
    block.extend([1_u32, 1].into_iter().flat_map(u32::to_le_bytes));
    block.extend_from_slice(&uuid);
    block.extend_from_slice(b"sha256");
    block.resize(64, 0);
    let size = u32::try_from(BLOCK).unwrap_or_default();
    block.extend([size, size].into_iter().flat_map(u32::to_le_bytes));
    block.extend_from_slice(&data_blocks.to_le_bytes());
    block.extend_from_slice(&u16::try_from(salt.len()).unwrap_or_default().to_le_bytes());
    block.resize(88, 0);
    block.extend_from_slice(salt);
    block.resize(BLOCK, 0);
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn one_block_needs_no_tree_and_its_hash_is_the_root() {
        let block = [7; BLOCK];
        let tree = hash(&file(&block), 1, b"salt", [0; 16]).unwrap();
        let salted = [&b"salt"[..], &block].concat();
        assert_eq!(tree.root_hash, ring::digest::digest(&SHA256, &salted).as_ref());
        assert_eq!(tree.bytes.len(), BLOCK);
    }

    #[test]
    fn levels_lie_topmost_first_and_their_last_block_is_padded() {
        // 129 blocks of hashes are needed for 128 * 128 + 1 blocks of data; they need 2, and these 1.
        let blocks = 128 * 128 + 1;
        let tree = hash(&file(&vec![0; blocks * BLOCK]), blocks as u64, &[], [0; 16]).unwrap();
        assert_eq!(tree.bytes.len(), (1 + 1 + 2 + 129) * BLOCK);
        let top = &tree.bytes[BLOCK..2 * BLOCK];
        assert_eq!(tree.root_hash, ring::digest::digest(&SHA256, top).as_ref());
        assert!(top[2 * HASH..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_file_that_is_too_short_is_no_tree_over_zeroes() {
        assert_eq!(hash(&file(&[1; BLOCK]), 2, &[], [0; 16]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(hash(&file(&[]), 0, &[], [0; 16]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(hash(&file(&[1; BLOCK]), 1, &[0; 257], [0; 16]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_changed_bit_anywhere_changes_the_root_hash() {
        let mut data = vec![3; 300 * BLOCK];
        let honest = hash(&file(&data), 300, b"s", [0; 16]).unwrap();
        for at in [0, 150 * BLOCK + 17, 300 * BLOCK - 1] {
            data[at] ^= 1;
            assert_ne!(hash(&file(&data), 300, b"s", [0; 16]).unwrap().root_hash, honest.root_hash);
            data[at] ^= 1;
        }
    }
}
