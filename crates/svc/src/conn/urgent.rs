//! Which connections are used for urgent calls, those that must be answered under overload: which
//! calls these are, the programs' tables say ([`rpc::Plan::urgent`]). They are few and short, and must
//! not wait behind a queue of reads or for a disk that hangs. Only pools with a queue ask.
//!
//! A connection is looked at when it first becomes ready; after that it is taken for what it was,
//! until it proves to be something else. So each costs one look in its life.

use crate::conn::connection::{Conn, Rx};
use rpc::Dispatcher;
use rpc::record::MARK_LEN;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Bytes of a call up to and with its procedure: xid, type, RPC version, program, version,
/// procedure.
const HEAD: usize = 24;

/// What a connection is used for. Written by whoever holds its `Rx`.
#[derive(Debug, Default)]
pub(crate) struct UrgentMark(AtomicU8);

const UNKNOWN: u8 = 0;
const PLAIN: u8 = 1;
const URGENT: u8 = 2;

impl UrgentMark {
    /// A turn begins with this record: a connection that was urgent is so no longer if it is not.
    pub fn check(&self, dispatcher: &Dispatcher, record: &[u8]) {
        if self.0.load(Relaxed) == URGENT && !dispatcher.is_urgent(record) {
            self.0.store(PLAIN, Relaxed);
        }
    }
}

/// Whether what a connection has sent begins with an urgent call, as far as can be seen.
pub(crate) fn looks_urgent(dispatcher: &Dispatcher, rx: &Rx) -> bool {
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
    dispatcher.is_urgent(bytes.get(MARK_LEN..).unwrap_or_default())
}

/// Whether a connection that is ready goes before the others.
pub(crate) fn goes_first(dispatcher: &Dispatcher, rx: &Rx) -> bool {
    let mark = &rx.conn.mark.0;
    match mark.load(Relaxed) {
        PLAIN => false,
        URGENT => true,
        UNKNOWN | 3.. => {
            let urgent = looks_urgent(dispatcher, rx);
            mark.store(if urgent { URGENT } else { PLAIN }, Relaxed);
            urgent
        }
    }
}

impl Conn {
    /// See [`UrgentMark::check`].
    pub fn begins_with(&self, dispatcher: &Dispatcher, record: &[u8]) {
        self.mark.check(dispatcher, record);
    }
}
