//! The hash of the map of sessions and stateids. Its keys are made by the server and hold random bits, so that no client can
//! choose keys that fall together: a few multiplications are enough.

use std::hash::{BuildHasher, Hasher};

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes hashers of keys.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeyHashing;

/// The hash of one key.
#[derive(Debug, Default)]
pub struct KeyHasher(u64);

impl BuildHasher for KeyHashing {
    type Hasher = KeyHasher;

    #[inline]
    fn build_hasher(&self) -> KeyHasher {
        KeyHasher::default()
    }
}

impl Hasher for KeyHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.0 = (self.0 ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR).rotate_left(32);
        }
        for byte in rest {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(FACTOR).rotate_left(32);
        }
    }

    /// All keys are of one length.
    #[inline]
    fn write_usize(&mut self, _: usize) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }
}

#[cfg(test)]
mod tests {
    use super::KeyHashing;
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    /// As many places as a map of this size would have, from either end of the hash.
    #[test]
    fn keys_that_differ_in_one_part_are_distributed() {
        let parts: [fn(u32) -> [u8; 16]; 3] = [
            |n| ((0x17_u128 << 96) | u128::from(n) << 64 | 0xffff_ffff).to_be_bytes(),
            |n| ((0x17_u128 << 96) | u128::from(n) << 32).to_be_bytes(),
            |n| (u128::from(n) << 96).to_be_bytes(),
        ];
        for key in parts {
            let hashes: Vec<u64> = (0..1024).map(|n| KeyHashing.hash_one(key(n))).collect();
            for shift in [0, 54] {
                let places: BTreeSet<u64> = hashes.iter().map(|h| h >> shift & 1023).collect();
                assert!(places.len() > 500, "{} of 1,024 places", places.len());
            }
        }
    }
}
