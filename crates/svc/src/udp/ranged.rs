//! A reply with ranges of files, collected into one datagram: the header by `sendmmsg` with the address, the
//! pages by `sendfile`, into a socket that is corked.
//!
//! Corking by the socket option, not by `MSG_MORE`: at the end of a file that has become
//! shorter than its range, the kernel sends what `MSG_MORE` had held back, which would be a cut
//! reply; here zeros take the place of what is gone.
//!
//! A range at an odd offset is read and copied: Linux (6.18 at least) sums the pages of one `sendfile`
//! as if each began at an even place of the datagram, and the receiver throws the datagram away
//! for its checksum. Clients read at multiples of their page size.

use super::Reply;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use sys::mmsg::{self, Outgoing};
use telemetry::{Counter, WorkerStats};
use xdr::{FileRange, Segment};

/// What stands in for the part of a file that is gone; larger than any range in a datagram.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Collects a reply in a corked socket.
///
/// # Errors
/// What kept a part from being collected; the reply cannot be sent.
pub(super) fn collect(socket: &UdpSocket, stats: &WorkerStats, reply: &Reply) -> io::Result<()> {
    let mut first = true;
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
            Segment::File(range) => collect_range(socket, stats, range)?,
        }
    }
    Ok(())
}

fn collect_range(socket: &UdpSocket, stats: &WorkerStats, range: &FileRange) -> io::Result<()> {
    if !range.offset.is_multiple_of(2) {
        return copy_range(socket, stats, range);
    }
    let mut gone = 0_usize;
    while gone < range.len {
        let (offset, left) = (range.offset.saturating_add(gone as u64), range.len - gone);
        stats.add(Counter::SendCalls, 1);
        let taken = match sys::socket::send_file(socket, range.file.as_fd(), offset, left)? {
            0 => {
                stats.add(Counter::RangesPadded, 1);
                sys::datagram::append(socket, ZEROS.get(..left).unwrap_or(&ZEROS))?
            }
            taken => taken,
        };
        gone = gone.saturating_add(taken);
    }
    Ok(())
}

/// Reads a range, which is in memory, and appends its bytes.
#[cold]
fn copy_range(socket: &UdpSocket, stats: &WorkerStats, range: &FileRange) -> io::Result<()> {
    stats.add(Counter::CopiedRefused, 1);
    let mut bytes = vec![0; range.len];
    let mut have = 0_usize;
    while let Some(rest) = bytes.get_mut(have..).filter(|rest| !rest.is_empty()) {
        match sys::io::read(range.file.as_fd(), rest, range.offset.saturating_add(have as u64))? {
            // what is gone stays zero
            0 => break,
            got => have = have.saturating_add(got),
        }
    }
    sys::datagram::append(socket, &bytes)?;
    Ok(())
}
