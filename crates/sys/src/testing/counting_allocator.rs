//! An allocator that counts, for tests of what threads do that are not the test's own: a test makes one
//! its `#[global_allocator]`. The server's own is the system's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The system's allocator with a count.
#[derive(Debug, Default)]
pub struct CountingAllocator(AtomicU64);

impl CountingAllocator {
    /// One that has counted nothing.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// How often memory was asked for, by all threads together.
    pub fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

// SAFETY: every call goes to the system's allocator as it came, and so does what it gives.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.fetch_add(1, Relaxed);
        // SAFETY: the caller promises what `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.0.fetch_add(1, Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.0.fetch_add(1, Relaxed);
        // SAFETY: as above; `place` is the system's, as everything that was given.
        unsafe { System.realloc(place, layout, bytes) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as in `realloc`.
        unsafe { System.dealloc(place, layout) }
    }
}
