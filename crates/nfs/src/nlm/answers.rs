//! Answers of clients to grants, on their way to the lock timer, and how the lock timer is woken.

use super::waiting::GrantAnswer;
use state::Tag;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Wakes the lock timer. Must not block.
pub type Waker = Box<dyn Fn() + Send + Sync>;

/// Answers of clients, on their way to the lock timer. The mutex is held for list operations.
#[derive(Default)]
pub(super) struct Answers {
    list: Mutex<Vec<(Tag, GrantAnswer)>>,
    /// Whether clients of version 4 know of their grants.
    list_v4: Mutex<Vec<(Tag, bool)>>,
    waker: OnceLock<Waker>,
}

impl Answers {
    /// Has the lock timer woken by `waker`; the first one stays.
    pub fn set_waker(&self, waker: Waker) {
        let _set = self.waker.set(waker);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Tag, GrantAnswer)>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an answer: at most one to each call that was made, so that the calls' limits bound the list.
    pub fn note(&self, tag: Tag, answer: GrantAnswer) {
        let mut list = self.lock();
        if !list.contains(&(tag, answer)) {
            list.push((tag, answer));
        }
        drop(list);
        self.wake();
    }

    /// Notes that a client of version 4 knows of a grant, or that it cannot be told: once for each grant.
    pub fn note_v4(&self, tag: Tag, knows: bool) {
        self.list_v4.lock().unwrap_or_else(PoisonError::into_inner).push((tag, knows));
        self.wake();
    }

    pub fn take_v4(&self) -> Vec<(Tag, bool)> {
        std::mem::take(&mut self.list_v4.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn take(&self) -> Vec<(Tag, GrantAnswer)> {
        std::mem::take(&mut self.lock())
    }

    pub fn wake(&self) {
        if let Some(wake) = self.waker.get() {
            wake();
        }
    }
}
