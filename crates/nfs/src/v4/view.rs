//! What an operator sees of version 4.

use crate::Nfs;
use crate::file_key::export_of;
use state::FileKey;
use state::v4::{DelegationRow, OpenRow};
use vfs::{Cred, Cx, Durability, Fid, IgnoreBlocking, Right};

/// An open, with what is known of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenView {
    /// The open.
    pub open: OpenRow,
    /// The path of the export; `None` if it is not served any more.
    pub export: Option<String>,
    /// Where the file is on this machine, if that can be found out.
    pub path: Option<String>,
}

/// A delegation, with what is known of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationView {
    /// The delegation.
    pub delegation: DelegationRow,
    /// The path of the export; `None` if it is not served any more.
    pub export: Option<String>,
    /// Where the file is on this machine, if that can be found out.
    pub path: Option<String>,
}

impl Nfs {
    /// All delegations. Finding the files' paths may wait.
    pub fn v4_delegations(&self) -> Vec<DelegationView> {
        let rows = self.v4.state.delegation_rows(self.clock.now());
        rows.into_iter()
            .map(|delegation| {
                let (export, path) = self.whereabouts(&delegation.file);
                DelegationView { delegation, export, path }
            })
            .collect()
    }

    /// All opens of version 4. Finding the files' paths may wait.
    pub fn v4_opens(&self) -> Vec<OpenView> {
        let rows = self.v4.state.open_rows();
        rows.into_iter()
            .map(|open| {
                let (export, path) = self.whereabouts(&open.file);
                OpenView { open, export, path }
            })
            .collect()
    }

    /// The path of a file's export, and that of the file on this machine.
    fn whereabouts(&self, file: &FileKey) -> (Option<String>, Option<String>) {
        let table = self.exports.load();
        let export = export_of(file).and_then(|id| table.by_id(id));
        let Some(export) = export else { return (None, None) };
        let fid = file.bytes().get(4..).and_then(Fid::new);
        let cx = Cx {
            cred: Cred { uid: 0, gid: 0, groups: &[] },
            blocking: &IgnoreBlocking,
            durability: Durability::Sync,
            right: Right::Check,
            attr_cache_ms: 0,
        };
        let path = fid.and_then(|fid| export.backend.local_path(&cx, &fid));
        let path = path.map(|path| path.to_string_lossy().into_owned());
        (Some(export.path_text()), path)
    }
}
