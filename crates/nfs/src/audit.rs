//! The audit record of removes, renames and attribute changes (`audit`).
//!
//! Owns: whether changes are recorded, and the content of a record. An [`AuditSink`] stores records.
//!
//! Invariants: while recording is off, a call that could be recorded pays one relaxed load; other calls pay nothing. The
//! sink never blocks.

use rpc::Peer;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use vfs::{SetAttr, Status};

/// The operation that was done or attempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditedOperation {
    /// An entry that is not a directory was removed.
    Remove,
    /// A directory was removed.
    Rmdir,
    /// An entry was renamed.
    Rename,
    /// Attributes were set.
    Setattr,
}

impl AuditedOperation {
    /// The name, as in RFC 1813.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Remove => "REMOVE",
            Self::Rmdir => "RMDIR",
            Self::Rename => "RENAME",
            Self::Setattr => "SETATTR",
        }
    }
}

/// A place in an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedPath {
    /// The entry's name, as the client sent it; none of an object that is named by its handle.
    pub name: Option<Vec<u8>>,
    /// The path on this machine; `None` if the back end does not know it.
    pub path: Option<PathBuf>,
}

/// One operation, after it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// When it ended.
    pub time: SystemTime,
    /// What was done.
    pub operation: AuditedOperation,
    /// Where the call came from.
    pub peer: Peer,
    /// The user that the client states; `None` without AUTH_SYS.
    pub uid: Option<u32>,
    /// The authenticated principal of the caller, if any.
    pub principal: Option<Box<[u8]>>,
    /// The local user that the caller acts as.
    pub acts_as_uid: u32,
    /// The export's path.
    pub export: String,
    /// The object of the operation.
    pub place: AuditedPath,
    /// The new name, for a rename.
    pub to: Option<AuditedPath>,
    /// The attributes, for SETATTR, as far as they could be decoded.
    pub set: Option<SetAttr>,
    /// The error, if it failed.
    pub failed: Option<Status>,
}

/// Who keeps records.
pub trait AuditSink: Send + Sync {
    /// Takes a record or drops it; never waits.
    fn record(&self, record: AuditRecord);
}

/// The switch.
#[derive(Default)]
pub struct Audit {
    on: AtomicBool,
    sink: OnceLock<Box<dyn AuditSink>>,
}

impl Audit {
    /// Gives records to `sink` while it is on; the first sink stays.
    pub fn set_sink(&self, sink: Box<dyn AuditSink>) {
        let _first = self.sink.set(sink);
    }

    /// Switches recording on or off; counts from the next call on.
    pub fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Who keeps records, while somebody does.
    #[inline]
    pub fn sink(&self) -> Option<&dyn AuditSink> {
        if self.on.load(Ordering::Relaxed) { self.sink.get().map(AsRef::as_ref) } else { None }
    }
}
