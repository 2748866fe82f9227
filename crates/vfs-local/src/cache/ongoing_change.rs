//! A change of an object that is under way.

use crate::cache::change_counter::ChangeState;
use crate::cache::open_file::OpenFile;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use vfs::ChangeNumber;

/// An object that is being changed, held open. It has begun before the object was asked what it is, and ends
/// when this is dropped.
pub struct OngoingChange {
    file: Arc<OpenFile>,
    since: ChangeState,
    ended: AtomicBool,
}

impl OngoingChange {
    /// Begins a change.
    pub fn begin(file: Arc<OpenFile>) -> Self {
        let since = file.changes().begin();
        Self { file, since, ended: AtomicBool::new(false) }
    }

    /// Which of the object's changes this is. An entry that takes this one's place in the cache is somewhere else in
    /// memory, or counts anew.
    pub fn number(&self) -> ChangeNumber {
        ChangeNumber { counter: Arc::as_ptr(&self.file).addr(), number: self.since.begun }
    }

    /// The change has been made; once.
    pub fn end(&self) {
        if !self.ended.swap(true, Relaxed) {
            self.file.changes().end();
        }
    }

    /// The state of the counts since which nothing but this change may have happened.
    pub const fn since(&self) -> &ChangeState {
        &self.since
    }
}

impl Deref for OngoingChange {
    type Target = OpenFile;

    fn deref(&self) -> &OpenFile {
        &self.file
    }
}

impl Drop for OngoingChange {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::OngoingChange;
    use crate::cache::open_file::OpenFile;
    use std::os::fd::AsFd;
    use std::sync::Arc;

    #[test]
    fn a_change_is_alone_if_no_other_overlaps_it() {
        let fd = sys::open::open_path("/".as_ref()).unwrap();
        let stat = sys::stat::of_fd(fd.as_fd()).unwrap();
        let file = Arc::new(OpenFile::new(fd, &stat));
        let begin = || OngoingChange::begin(Arc::clone(&file));
        let alone = |change: &OngoingChange| file.changes().unchanged_since(&change.since);

        let first = begin();
        assert!(alone(&first));
        let second = begin();
        assert!(!alone(&first) && !alone(&second));
        drop(first);
        assert!(!alone(&second), "what has ended by now was there");
        drop(second);

        let third = begin();
        assert!(alone(&third));
        drop(begin());
        assert!(!alone(&third), "one that came and went");
        drop(third);

        let watched = file.changes().now();
        assert!(file.changes().unchanged_since(&watched));
        drop(begin());
        assert!(!file.changes().unchanged_since(&watched));
        let under_way = begin();
        let watched = file.changes().now();
        drop(under_way);
        assert!(!file.changes().unchanged_since(&watched));
    }
}
