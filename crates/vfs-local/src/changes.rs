//! Whether a call was the only one that changed an object: what `wcc_data` is worth (RFC 1813 §2.6).
//!
//! A client that finds in a reply the object as it knew it before the call takes what the object is
//! after the call for its own doing, and goes on trusting what it has cached. If another client's
//! change lies between the two, it never learns of that one. So attributes from before a change are
//! given only if no other change through this server began, or was under way, between the two
//! questions to the kernel; what other processes of this machine change in that moment cannot be known.
//!
//! The counts belong to an entry of the cache of open files. One that has been taken out says
//! nothing, because another may count for the object by now.

use crate::local::Local;
use crate::open_files::OpenFile;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use vfs::{Attr, Change, ChangeNumber};

/// The changes of one object.
#[derive(Debug, Default)]
pub struct Changes {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Changes {
    /// Where the object stands, to be asked later whether it stands there still.
    pub fn now(&self) -> Standing {
        let ended = self.ended.load(SeqCst);
        let begun = self.begun.load(SeqCst);
        Standing { begun, quiet: begun == ended }
    }

    /// Whether nothing was under way and nothing has begun since.
    fn none_since(&self, standing: &Standing) -> bool {
        standing.quiet && self.begun.load(SeqCst) == standing.begun
    }
}

/// How many changes had begun at a time.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    begun: u64,
    /// All of them had ended.
    quiet: bool,
}

/// An object that is being changed, held open. It has begun before the object was asked what it is, and ends
/// when this is dropped.
pub struct Changing {
    file: Arc<OpenFile>,
    since: Standing,
}

impl Changing {
    /// Begins a change.
    pub fn begin(file: Arc<OpenFile>) -> Self {
        let before = file.changes().begun.fetch_add(1, SeqCst);
        // if one that began later has ended, it is not quiet in the end either
        let quiet = file.changes().ended.load(SeqCst) == before;
        Self { file, since: Standing { begun: before.saturating_add(1), quiet } }
    }

    /// Which of the object's changes this is. An entry that takes this one's place in the cache is somewhere else in
    /// memory, or counts anew.
    pub fn number(&self) -> ChangeNumber {
        ChangeNumber { counter: Arc::as_ptr(&self.file).addr(), number: self.since.begun }
    }

    /// The object around the change, which has just been made.
    pub fn around(&self, local: &Local, before: &Attr) -> Change {
        around(local, self, before, &self.since)
    }
}

/// An object around what was done since it stood so.
pub fn around(local: &Local, file: &OpenFile, before: &Attr, since: &Standing) -> Change {
    let after = local.attr_after(file);
    let alone = file.changes().none_since(since) && !file.is_retired();
    Change { before: alone.then(|| before.wcc()), after }
}

impl Deref for Changing {
    type Target = OpenFile;

    fn deref(&self) -> &OpenFile {
        &self.file
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.file.changes().ended.fetch_add(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::Changing;
    use crate::open_files::OpenFile;
    use std::os::fd::AsFd;
    use std::sync::Arc;

    #[test]
    fn a_change_is_alone_if_no_other_overlaps_it() {
        let fd = sys::open::open_path("/".as_ref()).unwrap();
        let stat = sys::stat::of_fd(fd.as_fd()).unwrap();
        let file = Arc::new(OpenFile::new(fd, &stat));
        let begin = || Changing::begin(Arc::clone(&file));
        let alone = |change: &Changing| file.changes().none_since(&change.since);

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
        assert!(file.changes().none_since(&watched));
        drop(begin());
        assert!(!file.changes().none_since(&watched));
        let under_way = begin();
        let watched = file.changes().now();
        drop(under_way);
        assert!(!file.changes().none_since(&watched));
    }
}
