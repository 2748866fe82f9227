//! What an administrator can change of the lock manager while the server runs.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether locks of clients and of local programs exclude each other (`local-locks`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalLocks {
    /// They do.
    On,
    /// Clients exclude only each other.
    Off,
}

/// A word that is not a value of [`LocalLocks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalLocksError;

impl fmt::Display for LocalLocksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("on or off")
    }
}

impl std::error::Error for LocalLocksError {}

impl FromStr for LocalLocks {
    type Err = LocalLocksError;

    fn from_str(word: &str) -> Result<Self, LocalLocksError> {
        match word {
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err(LocalLocksError),
        }
    }
}

impl fmt::Display for LocalLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::On => "on",
            Self::Off => "off",
        })
    }
}

/// The live settings.
#[derive(Debug)]
pub struct NlmSettings {
    local_locks: AtomicBool,
}

impl Default for NlmSettings {
    fn default() -> Self {
        Self { local_locks: AtomicBool::new(true) }
    }
}

impl NlmSettings {
    /// Whether local programs are excluded from files that get their first lock.
    pub fn local_locks(&self) -> bool {
        self.local_locks.load(Relaxed)
    }

    /// Sets it; files that are locked keep what held for their first lock.
    pub fn set_local_locks(&self, choice: LocalLocks) {
        self.local_locks.store(choice == LocalLocks::On, Relaxed);
    }
}
