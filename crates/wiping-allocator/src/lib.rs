#![expect(unsafe_code, reason = "a global allocator is unsafe to implement, and this file is made for it")]

//! A global allocator that wipes every block before it is given back.
//!
//! Secrets of ours wipe themselves, but a key that travels also lies in buffers of libraries: TLS records, HTTP/2 frames,
//! decoded messages, vectors that grew. None of them wipes what it frees. With this allocator no freed block of the process
//! holds what it held, whoever allocated it.
//!
//! What stays: stacks and registers, what the kernel holds (socket buffers, freed pages; `init_on_free=1` is for those), and
//! blocks that are not freed yet.

use std::alloc::{GlobalAlloc, Layout, System};

/// Wipes what it gives back to the allocator below.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: latchkey_wiping_allocator::WipingAllocator =
///     latchkey_wiping_allocator::WipingAllocator::new();
/// ```
#[derive(Debug)]
pub struct WipingAllocator<A = System>(A);

impl WipingAllocator {
    /// Over the system's allocator.
    pub const fn new() -> Self {
        Self(System)
    }
}

impl Default for WipingAllocator {
    fn default() -> Self {
        Self::new()
    }
}

impl<A> WipingAllocator<A> {
    /// Over another allocator.
    pub const fn over(below: A) -> Self {
        Self(below)
    }
}

// SAFETY: every call is passed on to an allocator that upholds the contract, with the arguments that came. `realloc` is the
// trait's own, which allocates, copies and deallocates through these: a block that grows in place would be as good, but one
// that the allocator below moves would leave its old place as it was.
unsafe impl<A: GlobalAlloc> GlobalAlloc for WipingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the one that `alloc` asks for.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above. Large blocks come from the kernel as zeros: asking for them costs nothing.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller promises that `block` is a live block of `layout.size()` bytes that nobody else uses any more.
        // explicit_bzero(3) writes them even though nobody reads them again.
        unsafe { libc::explicit_bzero(block.cast(), layout.size()) };
        // SAFETY: the caller's promise is the one that `dealloc` asks for.
        unsafe { self.0.dealloc(block, layout) };
    }
}
