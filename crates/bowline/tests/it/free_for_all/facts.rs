//! What is known of the files without asking the server: for each value that one party alone changes, which versions were
//! begun, and when each was done.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Those who read and change the files.
pub const PARTIES: usize = 4;
/// The party that is a program of the server's machine.
pub const LOCAL: usize = 3;
/// Time within which a client with a delegation is told of what holds nobody back.
pub const TOLD_WITHIN: Duration = Duration::from_secs(15);

/// A value of a file that one party changes, from version to version.
pub struct Value {
    begun: AtomicU64,
    /// When each version was done; the first is there from the start.
    done: Mutex<Vec<Instant>>,
}

impl Value {
    fn new() -> Self {
        Self { begun: AtomicU64::new(0), done: Mutex::new(vec![Instant::now()]) }
    }

    /// Begins a change; the new version.
    pub fn begin(&self) -> u64 {
        self.begun.fetch_add(1, SeqCst) + 1
    }

    /// The change that was begun is done: whoever opens the file from now on must see it.
    pub fn finish(&self) {
        self.done.lock().unwrap().push(Instant::now());
    }

    /// The last version that is done.
    pub fn done(&self) -> u64 {
        self.done.lock().unwrap().len() as u64 - 1
    }

    /// The last version that was begun.
    pub fn begun(&self) -> u64 {
        self.begun.load(SeqCst)
    }

    /// For how long a newer version than this has been done.
    pub fn outdated_for(&self, version: u64) -> Duration {
        let done = self.done.lock().unwrap();
        done.get(version as usize + 1).map_or(Duration::ZERO, Instant::elapsed)
    }
}

/// A file.
pub enum File {
    /// Each party overwrites a number of its own in the data; its owner also changes its size and mode.
    Shared { numbers: [Value; PARTIES], size: Value, mode: Value },
    /// The owner replaces, removes and renames it; the data is one number.
    Named(Value),
}

/// How many files there are: a file rests for 30 s after a recall, in which others are used.
pub const FILES: usize = 8192;

impl File {
    pub fn new(at: usize) -> Self {
        match at % 2 {
            0 => Self::Named(Value::new()),
            _ => Self::Shared {
                numbers: std::array::from_fn(|_| Value::new()),
                size: Value::new(),
                mode: Value::new(),
            },
        }
    }
}

pub fn name_of(at: usize) -> String {
    format!("file-{at}")
}

/// The party that alone changes a file's name, size and mode.
pub const fn owner_of(at: usize) -> usize {
    at / 2 % PARTIES
}

/// The size that belongs to a version: behind the numbers.
pub const fn size_of(version: u64) -> u64 {
    64 + version * 37 % 997
}

/// The mode that belongs to a version: the owner may always read and write.
pub const fn mode_of(version: u64) -> u32 {
    0o600 | (version % 64) as u32
}

/// What becomes of a name with a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    Replaced,
    Removed,
    /// It gets another name.
    Renamed,
}

pub const fn named(version: u64) -> Named {
    match version % 8 {
        3 => Named::Removed,
        7 => Named::Renamed,
        _ => Named::Replaced,
    }
}

/// What a party sees of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub numbers: [u64; PARTIES],
    pub size: u64,
    pub mode: u32,
}

/// What a party is told of a file without looking at its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attrs {
    /// Others after each change: the change attribute, or the times.
    pub changes: (u64, u64),
    pub size: u64,
}

impl Seen {
    pub fn new(data: &[u8], size: u64, mode: u32) -> Self {
        let mut numbers = [0; PARTIES];
        for (number, bytes) in numbers.iter_mut().zip(data.as_chunks().0) {
            *number = u64::from_be_bytes(*bytes);
        }
        Self { numbers, size, mode: mode & 0o777 }
    }
}
