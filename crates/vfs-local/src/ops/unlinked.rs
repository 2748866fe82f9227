//! Files that are kept when they lose their last name: they get one in the directory `.bowline-open` first, so that they
//! outlive the server ([`crate::cache::unlinked_files`]), and lose that when nobody keeps them. The directory is hidden from
//! clients.
//!
//! Order: the link is made before the name is removed or replaced, which stays one system call, atomic and checked by the
//! kernel as the caller's. A server that is killed in between leaves a file with both names, whose link is removed when
//! nobody may reclaim it any more.
//!
//! A link cannot be made (the disk is full, too many links): the name is removed all the same, because removing must
//! be possible on a full disk, and the file lasts as long as the server. The same holds for a file that a local program
//! removes, or that was renamed by one to a name that another file had a moment before.

use crate::cache::unlinked_files::{Claim, ClaimedFile};
use crate::errno;
use crate::fs::LocalFs;
use crate::medium::Medium;
use crate::naming::unlinked_dir::{NAME, UnlinkedDir};
use crate::ops::dir_change::DirChange;
use crate::ops::lister::Sink;
use crate::ops::readdir::readdir;
use crate::ops::victim::Victim;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use sys::stat::Stat;
use vfs::{Cx, Fid, ListArgs, Listing, Result, Status, Unlinked};

/// How often a file is asked for that another call is removing a name of, and the pause in between.
const CLAIM_TRIES: u32 = 3;
const CLAIM_PAUSE: Duration = Duration::from_millis(1);

impl Unlinked for LocalFs {
    fn preserves(&self, cx: &Cx<'_>, fid: &Fid) -> bool {
        let Some(dir) = self.unlinked.get() else {
            return self.will_block(cx).is_ok()
                // with a delegation of the root the kernel would hold this thread back as well: some later OPEN makes it
                && self.files.leases.check_directory(|| self.key(&self.root_fid)).is_ok()
                && self.make_unlinked_dir().is_some()
                && self.may_link(fid);
        };
        dir.is_some() && self.may_link(fid)
    }

    fn discard_left_over(&self) {
        if self.left_over.load(Relaxed)
            && let Some(Some(dir)) = self.unlinked.get()
        {
            self.left_over.store(false, Relaxed);
            self.files.discard_left_over(dir);
        }
    }
}

impl LocalFs {
    /// Finds the directory of an earlier run, and the files in it, whatever the options say now: they are to be removed. If
    /// there are none, the directory is removed, until somebody wants it.
    pub(crate) fn find_unlinked_dir(&self) {
        if let Some(dir) = self.files.unlinked.dir_in(self.root_id) {
            self.files.unlinked.set_dir(self.backend, &dir);
            let _first = self.unlinked.set(Some(dir));
            return;
        }
        let by = (&self.root_fid, &self.resolver);
        let opened = UnlinkedDir::open(self.root.as_fd(), by, self.identity.own_uid());
        // a failure is told by whoever wants to use it
        let Ok(Some(dir)) = opened else { return };
        let Ok(fids) = dir.fids() else { return };
        if fids.is_empty() && sys::namespace::remove_dir(self.root.as_fd(), NAME).is_ok() {
            return;
        }
        let dir = Arc::new(dir);
        self.files.add_left_over(self.backend, &dir, self.root_id.0, &fids);
        self.left_over.store(!fids.is_empty(), Relaxed);
        let _first = self.unlinked.set(Some(dir));
    }

    /// Makes the directory, or finds that there can be none; says so once.
    fn make_unlinked_dir(&self) -> Option<&Arc<UnlinkedDir>> {
        let make = || {
            let (root, by) = (self.root.as_fd(), (&self.root_fid, &self.resolver));
            let make = || -> io::Result<Arc<UnlinkedDir>> {
                if let Some(known) = self.files.unlinked.dir_in(self.root_id) {
                    return Ok(known);
                }
                self.identity.act_as_server()?;
                self.files.unlinked.set_hides(self.backend, true);
                let made = UnlinkedDir::make(root, by, self.identity.own_uid())?;
                made.map(Arc::new).ok_or_else(|| io::ErrorKind::NotFound.into())
            };
            match make() {
                Ok(dir) => {
                    self.files.unlinked.set_dir(self.backend, &dir);
                    Some(dir)
                }
                Err(error) => {
                    self.files.unlinked.set_hides(self.backend, false);
                    tracing::warn!(
                        path = %self.path.display(), %error,
                        "preserve-unlinked has no effect here: the directory .bowline-open cannot be used"
                    );
                    None
                }
            }
        };
        self.unlinked.get_or_init(make).as_ref()
    }

