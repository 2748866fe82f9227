//! A thread that runs a task once a second, such as closing idle files or looking for hung calls.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two runs.
const PERIOD: Duration = Duration::from_secs(1);

/// The thread; dropping this ends it.
#[derive(Debug)]
pub struct PeriodicTask {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl PeriodicTask {
    /// Starts a thread of this name that calls `task` every second with the seconds since the start.
    ///
    /// # Errors
    /// The kernel refuses another thread.
    pub fn start(name: &str, task: impl Fn(u32) + Send + 'static) -> std::io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let begun = Instant::now();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                task(u32::try_from(begun.elapsed().as_secs()).unwrap_or(u32::MAX));
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for PeriodicTask {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PeriodicTask;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    #[test]
    fn a_task_runs_until_it_is_dropped() {
        let run_at = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&run_at);
        let task = PeriodicTask::start("test", move |now_s| count.store(now_s, Ordering::Relaxed));
        while run_at.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(task);
        assert_eq!(Arc::strong_count(&run_at), 1, "its closure is gone");
    }
}
