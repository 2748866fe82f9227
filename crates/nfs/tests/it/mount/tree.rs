//! A file system of a few names that nobody can change, with file ids as long as a test wants.

use std::ops::ControlFlow;
use vfs::{
    AccessMask, Attr, Backend, Component, Cx, DirEntry, Fid, FileType, Found, Limits, ListArgs,
    Listing, Node, ReadDone, Result, StatFs, Status, Time, Verifier, Want,
};

/// An object: its place, its name and its kind.
struct Object {
    parent: usize,
    name: &'static str,
    ftype: FileType,
}

/// The tree.
pub struct Tree {
    objects: Vec<Object>,
    fid_len: usize,
}

impl Tree {
    /// `/sub/deep`, `/file`, `/link` and `/pipe`; ids of `fid_len` bytes, at least four.
    pub fn new(fid_len: usize) -> Self {
        let object = |parent, name, ftype| Object { parent, name, ftype };
        Self {
            objects: vec![
                object(0, "", FileType::Directory),
                object(0, "sub", FileType::Directory),
                object(1, "deep", FileType::Directory),
                object(0, "file", FileType::Regular),
                object(0, "link", FileType::Symlink),
                object(0, "pipe", FileType::Fifo),
            ],
            fid_len,
        }
    }

    fn fid(&self, index: usize) -> Fid {
        let mut bytes = vec![0; self.fid_len];
        bytes[..4].copy_from_slice(&u32::try_from(index).unwrap().to_be_bytes());
        Fid::new(&bytes).unwrap()
    }

    fn index(&self, fid: &Fid) -> Result<usize> {
        (0..self.objects.len()).find(|i| self.fid(*i) == *fid).ok_or(Status::BadHandle)
    }

    fn attr(&self, index: usize) -> Attr {
        let time = Time::default();
        Attr {
            ftype: self.objects[index].ftype,
            mode: 0o755,
            nlink: 1,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            rdev: (0, 0),
            fsid: 1,
            fileid: u64::try_from(index).unwrap() + 1,
            atime: time,
            mtime: time,
            ctime: time,
            change: 1,
            birth: vfs::MaybeTime::UNKNOWN,
        }
    }

    /// The name of the object that a file id means; the root's is empty.
    pub fn name(&self, fid: &Fid) -> &'static str {
        self.objects[self.index(fid).unwrap()].name
    }
}

impl Backend for Tree {
    fn root(&self) -> Fid {
        self.fid(0)
    }

    fn root_fsid(&self) -> u64 {
        1
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
        Err(Status::NotSupp)
    }

    fn getattr(&self, _: &Cx<'_>, fid: &Fid, _: Want) -> Result<Attr> {
        self.index(fid).map(|index| self.attr(index))
    }

    fn access(&self, _: &Cx<'_>, fid: &Fid, mask: AccessMask) -> Result<(AccessMask, Attr)> {
        Ok((mask, self.attr(self.index(fid)?)))
    }

    fn lookup(&self, cx: &Cx<'_>, dir: &Fid, name: Component<'_>) -> Result<Found> {
        cx.blocking.will_block()?;
        let at = self.index(dir)?;
        let found = match name {
            Component::Dot => at,
            Component::DotDot => self.objects[at].parent,
            Component::Name(name) => (1..self.objects.len())
                .find(|i| {
                    let object = &self.objects[*i];
                    object.parent == at && object.name.as_bytes() == name.bytes()
                })
                .ok_or(Status::NoEnt)?,
        };
        let node = Node { fid: self.fid(found), attr: self.attr(found) };
        Ok(Found { node, dir: self.attr(at) })
    }

    fn readlink(&self, _: &Cx<'_>, _: &Fid, _: &mut Vec<u8>) -> Result<Attr> {
        Err(Status::NotSupp)
    }

    fn read(&self, _: &Cx<'_>, _: &Fid, _: u64, _: &mut [u8]) -> Result<ReadDone> {
        Err(Status::NotSupp)
    }

    fn readdir(
        &self,
        _: &Cx<'_>,
        _: &Fid,
        _: ListArgs,
        _: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<Listing> {
        Err(Status::NotSupp)
    }
}
