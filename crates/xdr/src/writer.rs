//! The encoder: appends to a buffer that is reused for later replies.
//!
//! The buffer's memory beyond [`Writer::len`] is always initialised, so that a READ can let the
//! kernel fill it in place without clearing it first; it is cleared once, when it grows.
//!
//! A reply is a list of segments: bytes, and ranges of open files between them. A range is written
//! like opaque data, but its bytes are not read here: the kernel sends them from the page cache. A
//! writer accepts ranges only after [`Writer::take_ranges`]; all others hold only bytes.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A range of an open file. Its length is fixed: if the file shrinks before it is sent, zeros
/// replace the missing data.
#[derive(Debug, Clone)]
pub struct FileRange {
    /// The file, open for reading; kept open until the range is sent. The reference count is in the
    /// file itself: only threads that read the same file at the same time write the same cache
    /// line.
    pub file: Arc<OwnedFd>,
    /// Where the range begins.
    pub offset: u64,
    /// Bytes.
    pub len: usize,
}

/// A segment of a reply.
#[derive(Debug, Clone, Copy)]
pub enum Segment<'w> {
    /// Bytes; never empty.
    Bytes(&'w [u8]),
    /// A range of a file.
    File(&'w FileRange),
}

/// A type that is written to a reply.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, w: &mut Writer);

    /// Appends the value as optional data that is there. Types that are encoded in one piece include the flag in it.
    fn encode_some(&self, w: &mut Writer) {
        w.bool(true);
        self.encode(w);
    }
}

/// A position, for patching a length or for removing what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    at: usize,
    ranges: usize,
}

/// A growing reply.
#[derive(Debug, Default)]
pub struct Writer {
    /// Initialised throughout; only the first `len` bytes are the reply.
    buf: Vec<u8>,
    len: usize,
    /// Ranges, each with the number of bytes before it, in order.
    ranges: Vec<(usize, FileRange)>,
    /// The shortest range that is accepted; `None` accepts none.
    range_min: Option<usize>,
}

impl Writer {
    /// An empty writer that owns no memory yet.
    pub const fn new() -> Self {
        Self { buf: Vec::new(), len: 0, ranges: Vec::new(), range_min: None }
    }

