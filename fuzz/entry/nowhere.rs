//! A file system in which nothing can be reached: for inputs that must never get that far.

use std::ops::ControlFlow;
use vfs::{
    AccessMask, Attr, Backend, Change, Component, Create, Created, Cx, DirEntry, Fid, Found,
    Limits, ListArgs, Listing, Name, NodeKind, ReadDone, Result, SetAttr, Stability, StatFs,
    Status, Time, Verifier, Want, WriteDone,
};

/// The file system.
pub struct Nowhere;

impl Backend for Nowhere {
    fn root(&self) -> Fid {
        Fid::new(b"root").expect("four bytes fit")
    }

    fn root_fsid(&self) -> u64 {
        0
    }

    fn limits(&self) -> Limits {
        Limits {
            name_max: 255,
            link_max: 1,
            file_size_max: 0,
            time_delta_ns: 1,
            hard_links: false,
            symlinks: false,
            case_insensitive: false,
            chown_restricted: true,
            change_kind: vfs::ChangeKind::MonotonicIncrement,
            clone_block: None,
        }
    }

    fn write_verifier(&self) -> Verifier {
        [0; 8]
    }

    fn statfs(&self, _: &Cx<'_>, _: &Fid) -> Result<StatFs> {
        Err(Status::Stale)
    }

    fn getattr(&self, _: &Cx<'_>, _: &Fid, _: Want) -> Result<Attr> {
        Err(Status::Stale)
    }

    fn setattr(&self, _: &Cx<'_>, _: &Fid, _: &SetAttr, _: Option<Time>) -> Result<Change> {
        Err(Status::Stale)
    }

    fn access(&self, _: &Cx<'_>, _: &Fid, _: AccessMask) -> Result<(AccessMask, Attr)> {
        Err(Status::Stale)
    }

    fn lookup(&self, _: &Cx<'_>, _: &Fid, _: Component<'_>) -> Result<Found> {
        Err(Status::Stale)
    }

    fn readlink(&self, _: &Cx<'_>, _: &Fid, _: &mut Vec<u8>) -> Result<Attr> {
        Err(Status::Stale)
    }

    fn read(&self, _: &Cx<'_>, _: &Fid, _: u64, _: &mut [u8]) -> Result<ReadDone> {
        Err(Status::Stale)
    }

    fn write(&self, _: &Cx<'_>, _: &Fid, _: u64, _: &[u8], _: Stability) -> Result<WriteDone> {
        Err(Status::Stale)
    }

    fn commit(&self, _: &Cx<'_>, _: &Fid, _: u64, _: u64) -> Result<Change> {
        Err(Status::Stale)
    }

    fn create(&self, _: &Cx<'_>, _: &Fid, _: Name<'_>, _: Create) -> Result<Created> {
        Err(Status::Stale)
    }

    fn mkdir(&self, _: &Cx<'_>, _: &Fid, _: Name<'_>, _: &SetAttr) -> Result<Created> {
        Err(Status::Stale)
    }

    fn symlink(&self, _: &Cx<'_>, _: &Fid, _: Name<'_>, _: &[u8], _: &SetAttr) -> Result<Created> {
        Err(Status::Stale)
    }

    fn mknod(&self, _: &Cx<'_>, _: &Fid, _: Name<'_>, _: NodeKind, _: &SetAttr) -> Result<Created> {
        Err(Status::Stale)
    }

    fn remove(&self, _: &Cx<'_>, _: &Fid, _: Name<'_>) -> Result<Change> {
        Err(Status::Stale)
    }

    fn rmdir(&self, _: &Cx<'_>, _: &Fid, _: Name<'_>) -> Result<Change> {
        Err(Status::Stale)
    }

    fn rename(
        &self,
        _: &Cx<'_>,
        _: (&Fid, Name<'_>),
        _: (&Fid, Name<'_>),
    ) -> Result<(Change, Change)> {
        Err(Status::Stale)
    }

    fn link(&self, _: &Cx<'_>, _: &Fid, _: &Fid, _: Name<'_>) -> Result<(Attr, Change)> {
        Err(Status::Stale)
    }

    fn readdir(
        &self,
        _: &Cx<'_>,
        _: &Fid,
        _: ListArgs,
        _: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<Listing> {
        Err(Status::Stale)
    }
}