    /// Whether the server may give a file that it has just opened another name: one of the same file system, and its own if
    /// it is an ordinary user, which the kernel lets link no other (`fs.protected_hardlinks`).
    fn may_link(&self, fid: &Fid) -> bool {
        let key = self.key(fid);
        let is_here = self.files.with(&key, |file| file.id().0 == self.root_id.0).unwrap_or(false);
        let is_own = || {
            let stat = self.files.with(&key, |file| sys::stat::basic_of_fd(file.path()).ok());
            stat.flatten().is_some_and(|stat| stat.uid == self.identity.own_uid())
        };
        is_here && (self.acts_as_callers() || is_own())
    }

    /// Whether a name is that of a directory of the server's own, which clients do not see.
    ///
    /// # Errors
    /// Those of reaching the directory that it is in.
    #[inline]
    pub(crate) fn hides(&self, cx: &Cx<'_>, dir: &Fid, name: &[u8]) -> Result<bool> {
        if name != NAME { Ok(false) } else { self.has_unlinked_dir(cx, dir) }
    }

    #[cold]
    fn has_unlinked_dir(&self, cx: &Cx<'_>, dir: &Fid) -> Result<bool> {
        if !self.files.unlinked.has_dirs() {
            return Ok(false);
        }
        let known = self.files.with(&self.warm_key(dir), |dir| dir.id());
        let id = match known {
            Some(id) => id,
            None => self.hold(cx, dir)?.0.id(),
        };
        Ok(self.files.unlinked.is_in(id))
    }

    /// Refuses to make or replace the name of a directory of the server's own.
    ///
    /// # Errors
    /// [`Status::Acces`]; those of reaching the directory that it is in.
    #[inline]
    pub(crate) fn check_new_name(&self, cx: &Cx<'_>, dir: &Fid, name: &[u8]) -> Result<()> {
        if self.hides(cx, dir, name)? { Err(Status::Acces) } else { Ok(()) }
    }

    /// Does not find the name of a directory of the server's own.
    ///
    /// # Errors
    /// [`Status::NoEnt`]; those of reaching the directory that it is in.
    #[inline]
    pub(crate) fn check_old_name(&self, cx: &Cx<'_>, dir: &Fid, name: &[u8]) -> Result<()> {
        if self.hides(cx, dir, name)? { Err(Status::NoEnt) } else { Ok(()) }
    }

    /// A listing by [`readdir`], also from what is kept of an earlier one, without the entry of a directory of the server's own.
    /// Apart from listings where there is none.
    ///
    /// # Errors
    /// Those of [`readdir`].
    #[cold]
    pub(crate) fn readdir_hiding(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        args: ListArgs,
        sink: Sink<'_>,
    ) -> Result<Listing> {
        readdir(self, cx, dir, args, &mut |entry| {
            // one that cannot be reached any more shows nothing that matters
            if self.hides(cx, dir, entry.name).unwrap_or(true) {
                return ControlFlow::Continue(());
            }
            sink(entry)
        })
    }

    /// Attributes of an object with the links that clients see.
    pub(crate) fn visible_stat(&self, stat: &Stat, fid: &Fid) -> Stat {
        let has_files = self.files.unlinked.has_files();
        let nlink = if has_files { self.visible_links(stat, fid) } else { stat.nlink };
        Stat { nlink, ..*stat }
    }

    /// The links of a file that clients see, which may have a name of the server's own.
    #[cold]
    pub(crate) fn visible_links(&self, stat: &Stat, fid: &Fid) -> u32 {
        let hidden = u32::from(self.files.unlinked.has(&(stat.dev, *fid)));
        stat.nlink.saturating_sub(hidden)
    }
}

