//! The thread that waits for signals.

use anyhow::Context;
use std::sync::mpsc::{Receiver, Sender, channel};
use sys::signal::{Signal, Signals};

/// Exit status after a second Ctrl-C (128 and the signal's number).
const INTERRUPTED_STATUS: i32 = 130;

/// Starts the thread; signals arrive at the receiver.
///
/// # Errors
/// The kernel refuses another thread.
pub fn forward(signals: Signals) -> anyhow::Result<Receiver<Signal>> {
    let (sender, receiver) = channel();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || forward_all(&signals, &sender))
        .context("cannot start a thread: check the limits on processes")?;
    Ok(receiver)
}

/// Only a second Ctrl-C ends the process at once. A second SIGTERM does not: a service manager and a script
/// may each send one and expect a graceful stop.
fn forward_all(signals: &Signals, sender: &Sender<Signal>) {
    let mut interrupted = false;
    while let Ok(signal) = signals.wait() {
        if signal == Signal::Interrupt && std::mem::replace(&mut interrupted, true) {
            std::process::exit(INTERRUPTED_STATUS);
        }
        // fails while the server stops, when only Ctrl-C still has a meaning
        let _ = sender.send(signal);
    }
}
