//! Threads and the processors that they may run on.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// The processors that the calling thread may run on, rising.
///
/// # Errors
/// As sched_getaffinity(2).
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Lets the calling thread run on `cpus` only.
///
/// # Errors
/// As sched_setaffinity(2): none of them exists or is allowed.
pub fn run_on(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU) {
        set.set(*cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Lets the calling thread wake within a microsecond of the time it asked for; the default is 50.
///
/// # Errors
/// As prctl(2) with `PR_SET_TIMERSLACK`.
pub fn wake_on_time() -> io::Result<()> {
    let slack_ns: libc::c_ulong = 1000;
    // SAFETY: PR_SET_TIMERSLACK takes its argument by value and concerns this thread only.
    match unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs the calling thread before all ordinary ones (`SCHED_FIFO`, the lowest priority of it); what
/// it starts afterwards is ordinary again.
///
/// # Errors
/// As sched_setscheduler(2): `CAP_SYS_NICE` is missing.
pub fn run_first() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread; the parameter outlives the call, which only reads it.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has the calling thread get less of the processors than others that want them (nice 5).
///
/// # Errors
/// As setpriority(2).
pub fn lower_priority() -> io::Result<()> {
    Ok(rustix::process::setpriority_process(None, 5)?)
}

/// Runs the calling thread, and what it starts afterwards, only where no ordinary one wants to run
/// (`SCHED_IDLE`).
///
/// # Errors
/// As sched_setscheduler(2).
pub fn run_last() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread; the parameter outlives the call, which only reads it.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Processor time that the calling thread has used.
pub fn cpu_time() -> std::time::Duration {
    time_of(rustix::time::ClockId::ThreadCPUTime)
}

/// The CPU time that the calling thread has used, in nanoseconds.
pub fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time that this process has used.
pub fn own_cpu_time() -> std::time::Duration {
    time_of(rustix::time::ClockId::ProcessCPUTime)
}

fn time_of(clock: rustix::time::ClockId) -> std::time::Duration {
    let time = rustix::time::clock_gettime(clock);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    std::time::Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos)
}

/// A thread of this process, as the kernel numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadNumber(u32);

impl ThreadNumber {
    /// The calling thread's; only the first time is a system call.
    pub fn own() -> Self {
        thread_local! {
            static OWN: ThreadNumber =
                ThreadNumber(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
        }
        OWN.with(|own| *own)
    }

    /// As a word that can be shared without a lock; 0 is nobody's.
    pub const fn word(self) -> u32 {
        self.0
    }

    /// The thread of a word.
    pub const fn of_word(word: u32) -> Option<Self> {
        if word == 0 { None } else { Some(Self(word)) }
    }

    /// Whether the thread sleeps, for a disk or for anything else, rather than runs or waits for a
    /// processor; `None` if `/proc` does not tell.
    pub fn sleeps(self) -> Option<bool> {
        let stat = std::fs::read(format!("/proc/self/task/{}/stat", self.0)).ok()?;
        state_in(&stat).map(|state| state != b'R')
    }
}

/// The state in the text of a thread's `stat`: after its name, which may hold anything, parentheses too.
fn state_in(stat: &[u8]) -> Option<u8> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(end..)?.get(2).copied()
}

/// What some CPUs have done since the machine started, all together; in hundredths of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTimes {
    /// With nothing to do; that they wait for a disk counts as idle.
    pub idle: std::time::Duration,
    /// With something to do, while the host of this virtual machine let others run.
    pub stolen: std::time::Duration,
    /// All of it.
    pub all: std::time::Duration,
}

impl CpuTimes {
    /// The share of all time since `before` that was stolen, 0 to 1.
    pub fn stolen_since(&self, before: &Self) -> f64 {
        let all = self.all.saturating_sub(before.all).as_secs_f64();
        let stolen = self.stolen.saturating_sub(before.stolen).as_secs_f64();
        if all > 0.0 { stolen / all } else { 0.0 }
    }
}

/// The times of the CPUs that the calling thread may use.
///
/// # Errors
/// `/proc/stat` cannot be read, or tells nothing of these CPUs.
pub fn cpu_times() -> io::Result<CpuTimes> {
    let allowed = allowed_cpus()?;
    let stat = std::fs::read_to_string("/proc/stat")?;
    times_in(&stat, &allowed).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The times of some CPUs in the text of `/proc/stat`.
fn times_in(stat: &str, cpus: &[usize]) -> Option<CpuTimes> {
    // USER_HZ, which is 100 on all machines that Linux tells it of in this file
    let ticks = |ticks: u64| std::time::Duration::from_millis(ticks.saturating_mul(10));
    let mut sum: Option<CpuTimes> = None;
    for line in stat.lines().take_while(|line| line.starts_with("cpu")) {
        let mut fields = line.split_ascii_whitespace();
        let number = fields.next().and_then(|name| name.strip_prefix("cpu")?.parse().ok());
        if number.is_some_and(|number| cpus.contains(&number)) {
            // user, nice, system, idle, iowait, irq, softirq, steal; a guest's is in user already
            let mut times = [0_u64; 8];
            let mut found = 0;
            for (time, field) in times.iter_mut().zip(fields) {
                *time = field.parse().ok()?;
                found += 1;
            }
            if found < 4 {
                return None;
            }
            let [.., idle, waiting, _, _, stolen] = times;
            let times_so_far = sum.get_or_insert_default();
            times_so_far.idle += ticks(idle.saturating_add(waiting));
            times_so_far.stolen += ticks(stolen);
            times_so_far.all += ticks(times.iter().fold(0, |sum, time| sum.saturating_add(*time)));
        }
    }
    sum
}

/// No process has a higher number, on any Linux.
const PID_MAX: libc::pid_t = 1 << 22;

/// Processor time that a process has used, that of its ended threads included; exact, where
/// `/proc` counts in hundredths of a second.
///
/// # Errors
/// As clock_getcpuclockid(3): there is no such process.
pub fn process_cpu_time(pid: u32) -> io::Result<std::time::Duration> {
    // a clock's number has 29 bits for the process: a larger one would be another's, or our own
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid <= PID_MAX);
    let Some(pid) = pid else { return Err(io::ErrorKind::NotFound.into()) };
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the call writes one clock id to a place that outlives it.
    let error = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec to a place that outlives it.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Ok(std::time::Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos))
}

