//! One object: its attributes and its contents.

use crate::data::Data;
use std::collections::BTreeMap;
use vfs::{Attr, FileType, Time, permission_bits};

/// All objects have it.
pub const FSID: u64 = 1;

/// The contents of an object.
#[derive(Debug, Clone)]
pub enum Kind {
    /// Bytes.
    Regular(Data),
    /// Names.
    Directory(Directory),
    /// A target.
    Symlink(Vec<u8>),
    /// None: device, pipe or socket.
    Special(FileType, (u32, u32)),
}

/// The names of a directory, each with a cookie that is never reused.
#[derive(Debug, Clone)]
pub struct Directory {
    pub parent: u64,
    pub by_name: BTreeMap<Vec<u8>, u64>,
    /// Cookie → name and inode.
    pub by_cookie: BTreeMap<u64, (Vec<u8>, u64)>,
    cookies: BTreeMap<Vec<u8>, u64>,
    next_cookie: u64,
}

impl Directory {
    /// Cookies 1 and 2 are `.` and `..`.
    const FIRST_COOKIE: u64 = 3;

    /// An empty directory.
    pub const fn new(parent: u64) -> Self {
        Self {
            parent,
            by_name: BTreeMap::new(),
            by_cookie: BTreeMap::new(),
            cookies: BTreeMap::new(),
            next_cookie: Self::FIRST_COOKIE,
        }
    }

    /// Adds or replaces a name.
    pub fn insert(&mut self, name: &[u8], ino: u64) {
        self.remove(name);
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.by_name.insert(name.to_vec(), ino);
        self.by_cookie.insert(cookie, (name.to_vec(), ino));
        self.cookies.insert(name.to_vec(), cookie);
    }

    /// Removes a name.
    pub fn remove(&mut self, name: &[u8]) {
        self.by_name.remove(name);
        if let Some(cookie) = self.cookies.remove(name) {
            self.by_cookie.remove(&cookie);
        }
    }
}

/// One object.
#[derive(Debug, Clone)]
pub struct Inode {
    pub ino: u64,
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    /// Number of its changes.
    pub change: u64,
    pub birth: Time,
    /// The verifier of the exclusive create.
    pub verifier: Option<[u8; 8]>,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub kind: Kind,
}

impl Inode {
    /// Its type.
    pub const fn ftype(&self) -> FileType {
        match &self.kind {
            Kind::Regular(_) => FileType::Regular,
            Kind::Directory(_) => FileType::Directory,
            Kind::Symlink(_) => FileType::Symlink,
            Kind::Special(ftype, _) => *ftype,
        }
    }

    /// Records a change of its data or its attributes.
    pub const fn touch(&mut self, now: Time) {
        self.ctime = now;
        self.change = self.change.wrapping_add(1);
    }

    /// Its attributes.
    pub fn attr(&self) -> Attr {
        let (size, used) = match &self.kind {
            Kind::Regular(data) => (data.size(), data.used()),
            Kind::Directory(dir) => (dir.by_name.len() as u64 * 32, 0),
            Kind::Symlink(target) => (target.len() as u64, 0),
            Kind::Special(..) => (0, 0),
        };
        let rdev = match &self.kind {
            Kind::Special(FileType::Block | FileType::Char, rdev) => *rdev,
            _ => (0, 0),
        };
        Attr {
            ftype: self.ftype(),
            mode: permission_bits(self.mode),
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            size,
            used,
            rdev,
            fsid: FSID,
            fileid: self.ino,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            change: self.change,
            birth: self.birth.into(),
        }
    }
}
