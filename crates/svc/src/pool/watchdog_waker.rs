//! Wakes the watchdog, which sleeps without a timer while no call runs.
//!
//! No wake-up is lost: the watchdog raises the flag *first* and asks each pool's scheduler *then*; a
//! leader begins a service round through the scheduler's lock *first* and reads the flag *then*. The same
//! between the budget of partial records and the flag, with a fence on both sides.

use crate::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, SeqCst},
    fence,
};
use std::thread::Thread;

/// Wakes the watchdog.
#[derive(Debug, Default)]
pub(crate) struct WatchdogWaker {
    pub asleep: AtomicBool,
    /// Set while the watchdog runs. Locked only when it has to be woken.
    pub thread: Mutex<Option<Thread>>,
}

impl WatchdogWaker {
    /// A call begins.
    pub fn wake(&self) {
        if self.asleep.load(Relaxed) {
            self.wake_now();
        }
    }

    /// A connection holds memory that has been taken from the budget, and may make no progress.
    pub fn wake_for_memory(&self) {
        fence(SeqCst);
        self.wake();
    }

    /// Wakes it in any case.
    pub fn wake_now(&self) {
        self.asleep.store(false, Relaxed);
        if let Some(thread) = &*lock(&self.thread) {
            thread.unpark();
        }
    }
}
