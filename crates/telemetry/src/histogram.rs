//! Log-scaled buckets: eight to an octave, from 128 ns to 137 s; the middle of a bucket differs by
//! at most 6 % from the values in it.

/// Buckets to an octave.
const STEPS: u64 = 8;
/// The power of two at which the buckets begin, in ns: 128.
const FIRST_BIT: u32 = 7;
/// Octaves: up to 2^37 ns, 137 s.
const OCTAVES: u64 = 30;
/// How many buckets there are.
pub const BUCKETS: usize = (STEPS * OCTAVES) as usize;

/// The bucket of a duration; values below or above the range are in the first or last one.
pub const fn bucket_of(ns: u64) -> usize {
    if ns < 1 << FIRST_BIT {
        return 0;
    }
    let bit = ns.ilog2();
    let within = (ns >> (bit - 3)) & (STEPS - 1);
    let index = (bit - FIRST_BIT) as u64 * STEPS + within;
    if index < BUCKETS as u64 { index as usize } else { BUCKETS - 1 }
}

/// The upper end of a bucket, in ns.
pub const fn upper_ns(bucket: usize) -> u64 {
    let (octave, within) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    let base = 1u64 << (octave + FIRST_BIT as u64);
    base + base / STEPS * (within + 1)
}

/// The middle of a bucket, in ns.
pub const fn middle_ns(bucket: usize) -> u64 {
    let width = (1u64 << (bucket as u64 / STEPS + FIRST_BIT as u64)) / STEPS;
    upper_ns(bucket) - width / 2
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, bucket_of, middle_ns, upper_ns};

    #[test]
    fn the_bucket_middle_is_within_six_percent_of_its_values() {
        for ns in (128..1_000_000u64).step_by(7).chain([(1 << 36) + 1, (1 << 37) - 1]) {
            let off = middle_ns(bucket_of(ns)).abs_diff(ns);
            assert!(off * 16 <= ns, "{ns}: {off}");
        }
    }

    #[test]
    fn each_value_lies_within_its_bucket() {
        for ns in (128..100_000).chain([1 << 30, (1 << 36) + 12345, (1 << 37) - 1]) {
            let bucket = bucket_of(ns);
            assert!(ns < upper_ns(bucket), "{ns}");
            assert!(bucket == 0 || ns >= upper_ns(bucket - 1), "{ns}");
        }
    }

    #[test]
    fn the_lowest_and_highest_values_have_buckets() {
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }
}
