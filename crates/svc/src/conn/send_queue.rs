//! Replies on their way into a socket: bytes by `sendmsg`, ranges of files by `sendfile` out of the page cache,
//! as many of both as the socket takes without waiting. Over TLS whose records this process encrypts, ranges are read
//! when they are sent (`seal.rs`).
//!
//! Bytes before a range leave with `MSG_MORE`, so that header and data share packets. The length of a range was
//! fixed when the reply was written: where the file has become shorter meanwhile, zeros are sent. Where the
//! kernel refuses to send a file's pages (a file system without them), the range is read and sent as bytes.
//!
//! What the socket did not take becomes a [`SendQueue`]: bytes are copied; of a range only the file and the
//! offset are kept, so that its data costs no memory. Everything leaves through [`send_parts`].

use crate::conn::byte_stream::ByteStream;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::AsFd;
use sys::zeros::zeros;
use telemetry::{Counter, WorkerStats};
use xdr::{FileRange, Segment, Writer};

/// Parts of bytes that are offered to the socket at once.
const AT_ONCE: usize = 16;
/// What a range in the queue takes from the budget: its entry and its share of an open file. Over TLS whose records this process
/// makes it is a piece more, which may be sealed and wait for the socket.
const RANGE_COST: usize = 256;
/// Bytes that are read at once where the kernel refuses to send from a file.
const COPY: usize = 16 << 10;

/// A segment of which the first bytes may have left.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SendPart<'p> {
    Bytes(&'p [u8]),
    File(&'p FileRange, usize),
}

impl<'p> SendPart<'p> {
    /// All segments of replies.
    pub fn of(replies: &'p [&'p Writer]) -> impl Iterator<Item = Self> {
        replies.iter().flat_map(|reply| reply.segments()).map(|segment| match segment {
            Segment::Bytes(bytes) => Self::Bytes(bytes),
            Segment::File(range) => Self::File(range, 0),
        })
    }

    const fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(range, gone) => range.len.saturating_sub(*gone),
        }
    }
}

/// A part that the socket has not taken.
#[derive(Debug)]
enum QueuedPart {
    Bytes(Vec<u8>),
    /// And what it takes from the budget.
    File(FileRange, usize),
}

impl QueuedPart {
    const fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(range, _) => range.len,
        }
    }

    /// What it takes from the budget.
    const fn cost(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(_, cost) => *cost,
        }
    }
}

/// What the socket has not taken.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    parts: VecDeque<QueuedPart>,
    /// Bytes of the first part that were sent.
    gone: usize,
    len: usize,
    cost: usize,
}

impl SendQueue {
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes that wait to leave.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Memory, as the budget counts it.
    pub const fn cost(&self) -> usize {
        self.cost
    }

    /// What waits, in order.
    fn parts(&self) -> impl Iterator<Item = SendPart<'_>> {
        let mut gone = self.gone;
        self.parts.iter().map(move |piece| {
            let gone = std::mem::take(&mut gone);
            match piece {
                QueuedPart::Bytes(bytes) => SendPart::Bytes(bytes.get(gone..).unwrap_or_default()),
                QueuedPart::File(range, _) => SendPart::File(range, gone),
            }
        })
    }

    /// What waits, in order, with no more than one range, at the end.
    pub fn next_parts(&self) -> impl Iterator<Item = SendPart<'_>> {
        let mut through = false;
        self.parts().take_while(move |part| {
            let before = through;
            through |= matches!(part, SendPart::File(..));
            !before
        })
    }

    /// The next range: what is left of it.
    pub fn next_range(&self) -> Option<FileRange> {
        self.parts().find_map(|part| match part {
            SendPart::File(range, gone) => Some(rest(range, gone)),
            SendPart::Bytes(_) => None,
        })
    }

    /// Keeps what is left of the parts after the first `gone` bytes. `stream` may keep some of each range itself
    /// ([`ByteStream::range_min`]).
    pub fn keep<'p>(
        &mut self,
        stream: &ByteStream,
        parts: impl Iterator<Item = SendPart<'p>>,
        mut gone: usize,
    ) {
        for part in parts {
            let skip = gone.min(part.len());
            gone = gone.saturating_sub(skip);
            let piece = match part {
                _ if part.len() == skip => continue,
                SendPart::Bytes(bytes) => {
                    QueuedPart::Bytes(bytes.get(skip..).unwrap_or_default().to_vec())
                }
                SendPart::File(range, before) => {
                    let range = rest(range, before.saturating_add(skip));
                    QueuedPart::File(range, RANGE_COST.saturating_add(stream.range_min()))
                }
            };
            self.len = self.len.saturating_add(piece.len());
            self.cost = self.cost.saturating_add(piece.cost());
            self.parts.push_back(piece);
        }
    }

    /// The socket has taken this many bytes.
    pub fn taken(&mut self, len: usize) {
        self.len = self.len.saturating_sub(len);
        self.gone = self.gone.saturating_add(len);
        while let Some(first) = self.parts.front() {
            if self.gone < first.len() {
                return;
            }
            self.gone = self.gone.saturating_sub(first.len());
            self.cost = self.cost.saturating_sub(first.cost());
            self.parts.pop_front();
        }
    }
}

