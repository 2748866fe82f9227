//! Files that are open when they lose their last name, and outlive the server ([`vfs::Unlinked`]): whether those of an object's
//! export do, and when those of an earlier run that nobody has reclaimed are removed.

use crate::Nfs;
use crate::object::Object;

impl Nfs {
    /// Whether a file that is open outlives its last name and a restart of the server.
    pub(crate) fn preserves_unlinked(&self, file: &Object<'_>) -> bool {
        let of_export = file.preserves_unlinked();
        of_export.unwrap_or_else(|| self.settings.preserves_unlinked())
            && file
                .backend()
                .unlinked()
                .is_some_and(|unlinked| unlinked.preserves(&file.cx(), &file.fid))
    }

    /// Has the files of an earlier run removed that nobody can reclaim any more. Costs a load for each export if there are
    /// none.
    pub(crate) fn discard_left_over(&self) {
        if !self.state.grace_is_over() {
            return;
        }
        for export in self.exports.load().exports() {
            if let Some(unlinked) = export.backend.unlinked() {
                unlinked.discard_left_over();
            }
        }
    }
}
