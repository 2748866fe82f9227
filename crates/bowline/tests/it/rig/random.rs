//! What tests choose by chance, so that the same seed chooses the same again.

/// A generator of numbers that needs no crate (xorshift). The seed is not 0.
pub struct Xorshift(pub u64);

impl Xorshift {
    /// A number less than `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// One of so many.
    pub fn one_of(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }
}

/// The seed: `SEED` of the environment, or a new one. It is printed, for a run again.
pub fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    let given = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32 | 1);
    println!("SEED={seed}");
    seed
}