/// How many processors are running, whether this process may use them or not; 1 if the kernel does
/// not tell.
pub fn online_cpus() -> u32 {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    u32::try_from(parse_cpu_list(&list).len()).unwrap_or(u32::MAX).max(1)
}

/// The processors of each memory node, from `/sys`; empty where the kernel does not tell.
pub fn nodes() -> Vec<Vec<usize>> {
    let Ok(dir) = std::fs::read_dir("/sys/devices/system/node") else { return Vec::new() };
    let mut nodes: Vec<(usize, Vec<usize>)> = dir
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            let list = std::fs::read_to_string(entry.path().join("cpulist")).ok()?;
            Some((number, parse_cpu_list(&list)))
        })
        .filter(|(_, cpus)| !cpus.is_empty())
        .collect();
    nodes.sort_unstable();
    nodes.into_iter().map(|(_, cpus)| cpus).collect()
}

/// A list as the kernel prints it: `0-3,8`.
fn parse_cpu_list(list: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cpus.extend((first..=last).take(CpuSet::MAX_CPU));
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::{allowed_cpus, cpu_time, parse_cpu_list, process_cpu_time, run_on, wake_on_time};

    #[test]
    fn process_cpu_time_includes_ended_threads() {
        let own = std::process::id();
        let before = process_cpu_time(own).unwrap();
        let used = std::thread::spawn(|| {
            while cpu_time() < std::time::Duration::from_millis(30) {}
            cpu_time()
        });
        let used = used.join().unwrap();
        assert!(process_cpu_time(own).unwrap() - before >= used);
        for nobody in [u32::MAX, 0x3fff_ffff, 0x1fff_ffff, super::PID_MAX.unsigned_abs() + 1] {
            assert!(process_cpu_time(nobody).is_err(), "{nobody:#x}");
        }
    }

    #[test]
    fn sleeping_and_running_threads_are_distinguished() {
        use super::ThreadNumber;
        let own = ThreadNumber::own();
        assert_eq!(own.sleeps(), Some(false));
        assert_eq!(ThreadNumber::of_word(own.word()), Some(own));
        assert_eq!(ThreadNumber::of_word(0), None);
        let (send, receive) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            send.send(ThreadNumber::own()).unwrap();
            std::thread::park();
        });
        let other = receive.recv().unwrap();
        while other.sleeps() == Some(false) {
            std::thread::yield_now();
        }
        assert_eq!(other.sleeps(), Some(true));
        sleeper.thread().unpark();
        sleeper.join().unwrap();
        assert_eq!(super::state_in(b"7 (a) R (b) D 1 2"), Some(b'D'));
        assert_eq!(super::state_in(b"7 a D"), None);
    }

    #[test]
    fn times_are_those_of_the_named_cpus() {
        let stat = "cpu  9 9 9 999 9\ncpu0 1 0 1 100 20 2 3 4 50 0\ncpu1 1 0 1 3 0\ncpu12 5 5 5 7\nintr 5\n";
        let times = |cpus: &[usize]| {
            let times = super::times_in(stat, cpus)?;
            Some([times.idle, times.stolen, times.all].map(|time| time.as_millis()))
        };
        assert_eq!(times(&[0]), Some([1200, 40, 1310]));
        assert_eq!(times(&[0, 12]), Some([1270, 40, 1530]));
        assert_eq!(times(&[2]), None);
        assert_eq!(super::times_in("cpu0 1 0 1\n", &[0]), None);
        assert_eq!(super::times_in("cpu0 1 0 1 x\n", &[0]), None);
        let times = super::cpu_times().unwrap();
        assert!(times.all >= times.idle + times.stolen);
        let times = |stolen, all| {
            let [stolen, all] = [stolen, all].map(std::time::Duration::from_millis);
            super::CpuTimes { stolen, all, ..super::CpuTimes::default() }
        };
        assert!((times(60, 300).stolen_since(&times(10, 100)) - 0.25).abs() < 1e-9);
        assert!(times(10, 100).stolen_since(&times(10, 100)).abs() < 1e-9);
        assert!(super::own_cpu_time() > std::time::Duration::ZERO);
    }

    #[test]
    fn a_sleeping_thread_uses_no_cpu_time() {
        std::thread::spawn(|| {
            wake_on_time().unwrap();
            let before = cpu_time();
            std::thread::sleep(std::time::Duration::from_millis(200));
            assert!(cpu_time() - before < std::time::Duration::from_millis(100));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(parse_cpu_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert!(parse_cpu_list("\n").is_empty());
    }

    #[test]
    fn a_thread_stays_on_its_cpu() {
        std::thread::spawn(|| {
            let first = allowed_cpus().unwrap()[0];
            run_on(&[first]).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [first]);
        })
        .join()
        .unwrap();
    }
}
