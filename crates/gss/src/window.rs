//! The window of sequence numbers of a context (RFC 2203 §5.3.3.1): each number is accepted once, and none that is below
//! the highest by the length of the window or more.
//!
//! No lock: 128 words of 64 bits, each with a bit for 32 numbers and the *lap* that they belong to (number / numbers in
//! all words). A number's position within its lap selects its word. A word of an older lap is replaced: there are words
//! for two windows, so that its numbers are below the window by then. In a word of the same lap the number's bit is set
//! by compare-exchange; a word of a newer lap means that the number is below the window. So a number is accepted at most
//! once, whatever other threads do.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Length of the window: a client with sixteen connections can have 128 calls in flight on each.
pub const WINDOW: u32 = 2048;
/// Numbers in a word.
const NUMBERS: u32 = 32;
/// Numbers in all words.
const LAP: u32 = 2 * WINDOW;
const WORDS: usize = (LAP / NUMBERS) as usize;

/// The window.
pub struct Window {
    /// Lap in the upper half, a bit for each number in the lower one.
    words: [AtomicU64; WORDS],
    highest: AtomicU32,
}

impl Window {
    pub const fn new() -> Self {
        Self { words: [const { AtomicU64::new(0) }; WORDS], highest: AtomicU32::new(0) }
    }

    /// Accepts a number; `false` if it was accepted before, or is below the window.
    pub fn take(&self, number: u32) -> bool {
        let highest = self.highest.fetch_max(number, Relaxed).max(number);
        if highest - number >= WINDOW {
            return false;
        }
        let lap = u64::from(number / LAP);
        let place = number % LAP;
        let bit = 1_u64 << (place % NUMBERS);
        let Some(word) = self.words.get((place / NUMBERS) as usize) else { return false };
        word.try_update(Relaxed, Relaxed, |old| {
            let old_lap = old >> 32;
            match old_lap.cmp(&lap) {
                std::cmp::Ordering::Less => Some(lap << 32 | bit),
                std::cmp::Ordering::Equal if old & bit == 0 => Some(old | bit),
                std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => None,
            }
        })
        .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{WINDOW, Window};
    use proptest::prelude::*;
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_number_is_accepted_once_and_not_below_the_window() {
        let window = Window::new();
        assert!(window.take(0) && !window.take(0));
        assert!(window.take(WINDOW - 1) && window.take(1));
        assert!(window.take(WINDOW), "the next lap");
        assert!(!window.take(0), "behind the window, and seen");
        assert!(window.take(5 * WINDOW) && !window.take(4 * WINDOW) && window.take(4 * WINDOW + 1));
        assert!(window.take(0x7fff_ffff) && !window.take(0x7fff_ffff));
    }

    proptest! {
        #[test]
        fn it_accepts_the_same_numbers_as_an_unbounded_set(
            steps in prop::collection::vec((0_u32..3 * WINDOW, prop::bool::weighted(0.02)), 1..2000)
        ) {
            let (window, mut seen, mut highest, mut base) = (Window::new(), HashSet::new(), 0, 0);
            for (offset, jump) in steps {
                if jump {
                    base += 2 * WINDOW;
                }
                let number = base + offset;
                highest = highest.max(number);
                let expected = highest - number < WINDOW && seen.insert(number);
                prop_assert_eq!(window.take(number), expected, "{}", number);
            }
        }
    }

    #[test]
    fn concurrent_threads_accept_each_number_once() {
        let (window, taken) = (Window::new(), AtomicU32::new(0));
        const NUMBERS: u32 = 20_000;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..NUMBERS {
                        if window.take(number) {
                            taken.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        // a thread that is a whole window late finds its numbers used or below the window
        assert!(taken.load(Ordering::Relaxed) <= NUMBERS);
        assert!(!window.take(NUMBERS - 1));
    }
}
