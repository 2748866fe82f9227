//! TCP's memory, which all namespaces of a machine share.
//!
//! A sender that is killed with megabytes in its queue leaves an orphaned socket that keeps its
//! namespace and its memory for minutes; past the kernel's limits new connections become very slow
//! without an error. So a run waits until the machine has recovered, and reports it if it does not.

use super::LabError;
use std::path::Path;
use std::time::{Duration, Instant};

/// What TCP holds on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpMemory {
    /// Sockets without a process.
    pub orphans: u64,
    /// Pages of all TCP buffers.
    pub pages: u64,
    /// Above this the kernel limits sockets (`net.ipv4.tcp_mem`, first value).
    pub pages_low: u64,
}

impl TcpMemory {
    /// Whether a run may begin: no more orphans than a closing connection leaves for a moment, and
    /// most of the memory free.
    pub fn is_quiet(self) -> bool {
        self.orphans <= ORPHANS_MAX && self.pages < self.pages_low / 2
    }
}

/// Harmless orphans: connections in their last round trips.
const ORPHANS_MAX: u64 = 8;
const SOCKETS: &str = "/proc/net/sockstat";
const LIMITS: &str = "/proc/sys/net/ipv4/tcp_mem";
/// How often it is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What TCP holds now.
///
/// # Errors
/// [`LabError::Unable`] inside a network namespace, [`LabError::Failed`] without `/proc`.
pub fn now() -> Result<TcpMemory, LabError> {
    let read = |path: &str| {
        std::fs::read_to_string(path).map_err(|e| match e.kind() {
            // its memory is the machine's, which does not show the limits to other networks
            std::io::ErrorKind::NotFound if path == LIMITS && Path::new(SOCKETS).exists() => {
                LabError::Unable(
                    "net.ipv4.tcp_mem is not visible in a network namespace (a container): run this in the \
                     machine's own network"
                        .to_owned(),
                )
            }
            _ => LabError::Failed(format!("{path}: {e}")),
        })
    };
    let parsed = parse(&read(SOCKETS)?, &read(LIMITS)?);
    parsed.ok_or_else(|| LabError::Failed("/proc/net/sockstat has another form".into()))
}

/// Waits until a run may begin.
///
/// # Errors
/// [`LabError::Failed`] if it may not begin after `patience`: the reason.
pub fn wait_until_quiet(patience: Duration) -> Result<(), LabError> {
    let begun = Instant::now();
    loop {
        let memory = now()?;
        if memory.is_quiet() {
            return Ok(());
        }
        if begun.elapsed() > patience {
            return Err(LabError::Failed(format!(
                "TCP on this machine still holds {} orphaned sockets and {} of {} pages from \
                 earlier connections: wait a few minutes, or raise net.ipv4.tcp_mem",
                memory.orphans, memory.pages, memory.pages_low
            )));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// `TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 1`, and `low pressure high`.
fn parse(sockstat: &str, tcp_mem: &str) -> Option<TcpMemory> {
    let line = sockstat.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let value = |name: &str| {
        let found = words.chunks_exact(2).find(|pair| pair.first() == Some(&name))?;
        found.get(1)?.parse().ok()
    };
    Some(TcpMemory {
        orphans: value("orphan")?,
        pages: value("mem")?,
        pages_low: tcp_mem.split_whitespace().next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{TcpMemory, now, parse};

    #[test]
    fn orphans_and_pages_are_parsed_and_compared_with_limits() {
        let text =
            "sockets: used 9\nTCP: inuse 5 orphan 34 tw 0 alloc 7 mem 1000\nUDP: inuse 1 mem 2\n";
        let memory = parse(text, "2000\t3000\t4000\n").unwrap();
        assert_eq!(memory, TcpMemory { orphans: 34, pages: 1000, pages_low: 2000 });
        assert!(!memory.is_quiet());
        assert!(TcpMemory { orphans: 0, pages: 999, ..memory }.is_quiet());
        assert!(parse("UDP: inuse 1\n", "1 2 3").is_none());
        assert!(now().unwrap().pages_low > 0);
    }
}
