//! Which calls are urgent: those of MOUNT and portmap, by which clients find out where things are
//! and whether the server lives. They are few and short, and must not wait behind a queue of
//! reads or for a disk that hangs. Only pools with a queue ask.
//!
//! A connection is looked at when it first becomes ready; after that it is taken for what it was,
//! until it proves to be something else. So each costs one look in its life.

use crate::conn::connection::{Conn, Rx};
use rpc::record::MARK_LEN;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Bytes of a call up to and with its program: xid, type, RPC version, program.
const HEAD: usize = 16;
/// RFC 5531 section 9: the message is a call.
const CALL: u32 = 0;

/// What a connection is used for. Written by whoever holds its `Rx`.
#[derive(Debug, Default)]
pub(crate) struct UrgentMark(AtomicU8);

const UNKNOWN: u8 = 0;
const PLAIN: u8 = 1;
const URGENT: u8 = 2;

impl UrgentMark {
    /// A turn begins with this record: a connection that was urgent is so no longer if it is not.
    pub fn check(&self, record: &[u8]) {
        if self.0.load(Relaxed) == URGENT && !is_urgent(record) {
            self.0.store(PLAIN, Relaxed);
        }
    }
}

/// Whether a message is a call of MOUNT or portmap.
pub(crate) fn is_urgent(message: &[u8]) -> bool {
    let Some(head) = message.first_chunk::<HEAD>() else { return false };
    let (words, _) = head.as_chunks::<4>();
    let [_xid, kind, _rpc_version, program] = [0, 1, 2, 3]
        .map(|index: usize| words.get(index).map_or(0, |word| u32::from_be_bytes(*word)));
    kind == CALL && matches!(program, proto::mount::PROGRAM | proto::portmap::PROGRAM)
}

/// Whether what a connection has sent begins with an urgent call, as far as can be seen.
pub(crate) fn looks_urgent(rx: &Rx) -> bool {
    if !rx.partial.is_empty() {
        return false;
    }
    let mut head = [0; MARK_LEN + HEAD];
    let bytes = match &rx.tail {
        Some(tail) => tail.bytes(),
        None => match sys::socket::peek(&rx.conn.stream, &mut head) {
            Ok(len) => head.get(..len).unwrap_or_default(),
            Err(_) => &[],
        },
    };
    is_urgent(bytes.get(MARK_LEN..).unwrap_or_default())
}

/// Whether a connection that is ready goes before the others.
pub(crate) fn goes_first(rx: &Rx) -> bool {
    let mark = &rx.conn.mark.0;
    match mark.load(Relaxed) {
        PLAIN => false,
        URGENT => true,
        UNKNOWN | 3.. => {
            let urgent = looks_urgent(rx);
            mark.store(if urgent { URGENT } else { PLAIN }, Relaxed);
            urgent
        }
    }
}

impl Conn {
    /// See [`UrgentMark::check`].
    pub fn begins_with(&self, record: &[u8]) {
        self.mark.check(record);
    }
}

#[cfg(test)]
mod tests {
    use super::is_urgent;

    fn call(kind: u32, program: u32) -> Vec<u8> {
        [7, kind, 2, program].into_iter().flat_map(u32::to_be_bytes).collect()
    }

    #[test]
    fn only_whole_calls_of_the_two_programs_are_urgent() {
        assert!(is_urgent(&call(0, 100_005)) && is_urgent(&call(0, 100_000)));
        assert!(!is_urgent(&call(0, 100_003)), "NFS");
        assert!(!is_urgent(&call(1, 100_005)), "a reply");
        assert!(!is_urgent(&call(0, 100_005)[..15]) && !is_urgent(&[]));
    }
}
