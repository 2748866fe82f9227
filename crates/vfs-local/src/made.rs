//! What all verbs that make an object share: the directory before, the thread as the caller, the
//! new object's attributes, everything on disk, the answer.

use crate::changes::Changing;
use crate::errno;
use crate::local::Local;
use crate::lookup::adopt_file;
use crate::maker::Maker;
use crate::open_files::OpenFile;
use crate::setattr;
use std::io;
use std::os::fd::AsFd;
use sys::open::{How, open_entry};
use sys::stat::Stat;
use vfs::{Attr, Change, Created, Cx, Fid, FileType, Name, Node, Result, SetAttr, Status};

/// A directory in which something is going to change.
pub struct Place<'p> {
    pub local: &'p Local,
    pub cx: &'p Cx<'p>,
    pub dir: &'p Fid,
    pub file: Changing,
    pub before: Attr,
}

impl<'p> Place<'p> {
    /// The directory, held, with its attributes before the change.
    ///
    /// # Errors
    /// Those of reaching it; [`Status::NotDir`].
    pub fn new(local: &'p Local, cx: &'p Cx<'p>, dir: &'p Fid) -> Result<Self> {
        local.may_sleep(cx);
        let (file, before) = local.begin_change(cx, dir)?;
        if before.ftype != FileType::Directory {
            return Err(Status::NotDir);
        }
        Ok(Self { local, cx, dir, file, before })
    }

    /// Does something as the caller, who the thread then goes on being.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn as_caller<T>(&self, work: impl Fn() -> io::Result<T>) -> Result<T> {
        let run = || {
            self.local.actor.be_caller(&self.cx.cred)?;
            work()
        };
        self.local.files.opening(run).map_err(errno::from)
    }

    /// The directory around the change, which has just been made: while it is put on disk others may
    /// change it as well.
    pub fn change(&self) -> Change {
        self.file.around(self.local, &self.before)
    }

    /// Finishes a new object that was made under `name`, by the name: sets what `set` says beyond `mode`
    /// (which it was made with), syncs object and directory, and answers. What has been moved to the
    /// name since, see [`Maker`], is left as it is.
    ///
    /// # Errors
    /// Those of setting and syncing; the object then stays, as RFC 1813 §3.3.8 allows.
    pub fn finish(&self, name: Name<'_>, maker: &Maker, set: &SetAttr) -> Result<Created> {
        // who could make it may search the directory
        self.local.actor.be_either(&self.cx.cred).map_err(errno::from)?;
        let open = || open_entry(self.file.path(), name.bytes(), How::Path, false);
        let opened = self.local.files.opening(open);
        let found = opened.and_then(|fd| sys::stat::of_fd(fd.as_fd()).map(|stat| (fd, stat)));
        let dir = self.change();
        let Ok((fd, stat)) = found else { return self.unseen(dir) };
        let file = OpenFile::new(fd, &stat);
        if maker.made(&stat) {
            self.complete(name, file, &stat, set, dir)
        } else if maker.may_have_made(&stat) && dir.before.is_some() {
            self.complete(name, file, &stat, &SetAttr::default(), dir)
        } else {
            self.unseen(dir)
        }
    }

    /// The same for an object that has been open since it was made.
    ///
    /// # Errors
    /// As [`Place::finish`].
    pub fn finish_open(
        &self,
        name: Name<'_>,
        file: OpenFile,
        stat: &Stat,
        set: &SetAttr,
    ) -> Result<Created> {
        self.complete(name, file, stat, set, self.change())
    }

    fn complete(
        &self,
        name: Name<'_>,
        file: OpenFile,
        stat: &Stat,
        set: &SetAttr,
        dir: Change,
    ) -> Result<Created> {
        match self.shown(name, file, stat, set) {
            // somebody has removed it; the call has done what it was to do all the same
            Err(Status::NoEnt | Status::Stale) => self.unseen(dir),
            shown => shown.map(|node| Created { node: Some(node), dir }),
        }
    }

    fn shown(&self, name: Name<'_>, file: OpenFile, stat: &Stat, set: &SetAttr) -> Result<Node> {
        let (mut node, file) = adopt_file(self.local, self.dir, name.bytes(), file, stat)?;
        let rest = self.rest_of(set, &node.attr);
        if !rest.is_empty() {
            setattr::apply(self.local, self.cx, &node.fid, &rest)?;
        }
        self.sync_made(&file)?;
        if !rest.is_empty() {
            let stat = sys::stat::of_fd(file.path()).map_err(errno::from)?;
            node.attr = crate::attr::convert(&stat);
        }
        Ok(node)
    }

    /// The answer where the new object is not to be found any more: without it, as RFC 1813 §3.3.9
    /// allows. An error would be untrue, and who tried again would find the name taken.
    fn unseen(&self, dir: Change) -> Result<Created> {
        self.sync_unseen()?;
        Ok(Created { node: None, dir })
    }

    /// What is left to set on an object that was made with its mode by its owner.
    ///
    /// Permission bits are what the kernel made of the client's under the directory's default ACL,
    /// and a set-group-id bit that it inherited stays; only special bits that it left out are
    /// added. Clients send ids along that only root may set: from others they mean nothing, as in
    /// the kernel's server. A new owner or group takes set-id bits away, so that they are set after it.
    fn rest_of(&self, set: &SetAttr, made: &Attr) -> SetAttr {
        let cred = self.local.actor.cred(&self.cx.cred);
        let special = set.mode.unwrap_or(0) & 0o7000;
        let mut rest = *set;
        rest.uid = set.uid.filter(|uid| *uid != made.uid && cred.uid == 0);
        rest.gid = set.gid.filter(|gid| *gid != made.gid && (cred.uid == 0 || cred.in_group(*gid)));
        let changes_owner = rest.uid.is_some() || rest.gid.is_some();
        let lacks = special & !made.mode != 0 || special != 0 && changes_owner;
        rest.mode = lacks.then_some(made.mode | special);
        rest.size = set.size.filter(|size| made.ftype == FileType::Regular && *size != made.size);
        rest
    }
}

/// The status for making over an existing name: EEXIST, even where the kernel says that it is a
/// directory.
pub fn exists(status: Status) -> Status {
    if status == Status::IsDir { Status::Exist } else { status }
}
