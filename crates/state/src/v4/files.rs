//! Which opens there are of each file, in shards with a lock each.

use super::open_entry::Open;
use crate::key::FileKey;
use crate::sync::{Arc, Mutex};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Shards of the map of files.
const SHARDS: usize = 64;

/// The opens of the files of one shard.
pub(super) type Shard = Mutex<HashMap<FileKey, Vec<Arc<Open>>>>;

/// The opens of all files.
pub(super) struct Files {
    shards: Box<[Shard]>,
    hash: RandomState,
}

impl Default for Files {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), hash: RandomState::new() }
    }
}

impl Files {
    pub fn shard(&self, file: &FileKey) -> Option<&Shard> {
        let hash = self.hash.hash_one(file);
        self.shards.get(usize::try_from(hash).unwrap_or(0) % SHARDS).or_else(|| self.shards.first())
    }
}
