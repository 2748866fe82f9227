//! The encoder: appends to a buffer that is kept from reply to reply.
//!
//! The buffer's memory beyond [`Writer::len`] is always initialised, so that a READ can let the
//! kernel fill it in place without clearing it first; it is cleared once, when it grows.

/// A type that is written to a reply.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, w: &mut Writer);
}

/// A position to come back to: for patching a length, or for undoing what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(usize);

/// A growing reply.
#[derive(Debug, Default)]
pub struct Writer {
    /// Initialised throughout; only the first `len` bytes are the reply.
    buf: Vec<u8>,
    len: usize,
}

impl Writer {
    /// An empty writer that owns no memory yet.
    pub const fn new() -> Self {
        Self { buf: Vec::new(), len: 0 }
    }

    /// An empty writer with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { buf: vec![0; capacity], len: 0 }
    }

    /// What has been written.
    pub fn bytes(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }

    /// What has been written since `mark`.
    pub fn since(&self, mark: Mark) -> &[u8] {
        self.buf.get(mark.0..self.len).unwrap_or_default()
    }

    /// How many bytes have been written.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing has been written.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes of memory the writer holds on to.
    pub const fn capacity(&self) -> usize {
        self.buf.len()
    }

    /// Forgets what was written and keeps the memory.
    pub const fn clear(&mut self) {
        self.len = 0;
    }

    /// Forgets what was written, and gives memory beyond `keep` bytes back.
    pub fn clear_to(&mut self, keep: usize) {
        self.len = 0;
        if self.buf.len() > keep {
            self.buf.truncate(keep);
            self.buf.shrink_to(keep);
        }
    }

    /// The current position.
    pub const fn mark(&self) -> Mark {
        Mark(self.len)
    }

    /// How many bytes were written since `mark`.
    pub const fn written_since(&self, mark: Mark) -> usize {
        self.len.saturating_sub(mark.0)
    }

    /// Undoes everything written since `mark`.
    pub fn rewind(&mut self, mark: Mark) {
        self.len = self.len.min(mark.0);
    }

    /// Overwrites the word at `mark`, which must have been written since.
    pub fn patch_u32(&mut self, mark: Mark, value: u32) {
        let place = self.buf.get_mut(mark.0..self.len).and_then(|b| b.first_chunk_mut::<4>());
        if let Some(place) = place {
            *place = value.to_be_bytes();
        }
    }

    /// Room for `len` more bytes behind what was written, initialised but with stale contents.
    /// They become part of the reply by [`Writer::advance`].
    pub fn space(&mut self, len: usize) -> &mut [u8] {
        let end = self.len.saturating_add(len);
        if self.buf.len() < end {
            self.buf.resize(end.max(self.buf.len().saturating_mul(2)).max(256), 0);
        }
        self.buf.get_mut(self.len..end).unwrap_or_default()
    }

    /// Takes the first `len` bytes of the last [`Writer::space`] into the reply.
    pub fn advance(&mut self, len: usize) {
        self.len = self.len.saturating_add(len).min(self.buf.len());
    }

    fn push<const N: usize>(&mut self, value: [u8; N]) {
        if let Some(place) = self.space(N).first_chunk_mut::<N>() {
            *place = value;
        }
        self.advance(N);
    }

    /// An `unsigned int`.
    pub fn u32(&mut self, value: u32) {
        self.push(value.to_be_bytes());
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
        self.space(data.len()).copy_from_slice(data);
        self.advance(data.len());
    }

    /// Zero bytes up to the next multiple of four after `len` bytes of opaque data.
    pub fn pad(&mut self, len: usize) {
        let pad = crate::padding(len);
        self.space(pad).fill(0);
        self.advance(pad);
    }

    /// Fixed-length opaque data and its padding (RFC 4506 §4.9).
    pub fn opaque_fixed(&mut self, data: &[u8]) {
        self.raw(data);
        self.pad(data.len());
    }

    /// Variable-length opaque data: length, bytes, padding (RFC 4506 §4.10).
    pub fn opaque(&mut self, data: &[u8]) {
        self.u32(u32::try_from(data.len()).unwrap_or(u32::MAX));
        self.opaque_fixed(data);
    }

    /// A value of a type that knows how.
    pub fn put<T: Encode + ?Sized>(&mut self, value: &T) {
        value.encode(self);
    }

    /// Optional data (RFC 4506 §4.19).
    pub fn option<T: Encode>(&mut self, value: Option<&T>) {
        self.bool(value.is_some());
        if let Some(value) = value {
            self.put(value);
        }
    }
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
