//! Leases: how a back end holds programs of the server's machine back from a file that an NFS client may take for
//! unchanged.

use crate::{Attr, Cx, Fid, Kept, Result};

/// Called when somebody is held back, or has changed what cannot be held back. By a thread that waits for nobody; must not
/// block.
pub type LeaseBreakCallback = Box<dyn Fn() + Send + Sync>;

/// Back ends that can hold local programs back.
pub trait Leases: Send + Sync {
    /// Holds everybody back who wants to change a regular file's data, until the result is dropped, for 45 seconds at the
    /// most: local programs wait, and calls of this back end fail with [`crate::Status::Jukebox`]; `on_break` is called
    /// when one comes. It is called as well after the file's names or attributes have changed, which is not held back. One
    /// lease of a file at a time.
    ///
    /// `None`: somebody has the file open for writing, or has written to it what is not on disk yet.
    ///
    /// # Errors
    /// [`crate::Status::NotSupp`] where the file system or the kernel has no leases, or the server may not take one of
    /// this file; [`crate::Status::Jukebox`] if there are too many.
    fn hold_back_writers(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        on_break: LeaseBreakCallback,
    ) -> Result<Option<Kept>>;

    /// The same against everybody who wants to open it at all: local programs wait; calls of this back end go on, with
    /// the server's own open file. Whoever asks for attributes is not held back.
    ///
    /// `None`: somebody else has the file open, or data that was written to it is not on disk yet.
    ///
    /// # Errors
    /// As [`Leases::hold_back_writers`].
    fn hold_back_everybody(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        on_break: LeaseBreakCallback,
    ) -> Result<Option<Kept>>;

    /// Calls `change`, which changes a file's attributes for the client because of whom everybody is held back, and gives what
    /// it has left: `on_break` is not called for that change, as far as it can be told from others'. With `None` it is.
    fn change_by_holder(&self, fid: &Fid, change: &mut dyn FnMut() -> Option<Attr>);

    /// Whether [`Leases::hold_back_changes`] can succeed for any directory.
    fn holds_directories(&self) -> bool {
        false
    }

    /// Holds everybody back who wants to change a directory's entries or its own attributes, until the result is dropped:
    /// local programs wait, for 45 seconds at the most, and calls of this back end fail with [`crate::Status::Jukebox`];
    /// `on_break` is called when one comes. It is called as well after the directory itself was renamed or removed. One such
    /// hold of a directory at a time.
    ///
    /// `None`: somebody is changing the directory now.
    ///
    /// # Errors
    /// [`crate::Status::NotSupp`] where the file system or the kernel cannot, or the server may not hold this directory;
    /// [`crate::Status::NotDir`]; [`crate::Status::Jukebox`] if there are too many.
    fn hold_back_changes(
        &self,
        _cx: &Cx<'_>,
        _fid: &Fid,
        _on_break: LeaseBreakCallback,
    ) -> Result<Option<Kept>> {
        Err(crate::Status::NotSupp)
    }

    /// Lets all changes of a held directory pass until the result is dropped, and then holds them back again; if that is not
    /// possible any more, `on_break` is called. For one change of the caller's own. `None` if the directory is not held, or
    /// a change is passing already.
    fn let_change_pass(&self, _cx: &Cx<'_>, _fid: &Fid) -> Option<Kept> {
        None
    }
}
