//! A reply with ranges of files, collected into one datagram: the header by `sendmmsg` with the address, the
//! pages by `sendfile`, into a socket that is corked.
//!
//! Corking by the socket option, not by `MSG_MORE`: at the end of a file that has become
//! shorter than its range, the kernel sends what `MSG_MORE` had held back, which would be a truncated
//! reply; here zeros are sent in place of what does not exist any more.
//!
//! A range at an odd offset is read and copied: Linux (6.18 at least) sums the pages of one `sendfile`
//! as if each began at an even place of the datagram, and the receiver throws the datagram away
//! for its checksum. Clients read at multiples of their page size.
//!
//! The kernel makes the checksum when a page is collected. If somebody changes the page before the receiver
//! has looked at it, the receiver throws the datagram away, and its client asks again.

use crate::service::datagram_reply::Reply;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use sys::mmsg::{self, Outgoing};
use sys::zeros::zeros;
use telemetry::{Counter, WorkerStats};
use xdr::{FileRange, Segment};

/// How the data of a reply came into its datagram: what is to be counted once that has left.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    copied_bytes: u64,
    not_copied_bytes: u64,
    odd: u64,
    refused: u64,
    padded: u64,
}

impl Moved {
    /// Counts it.
    pub fn count(&self, stats: &WorkerStats) {
        for (counter, count) in [
            (Counter::BytesCopied, self.copied_bytes),
            (Counter::BytesNotCopied, self.not_copied_bytes),
            (Counter::CopiedOdd, self.odd),
            (Counter::CopiedRefused, self.refused),
            (Counter::RangesPadded, self.padded),
        ] {
            if count > 0 {
                stats.add(counter, count);
            }
        }
    }
}

/// Collects a reply in a corked socket.
///
/// # Errors
/// What kept a part from being collected; the reply cannot be sent.
pub(crate) fn collect(socket: &UdpSocket, stats: &WorkerStats, reply: &Reply) -> io::Result<Moved> {
    let (mut first, mut moved) = (true, Moved::default());
    for segment in reply.bytes.segments() {
        match segment {
            Segment::Bytes(bytes) if std::mem::take(&mut first) => {
                stats.add(Counter::SendCalls, 1);
                mmsg::send(socket, &[Outgoing { bytes, to: reply.to, from: reply.from }])?;
            }
            Segment::Bytes(bytes) => {
                stats.add(Counter::SendCalls, 1);
                sys::datagram::append(socket, bytes)?;
            }
            Segment::File(range) => collect_range(socket, stats, range, &mut moved)?,
        }
    }
    Ok(moved)
}

fn collect_range(
    socket: &UdpSocket,
    stats: &WorkerStats,
    range: &FileRange,
    moved: &mut Moved,
) -> io::Result<()> {
    if range.len > 0 && !range.offset.is_multiple_of(2) {
        moved.odd = moved.odd.saturating_add(1);
        return copy_range(socket, stats, range, moved);
    }
    let mut gone = 0_usize;
    while gone < range.len {
        let (offset, left) = (range.offset.saturating_add(gone as u64), range.len - gone);
        stats.add(Counter::SendCalls, 1);
        let taken = match sys::socket::send_file(socket, range.file.as_fd(), offset, left) {
            Ok(0) => {
                stats.add(Counter::SendCalls, 1);
                // in place of the part of the file that does not exist any more; a range in a datagram is shorter
                let zeros = zeros();
                let zeros = sys::datagram::append(socket, zeros.get(..left).unwrap_or(zeros))?;
                moved.padded = moved.padded.saturating_add(1);
                moved.copied_bytes = moved.copied_bytes.saturating_add(zeros as u64);
                zeros
            }
            Ok(taken) => {
                moved.not_copied_bytes = moved.not_copied_bytes.saturating_add(taken as u64);
                taken
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            Err(error)
                if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) =>
            {
                moved.refused = moved.refused.saturating_add(1);
                let rest = FileRange { offset, len: left, ..range.clone() };
                return copy_range(socket, stats, &rest, moved);
            }
            Err(error) => return Err(error),
        };
        gone = gone.saturating_add(taken);
    }
    Ok(())
}

/// Reads a range, which is in memory, and appends its bytes.
#[cold]
fn copy_range(
    socket: &UdpSocket,
    stats: &WorkerStats,
    range: &FileRange,
    moved: &mut Moved,
) -> io::Result<()> {
    let mut bytes = vec![0; range.len];
    let mut have = 0_usize;
    while let Some(rest) = bytes.get_mut(have..).filter(|rest| !rest.is_empty()) {
        match sys::io::read(range.file.as_fd(), rest, range.offset.saturating_add(have as u64))? {
            // what is gone stays zero
            0 => break,
            got => have = have.saturating_add(got),
        }
    }
    stats.add(Counter::SendCalls, 1);
    sys::datagram::append(socket, &bytes)?;
    moved.copied_bytes = moved.copied_bytes.saturating_add(range.len as u64);
    Ok(())
}
