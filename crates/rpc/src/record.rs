//! Record marking (RFC 5531 §11) without I/O: cuts a byte stream into records.
//!
//! A connection owns one [`Partial`]: the record under way, and nothing between records. The
//! bytes come from a receive buffer that belongs to the worker; a record that is there whole
//! and in one fragment is handed out where it lies. Only what a buffer's end cuts off, and what
//! comes in several fragments, is copied together.
//!
//! Invariants:
//! - However a stream is cut into receives and its records into fragments, the records are the same.
//! - Memory follows what has arrived: [`Partial::space`] is at most as long as what is there
//!   already, or [`STEP`]; what a record mark claims reserves nothing.
//! - A record is at most `max_record` bytes, in at most [`FRAGMENTS_MAX`] fragments.
//! - After an error the record boundaries are unknown: the connection must be closed.

use std::ops::{Deref, Range};
use xdr::Writer;

/// The most fragments of one record; those of length 0 count. Clients that cut a record at all
/// cut it at 4000 bytes or more, so that a call of 4 MiB has room.
pub const FRAGMENTS_MAX: u32 = 1088;
/// Bytes by which the memory of a record under way grows at first.
pub const STEP: usize = 64 * 1024;
/// Bytes of a record mark.
pub const MARK_LEN: usize = 4;

/// The bit of a record mark that says "last fragment".
const LAST: u32 = 1 << 31;

/// Why a stream cannot be cut any further; close the connection. Where nothing else is said the peer is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The record is longer than the server takes.
    #[error("a record of at least {len} bytes is over the limit of {limit}")]
    TooLarge {
        /// The least length of the record.
        len: usize,
        /// The limit.
        limit: usize,
    },
    /// The record comes in more than [`FRAGMENTS_MAX`] fragments.
    #[error("a record of more than {FRAGMENTS_MAX} fragments")]
    TooManyFragments,
    /// The process can get no memory for what has arrived: not the peer's fault.
    #[error("no memory for a record of more than {have} bytes")]
    NoMemory {
        /// How much of it has arrived.
        have: usize,
    },
}

/// The record mark of a record of `len` bytes in one fragment; `None` if it does not fit one.
pub fn mark(len: usize) -> Option<u32> {
    u32::try_from(len).ok().filter(|len| len & LAST == 0).map(|len| len | LAST)
}

/// How long the record is that begins with this mark, if it comes in one fragment.
pub fn single(mark: [u8; MARK_LEN]) -> Option<usize> {
    let (len, last) = parse(u32::from_be_bytes(mark));
    last.then_some(len)
}

/// One complete record.
#[derive(Debug)]
pub enum Record<'b> {
    /// Where it was received.
    InPlace(&'b [u8]),
    /// Put together; give the memory back by [`Partial::reuse`].
    Joined(Writer),
}

impl Deref for Record<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::InPlace(bytes) => bytes,
            Self::Joined(writer) => writer.bytes(),
        }
    }
}

/// The position of the stream within a record.
#[derive(Debug, Clone, Copy)]
enum At {
    /// In a record mark, of which the first `have` bytes are there.
    Mark { bytes: [u8; MARK_LEN], have: usize },
    /// In a fragment, of which `left` bytes are missing.
    Fragment { left: usize, last: bool },
}

/// The record under way on one connection.
#[derive(Debug)]
pub struct Partial {
    /// The fragments so far, without their marks.
    body: Writer,
    at: At,
    /// Fragments of this record that have begun.
    fragments: u32,
    /// There was no memory for the record under way: it cannot be received.
    no_memory: bool,
}

impl Default for Partial {
    fn default() -> Self {
        Self::new()
    }
}

impl Partial {
    const START: At = At::Mark { bytes: [0; MARK_LEN], have: 0 };

    /// The start of a stream; owns no memory.
    pub const fn new() -> Self {
        Self { body: Writer::new(), at: Self::START, fragments: 0, no_memory: false }
    }

