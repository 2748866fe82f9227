//! Files that outlive the server without a name: what a back end promises to whoever keeps a file
//! ([`keep`](crate::Backend::keep)) beyond the end of this process (RFC 8881 §18.16, `OPEN4_RESULT_PRESERVE_UNLINKED`).

use crate::{Cx, Fid};

/// Back ends that can have kept files outlive their last name and a restart of the server.
pub trait Unlinked: Send + Sync {
    /// Whether a file that is kept now stays, with its id, when its last name is removed or replaced through this back
    /// end, until it is kept no more; and, should the server end before that, until
    /// [`discard_left_over`](Self::discard_left_over). The first call prepares the place where such files are. May block.
    fn preserves(&self, cx: &Cx<'_>, fid: &Fid) -> bool;

    /// Has the files removed that an earlier run of the server has left and that nobody keeps: to be called when nobody
    /// may reclaim them any more. Costs one load if there are none. Does not wait for the file system.
    fn discard_left_over(&self);
}
