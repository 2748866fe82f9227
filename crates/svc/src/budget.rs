//! Memory that all connections, or all datagrams, of a server share.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that all connections, or all datagrams, share. Not touched by calls that arrive
/// whole, by replies that leave at once, and by datagrams that are answered without waiting.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    limit: AtomicUsize,
}

impl Budget {
    pub const fn new(limit: usize) -> Self {
        Self { used: AtomicUsize::new(0), limit: AtomicUsize::new(limit) }
    }

    /// Changes how many there are. What is taken beyond stays taken until it is given back.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// How many there are in all.
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Takes `bytes` if they are left.
    pub fn take(&self, bytes: usize) -> bool {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.limit.load(Ordering::Relaxed);
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    /// Takes `bytes`, whether they are left or not; the caller then looks at [`Budget::is_over`].
    pub fn force_take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether more is taken than there is.
    pub fn is_over(&self) -> bool {
        self.used() > self.limit.load(Ordering::Relaxed)
    }

    /// Gives `bytes` back that were taken.
    pub fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether more than half is taken: memory that is not needed is not to be held.
    pub fn is_tight(&self) -> bool {
        self.used() > self.limit.load(Ordering::Relaxed) / 2
    }

    /// Bytes taken.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn a_budget_is_exceeded_only_by_overdraw() {
        let budget = Budget::new(10);
        assert!(budget.take(4) && budget.take(6));
        assert!(!budget.take(1));
        assert_eq!(budget.used(), 10);
        budget.give_back(6);
        assert!(!budget.is_tight());
        assert!(budget.take(2) && budget.is_tight());
        assert_eq!(budget.used(), 6);
        budget.set_limit(3);
        assert!(!budget.take(1));
        budget.give_back(4);
        assert!(budget.take(1) && !budget.take(1));
        assert!(!budget.is_over());
        budget.force_take(2);
        assert!(budget.is_over() && budget.used() == 5);
        budget.give_back(2);
        assert!(!budget.is_over());
    }
}