    /// Whether the stream is between two records.
    pub const fn is_empty(&self) -> bool {
        self.fragments == 0 && matches!(self.at, At::Mark { have: 0, .. })
    }

    /// How many bytes are missing at least until the record under way is complete; 0 between
    /// two records.
    pub const fn missing(&self) -> usize {
        match self.at {
            _ if self.is_empty() => 0,
            At::Mark { have, .. } => MARK_LEN.saturating_sub(have),
            At::Fragment { left, last: true } => left,
            At::Fragment { left, last: false } => left.saturating_add(MARK_LEN),
        }
    }

    /// Bytes of memory held.
    pub const fn capacity(&self) -> usize {
        self.body.capacity()
    }

    /// Swaps in larger memory for the record under way; what `memory` held is discarded.
    pub fn reuse(&mut self, memory: &mut Writer) {
        if self.body.capacity() < memory.capacity() {
            memory.clear();
            memory.raw(self.body.bytes());
            std::mem::swap(&mut self.body, memory);
        }
    }

    /// Gives the memory back, if the stream is between two records.
    pub fn release(&mut self) -> Option<Writer> {
        self.is_empty().then(|| std::mem::take(&mut self.body))
    }

    /// The next complete record of the stream, of which `input` is the continuation; `input` is
    /// advanced past it. `None`: all of `input` was consumed and more is needed.
    ///
    /// # Errors
    /// [`RecordError`]; the connection must be closed.
    pub fn next<'b>(
        &mut self,
        input: &mut &'b [u8],
        max_record: usize,
    ) -> Result<Option<Record<'b>>, RecordError> {
        if self.is_empty()
            && let Some(record) = whole(input, max_record)?
        {
            return Ok(Some(Record::InPlace(record)));
        }
        loop {
            match self.at {
                At::Mark { bytes, have } => {
                    let Some(word) = self.collect_mark(bytes, have, input) else { return Ok(None) };
                    self.begin(word, max_record)?;
                }
                At::Fragment { left: 0, last: true } => return Ok(Some(self.finish())),
                At::Fragment { left: 0, last: false } => self.at = Self::START,
                At::Fragment { left, last } => {
                    if self.no_memory {
                        return Err(self.without_memory());
                    }
                    let (now, rest) = input.split_at(left.min(input.len()));
                    if now.is_empty() {
                        return Ok(None);
                    }
                    match self.body.try_space(now.len()) {
                        Some(place) => place.copy_from_slice(now),
                        None => return Err(self.without_memory()),
                    }
                    self.body.advance(now.len());
                    *input = rest;
                    self.at = At::Fragment { left: left.saturating_sub(now.len()), last };
                }
            }
        }
    }

    /// Room to receive straight into the record under way: never beyond the end of its fragment,
    /// and never much more than has arrived of it. `None` outside of a fragment's data; the bytes
    /// then have to go through [`Partial::next`], which says if it is because there is no memory.
    pub fn space(&mut self) -> Option<&mut [u8]> {
        let At::Fragment { left, .. } = self.at else { return None };
        let held = self.body.capacity().saturating_sub(self.body.len());
        let room = left.min(STEP.max(self.body.len()).max(held));
        if room == 0 {
            return None;
        }
        let space = self.body.try_space(room);
        self.no_memory = space.is_none();
        space
    }

    const fn without_memory(&self) -> RecordError {
        RecordError::NoMemory { have: self.body.len() }
    }

    /// Takes in the first `len` bytes of the last [`Partial::space`]; [`Partial::next`] with no
    /// input then tells whether the record is complete.
    pub fn received(&mut self, len: usize) {
        debug_assert!(self.is_within(len), "received beyond the fragment");
        if let At::Fragment { left, last } = self.at {
            let len = len.min(left);
            self.body.advance(len);
            self.at = At::Fragment { left: left.saturating_sub(len), last };
        }
    }

    /// What is kept of the record under way, if that has begun and comes in one fragment.
    pub fn so_far(&self) -> Option<&[u8]> {
        let single = self.fragments == 1 && matches!(self.at, At::Fragment { last: true, .. });
        single.then(|| self.body.bytes())
    }

    /// Forgets a range of what is kept of the record under way.
    pub fn forget(&mut self, range: Range<usize>) {
        self.body.remove(range);
    }

    /// Keeps more bytes of the fragment under way.
    pub fn join(&mut self, bytes: &[u8]) {
        debug_assert!(self.is_within(bytes.len()), "joined beyond the fragment");
        if let At::Fragment { left, last } = self.at {
            let bytes = bytes.get(..left).unwrap_or(bytes);
            self.body.raw(bytes);
            self.at = At::Fragment { left: left.saturating_sub(bytes.len()), last };
        }
    }

    /// So many more bytes of the fragment under way have arrived, and are somewhere else; `kept` is
    /// all that is to be kept of the record.
    pub fn arrived(&mut self, bytes: usize, kept: [&[u8]; 2]) {
        debug_assert!(self.is_within(bytes), "arrived beyond the fragment");
        if let At::Fragment { left, last } = self.at {
            self.at = At::Fragment { left: left.saturating_sub(bytes), last };
        }
        self.body.clear();
        kept.into_iter().for_each(|part| self.body.raw(part));
    }

    /// The record under way is complete in other memory: the stream is behind it.
    pub fn arrived_whole(&mut self) {
        (self.at, self.fragments) = (Self::START, 0);
        self.body.clear();
    }

    /// Whether this many bytes are missing of the fragment under way.
    const fn is_within(&self, bytes: usize) -> bool {
        matches!(self.at, At::Fragment { left, .. } if left >= bytes)
    }

    /// Adds bytes of `input` to a mark; the mark, if that completes it.
    fn collect_mark(
        &mut self,
        mut bytes: [u8; MARK_LEN],
        mut have: usize,
        input: &mut &[u8],
    ) -> Option<u32> {
        while let Some(place) = bytes.get_mut(have) {
            let Some((byte, rest)) = input.split_first() else {
                self.at = At::Mark { bytes, have };
                return None;
            };
            *place = *byte;
            *input = rest;
            have = have.saturating_add(1);
        }
        Some(u32::from_be_bytes(bytes))
    }

    /// Begins a fragment.
    fn begin(&mut self, word: u32, max_record: usize) -> Result<(), RecordError> {
        let (left, last) = parse(word);
        let len = self.body.len().saturating_add(left);
        if len > max_record {
            return Err(RecordError::TooLarge { len, limit: max_record });
        }
        if self.fragments >= FRAGMENTS_MAX {
            return Err(RecordError::TooManyFragments);
        }
        self.fragments = self.fragments.saturating_add(1);
        self.at = At::Fragment { left, last };
        Ok(())
    }

    /// Returns the complete record; the stream is at the start of the next one.
    fn finish(&mut self) -> Record<'static> {
        self.at = Self::START;
        self.fragments = 0;
        Record::Joined(std::mem::take(&mut self.body))
    }
}

/// Length and "last" of a record mark.
const fn parse(word: u32) -> (usize, bool) {
    ((word & !LAST) as usize, word & LAST != 0)
}

/// A record that lies at the start of `input` whole and in one fragment.
fn whole<'b>(input: &mut &'b [u8], max_record: usize) -> Result<Option<&'b [u8]>, RecordError> {
    let Some((word, rest)) = input.split_first_chunk::<MARK_LEN>() else { return Ok(None) };
    let (len, last) = parse(u32::from_be_bytes(*word));
    if len > max_record {
        return Err(RecordError::TooLarge { len, limit: max_record });
    }
    match rest.split_at_checked(len) {
        Some((record, rest)) if last => {
            *input = rest;
            Ok(Some(record))
        }
        Some(_) | None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
