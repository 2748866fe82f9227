//! Asking the processor for memory before it is needed.
//!
//! A processor fetches ahead what is read or written in order. What it cannot guess, and is known some microseconds
//! before it is needed, can be asked for; nobody waits for it.

/// Bytes that come together.
const LINE: usize = 64;

/// Asks for memory that is going to be read.
pub fn for_reading<T>(value: &T) {
    line(std::ptr::from_ref(value).cast());
}

/// Asks for memory that is going to be written.
pub fn for_writing(bytes: &[u8]) {
    for chunk in bytes.chunks(LINE) {
        line(chunk.as_ptr());
    }
}

#[cfg(target_arch = "x86_64")]
fn line(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every processor of this architecture knows the instruction, which reads nothing that could be seen
    // and never faults, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}

/// Elsewhere it is left to the processor.
#[cfg(not(target_arch = "x86_64"))]
const fn line(_at: *const u8) {}

#[cfg(test)]
mod tests {
    #[test]
    fn prefetching_does_not_change_memory() {
        let bytes = vec![7; 1000];
        super::for_writing(&bytes);
        super::for_writing(&[]);
        super::for_reading(&bytes);
        assert!(bytes.iter().all(|byte| *byte == 7));
    }
}
