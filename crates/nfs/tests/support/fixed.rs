//! A backend of one directory with one file, whose every answer is known: for tests that compare
//! bytes, and for one that counts allocations.

use std::ops::ControlFlow;
use vfs::{
    AccessMask, Attr, Backend, Change, Component, Create, Created, Cx, DirEntry, Fid, FileType,
    Found, Limits, ListArgs, Listing, Name, Node, NodeKind, Quota, QuotaKind, QuotaUsage, Quotas,
    ReadDone, Result, SetAttr, Stability, StatFs, Status, Time, Verifier, Want, WriteDone,
};

/// The file's contents.
pub const CONTENTS: &[u8] = b"hello, world";
/// The write verifier.
pub const VERIFIER: Verifier = *b"verifier";
/// How the directory's cookies begin: beyond 32 bits, as ext4's are.
pub const COOKIES: u64 = 0x0123_4567_0000_0000;

/// The backend; `long` makes ids too long for a handle of version 2.
pub struct Fixed {
    pub long: bool,
}

impl Fixed {
    fn fid(&self, which: u8) -> Fid {
        Fid::new(&[which; 40][..if self.long { 40 } else { 8 }]).unwrap()
    }

    fn node(&self, which: u8) -> Node {
        Node { fid: self.fid(which), attr: attr(which) }
    }

    fn which(&self, fid: &Fid) -> Result<u8> {
        [1, 2].into_iter().find(|w| self.fid(*w) == *fid).ok_or(Status::Stale)
    }
}

/// The attributes of the directory (1) and of the file (2).
pub fn attr(which: u8) -> Attr {
    let dir = which == 1;
    Attr {
        ftype: if dir { FileType::Directory } else { FileType::Regular },
        mode: if dir { 0o755 } else { 0o644 },
        nlink: if dir { 2 } else { 1 },
        uid: 1000,
        gid: 100,
        size: CONTENTS.len() as u64,
        used: 4096,
        rdev: (0, 0),
        fsid: 0x55,
        fileid: u64::from(which),
        atime: Time { sec: 1, nsec: 2 },
        mtime: Time { sec: 3, nsec: 4 },
        ctime: Time { sec: 5, nsec: 6 },
        change: 1,
        birth: vfs::MaybeTime::UNKNOWN,
    }
}

/// Users and groups may use a mebibyte for each unit of their id; projects have no quota.
impl Quotas for Fixed {
    fn quota(&self, cx: &Cx<'_>, _: &Fid, kind: QuotaKind, id: u32) -> Result<Option<Quota>> {
        let own = match kind {
            QuotaKind::User => cx.cred.uid == id,
            QuotaKind::Group => cx.cred.in_group(id),
            QuotaKind::Project => return Ok(None),
        };
        if !own && cx.cred.uid != 0 {
            return Err(Status::Perm);
        }
        let hard = Some(u64::from(id) << 20);
        let bytes = QuotaUsage { hard, used: 1500, ..QuotaUsage::default() };
        Ok(Some(Quota { bytes, files: QuotaUsage { used: 3, ..QuotaUsage::default() } }))
    }
}

impl Backend for Fixed {
    fn root(&self) -> Fid {
        self.fid(1)
    }

    fn root_fsid(&self) -> u64 {
        0x55
    }

    fn quotas(&self) -> Option<&dyn Quotas> {
        Some(self)
    }

    fn limits(&self) -> Limits {
        Limits {
            name_max: 255,
            link_max: 32_000,
            file_size_max: 1 << 44,
            time_delta_ns: 1,
            hard_links: true,
            symlinks: true,
            case_insensitive: false,
            chown_restricted: true,
            change_kind: vfs::ChangeKind::MonotonicIncrement,
            clone_block: None,
        }
    }

    fn write_verifier(&self) -> Verifier {
        VERIFIER
    }

    fn statfs(&self, _: &Cx<'_>, _: &Fid) -> Result<StatFs> {
        Err(Status::Io)
    }

    fn getattr(&self, _: &Cx<'_>, fid: &Fid, _: Want) -> Result<Attr> {
        self.which(fid).map(attr)
    }

    fn setattr(&self, _: &Cx<'_>, _: &Fid, _: &SetAttr, _: Option<Time>) -> Result<Change> {
        Err(Status::Jukebox)
    }

