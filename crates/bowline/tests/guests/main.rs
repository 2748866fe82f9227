//! Tests that boot user-mode Linux guests: the kernel's NFS client, Kerberos, power cuts, quotas, a clock that jumps, tests that need
//! what a guest's kernel has.
//!
//! At most [`GUESTS_MAX`] guests run at a time, however many threads the tests have: each is a whole
//! kernel with 512 MiB, and its time is limited. [`GUESTS`] guards which places are taken; each place has a processor of
//! its own (`KC_SLOT` of tests/kernel/kernel-client.sh).

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
mod kerberos;
mod kernel_client;
mod kernel_features;
mod power_cut;
mod quota;

use std::process::Command;
use std::sync::{Condvar, Mutex, PoisonError};

/// Guests that run side by side.
const GUESTS_MAX: usize = 2;

/// Which places are taken by a guest that runs now, and who waits for one to end.
static GUESTS: (Mutex<[bool; GUESTS_MAX]>, Condvar) =
    (Mutex::new([false; GUESTS_MAX]), Condvar::new());

/// The right to run a guest, until it is dropped.
struct GuestSlot {
    place: usize,
}

impl GuestSlot {
    fn wait() -> Self {
        let taken = GUESTS.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = GUESTS
            .1
            .wait_while(taken, |taken| taken.iter().all(|place| *place))
            .unwrap_or_else(PoisonError::into_inner);
        let place = taken.iter().position(|taken| !taken).unwrap();
        taken[place] = true;
        Self { place }
    }

    /// `kernel-client.sh` with guests in this place.
    fn kernel_client(&self) -> Command {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/kernel/kernel-client.sh");
        let mut command = Command::new(script);
        command.env("KC_SLOT", self.place.to_string());
        command.env("KC_LIBRARIES", env!("CARGO_TARGET_TMPDIR"));
        command
    }
}

impl Drop for GuestSlot {
    fn drop(&mut self) {
        GUESTS.0.lock().unwrap_or_else(PoisonError::into_inner)[self.place] = false;
        GUESTS.1.notify_one();
    }
}
