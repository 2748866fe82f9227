//! Tests that boot user-mode Linux guests: the kernel's NFS client, power cuts, quotas, a clock that jumps.
//!
//! At most [`GUESTS_MAX`] guests run at a time, however many threads the tests have: each is a whole
//! kernel with 512 MiB, and its time is limited. [`GUESTS`] guards the number of those that run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a failure here is the test's"
)]

#[path = "../it/rig/random.rs"]
mod random;

mod clock;
mod kernel_client;
mod power_cut;
mod quota;

use std::sync::{Condvar, Mutex, PoisonError};

/// Guests that run side by side.
const GUESTS_MAX: usize = 2;

/// How many guests run now, and who waits for one to end.
static GUESTS: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// The right to run a guest, until it is dropped.
struct GuestSlot;

impl GuestSlot {
    fn wait() -> Self {
        let running = GUESTS.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = GUESTS
            .1
            .wait_while(running, |running| *running == GUESTS_MAX)
            .unwrap_or_else(PoisonError::into_inner);
        *running += 1;
        Self
    }
}

impl Drop for GuestSlot {
    fn drop(&mut self) {
        *GUESTS.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        GUESTS.1.notify_one();
    }
}
