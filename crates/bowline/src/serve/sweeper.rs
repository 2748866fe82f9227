//! A thread that does something once a second: closing idle files, looking for hung calls.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two sweeps.
const PERIOD: Duration = Duration::from_secs(1);

/// The thread; dropping it ends it.
#[derive(Debug)]
pub struct Sweeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    /// A thread of this name calls `sweep` each second with the seconds since the start.
    ///
    /// # Errors
    /// The kernel refuses another thread.
    pub fn start(name: &str, sweep: impl Fn(u32) + Send + 'static) -> std::io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let begun = Instant::now();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                sweep(u32::try_from(begun.elapsed().as_secs()).unwrap_or(u32::MAX));
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Sweeper;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    #[test]
    fn the_sweeper_runs_until_it_is_dropped() {
        let swept = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&swept);
        let sweeper = Sweeper::start("test", move |now_s| count.store(now_s, Ordering::Relaxed));
        while swept.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(sweeper);
        assert_eq!(Arc::strong_count(&swept), 1, "its closure is gone");
    }
}
