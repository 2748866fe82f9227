//! Which opens there are of each file, in shards with a lock each.

use super::file_opens::FileOpens;
use crate::hashed_file::{FileHashing, FileMap, HashedFile};
use crate::key::FileKey;
use crate::sync::Mutex;

/// Shards of the map of files.
const SHARDS: usize = 64;

/// The opens of the files of one shard.
pub(super) type Shard = Mutex<FileMap<FileOpens>>;

/// The opens of all files.
pub(super) struct Files {
    shards: Box<[Shard]>,
    hashing: FileHashing,
}

impl Default for Files {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hashing: FileHashing::default() }
    }
}

impl Files {
    /// A file as the shards know it.
    pub fn hashed(&self, file: &FileKey) -> HashedFile {
        self.hashing.of(file)
    }

    pub fn shard(&self, file: &HashedFile) -> Option<&Shard> {
        self.shards.get(file.shard(SHARDS)).or_else(|| self.shards.first())
    }
}
