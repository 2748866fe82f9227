//! A pool's crew: how many worker threads there are, and the stack of those that are parked.
//!
//! Last in, first out: the thread that parked last has the warmest caches, and those at the
//! bottom are idle long enough to be let go.
//!
//! The lock guards the stack and the numbers together, so that a thread either leaves or is
//! called, never both. Nothing blocks under it; threads are unparked outside of it.

use crate::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Where one worker parks.
#[derive(Debug)]
pub(crate) struct Seat {
    thread: Thread,
    called: AtomicBool,
}

impl Seat {
    /// The calling thread's seat.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { thread: std::thread::current(), called: AtomicBool::new(false) })
    }

    /// Whether the worker was called since the last time it asked.
    pub fn was_called(&self) -> bool {
        self.called.swap(false, Ordering::Acquire)
    }

    fn call(&self) {
        self.called.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// What came of calling a follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Called {
    /// One was parked and is on its way.
    Woken,
    /// None was parked; one may be started, and is counted already.
    MayStart,
    /// None is parked and there may be no more.
    Nobody,
}

/// What becomes of a worker that nobody called for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spare {
    /// It is off the books and must end.
    Leave,
    /// It is one of the fewest and stays parked.
    Stay,
    /// It has just been called.
    Called,
}

/// The threads of one pool.
#[derive(Debug)]
pub(crate) struct Crew {
    state: Mutex<State>,
    gone: Condvar,
}

#[derive(Debug)]
struct State {
    parked: Vec<Arc<Seat>>,
    threads: usize,
    min: usize,
    max: usize,
}

impl Crew {
    /// No threads yet.
    pub fn new((min, max): (usize, usize)) -> Self {
        let state = State { parked: Vec::new(), threads: 0, min, max };
        Self { state: Mutex::new(state), gone: Condvar::new() }
    }

    /// Calls the follower that parked last.
    pub fn call(&self) -> Called {
        let seat = {
            let mut state = lock(&self.state);
            match state.parked.pop() {
                Some(seat) => seat,
                None if state.threads < state.max => {
                    state.threads = state.threads.saturating_add(1);
                    return Called::MayStart;
                }
                None => return Called::Nobody,
            }
        };
        seat.call();
        Called::Woken
    }

    /// Calls all that are parked, to look around.
    pub fn call_all(&self) {
        let parked = std::mem::take(&mut lock(&self.state).parked);
        for seat in parked {
            seat.call();
        }
    }

    /// Counts one more thread if there are fewer than the fewest.
    pub fn below_min(&self) -> bool {
        let mut state = lock(&self.state);
        let below = state.threads < state.min;
        if below {
            state.threads = state.threads.saturating_add(1);
        }
        below
    }

    /// Puts a worker on the stack.
    pub fn sit(&self, seat: &Arc<Seat>) {
        lock(&self.state).parked.push(Arc::clone(seat));
    }

    /// Takes a worker off the stack, if it is there still.
    pub fn stand(&self, seat: &Arc<Seat>) {
        lock(&self.state).parked.retain(|other| !Arc::ptr_eq(other, seat));
    }

    /// Lets a parked worker leave if there are more than the fewest.
    pub fn spare(&self, seat: &Arc<Seat>) -> Spare {
        let mut state = lock(&self.state);
        let Some(place) = state.parked.iter().position(|other| Arc::ptr_eq(other, seat)) else {
            return Spare::Called;
        };
        if state.threads <= state.min {
            return Spare::Stay;
        }
        state.parked.remove(place);
        state.threads = state.threads.saturating_sub(1);
        self.gone.notify_all();
        Spare::Leave
    }

    /// A thread has ended, or could not be started.
    pub fn ended(&self) {
        let mut state = lock(&self.state);
        state.threads = state.threads.saturating_sub(1);
        drop(state);
        self.gone.notify_all();
    }

    /// Changes the fewest and the most.
    pub fn resize(&self, (min, max): (usize, usize)) {
        let mut state = lock(&self.state);
        (state.min, state.max) = (min, max);
    }

    /// Threads, those parked, the fewest and the most.
    pub fn count(&self) -> (usize, usize, usize, usize) {
        let state = lock(&self.state);
        (state.threads, state.parked.len(), state.min, state.max)
    }

    /// Waits until no thread is left, at most until `deadline`; tells whether none is.
    pub fn wait_until_gone(&self, deadline: Instant) -> bool {
        let mut state = lock(&self.state);
        while state.threads > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return false;
            }
            let waited = self.gone.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Called, Crew, Seat, Spare};

    #[test]
    fn the_last_to_park_is_the_first_to_be_called() {
        let crew = Crew::new((1, 2));
        let (first, second) = (Seat::new(), Seat::new());
        crew.sit(&first);
        crew.sit(&second);
        assert_eq!(crew.call(), Called::Woken);
        assert!(second.was_called() && !second.was_called() && !first.was_called());
    }

    #[test]
    fn threads_grow_to_the_most_and_shrink_to_the_fewest() {
        let crew = Crew::new((1, 2));
        assert!(crew.below_min() && !crew.below_min());
        assert_eq!(crew.call(), Called::MayStart);
        assert_eq!(crew.call(), Called::Nobody);
        let (first, second) = (Seat::new(), Seat::new());
        assert_eq!(crew.spare(&first), Spare::Called, "who is not parked has been called");
        crew.sit(&first);
        crew.sit(&second);
        assert_eq!(crew.spare(&first), Spare::Leave);
        assert_eq!(crew.spare(&second), Spare::Stay);
        assert_eq!(crew.count(), (1, 1, 1, 2));
    }
}
