//! Which of the connections that are ready go before the others. Only pools with a queue ask.

use crate::conn::connection::Rx;
use rpc::Dispatcher;
use rpc::record::MARK_LEN;

/// Bytes of a call up to and with its procedure: xid, type, RPC version, program, version, procedure
/// (RFC 5531 section 9).
const HEAD: usize = 24;

/// Whether what a connection has sent begins with an urgent call, as far as can be seen.
pub(crate) fn looks_urgent(dispatcher: &Dispatcher, rx: &Rx) -> bool {
    if !rx.partial.is_empty() {
        return false;
    }
    let mut head = [0; MARK_LEN + HEAD];
    let bytes = match &rx.tail {
        Some(tail) => tail.bytes(),
        None => match rx.conn.stream.peek(&mut head) {
            Ok(len) => head.get(..len).unwrap_or_default(),
            Err(_) => &[],
        },
    };
    dispatcher.is_urgent(bytes.get(MARK_LEN..).unwrap_or_default())
}

/// Whether a connection that is ready goes before the others.
pub(crate) fn has_priority(dispatcher: &Dispatcher, rx: &Rx) -> bool {
    rx.conn.urgent.has_priority(|| looks_urgent(dispatcher, rx))
}
