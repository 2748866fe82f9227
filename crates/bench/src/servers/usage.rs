//! What a process uses: processor time, switches, waiting for a processor, memory.
//!
//! Processor time is exact (the scheduler's own clock of the process, ended threads included). Context
//! switches and run-queue delay are known per thread only, and `/proc` does not list ended threads: their
//! counts after the earlier sample are missing from a [`Usage`], which contains the number of such threads.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Counters of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Thread {
    voluntary: u64,
    involuntary: u64,
    run_delay_ns: u64,
}

/// The usage of some processes so far.
#[derive(Debug, Clone)]
pub struct UsageSample {
    at: Instant,
    cpu: Duration,
    threads: BTreeMap<u32, Thread>,
    rss_bytes: u64,
    peak_bytes: u64,
    load: f64,
}

/// The usage between two samples, as stored in results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Seconds between the readings.
    pub seconds: f64,
    /// Processor time in nanoseconds.
    pub cpu_ns: u64,
    /// Times that a thread waited for something.
    pub voluntary_switches: u64,
    /// Times that another thread took the processor away.
    pub involuntary_switches: u64,
    /// Nanoseconds, over all threads, that one was runnable without a processor.
    pub run_delay_ns: u64,
    /// Threads at the second reading.
    pub threads: u64,
    /// Threads that ended in between, whose switches and delay are not counted.
    pub threads_ended: u64,
    /// Resident memory at the second reading.
    pub rss_bytes: u64,
    /// The maximum so far.
    pub peak_bytes: u64,
    /// The machine's load of the last minute, at the second reading.
    pub load: f64,
}

impl Usage {
    /// Both kinds of switches.
    pub fn switches(&self) -> u64 {
        self.voluntary_switches.saturating_add(self.involuntary_switches)
    }

    /// Processors kept busy, on average.
    #[allow(clippy::cast_precision_loss)] // for people
    pub fn cpus(&self) -> f64 {
        if self.seconds > 0.0 { self.cpu_ns as f64 / 1e9 / self.seconds } else { 0.0 }
    }

    /// Threads that ran or waited for a processor, on average: the load of these processes. The
    /// machine's own average of a minute is useless for a second.
    #[expect(clippy::cast_precision_loss, reason = "for people: nanoseconds below 2^52 are exact")]
    pub fn runnable(&self) -> f64 {
        let waited =
            if self.seconds > 0.0 { self.run_delay_ns as f64 / 1e9 / self.seconds } else { 0.0 };
        self.cpus() + waited
    }
}

impl UsageSample {
    /// What the processes have used; `None` if none of them is there.
    pub fn of(pids: &[u32]) -> Option<Self> {
        let mut reading = Self {
            at: Instant::now(),
            cpu: Duration::ZERO,
            threads: BTreeMap::new(),
            rss_bytes: 0,
            peak_bytes: 0,
            load: load(),
        };
        let mut found = false;
        for &pid in pids {
            found |= reading.add(pid).is_some();
        }
        found.then_some(reading)
    }

    fn add(&mut self, pid: u32) -> Option<()> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        self.cpu += sys::thread::process_cpu_time(pid).ok()?;
        self.rss_bytes += field(&status, "VmRSS:").unwrap_or(0) * 1024;
        self.peak_bytes += field(&status, "VmHWM:").unwrap_or(0) * 1024;
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        for task in tasks.flatten() {
            // a thread that ends while it is read counts as ended
            let Some(tid) = task.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let read = |name: &str| std::fs::read_to_string(task.path().join(name)).ok();
            let Some(status) = read("status") else { continue };
            let delay = read("schedstat").and_then(|t| t.split_whitespace().nth(1)?.parse().ok());
            let thread = Thread {
                voluntary: field(&status, "voluntary_ctxt_switches:").unwrap_or(0),
                involuntary: field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0),
                run_delay_ns: delay.unwrap_or(0),
            };
            self.threads.insert(tid, thread);
        }
        Some(())
    }

    /// What was used after `earlier`.
    pub fn since(&self, earlier: &Self) -> Usage {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let nanos = self.cpu.saturating_sub(earlier.cpu).as_nanos();
        let gone = earlier.threads.keys().filter(|tid| !self.threads.contains_key(tid));
        let mut usage = Usage {
            seconds: (self.at - earlier.at).as_secs_f64(),
            cpu_ns: u64::try_from(nanos).unwrap_or(u64::MAX),
            threads: count(self.threads.len()),
            threads_ended: count(gone.count()),
            rss_bytes: self.rss_bytes,
            peak_bytes: self.peak_bytes,
            load: self.load,
            ..Usage::default()
        };
        for (tid, now) in &self.threads {
            let then = earlier.threads.get(tid).copied().unwrap_or_default();
            usage.voluntary_switches += now.voluntary.saturating_sub(then.voluntary);
            usage.involuntary_switches += now.involuntary.saturating_sub(then.involuntary);
            usage.run_delay_ns += now.run_delay_ns.saturating_sub(then.run_delay_ns);
        }
        usage
    }
}

/// The number after `name` at the beginning of a line.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The machine's load of the last minute; 0 if unknown.
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::{UsageSample, field};
    use std::time::Duration;

    #[test]
    fn a_line_is_found_by_its_whole_name() {
        let text = "VmRSS:\t  12 kB\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(field(text, "VmRSS:"), Some(12));
        assert_eq!(field(text, "voluntary_ctxt_switches:"), Some(3));
        assert_eq!(field(text, "nonvoluntary_ctxt_switches:"), Some(4));
        assert_eq!(field(text, "VmHWM:"), None);
    }

    #[test]
    fn cpu_time_switches_and_memory_are_measured() {
        let own = [std::process::id()];
        let before = UsageSample::of(&own).unwrap();
        std::thread::spawn(|| while sys::thread::cpu_time() < Duration::from_millis(50) {})
            .join()
            .unwrap();
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let usage = UsageSample::of(&own).unwrap().since(&before);
        assert!(usage.cpu_ns >= 50_000_000, "{usage:?}");
        assert!(usage.voluntary_switches >= 20 && usage.switches() >= 20, "{usage:?}");
        assert!(usage.rss_bytes > 500_000 && usage.peak_bytes >= usage.rss_bytes, "{usage:?}");
        assert!(usage.cpus() > 0.0 && usage.threads >= 2, "{usage:?}");
    }

    #[test]
    fn a_missing_process_has_no_sample() {
        assert!(UsageSample::of(&[0x3fff_ffff]).is_none() && UsageSample::of(&[]).is_none());
    }
}
