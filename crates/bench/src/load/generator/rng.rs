//! The random numbers of a workload.

/// A cheap generator of random numbers (xorshift64*); good enough to choose a file.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64, client: usize) -> Self {
        let mixed = (seed ^ (client as u64).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(mixed | 1)
    }

    pub(crate) const fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`; 0 if there is none.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.next_u64()) * end as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// One of `all`.
    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn random_numbers_are_uniform_and_differ_between_clients() {
        let mut rng = Rng::new(1, 7);
        let mut seen = [0_u32; 10];
        for _ in 0..100_000 {
            seen[rng.below(10)] += 1;
        }
        assert!(seen.iter().all(|n| (9_500..10_500).contains(n)), "{seen:?}");
        assert_ne!(Rng::new(1, 0).next_u64(), Rng::new(1, 1).next_u64());
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.pick::<u8>(&[]), None);
    }
}