fn rest(range: &FileRange, gone: usize) -> FileRange {
    FileRange {
        file: std::sync::Arc::clone(&range.file),
        offset: range.offset.saturating_add(gone as u64),
        len: range.len.saturating_sub(gone),
    }
}

/// Offers the parts to the socket, in order; how many bytes it took. Fewer than there are: it is
/// full.
///
/// # Errors
/// The connection is broken, or a file of which a range was announced cannot be read: the connection has to be
/// closed.
pub(crate) fn send_parts<'p>(
    stream: &ByteStream,
    stats: &WorkerStats,
    parts: impl Iterator<Item = SendPart<'p>>,
) -> io::Result<usize> {
    let mut held = [IoSlice::new(&[]); AT_ONCE];
    let (mut count, mut len, mut gone) = (0_usize, 0_usize, 0_usize);
    for part in parts {
        let breaks = matches!(part, SendPart::File(..)) && count > 0;
        if breaks || count == AT_ONCE {
            let taken = send(stream, stats, held.get(..count).unwrap_or_default(), true)?;
            gone = gone.saturating_add(taken);
            if taken < len {
                return Ok(gone);
            }
            (count, len) = (0, 0);
        }
        match part {
            SendPart::Bytes(bytes) => {
                if let Some(place) = held.get_mut(count) {
                    *place = IoSlice::new(bytes);
                }
                count = count.saturating_add(1);
                len = len.saturating_add(bytes.len());
            }
            SendPart::File(range, before) => {
                let taken = send_range(stream, stats, range, before)?;
                gone = gone.saturating_add(taken);
                if taken < part.len() {
                    return Ok(gone);
                }
            }
        }
    }
    if count > 0 {
        let taken = send(stream, stats, held.get(..count).unwrap_or_default(), false)?;
        gone = gone.saturating_add(taken);
    }
    Ok(gone)
}

/// The same for bytes alone, as most replies are.
///
/// # Errors
/// The connection is broken.
pub(crate) fn send_bytes(
    stream: &ByteStream,
    stats: &WorkerStats,
    bytes: &[u8],
) -> io::Result<usize> {
    send(stream, stats, &[IoSlice::new(bytes)], false)
}

/// One send; 0 if the socket is full.
fn send(
    stream: &ByteStream,
    stats: &WorkerStats,
    bytes: &[IoSlice<'_>],
    more: bool,
) -> io::Result<usize> {
    loop {
        stats.add(Counter::SendCalls, 1);
        match stream.send(bytes, more) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            result => return result,
        }
    }
}

/// Sends what is left of a range; how much the socket took.
fn send_range(
    stream: &ByteStream,
    stats: &WorkerStats,
    range: &FileRange,
    before: usize,
) -> io::Result<usize> {
    let mut gone = before;
    while gone < range.len {
        let (offset, left) = (range.offset.saturating_add(gone as u64), range.len - gone);
        stats.add(Counter::SendCalls, 1);
        let taken = match stream.send_file(range.file.as_fd(), offset, left) {
            Ok(0) => {
                stats.add(Counter::RangesPadded, 1);
                // in place of the part of the file that does not exist any more
                let zeros = zeros();
                let zeros = zeros.get(..left.min(COPY)).unwrap_or(zeros);
                send_copied(stream, stats, zeros, left > COPY)?
            }
            Ok(taken) => {
                let how = match stream.opens_records() {
                    true => Counter::BytesCopied,
                    false => Counter::BytesNotCopied,
                };
                stats.add(how, taken as u64);
                taken
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error)
                if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) =>
            {
                send_copy(stream, stats, range, gone)?
            }
            Err(error) => return Err(error),
        };
        if taken == 0 {
            break;
        }
        if gone == 0 && stream.opens_records() {
            stats.add(Counter::CopiedSealed, 1);
        }
        gone = gone.saturating_add(taken);
    }
    Ok(gone.saturating_sub(before))
}

/// Reads a piece of a range and sends it as bytes, where the kernel does not do it by itself.
#[cold]
fn send_copy(
    stream: &ByteStream,
    stats: &WorkerStats,
    range: &FileRange,
    gone: usize,
) -> io::Result<usize> {
    stats.add(Counter::CopiedRefused, 1);
    let mut piece = [0; COPY];
    let left = range.len.saturating_sub(gone);
    let piece = piece.get_mut(..left.min(COPY)).unwrap_or_default();
    let offset = range.offset.saturating_add(gone as u64);
    let len = match sys::io::read(range.file.as_fd(), piece, offset)? {
        // the end: what is not there any more is sent as zeros
        0 => piece.len(),
        // it may be less than there is
        got => got,
    };
    send_copied(stream, stats, piece.get(..len).unwrap_or_default(), left > len)
}

/// Sends a piece of a range as bytes, and counts what the socket took.
fn send_copied(
    stream: &ByteStream,
    stats: &WorkerStats,
    bytes: &[u8],
    more: bool,
) -> io::Result<usize> {
    let taken = send(stream, stats, &[IoSlice::new(bytes)], more)?;
    stats.add(Counter::BytesCopied, taken as u64);
    Ok(taken)
}
