//! Memory, threads and descriptors of this process, read from `/proc` on demand.

use std::fs;

/// Resource use of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Process {
    /// Resident memory, in bytes.
    pub memory_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub open_files: u64,
    /// The limit of open descriptors.
    pub open_files_max: u64,
    /// Processor time, of user and system.
    pub cpu_ms: u64,
}

/// Reads the current values; 0 for what cannot be read.
pub fn read() -> Process {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let kib = number_after(&status, "VmRSS:");
    Process {
        memory_bytes: kib * 1024,
        threads: number_after(&status, "Threads:"),
        open_files: open_files(),
        open_files_max: number_after(&limits, "Max open files"),
        cpu_ms: cpu_ms(),
    }
}

/// Open descriptors. The size of the directory is their number from Linux 6.2 on, and 0 before.
fn open_files() -> u64 {
    match fs::metadata("/proc/self/fd") {
        Ok(dir) if dir.len() > 0 => dir.len(),
        _ => fs::read_dir("/proc/self/fd").map_or(0, |dir| dir.count() as u64),
    }
}

/// Fields 14 and 15 of /proc/self/stat, in hundredths of a second (proc(5); USER_HZ is 100 on all platforms of Rust's
/// that Linux serves).
fn cpu_ms() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // the name of the program, which may contain anything, ends with the last parenthesis
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10
}

/// The machine's name.
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_end().to_owned()
}

/// The user's name and id, or the id alone if `/etc/passwd` does not have it.
pub fn user_name(uid: u32) -> String {
    let table = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| format!("{name} ({uid})"))
    });
    named.unwrap_or_else(|| uid.to_string())
}

/// The first number of the line that begins with `label`; 0 if there is none.
fn number_after(text: &str, label: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{number_after, read, user_name};

    #[test]
    fn values_of_this_process_are_read() {
        let seen = read();
        assert!(seen.memory_bytes > 100_000 && seen.threads >= 1, "{seen:?}");
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 30 {}
        assert!(read().cpu_ms > 0);
        assert!(seen.open_files >= 3 && seen.open_files_max >= seen.open_files, "{seen:?}");
    }

    #[test]
    fn lines_are_found_by_their_label() {
        assert_eq!(number_after("A: 1\nB:\t 22 kB\n", "B:"), 22);
        assert_eq!(number_after("A: x\n", "A:"), 0);
        assert_eq!(user_name(0), "root (0)");
        assert_eq!(user_name(4_000_000_001), "4000000001");
    }
}
