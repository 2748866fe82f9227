//! The common steps of all operations that create an object: the directory's attributes before,
//! acting as the caller, the new object's attributes, syncing, the result.

use crate::cache::ongoing_change::OngoingChange;
use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use crate::medium::Medium;
use crate::ops::entry::cache_open_entry;
use crate::ops::expected_object::ExpectedObject;
use crate::ops::setattr;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use sys::open::{How, open_entry};
use sys::stat::Stat;
use vfs::{Attr, Change, Created, Cx, Fid, FileType, Name, Node, Result, SetAttr, Status};

/// A directory that is about to change.
pub struct DirChange<'p> {
    pub local: &'p LocalFs,
    pub cx: &'p Cx<'p>,
    pub dir: &'p Fid,
    pub file: OngoingChange<'p>,
    pub before: Attr,
}

impl<'p> DirChange<'p> {
    /// The directory, held, with its attributes before the change.
    ///
    /// # Errors
    /// Those of reaching it; [`Status::NotDir`].
    pub fn new(local: &'p LocalFs, cx: &'p Cx<'p>, dir: &'p Fid) -> Result<Self> {
        local.will_block(cx)?;
        let (file, before) = local.begin_change(cx, dir)?;
        if before.ftype != FileType::Directory {
            return Err(Status::NotDir);
        }
        Ok(Self { local, cx, dir, file, before })
    }

    /// The owner of objects that the caller creates.
    pub fn caller_uid(&self) -> u32 {
        self.local.identity.cred(&self.cx.cred).uid
    }

    /// Runs an operation as the caller, whose identity the thread then keeps.
    ///
    /// # Errors
    /// The kernel's error; [`Status::Jukebox`] if a client has a delegation of the directory.
    pub fn as_caller<T>(&self, work: impl Fn() -> io::Result<T>) -> Result<T> {
        self.local.files.leases.check_directory(|| self.local.key(self.dir))?;
        let run = || {
            self.local.identity.act_as_caller(&self.cx.cred)?;
            work()
        };
        self.local.files.open_with_retry(run).map_err(errno::from)
    }

    /// The directory around the change: to be called directly after it, since others may change the
    /// directory while it is synced.
    pub fn change(&self) -> Change {
        self.local.wcc_data(&self.file, &self.before)
    }

    /// Completes a new object that was created under `name`, by the name: sets the attributes of `set`
    /// beyond `mode` (with which it was created), syncs object and directory, and returns the result.
    /// Another object that has been renamed to the name since, see [`ExpectedObject`], is left
    /// unchanged.
    ///
    /// # Errors
    /// Those of setting and syncing; the object then stays, as RFC 1813 §3.3.8 allows.
    pub fn finish(
        &self,
        name: Name<'_>,
        expected: &ExpectedObject,
        set: &SetAttr,
    ) -> Result<Created> {
        // the creator may search the directory
        self.local.identity.act_as_caller_or_server(&self.cx.cred).map_err(errno::from)?;
        let open = || open_entry(self.file.path(), name.bytes(), How::Path, false);
        let opened = self.local.files.open_with_retry(open);
        let found = opened.and_then(|fd| sys::stat::of_fd(fd.as_fd()).map(|stat| (fd, stat)));
        let dir = self.change();
        let Ok((fd, stat)) = found else { return self.without_object(dir) };
        let file = Arc::new(OpenFile::new(fd, &stat));
        if expected.matches(&stat) {
            self.complete(name, file, &stat, set, dir)
        } else if expected.could_match(&stat) && dir.before.is_some() {
            self.complete(name, file, &stat, &SetAttr::default(), dir)
        } else {
            self.without_object(dir)
        }
    }

    /// The same for an object that has been open since its creation.
    ///
    /// # Errors
    /// As [`DirChange::finish`].
    pub fn finish_open(
        &self,
        name: Name<'_>,
        file: Arc<OpenFile>,
        stat: &Stat,
        set: &SetAttr,
    ) -> Result<Created> {
        self.complete(name, file, stat, set, self.change())
    }

    fn complete(
        &self,
        name: Name<'_>,
        file: Arc<OpenFile>,
        stat: &Stat,
        set: &SetAttr,
        dir: Change,
    ) -> Result<Created> {
        match self.finish_object(name, file, stat, set) {
            // another process has removed it; the call has succeeded all the same
            Err(Status::NoEnt | Status::Stale) => self.without_object(dir),
            shown => shown.map(|node| Created { node: Some(node), dir }),
        }
    }

