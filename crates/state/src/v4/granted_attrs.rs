//! What the server knew of a file when it granted a delegation of it.

/// A time of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct FileTime {
    /// Seconds since 1970.
    pub sec: i64,
    /// Nanoseconds.
    pub nsec: u32,
}

/// The times that the holder of a delegation keeps itself, as they were when it was granted. Earlier ones are not taken
/// from the holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DelegatedTimes {
    /// Last access.
    pub accessed: FileTime,
    /// Last change of the data.
    pub modified: FileTime,
}

/// What the server knew of a file when it granted a write delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GrantedAttrs {
    /// The change attribute: the holder reports another one once it has changed the file.
    pub change: u64,
    /// The times, if the holder keeps them itself.
    pub times: Option<DelegatedTimes>,
}