/// A kept file that has a name in the directory, from before it loses another until it is known whether that was the last.
pub struct PreservedFile<'d> {
    local: &'d LocalFs,
    claimed: ClaimedFile<'d>,
}

/// Whether the object of a name that is about to be removed may be one to be preserved. Costs one load if there is no
/// directory.
#[inline]
pub fn may_preserve(dir_change: &DirChange<'_>, victim: Option<&Victim>) -> bool {
    dir_change.local.files.unlinked.has_dirs() && victim.is_some()
}

/// Gives the object of a name that is about to be removed or replaced a name in the directory, if it is kept. Costs
/// one load if there is no directory, and no system call for a file that nobody keeps.
///
/// # Errors
/// [`Status::Jukebox`] while other calls remove names of the file.
pub fn preserve<'d>(
    dir_change: &DirChange<'d>,
    victim: Option<&Victim>,
) -> Result<Option<PreservedFile<'d>>> {
    let files = &dir_change.local.files;
    match victim {
        Some(victim) if files.unlinked.has_dirs() && files.may_be_kept(&victim.fid) => {
            preserve_kept(dir_change, victim)
        }
        Some(_) | None => Ok(None),
    }
}

#[cold]
fn preserve_kept<'d>(
    dir_change: &DirChange<'d>,
    victim: &Victim,
) -> Result<Option<PreservedFile<'d>>> {
    let DirChange { local, cx, .. } = *dir_change;
    let Ok(stat) = sys::stat::basic_of_fd(victim.path()) else { return Ok(None) };
    let file = (stat.dev, victim.fid);
    if stat.nlink == 0 || !local.files.is_kept(&file) {
        return Ok(None);
    }
    let Some(claimed) = claim(local, file)? else { return Ok(None) };
    local.identity.act_as_server().map_err(errno::from)?;
    match claimed.dir().add(victim.path(), &victim.fid) {
        Ok(()) => claimed.added(),
        Err(error) => {
            local.files.unlinked.note_failed();
            if claimed.dir().is_first_failure() {
                tracing::warn!(
                    path = %local.path.display(), %error,
                    "a file that a client has open lasts no longer than the server: it cannot be linked to .bowline-open"
                );
            }
            return Ok(None);
        }
    }
    // with a journal it is on disk before the name is off it
    if local.medium == Medium::Other && local.has_to_sync(cx) {
        local.synced(sys::io::sync(claimed.dir().as_fd()))?;
    }
    Ok(Some(PreservedFile { local, claimed }))
}

/// Claims a file, unless its file system has no directory.
fn claim<'d>(local: &'d LocalFs, file: (u64, Fid)) -> Result<Option<ClaimedFile<'d>>> {
    for _ in 0..CLAIM_TRIES {
        match local.files.claim_unlinked(local.backend, file) {
            Claim::Claimed(claimed) => return Ok(Some(claimed)),
            Claim::NoDirectory => return Ok(None),
            Claim::Busy => std::thread::sleep(CLAIM_PAUSE),
        }
    }
    Err(Status::Jukebox)
}

impl PreservedFile<'_> {
    /// Ends it, after the name was removed or could not be: a file that has another name needs none here, and is removed
    /// from the directory. The links that are the server's own, of those that the file has now.
    pub fn settle(self, victim: &Victim) -> u32 {
        let Self { local, claimed } = self;
        let stat = sys::stat::basic_of_fd(victim.path());
        if stat.is_ok_and(|stat| stat.nlink > 1) && local.identity.act_as_server().is_ok() {
            claimed.remove();
            return 0;
        }
        let file = claimed.file();
        drop(claimed);
        // its last guard may have gone while it was claimed
        local.files.discard_unkept(file);
        1
    }
}

/// [`PreservedFile::settle`] of what may be.
pub fn settle(preserved: Option<PreservedFile<'_>>, victim: Option<&Victim>) -> u32 {
    match (preserved, victim) {
        (Some(preserved), Some(victim)) => preserved.settle(victim),
        (_, _) => 0,
    }
}