    fn finish_object(
        &self,
        name: Name<'_>,
        file: Arc<OpenFile>,
        stat: &Stat,
        set: &SetAttr,
    ) -> Result<Node> {
        let (mut node, file) = cache_open_entry(self.local, self.dir, name.bytes(), file, stat)?;
        let rest = self.remaining_attributes(set, &node.attr);
        if !rest.is_empty() {
            setattr::apply(self.local, self.cx, &node.fid, &rest)?;
        }
        self.sync_created(&file)?;
        if !rest.is_empty() {
            let stat = sys::stat::of_fd(file.path()).map_err(errno::from)?;
            node.attr = self.local.attr_of(&stat, &file);
        }
        Ok(node)
    }

    /// The result if the new object can no longer be found: without it, as RFC 1813 §3.3.9 allows.
    /// An error would be wrong, and a retry would find that the name exists.
    fn without_object(&self, dir: Change) -> Result<Created> {
        self.sync_without_object()?;
        Ok(Created { node: None, dir })
    }

    /// The attributes still to be set on an object that was created with its mode by its owner.
    ///
    /// Permission bits are what the kernel made of the client's under the directory's default ACL, and
    /// an inherited set-group-id bit stays; only missing special bits are added. Clients also send ids
    /// that only root may set: from others they are ignored, as in the kernel's server. A new owner or
    /// group clears set-id bits, so that they are set after it.
    fn remaining_attributes(&self, set: &SetAttr, made: &Attr) -> SetAttr {
        let cred = self.local.identity.cred(&self.cx.cred);
        let special = set.mode.unwrap_or(0) & 0o7000;
        let mut rest = *set;
        rest.uid = set.uid.filter(|uid| *uid != made.uid && cred.uid == 0);
        rest.gid = set.gid.filter(|gid| *gid != made.gid && (cred.uid == 0 || cred.in_group(*gid)));
        let changes_owner = rest.uid.is_some() || rest.gid.is_some();
        let made_mode = u32::from(made.mode);
        let lacks = special & !made_mode != 0 || special != 0 && changes_owner;
        rest.mode = lacks.then_some(made_mode | special);
        rest.size = set.size.filter(|size| made.ftype == FileType::Regular && *size != made.size);
        rest
    }
}

impl DirChange<'_> {
    /// Syncs the directory.
    ///
    /// # Errors
    /// Those of the sync.
    pub fn sync(&self) -> Result<()> {
        self.local.sync_dir(self.cx, &self.file)
    }

    /// Syncs a new object and its name.
    ///
    /// # Errors
    /// Those of the sync.
    pub fn sync_created(&self, made: &OpenFile) -> Result<()> {
        let Self { local, cx, .. } = self;
        if !local.has_to_sync(cx) {
            return Ok(());
        }
        // other types are on disk with their directory
        if matches!(made.ftype(), FileType::Regular | FileType::Directory) {
            local.sync_object(cx, made)?;
            if local.medium == Medium::Journaled {
                return Ok(());
            }
        }
        self.sync()
    }

    /// Syncs a new object that can no longer be found: it may have been renamed.
    ///
    /// # Errors
    /// Those of the sync.
    pub fn sync_without_object(&self) -> Result<()> {
        let Self { local, cx, .. } = self;
        if local.medium != Medium::Other || !local.has_to_sync(cx) {
            return self.sync();
        }
        local.will_block(cx)?;
        local.sync_everything()
    }

    /// Syncs an object that has got another name here, if syncing its directories is not enough. To be
    /// called after that.
    ///
    /// # Errors
    /// Those of the sync.
    pub fn sync_linked(&self, object: &OpenFile) -> Result<()> {
        if self.syncs_linked() { self.local.sync_object(self.cx, object) } else { Ok(()) }
    }

    /// Whether [`Self::sync_linked`] has something to do.
    pub fn syncs_linked(&self) -> bool {
        self.local.medium == Medium::Other && self.local.has_to_sync(self.cx)
    }

    /// The same for an object that was renamed to `name`.
    ///
    /// # Errors
    /// Those of the sync.
    pub fn sync_renamed(&self, name: Name<'_>) -> Result<()> {
        let Self { local, cx, .. } = self;
        if local.medium != Medium::Other || !local.has_to_sync(cx) {
            return Ok(());
        }
        local.identity.act_as_server().map_err(errno::from)?;
        let open = || open_entry(self.file.path(), name.bytes(), How::Path, false);
        let opened = local.files.open_with_retry(open).and_then(|fd| {
            let stat = sys::stat::of_fd(fd.as_fd())?;
            Ok(OpenFile::new(fd, &stat))
        });
        match opened {
            Ok(moved) => self.sync_linked(&moved),
            // it has been renamed again
            Err(_) => local.sync_everything(),
        }
    }
}

/// The status of creating an existing name: EEXIST, even where the kernel returns EISDIR.
pub fn exists(status: Status) -> Status {
    if status == Status::IsDir { Status::Exist } else { status }
}
