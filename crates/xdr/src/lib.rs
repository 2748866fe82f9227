//! XDR (RFC 4506) as Bowline uses it: a borrowed reader and a writer over a reused buffer.
//!
//! Owns: the codec and its errors. Knows nothing of RPC, NFS or sockets; does no I/O.
//!
//! Invariants:
//! - Decoding never allocates and never copies: opaque data is borrowed from the record.
//! - Every variable length is checked against a limit that the caller names, *and* against what
//!   the record still holds, before anything is done with it.
//! - Encoding cannot fail; buffers grow to what a reply needs and are then reused.

mod fields;
mod reader;
mod writer;

pub use fields::Fields;
pub use reader::{Decode, Error, Reader};
pub use writer::{Encode, FileRange, Mark, Segment, Writer};

/// Bytes that XDR adds after `len` bytes of opaque data to reach a multiple of four
/// (RFC 4506 §4.10).
pub const fn padding(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// `len` rounded up to a multiple of four, or `usize::MAX` where that would overflow.
pub const fn padded(len: usize) -> usize {
    len.saturating_add(padding(len))
}

/// The words of an `unsigned hyper` (RFC 4506 §4.5), for values that are written as words in one
/// piece.
pub const fn hyper(value: u64) -> [u32; 2] {
    [(value >> 32) as u32, (value & 0xffff_ffff) as u32]
}

#[cfg(test)]
mod tests;
