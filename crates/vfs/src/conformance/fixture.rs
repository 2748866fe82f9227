//! The fixture of a check: a fresh backend, callers, and shortcuts for calls.

use crate::{
    Attr, Backend, Change, ChangeKind, Component, Create, Created, Cred, Cx, Durability, Fid,
    IgnoreBlocking, Name, Node, Result, Right, SetAttr, Stability, Status, Want, WccAttr,
};
use std::ops::ControlFlow;

/// Root.
pub const ROOT: Cred<'static> = Cred { uid: 0, gid: 0, groups: &[] };

/// The capabilities of the backend under test.
#[derive(Debug, Clone, Copy)]
pub struct Capabilities {
    /// Calls act as their callers; else every caller is `own`.
    pub acts_as_callers: bool,
    /// Device nodes can be made.
    pub device_nodes: bool,
    /// User and group that own the objects of the first caller: (0, 0) where calls act as callers.
    pub own: (u32, u32),
    /// How old attributes may be that the backend has read before ([`Cx::attr_cache_ms`]): no check notices.
    pub attr_cache_ms: u32,
}

/// A check.
pub(crate) type Check = (&'static str, fn(&Fixture));

/// A backend under test.
pub struct Fixture {
    /// The backend.
    pub backend: Box<dyn Backend>,
    /// Its capabilities.
    pub capabilities: Capabilities,
}

/// An entry of a listing: name, cookie, node.
pub type Listed = (Vec<u8>, u64, Option<Node>);

impl Fixture {
    pub fn new(backend: Box<dyn Backend>, capabilities: Capabilities) -> Self {
        Self { backend, capabilities }
    }

    /// The context of root's calls.
    pub fn cx(&self) -> Cx<'static> {
        self.by(ROOT)
    }

    /// The context of a user's calls. Durability is not visible here, so the fast one is used.
    pub fn by<'a>(&self, cred: Cred<'a>) -> Cx<'a> {
        Cx {
            cred,
            blocking: &IgnoreBlocking,
            durability: Durability::Async,
            right: Right::Check,
            attr_cache_ms: self.capabilities.attr_cache_ms,
        }
    }

    pub fn root(&self) -> Fid {
        self.backend.root()
    }

    pub fn file(&self, name: &str) -> Fid {
        self.file_in(&self.root(), name)
    }

    pub fn file_in(&self, dir: &Fid, name: &str) -> Fid {
        let set = SetAttr { mode: Some(0o644), ..SetAttr::default() };
        self.create(dir, name, Create::Guarded(set)).unwrap().node.unwrap().fid
    }

    pub fn create(&self, dir: &Fid, name: &str, how: Create) -> Result<Created> {
        self.backend.create(&self.cx(), dir, entry_name(name), how)
    }

    pub fn dir(&self, name: &str) -> Fid {
        self.dir_in(&self.root(), name)
    }

    pub fn dir_in(&self, dir: &Fid, name: &str) -> Fid {
        let set = SetAttr { mode: Some(0o755), ..SetAttr::default() };
        self.backend.mkdir(&self.cx(), dir, entry_name(name), &set).unwrap().node.unwrap().fid
    }

    pub fn lookup(&self, dir: &Fid, name: &str) -> Result<Fid> {
        let name = Component::new(name.as_bytes())?;
        self.backend.lookup(&self.cx(), dir, name).map(|found| found.node.fid)
    }

    pub fn attr(&self, fid: &Fid) -> Attr {
        self.backend.getattr(&self.cx(), fid, Want::STAT).unwrap()
    }

    /// The comparable part of these attributes: without the change attribute if it may differ without a change.
    pub fn comparable(&self, wcc: WccAttr) -> WccAttr {
        match self.backend.limits().change_kind {
            ChangeKind::Undefined => WccAttr { change: 0, ..wcc },
            ChangeKind::MonotonicIncrement | ChangeKind::TimeMetadata => wcc,
        }
    }

    /// The attributes before a change, to be compared with [`Fixture::comparable`].
    pub fn before(&self, change: &Change) -> Option<WccAttr> {
        change.before.map(|before| self.comparable(before))
    }

    /// Whether these are an object's attributes; the time of creation, which was not requested, may
    /// be present or not.
    pub fn are_of(&self, attr: &Attr, fid: &Fid) -> bool {
        let seen = self.attr(fid);
        let same_change = self.comparable(attr.wcc()) == self.comparable(seen.wcc());
        same_change && *attr == Attr { birth: attr.birth, change: attr.change, ..seen }
    }

    pub fn set(&self, fid: &Fid, set: SetAttr) -> Result<()> {
        self.backend.setattr(&self.cx(), fid, &set, None).map(drop)
    }

    pub fn write(&self, fid: &Fid, offset: u64, data: &[u8]) -> Result<()> {
        let done = self.backend.write(&self.cx(), fid, offset, data, Stability::Unstable)?;
        assert_eq!(done.count, data.len());
        Ok(())
    }

    pub fn read(&self, fid: &Fid, offset: u64, len: usize) -> Result<(Vec<u8>, bool)> {
        let mut data = vec![0xee; len];
        let done = self.backend.read(&self.cx(), fid, offset, &mut data)?;
        data.truncate(done.count);
        Ok((data, done.eof))
    }

    /// Entries after a cookie, at most `limit`; whether the end was reached.
    pub fn list(
        &self,
        dir: &Fid,
        cookie: u64,
        limit: usize,
        nodes: bool,
    ) -> Result<(Vec<Listed>, bool)> {
        let mut entries = Vec::new();
        let listing = self.backend.readdir(
            &self.cx(),
            dir,
            crate::ListArgs {
                room: limit.saturating_mul(32),
                ..crate::ListArgs::all(cookie, nodes)
            },
            &mut |entry| {
                if entries.len() == limit {
                    return ControlFlow::Break(());
                }
                entries.push((entry.name.to_vec(), entry.cookie, entry.node.copied()));
                ControlFlow::Continue(())
            },
        )?;
        Ok((entries, listing.eof))
    }

    /// All names but `.` and `..`, sorted.
    pub fn names(&self, dir: &Fid) -> Vec<String> {
        let (entries, eof) = self.list(dir, 0, usize::MAX, false).unwrap();
        assert!(eof);
        let mut names: Vec<String> =
            entries.into_iter().map(|(name, ..)| String::from_utf8(name).unwrap()).collect();
        names.retain(|name| !matches!(name.as_str(), "." | ".."));
        names.sort();
        names
    }
}

/// A valid name.
pub fn entry_name(name: &str) -> Name<'_> {
    Name::new(name.as_bytes()).unwrap()
}

/// Asserts a failure.
#[track_caller]
pub fn refused<T>(result: Result<T>, status: Status) {
    match result {
        Ok(_) => panic!("it worked, and should have failed with {status:?}"),
        Err(got) => assert_eq!(got, status),
    }
}
