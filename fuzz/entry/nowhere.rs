//! A file system that has no objects: for tests whose inputs must not get as far as the file system.

use std::ops::ControlFlow;
use vfs::{
    AccessMask, Attr, Backend, Component, Cx, DirEntry, Fid, Found, Limits, ListArgs, Listing,
    ReadDone, Result, StatFs, Status, Verifier, Want,
};

/// The file system without objects.
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
