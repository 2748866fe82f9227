//! Zeros to be sent, which take no room in the program's file: a constant would.
//!
//! Invariant: nobody writes to them.

use std::cell::UnsafeCell;

/// As many as the longest datagram has bytes.
pub const ZEROS_LEN: usize = 64 << 10;

/// What may be changed as far as the compiler knows is part of `.bss`.
struct Zeros(UnsafeCell<[u8; ZEROS_LEN]>);

// SAFETY: the cell is private to `zeros`, which only reads it.
unsafe impl Sync for Zeros {}

/// The zeros.
pub fn zeros() -> &'static [u8; ZEROS_LEN] {
    static ZEROS: Zeros = Zeros(UnsafeCell::new([0; ZEROS_LEN]));
    // SAFETY: the pointer is that of a static, and nothing writes to it: no other reference is ever made.
    unsafe { &*ZEROS.0.get() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn they_are_zeros() {
        assert!(super::zeros().iter().all(|byte| *byte == 0));
    }
}
