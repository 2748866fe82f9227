//! The names under which things are found: a file, a host, a request that waits.

use std::hash::{Hash, Hasher};

/// A file: the number of its export and its file id, as bytes that mean nothing here. Bytes that are not used are 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileKey {
    len: u8,
    bytes: [u8; Self::MAX],
}

impl FileKey {
    /// The most bytes: four of the export and the longest file id.
    pub const MAX: usize = 55;

    /// The key of these bytes; `None` if there are too many.
    pub fn new(key: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::MAX];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        Some(Self { len: u8::try_from(key.len()).ok()?, bytes })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl Hash for FileKey {
    /// Only the bytes that are used: most file ids are short.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.bytes());
    }
}

impl std::fmt::Debug for FileKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// One life of an NLM host: a host that is dropped and comes back has a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub(crate) u64);

/// What the caller calls a request that may wait; [`Granted`](crate::Granted) brings it back. The caller chooses
/// it and stores under it, *before* it asks, how to reach the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// Milliseconds of a clock that never goes back. The core reads no clock: each call is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Now(pub u64);

impl Now {
    pub(crate) fn since(self, earlier_ms: u64) -> u64 {
        self.0.saturating_sub(earlier_ms)
    }
}
