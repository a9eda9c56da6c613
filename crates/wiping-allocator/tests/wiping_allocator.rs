#![expect(unsafe_code, reason = "the allocator of this test looks at the blocks that it gets back")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

//! A process whose allocator, below the one that wipes, looks for a key in every block that it gets back.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use latchkey_wiping_allocator::WipingAllocator;

/// In no other data of this process.
const KEY: [u8; 16] = *b"\xd1a key to seek\x9e\x07";

/// Looks at what it gets back.
struct Looking;

static SEEN: AtomicUsize = AtomicUsize::new(0);
static LOOKED_AT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator; reads a block only before it is given back.
unsafe impl GlobalAlloc for Looking {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            // SAFETY: a new block of that size. Initialised, so that it can be looked at.
            unsafe { block.write_bytes(0xff, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: a live block of that size, initialised by `alloc`.
        let bytes = unsafe { std::slice::from_raw_parts(block, layout.size()) };
        LOOKED_AT.fetch_add(1, Ordering::Relaxed);
        if bytes.windows(KEY.len()).any(|window| window == KEY) {
            SEEN.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: WipingAllocator<Looking> = WipingAllocator::over(Looking);

/// What a library does with a key that passes through it.
fn use_key() {
    let mut grows = Vec::new();
    for _ in 0..100 {
        grows.extend_from_slice(&KEY);
    }
    grows.shrink_to_fit();
    let boxed: Box<[u8]> = grows.clone().into();
    let text = format!("{boxed:?}{}", String::from_utf8_lossy(&KEY));
    let queue: VecDeque<Vec<u8>> = (0..50).map(|_| KEY.to_vec()).collect();
    let map: BTreeMap<[u8; 16], String> = [(KEY, text)].into();
    std::thread::spawn(move || drop((boxed, queue, map))).join().unwrap();
    drop(grows);
}

#[test]
fn no_block_that_is_given_back_holds_what_it_held() {
    use_key();
    assert!(LOOKED_AT.load(Ordering::Relaxed) > 50);
    assert_eq!(SEEN.load(Ordering::Relaxed), 0);
    // The test sees what it looks for: around the allocator that wipes.
    let layout = Layout::array::<u8>(64).unwrap();
    // SAFETY: a block of this layout, used within its size and given back once.
    unsafe {
        let block = Looking.alloc(layout);
        block.copy_from(KEY.as_ptr(), KEY.len());
        Looking.dealloc(block, layout);
    }
    assert_eq!(SEEN.load(Ordering::Relaxed), 1);
}
