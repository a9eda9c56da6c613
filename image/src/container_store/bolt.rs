//! A database of bbolt, which is where containerd notes what it has: written once, as a whole. Equal contents give equal bytes,
//! which bbolt itself does not promise: it begins with what was there, and leaves what it freed.
//!
//! Each bucket has a page of its own; one that needs more takes those after it. Written from the description of the format in
//! bbolt's README and `internal/common`; containerd opens, checks and changes it in `tests/image/container_store.rs`.

use std::collections::BTreeMap;

const PAGE: usize = 4096;
/// `internal/common/page.go`: `PageHeaderSize` and `LeafPageElementSize`.
const HEADER: usize = 16;
/// `internal/common/types.go`: `Magic` and `Version`.
const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
const LEAF: u16 = 0x02;
const META: u16 = 0x04;
const FREE_LIST: u16 = 0x10;
/// The value of an element is a bucket.
const IS_BUCKET: u32 = 0x01;
/// Two pages say where the root is, one which are free.
const FREE_LIST_PAGE: u64 = 2;

/// A bucket: keys with values and further buckets.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    /// The last number that was given out for it.
    pub(super) sequence: u64,
    entries: BTreeMap<Vec<u8>, Item>,
}

#[derive(Debug)]
enum Item {
    Value(Vec<u8>),
    Bucket(Bucket),
}

impl Bucket {
    /// Sets a value.
    pub(super) fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.entries.insert(key.into(), Item::Value(value.into()));
    }

    /// The bucket of this name in it; made if it is not there. It takes the place of a value.
    pub(super) fn bucket(&mut self, key: impl Into<Vec<u8>>) -> &mut Self {
        let item = self.entries.entry(key.into()).or_insert_with(|| Item::Bucket(Self::default()));
        if matches!(item, Item::Value(_)) {
            *item = Item::Bucket(Self::default());
        }
        match item {
            Item::Bucket(bucket) => bucket,
            Item::Value(_) => unreachable!("it was just made a bucket"),
        }
    }

    /// The whole database, with this as the root.
    pub(super) fn database(&self) -> Vec<u8> {
        let mut pages = vec![0; PAGE * 3];
        let root = self.place(&mut pages);
        let end = (pages.len() / PAGE) as u64;
        for number in 0..2_u64 {
            let at = if number == 0 { 0 } else { PAGE };
            put(&mut pages, at, &page(number, META, 0, 0));
            put(&mut pages, at + HEADER, &meta(root, self.sequence, end, number));
        }
        put(&mut pages, PAGE * 2, &page(FREE_LIST_PAGE, FREE_LIST, 0, 0));
        pages
    }

    /// Adds its pages, behind those of the buckets in it, and says which is the first.
    fn place(&self, pages: &mut Vec<u8>) -> u64 {
        let (mut elements, mut data) = (Vec::new(), Vec::new());
        let mut left = self.entries.len() * HEADER;
        for (key, item) in &self.entries {
            let (flags, value) = match item {
                Item::Value(value) => (0, value.clone()),
                Item::Bucket(bucket) => {
                    let root = bucket.place(pages);
                    (IS_BUCKET, [root.to_le_bytes(), bucket.sequence.to_le_bytes()].concat())
                }
            };
            // Counted from the element itself.
            for number in [flags, length(left + data.len()), length(key.len()), length(value.len())] {
                elements.extend(number.to_le_bytes());
            }
            left -= HEADER;
            data.extend(key);
            data.extend(value);
        }
        let number = (pages.len() / PAGE) as u64;
        let size = (HEADER + elements.len() + data.len()).next_multiple_of(PAGE);
        let count = u16::try_from(self.entries.len()).unwrap_or(u16::MAX);
        pages.extend(page(number, LEAF, count, length(size / PAGE - 1)));
        pages.extend(elements);
        pages.extend(data);
        pages.resize(pages.len().next_multiple_of(PAGE), 0);
        number
    }
}

/// Everything here is far below 4 GiB.
fn length(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn put(pages: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = pages.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

fn page(number: u64, flags: u16, count: u16, more: u32) -> Vec<u8> {
    [&number.to_le_bytes()[..], &flags.to_le_bytes(), &count.to_le_bytes(), &more.to_le_bytes()].concat()
}

/// `internal/common/meta.go`: of two, the one with the higher transaction counts.
fn meta(root: u64, sequence: u64, end: u64, transaction: u64) -> Vec<u8> {
    let mut meta = Vec::new();
    for number in [MAGIC, VERSION, length(PAGE), 0] {
        meta.extend(number.to_le_bytes());
    }
    for number in [root, sequence, FREE_LIST_PAGE, end, transaction] {
        meta.extend(number.to_le_bytes());
    }
    let sum = fnv(&meta);
    meta.extend(sum.to_le_bytes());
    meta
}

/// FNV-1a, 64 bits (the IETF draft "The FNV Non-Cryptographic Hash Algorithm").
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(bytes: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn both_metas_lead_to_the_root_and_have_their_sum() {
        let mut root = Bucket::default();
        root.bucket("v1").put("version", [6]);
        let bytes = root.database();
        assert_eq!(bytes.len(), PAGE * 5);
        for (at, transaction) in [(0, 0), (PAGE, 1)] {
            let meta = &bytes[at + HEADER..at + HEADER + 64];
            assert_eq!(&meta[..4], [0xed, 0xda, 0x0c, 0xed]);
            assert_eq!((number(meta, 16), number(meta, 32), number(meta, 40)), (4, 2, 5));
            assert_eq!((number(meta, 48), number(meta, 56)), (transaction, fnv(&meta[..56])));
        }
        // The draft's own example.
        assert_eq!(fnv(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_bucket_that_is_longer_than_a_page_says_how_many_it_has() {
        let mut root = Bucket::default();
        for key in 0..100_u8 {
            root.put([key], [7; 100]);
        }
        let bytes = root.database();
        let leaf = &bytes[PAGE * 3..];
        assert_eq!((number(leaf, 0), leaf.len() % PAGE), (3, 0));
        assert_eq!(u32::from_le_bytes(leaf[12..16].try_into().unwrap()) as usize + 1, leaf.len() / PAGE);
        // The last element: its key is where it says.
        let element = HEADER + 99 * HEADER;
        let at = element + u32::from_le_bytes(leaf[element + 4..element + 8].try_into().unwrap()) as usize;
        assert_eq!((leaf[at], &leaf[at + 1..at + 101]), (99, &[7; 100][..]));
    }
}
