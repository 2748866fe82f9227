//! The interface of the store whose records allow clients to reclaim after a restart.

use state::Record;
use std::io;

/// Stores records. One store holds those of all programs.
pub trait Store: Send + Sync {
    /// Appends records; on return all of them are on stable storage. May block, which the caller has announced.
    ///
    /// # Errors
    /// They are not stored, or not all of them. Saying so to the operator is the store's own task.
    fn append_all(&self, records: &[Record]) -> io::Result<()>;

    /// Appends one record.
    ///
    /// # Errors
    /// As [`Store::append_all`].
    fn append(&self, record: &Record) -> io::Result<()> {
        self.append_all(std::slice::from_ref(record))
    }
}

/// A store for a server without persistent state: after a restart nothing can be reclaimed, and no client is notified
/// that he could.
#[derive(Debug, Clone, Copy, Default)]
pub struct Volatile;

impl Store for Volatile {
    fn append_all(&self, _: &[Record]) -> io::Result<()> {
        Ok(())
    }
}
