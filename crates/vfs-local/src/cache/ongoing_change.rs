//! A change of an object that is under way.

use crate::cache::attr_cache::AttrCache;
use crate::cache::change_counter::ChangeState;
use crate::cache::open_file::OpenFile;
use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use vfs::ChangeNumber;

/// An object that is being changed, held open. It has begun before the object was asked what it is, and ends
/// when this is dropped; no copy of its attributes from before its end counts afterwards.
pub struct OngoingChange<'c> {
    file: Arc<OpenFile>,
    since: ChangeState,
    /// Copies of attributes; `None` once it has ended.
    attrs: Cell<Option<&'c AttrCache>>,
}

impl<'c> OngoingChange<'c> {
    /// Begins a change.
    pub fn begin(file: Arc<OpenFile>, attrs: &'c AttrCache) -> Self {
        let since = file.changes().begin();
        Self { file, since, attrs: Cell::new(Some(attrs)) }
    }

    /// Which of the object's changes this is. An entry that takes this one's place in the cache is somewhere else in
    /// memory, or counts anew.
    pub fn number(&self) -> ChangeNumber {
        ChangeNumber { counter: Arc::as_ptr(&self.file).addr(), number: self.since.begun }
    }

    /// The change has been made; once.
    pub fn end(&self) {
        if let Some(attrs) = self.attrs.take() {
            self.file.changes().end();
            if let Some(table) = attrs.in_use() {
                table.changed(self.file.id());
            }
        }
    }

    /// The state of the counts since which nothing but this change may have happened.
    pub const fn since(&self) -> &ChangeState {
        &self.since
    }
}

impl Deref for OngoingChange<'_> {
    type Target = OpenFile;

    fn deref(&self) -> &OpenFile {
        &self.file
    }
}

impl Drop for OngoingChange<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::OngoingChange;
    use crate::cache::attr_cache::AttrCache;
    use crate::cache::open_file::OpenFile;
    use std::os::fd::AsFd;
    use std::sync::Arc;

    #[test]
    fn a_change_is_alone_if_no_other_overlaps_it() {
        let fd = sys::open::open_path("/".as_ref()).unwrap();
        let stat = sys::stat::of_fd(fd.as_fd()).unwrap();
        let file = Arc::new(OpenFile::new(fd, &stat));
        let attrs = AttrCache::new(2);
        let begin = || OngoingChange::begin(Arc::clone(&file), &attrs);
        let alone = |change: &OngoingChange<'_>| file.changes().unchanged_since(&change.since);

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
