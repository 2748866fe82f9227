//! The threads that copy: up to [`table::THREADS_PER_EXPORT`](super::table::THREADS_PER_EXPORT) for each export with copies
//! under way, so that a file system that hangs holds up the copies of its own export only. Each makes a step of the copy
//! whose turn it is, and ends when there is none.

use super::{CopyServer, Step};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::thread::Builder;
use std::time::Duration;

/// How long a thread waits before the next step after a file system has said "later".
const PAUSE: Duration = Duration::from_millis(20);

/// Starts one for an export.
///
/// # Errors
/// The kernel refuses another thread.
pub(super) fn start(server: &Weak<dyn CopyServer>, export: u32) -> io::Result<()> {
    let server = Weak::clone(server);
    Builder::new().name("copy".into()).spawn(move || run(&server, export)).map(drop)
}

fn run(server: &Weak<dyn CopyServer>, export: u32) {
    let mut buffer = Vec::new();
    while let Some(server) = server.upgrade() {
        let copies = server.copies();
        let Some(copy) = copies.next(export) else { return };
        let before = copy.copied.load(Relaxed);
        let step = copy.step(server.state(), &mut buffer);
        let copied = copy.copied.load(Relaxed).saturating_sub(before);
        copies.counters.bytes.fetch_add(copied, Relaxed);
        server.copy_stepped(&copy);
        if step == Step::Later {
            std::thread::sleep(PAUSE);
        }
        if let Some(status) = copies.step_ended(&copy, step, server.now()) {
            Arc::clone(&server).tell_copy_ended(&copy, status);
            copies.wake();
        }
    }
}
