//! A file's key with its hash: a request hashes the key once, for the shard and for the map inside of it.
//!
//! Invariant: keys of one map have hashes of one [`FileHashing`], whose seed no client knows.

use crate::key::FileKey;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

/// A file with its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HashedFile {
    hash: u64,
    pub file: FileKey,
}

impl HashedFile {
    /// Its place among `shards`. Maps choose theirs by other bits.
    pub fn shard(&self, shards: usize) -> usize {
        let upper = usize::try_from(self.hash >> 32).unwrap_or(0);
        upper.checked_rem(shards).unwrap_or(0)
    }
}

impl Hash for HashedFile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A map by files.
pub(crate) type FileMap<V> = HashMap<HashedFile, V, BuildHasherDefault<PrehashedHasher>>;

/// Hashes the files of one map.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileHashing(RandomState);

impl FileHashing {
    /// A file with its hash.
    pub fn of(&self, file: &FileKey) -> HashedFile {
        HashedFile { hash: self.0.hash_one(file), file: *file }
    }
}

/// The hash that a key has already.
#[derive(Debug, Clone, Default)]
pub(crate) struct PrehashedHasher(u64);

impl Hasher for PrehashedHasher {
    /// Not called: the keys are [`HashedFile`]s.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{FileHashing, FileMap};
    use crate::key::FileKey;
    use std::collections::BTreeSet;

    #[test]
    fn only_the_bytes_that_are_used_are_hashed() {
        #[derive(Default)]
        struct Count(usize);
        impl std::hash::Hasher for Count {
            fn write(&mut self, bytes: &[u8]) {
                self.0 += bytes.len();
            }
            fn finish(&self) -> u64 {
                0
            }
        }
        let mut count = Count::default();
        std::hash::Hash::hash(&FileKey::new(&[7; 12]).unwrap(), &mut count);
        assert_eq!(count.0, 12);
    }

    #[test]
    fn files_are_found_and_spread_over_shards() {
        let hashing = FileHashing::default();
        let key = |n: u32| FileKey::new(&n.to_be_bytes()).unwrap();
        let mut map = FileMap::default();
        let mut shards = BTreeSet::new();
        for n in 0..1000 {
            let file = hashing.of(&key(n));
            shards.insert(file.shard(64));
            map.insert(file, n);
        }
        assert_eq!(shards.len(), 64);
        assert!(shards.iter().all(|shard| *shard < 64));
        assert!((0..1000).all(|n| map.get(&hashing.of(&key(n))) == Some(&n)));
        assert_eq!(map.get(&hashing.of(&key(1000))), None);
        assert_eq!(hashing.of(&key(1)).shard(1), 0);
    }
}
