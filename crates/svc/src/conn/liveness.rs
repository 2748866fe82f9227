//! Whether a connection lives: its client has both ends open and has got what it waited for. The reply cache asks
//! when the same call comes by two connections (`rpc/reply_cache.rs` says why this decides).
//!
//! Our own table is no answer: a connection is in it until a worker has seen its end. The kernel is asked. It
//! knows of a FIN and of an RST at once; and of a client that has gone without either it does not get an
//! acknowledgement of the reply, or is answered with RST. So a connection lives if the kernel has it
//! established and nothing is under way to the client: no call, no reply in a queue of ours or the kernel's. On one
//! that is always busy that moment never comes, but what its client sends meanwhile says the same.

use crate::conn::connection::Conn;
use crate::sync::lock;
use std::time::{Duration, Instant};
use sys::tcp::{Info, State};

/// What has not become clear in this time is no sign of life. Clients acknowledge within half a second (RFC 1122
/// §4.2.3.2) and a round trip.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks, at the most.
const PAUSE_MAX: Duration = Duration::from_millis(32);
/// By how much the kernel's clock of what has arrived may be behind.
const TICK_MS: u128 = 10;

impl Conn {
    /// Whether it lives, as above. Sleeps while that is not known.
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
        // what is under way first: a reply that leaves after this look is seen in the next
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

    /// No call of it runs, no worker has it, and no reply waits.
    fn nothing_under_way(&self) -> bool {
        if !self.rx_slot.is_present() {
            return false;
        }
        let tx = lock(&self.tx);
        tx.in_flight == 0 && tx.queue.is_empty()
    }
}
