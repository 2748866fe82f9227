//! Whether a connection is alive: both ends are open and the client has received its replies. The reply cache asks
//! when the same call comes over two connections (`rpc/reply_cache.rs` explains why this decides).
//!
//! The server's own table is not sufficient: a connection stays in it until a worker has processed its end. The kernel
//! knows of a FIN or RST at once; from a client that disappeared without either it gets no acknowledgement of the reply,
//! or an RST. So a connection is alive if the kernel has it established and nothing is outstanding: no call in progress,
//! no reply in a queue of the server or the kernel. A connection that is always busy never reaches that state, but data
//! that its client sends meanwhile is equivalent.

use crate::conn::connection::Conn;
use crate::sync::lock;
use std::time::{Duration, Instant};
use sys::tcp::{Info, State};

/// Time limit; a connection whose state is unknown by then counts as dead. Clients acknowledge within half a second
/// (RFC 1122 §4.2.3.2) and a round trip.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest pause between two checks.
const PAUSE_MAX: Duration = Duration::from_millis(32);
/// The kernel's clock of received data may be behind by this much.
const TICK_MS: u128 = 10;

impl Conn {
    /// Whether it is alive, as above. Sleeps until that is known.
    pub fn waits_for_no_reply(&self) -> bool {
        let (begun, mut pause) = (Instant::now(), Duration::from_millis(1));
        loop {
            if let Some(known) = self.sign_of_life(begun) {
                return known;
            }
            if begun.elapsed() >= PATIENCE {
                return false;
            }
            std::thread::sleep(pause);
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
    }

    fn sign_of_life(&self, begun: Instant) -> Option<bool> {
        // check outstanding data first: a reply sent after this check is seen by the next
        let idle = self.nothing_under_way();
        let Ok(info) = sys::tcp::info(self.stream.options()) else { return Some(false) };
        if info.state != State::Established {
            return Some(false);
        }
        let Info { unacked, not_sent, .. } = info;
        let heard_ms = u128::from(info.last_data_received_ms.min(info.last_ack_received_ms));
        let heard_since = heard_ms.saturating_add(TICK_MS) < begun.elapsed().as_millis();
        (heard_since || idle && unacked == 0 && not_sent == 0).then_some(true)
    }

    /// No call of it runs, no worker serves it, and no reply is queued.
    fn nothing_under_way(&self) -> bool {
        if !self.rx_slot.is_present() {
            return false;
        }
        let tx = lock(&self.tx);
        tx.in_flight == 0 && tx.queue.is_empty()
    }
}
