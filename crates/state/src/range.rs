//! Byte ranges and lock modes.
//!
//! Invariant: `start <= end`. Both ends belong to the range; `end == u64::MAX` means to the end of the file, however
//! long it grows. There is one constructor from the wire's offset and length, so that their overflow is handled once.

/// Whether a lock excludes only writers or everybody. `Read < Write`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// A shared lock.
    Read,
    /// An exclusive lock.
    Write,
}

impl Mode {
    /// Whether locks of these modes of two owners exclude each other where they overlap.
    pub const fn conflicts(self, other: Self) -> bool {
        matches!((self, other), (Self::Write, _) | (_, Self::Write))
    }
}

/// Why an offset and a length are not a valid range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the range ends beyond the largest offset")]
pub struct RangeTooBig;

/// Bytes of a file, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    /// The whole file.
    pub const ALL: Self = Self { start: 0, end: u64::MAX };

    /// The bytes from `start` to `end`, both included; `None` if they are in the wrong order.
    pub const fn new(start: u64, end: u64) -> Option<Self> {
        if start <= end { Some(Self { start, end }) } else { None }
    }

    /// The range of a request: `len` bytes from `offset` on, 0 meaning to the end of the file. No byte behind
    /// `max_offset` can be named: 2^31 - 1 in NLM 1 and 3, 2^63 - 1 or 2^64 - 1 in later protocols.
    ///
    /// # Errors
    /// [`RangeTooBig`]: NLM4_FBIG, NFS4ERR_INVAL.
    pub const fn from_offset_len(
        offset: u64,
        len: u64,
        max_offset: u64,
    ) -> Result<Self, RangeTooBig> {
        if offset > max_offset {
            return Err(RangeTooBig);
        }
        let Some(before_end) = len.checked_sub(1) else {
            return Ok(Self { start: offset, end: u64::MAX });
        };
        match offset.checked_add(before_end) {
            Some(end) if end <= max_offset => Ok(Self { start: offset, end }),
            _ => Err(RangeTooBig),
        }
    }

    /// The first byte.
    pub const fn start(self) -> u64 {
        self.start
    }

    /// The last byte; `u64::MAX` is the end of the file.
    pub const fn end(self) -> u64 {
        self.end
    }

    /// The length as the wire has it: 0 if the range reaches to the end of the file.
    pub const fn wire_len(self) -> u64 {
        if self.end == u64::MAX { 0 } else { self.end - self.start + 1 }
    }

    /// Whether the two have a byte in common.
    pub const fn overlaps(self, other: Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// Whether every byte of `other` is in `self`.
    pub const fn covers(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Whether the two overlap or one begins right behind the other.
    pub const fn touches(self, other: Self) -> bool {
        self.widened().overlaps(other)
    }

    /// The range with one more byte at each end.
    pub(crate) const fn widened(self) -> Self {
        Self { start: self.start.saturating_sub(1), end: self.end.saturating_add(1) }
    }

    /// The smallest range that has all bytes of both.
    pub(crate) fn hull(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The bytes that both have.
    pub(crate) fn intersection(self, other: Self) -> Option<Self> {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// What is left of `self` in front of and behind `cut`.
    pub(crate) fn without(self, cut: Self) -> [Option<Self>; 2] {
        if !self.overlaps(cut) {
            return [Some(self), None];
        }
        let before = cut.start.checked_sub(1).and_then(|end| Self::new(self.start, end));
        let behind = cut.end.checked_add(1).and_then(|start| Self::new(start, self.end));
        [before, behind]
    }
}