    fn access(&self, _: &Cx<'_>, fid: &Fid, mask: AccessMask) -> Result<(AccessMask, Attr)> {
        Ok((mask & AccessMask(0x3f), attr(self.which(fid)?)))
    }

    fn lookup(&self, _: &Cx<'_>, _: &Fid, name: Component<'_>) -> Result<Found> {
        match name {
            Component::Name(name) if name.bytes() == b"file" => {
                Ok(Found { node: self.node(2), dir: attr(1) })
            }
            Component::Name(_) => Err(Status::NoEnt),
            Component::Dot | Component::DotDot => Ok(Found { node: self.node(1), dir: attr(1) }),
        }
    }

    fn readlink(&self, _: &Cx<'_>, _: &Fid, _: &mut Vec<u8>) -> Result<Attr> {
        Err(Status::Inval)
    }

    fn read(&self, _: &Cx<'_>, fid: &Fid, offset: u64, data: &mut [u8]) -> Result<ReadDone> {
        vfs::need_regular(attr(self.which(fid)?).ftype)?;
        let from = CONTENTS.len().min(offset as usize);
        let count = data.len().min(CONTENTS.len() - from);
        data[..count].copy_from_slice(&CONTENTS[from..from + count]);
        Ok(ReadDone { count, eof: from + count == CONTENTS.len(), attr: attr(2) })
    }

    fn write(
        &self,
        _: &Cx<'_>,
        fid: &Fid,
        _: u64,
        data: &[u8],
        stable: Stability,
    ) -> Result<WriteDone> {
        vfs::need_regular(attr(self.which(fid)?).ftype)?;
        let file = Change { before: Some(attr(2).wcc()), after: Some(attr(2)) };
        Ok(WriteDone { count: data.len(), committed: stable, file, change_number: None })
    }

    fn commit(&self, _: &Cx<'_>, _: &Fid, _: u64, _: u64) -> Result<Change> {
        Ok(Change::default())
    }

    fn create(&self, _: &Cx<'_>, _: &Fid, _: Name<'_>, _: Create) -> Result<Created> {
        Err(Status::NoSpc)
    }

    /// What is made is moved away at once: `file` was moved there, and nothing is where `gone` was.
    fn mkdir(&self, _: &Cx<'_>, _: &Fid, name: Name<'_>, _: &SetAttr) -> Result<Created> {
        let change = Change { before: None, after: Some(attr(1)) };
        let unseen = [&b"file"[..], b"gone"].contains(&name.bytes());
        if unseen { Ok(Created { node: None, dir: change }) } else { Err(Status::DQuot) }
    }

    fn symlink(&self, _: &Cx<'_>, _: &Fid, _: Name<'_>, _: &[u8], _: &SetAttr) -> Result<Created> {
        Err(Status::NotSupp)
    }

    fn mknod(&self, _: &Cx<'_>, _: &Fid, _: Name<'_>, _: NodeKind, _: &SetAttr) -> Result<Created> {
        Err(Status::Perm)
    }

    fn remove(&self, _: &Cx<'_>, _: &Fid, _: Name<'_>) -> Result<Change> {
        Err(Status::Acces)
    }

    fn rmdir(&self, _: &Cx<'_>, _: &Fid, _: Name<'_>) -> Result<Change> {
        Err(Status::NotEmpty)
    }

    fn rename(
        &self,
        _: &Cx<'_>,
        _: (&Fid, Name<'_>),
        _: (&Fid, Name<'_>),
    ) -> Result<(Change, Change)> {
        Err(Status::XDev)
    }

    fn link(&self, _: &Cx<'_>, _: &Fid, _: &Fid, _: Name<'_>) -> Result<(Attr, Change)> {
        Err(Status::MLink)
    }

    fn readdir(
        &self,
        _: &Cx<'_>,
        _: &Fid,
        ListArgs { cookie, nodes, .. }: ListArgs,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<Listing> {
        let names: [(&[u8], u8); 3] = [(b".", 1), (b"..", 1), (b"file", 2)];
        for (at, (name, which)) in (COOKIES + 1..).zip(names) {
            let node = if nodes && name != b".." { Some(self.node(which)) } else { None };
            let node = node.as_ref();
            let entry = DirEntry { name, fileid: u64::from(which), cookie: at, node };
            if at > cookie && sink(&entry).is_break() {
                return Ok(Listing { eof: false, dir: attr(1) });
            }
        }
        Ok(Listing { eof: true, dir: attr(1) })
    }
}
