//! The space of a file's data: reserving and freeing it, finding holes, sharing it, copying (RFC 7862 §15).

use crate::{Change, Cx, Fid, Result};
use std::ops::BitOr;

/// One side of a copy: a place in a file, and by whom and with what right it is used.
#[derive(Clone, Copy)]
pub struct FileAt<'a> {
    /// The context of this side.
    pub cx: Cx<'a>,
    /// The file.
    pub fid: &'a Fid,
    /// The first byte.
    pub offset: u64,
}

/// What a range of a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Data, or space that is reserved for it.
    Data,
    /// Nothing: it reads as zeros. There is a hole at the end of every file.
    Hole,
}

/// A set of expected uses of a range (`IO_ADVISE_type4`); the bits are the numbers on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Advice(u32);

impl Advice {
    /// It will be used soon.
    pub const WILL_NEED: Self = Self(1 << 4);
    /// It will not be used soon.
    pub const DONT_NEED: Self = Self(1 << 6);

    /// The set of these bits.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of `other` is in the set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Advice {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Back ends that know where a file has space. Offsets and lengths are in bytes. All of it is for regular files:
/// [`need_regular`](crate::need_regular)'s errors for others.
pub trait Space: Send + Sync {
    /// Reserves the space of a range, and makes the file as long as the range is: no write into it fails for want of
    /// space. Durable when it returns, as an attribute is.
    ///
    /// # Errors
    /// [`crate::Status::NoSpc`], [`crate::Status::DQuot`]; [`crate::Status::FBig`] for a range that no file can have;
    /// [`crate::Status::NotSupp`] if the file system cannot.
    fn allocate(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, len: u64) -> Result<Change>;

    /// Frees the space of a range, which reads as zeros afterwards; the size stays. Durable when it returns.
    ///
    /// # Errors
    /// As [`Space::allocate`].
    fn deallocate(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, len: u64) -> Result<Change>;

    /// The first byte at or behind `offset` that is of such a content; `None` if there is none. The hole at the end of
    /// a file begins at its size.
    ///
    /// # Errors
    /// [`crate::Status::NxIo`] for an offset at or behind the end of the file.
    fn seek(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, what: Content) -> Result<Option<u64>>;

    /// The end of the hole that is at `offset`, at most the size of the file; `None` if there is data, if the file ends
    /// before it, or if the file has changed meanwhile. What is given as a hole was one at one moment of the call.
    ///
    /// # Errors
    /// [`crate::Status`].
    fn hole_at(&self, cx: &Cx<'_>, fid: &Fid, offset: u64) -> Result<Option<u64>>;

    /// Makes a range of a file, of this backend or another's of the same file system, share the data of another range:
    /// all of it or nothing, as far as another caller can see. `len` 0 goes to the end of the source. Offsets and
    /// length are multiples of [`Limits::clone_block`](crate::Limits::clone_block), but for a range that ends with the
    /// source. Durable when it returns.
    ///
    /// # Errors
    /// [`crate::Status::Inval`] for ranges that overlap, are not aligned or are not in the source;
    /// [`crate::Status::NotSupp`] if the file system cannot share data.
    fn clone_range(&self, from: FileAt<'_>, to: FileAt<'_>, len: u64) -> Result<Change>;

    /// Copies data within the file system; returns how many bytes, which may be less, and 0 at the end of the source. As
    /// stable as an unstable write.
    ///
    /// # Errors
    /// [`crate::Status::NotSupp`] if the caller has to read and write instead.
    fn copy_range(&self, from: FileAt<'_>, to: FileAt<'_>, len: u64) -> Result<u64>;

    /// Prepares for the expected use of a range (`len` 0: to the end); returns the part of `advice` that it follows.
    ///
    /// # Errors
    /// [`crate::Status`].
    fn advise(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        len: u64,
        advice: Advice,
    ) -> Result<Advice>;
}