    /// An empty writer with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { buf: vec![0; capacity], ..Self::new() }
    }

    /// Sets the shortest range that is accepted; `None`, the default, accepts none.
    pub const fn take_ranges(&mut self, shortest: Option<usize>) {
        self.range_min = shortest;
    }

    /// The shortest range that is accepted.
    pub const fn range_min(&self) -> Option<usize> {
        self.range_min
    }

    /// Appends a range as it is, without length or padding. A writer that accepts no ranges
    /// ([`Self::range_min`]) must not be given one.
    pub fn range(&mut self, range: FileRange) {
        debug_assert!(self.range_min.is_some(), "a range for a reply that takes none");
        self.ranges.push((self.len, range));
    }

    /// Whether the reply contains ranges.
    pub const fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Length of the reply in bytes, ranges included.
    pub fn total_len(&self) -> usize {
        let ranges = self.ranges.iter().map(|(_, range)| range.len);
        ranges.fold(self.len, usize::saturating_add)
    }

    /// The segments, in order.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        let end = (self.len, None);
        let places = self.ranges.iter().map(|(at, range)| (*at, Some(range))).chain([end]);
        let mut from = 0_usize;
        places
            .flat_map(move |(at, range)| {
                let bytes = self.buf.get(std::mem::replace(&mut from, at)..at).unwrap_or_default();
                let bytes = (!bytes.is_empty()).then_some(Segment::Bytes(bytes));
                [bytes, range.map(Segment::File)]
            })
            .flatten()
    }

    /// Moves everything to the end of `other`.
    pub fn append_to(&mut self, other: &mut Self) {
        let before = other.len;
        other.raw(self.bytes());
        let ranges = self.ranges.drain(..);
        other.ranges.extend(ranges.map(|(at, range)| (before.saturating_add(at), range)));
        self.len = 0;
    }

    /// The bytes that have been written.
    pub fn bytes(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }

    /// The bytes that have been written since `mark`.
    pub fn since(&self, mark: Mark) -> &[u8] {
        self.buf.get(mark.at..self.len).unwrap_or_default()
    }

    /// The bytes that have been written since `mark`, and `before` bytes in front of it, to be changed.
    pub fn since_mut(&mut self, mark: Mark, before: usize) -> &mut [u8] {
        debug_assert!(before <= mark.at, "more in front of the mark than there is");
        self.buf.get_mut(mark.at.saturating_sub(before)..self.len).unwrap_or_default()
    }

    /// How many bytes have been written, without ranges.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing has been written.
    pub const fn is_empty(&self) -> bool {
        self.len == 0 && self.ranges.is_empty()
    }

    /// Capacity in bytes.
    pub const fn capacity(&self) -> usize {
        self.buf.len()
    }

    /// Removes a range of bytes from the reply, which must contain no ranges of files.
    pub fn remove(&mut self, range: Range<usize>) {
        debug_assert!(range.start <= range.end && range.end <= self.len, "{range:?}");
        debug_assert!(self.ranges.is_empty(), "bytes before a range are removed");
        let end = range.end.min(self.len);
        let start = range.start.min(end);
        self.buf.copy_within(end..self.len, start);
        self.len = self.len.saturating_sub(end.saturating_sub(start));
    }

    /// Clears the reply and keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
        self.ranges.clear();
    }

    /// Clears the reply, and frees memory beyond `keep` bytes.
    pub fn clear_to(&mut self, keep: usize) {
        self.clear();
        if self.buf.len() > keep {
            self.buf.truncate(keep);
            self.buf.shrink_to(keep);
        }
    }

    /// The current position.
    pub const fn mark(&self) -> Mark {
        Mark { at: self.len, ranges: self.ranges.len() }
    }

    /// How many bytes were written since `mark`, without ranges.
    pub const fn written_since(&self, mark: Mark) -> usize {
        debug_assert!(mark.at <= self.len, "a mark behind the end");
        self.len.saturating_sub(mark.at)
    }

    /// Removes everything written since `mark`.
    pub fn rewind(&mut self, mark: Mark) {
        debug_assert!(mark.at <= self.len, "a mark behind the end");
        self.len = self.len.min(mark.at);
        self.ranges.truncate(mark.ranges);
    }

    /// Overwrites the word at `mark`, which must have been written since.
    pub fn patch_u32(&mut self, mark: Mark, value: u32) {
        let place = self.buf.get_mut(mark.at..self.len).and_then(|b| b.first_chunk_mut::<4>());
        debug_assert!(place.is_some(), "no word was written at the mark");
        if let Some(place) = place {
            *place = value.to_be_bytes();
        }
    }

    /// Overwrites the word in front of `mark`: that of a length.
    pub fn patch_before(&mut self, mark: Mark, value: u32) {
        let at = mark.at.checked_sub(4);
        debug_assert!(at.is_some(), "nothing was written before the mark");
        if let Some(at) = at {
            self.patch_u32(Mark { at, ..mark }, value);
        }
    }

    /// Space for `len` more bytes at the end, initialised but with stale contents. They become part
    /// of the reply by [`Writer::advance`].
    #[inline]
    pub fn space(&mut self, len: usize) -> &mut [u8] {
        if self.buf.len().wrapping_sub(self.len) < len {
            self.grow(len);
        }
        match self.buf.get_mut(self.len..).and_then(|free| free.get_mut(..len)) {
            Some(space) => space,
            None => no_space(),
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, len: usize) {
        let end = self.len.saturating_add(len);
        self.buf.resize(end.max(self.buf.len().saturating_mul(2)).max(256), 0);
    }

    /// [`Writer::space`] for large sizes; `None` if the process can get no memory for it.
    pub fn try_space(&mut self, len: usize) -> Option<&mut [u8]> {
        let end = self.len.saturating_add(len);
        if self.buf.len() < end {
            let twice = end.max(self.buf.len().saturating_mul(2));
            let more = |wanted: usize| wanted.saturating_sub(self.buf.len());
            let (twice_more, least_more) = (more(twice), more(end));
            if self.buf.try_reserve_exact(twice_more).is_err() {
                self.buf.try_reserve_exact(least_more).ok()?;
            }
            self.buf.resize(self.buf.capacity(), 0);
        }
        self.buf.get_mut(self.len..end)
    }

    /// Adds the first `len` bytes of the last [`Writer::space`] to the reply.
    pub fn advance(&mut self, len: usize) {
        debug_assert!(self.buf.len() - self.len >= len, "more than there is space for");
        self.len = self.len.saturating_add(len).min(self.buf.len());
    }

    #[inline]
    fn push<const N: usize>(&mut self, value: [u8; N]) {
        if let Some(place) = self.space(N).first_chunk_mut::<N>() {
            *place = value;
            // within the buffer, as the place is
            self.len = self.len.wrapping_add(N);
        }
    }

    /// An `unsigned int`.
    pub fn u32(&mut self, value: u32) {
        self.push(value.to_be_bytes());
    }

    /// Consecutive words, in one piece.
    pub fn words<const N: usize>(&mut self, words: [u32; N]) {
        let place = self.space(N * 4);
        if place.len() == N * 4 {
            for (place, word) in place.as_chunks_mut::<4>().0.iter_mut().zip(words) {
                *place = word.to_be_bytes();
            }
            // within the buffer, as the place is
            self.len = self.len.wrapping_add(N * 4);
        }
    }

    /// Consecutive hypers, or pairs of words, in one piece.
    pub fn hypers<const N: usize>(&mut self, hypers: [u64; N]) {
        let place = self.space(N * 8);
        if place.len() == N * 8 {
            for (place, hyper) in place.as_chunks_mut::<8>().0.iter_mut().zip(hypers) {
                *place = hyper.to_be_bytes();
            }
            // within the buffer, as the place is
            self.len = self.len.wrapping_add(N * 8);
        }
    }

    /// An `int`.
    pub fn i32(&mut self, value: i32) {
        self.push(value.to_be_bytes());
    }

    /// An `unsigned hyper`.
    pub fn u64(&mut self, value: u64) {
        self.push(value.to_be_bytes());
    }

    /// A `bool`.
    pub fn bool(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// Bytes as they are, without length or padding.
    pub fn raw(&mut self, data: &[u8]) {
        let place = self.space(data.len());
        if place.len() == data.len() {
            place.copy_from_slice(data);
            // within the buffer, as the place is
            self.len = self.len.wrapping_add(data.len());
        }
    }

    /// Zero bytes up to the next multiple of four after `len` bytes of opaque data.
    pub fn pad(&mut self, len: usize) {
        let pad = crate::padding(len);
        self.space(pad).fill(0);
        self.advance(pad);
    }

    /// Fixed-length opaque data and its padding (RFC 4506 §4.9).
    pub fn opaque_fixed(&mut self, data: &[u8]) {
        let padded = crate::padded(data.len());
        let place = self.space(padded);
        // the padding is in the last word; the data in it is written after that
        if let Some(last) = place.last_chunk_mut::<4>() {
            *last = [0; 4];
        }
        if let Some(place) = place.get_mut(..data.len()) {
            place.copy_from_slice(data);
        }
        self.advance(padded);
    }

    /// Variable-length opaque data: length, bytes, padding (RFC 4506 §4.10).
    pub fn opaque(&mut self, data: &[u8]) {
        debug_assert!(u32::try_from(data.len()).is_ok(), "longer than XDR can say");
        self.u32(u32::try_from(data.len()).unwrap_or(u32::MAX));
        if !data.is_empty() {
            self.opaque_fixed(data);
        }
    }

    /// The same for the first `len` bytes of an array, which is copied in one piece: with a constant
    /// length there is no call of memcpy.
    pub fn opaque_within<const N: usize>(&mut self, data: &[u8; N], len: usize) {
        debug_assert!(len <= N, "{len} of {N} bytes");
        let len = len.min(N);
        self.u32(u32::try_from(len).unwrap_or(u32::MAX));
        let place = self.space(N.saturating_add(4));
        if let Some(place) = place.first_chunk_mut::<N>() {
            *place = *data;
        }
        if let Some(padding) = place.get_mut(len..).and_then(|rest| rest.first_chunk_mut::<4>()) {
            *padding = [0; 4];
        }
        self.advance(crate::padded(len));
    }

    /// A value of an encodable type.
    pub fn put<T: Encode + ?Sized>(&mut self, value: &T) {
        value.encode(self);
    }

    /// Optional data (RFC 4506 §4.19).
    pub fn option<T: Encode>(&mut self, value: Option<&T>) {
        match value {
            Some(value) => value.encode_some(self),
            None => self.bool(false),
        }
    }
}

/// What is never needed: a buffer has room after it has grown. A branch to here costs less than a slice that is
/// empty in this case.
#[cold]
#[inline(never)]
fn no_space<'w>() -> &'w mut [u8] {
    &mut []
}

impl Encode for u32 {
    fn encode(&self, w: &mut Writer) {
        w.u32(*self);
    }
}

impl Encode for u64 {
    fn encode(&self, w: &mut Writer) {
        w.u64(*self);
    }
}

impl Encode for bool {
    fn encode(&self, w: &mut Writer) {
        w.bool(*self);
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, w: &mut Writer) {
        w.option(self.as_ref());
    }
}

impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, w: &mut Writer) {
        w.opaque_fixed(self);
    }
}
