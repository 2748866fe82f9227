//! A call that passes through a modifying verb, for [`crate::audit`].

use crate::Nfs;
use crate::audit::{AuditRecord, AuditSink, AuditedOperation, AuditedPath};
use crate::object::{Caller, Object};
use rpc::{Call, Credential, Peer, Principal};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use vfs::{SetAttr, Status};

/// A call whose changes are recorded, or not.
#[derive(Clone, Copy)]
pub struct AuditedCall<'c>(Option<Recorded<'c>>);

#[derive(Clone, Copy)]
struct Recorded<'c> {
    sink: &'c dyn AuditSink,
    peer: &'c Peer,
    uid: Option<u32>,
    principal: Option<&'c Principal>,
}

/// What a call does.
#[derive(Clone, Copy)]
pub enum AuditedChange<'o> {
    /// The entry of a directory.
    Remove(&'o Object<'o>, &'o [u8]),
    /// The entry of a directory.
    Rmdir(&'o Object<'o>, &'o [u8]),
    /// From the entry of a directory to the entry of another.
    Rename((&'o Object<'o>, &'o [u8]), (&'o Object<'o>, &'o [u8])),
    /// The attributes of an object.
    Setattr(&'o Object<'o>, Option<SetAttr>),
}

impl<'c> AuditedCall<'c> {
    /// A change that is not recorded: the attributes of a file that the same call has created.
    pub const UNRECORDED: Self = Self(None);

    /// Of a call of version 2 or 3.
    #[inline]
    pub fn of<'a: 'c>(nfs: &'c Nfs, call: &Call<'a>) -> Self {
        match nfs.audit.sink() {
            None => Self(None),
            Some(sink) => Self::recorded(sink, call.peer, call.credential),
        }
    }

    /// Of a COMPOUND.
    #[inline]
    pub fn of_caller(nfs: &'c Nfs, caller: &Caller<'c>) -> Self {
        match nfs.audit.sink() {
            None => Self(None),
            Some(sink) => Self::recorded(sink, caller.peer(), *caller.credential()),
        }
    }

    #[cold]
    fn recorded(sink: &'c dyn AuditSink, peer: &'c Peer, credential: Credential<'c>) -> Self {
        let (uid, principal) = match credential {
            Credential::Anonymous => (None, None),
            Credential::Sys(sys) => (Some(sys.uid), None),
            Credential::Principal(principal) => {
                (principal.user.as_ref().map(|user| user.uid), Some(principal))
            }
        };
        Self(Some(Recorded { sink, peer, uid, principal }))
    }

    /// Runs `work` and records its result.
    #[inline]
    pub fn run<'o, T>(
        &self,
        change: impl FnOnce() -> AuditedChange<'o>,
        work: impl FnOnce() -> vfs::Result<T>,
    ) -> vfs::Result<T> {
        let done = work();
        if let Some(recorded) = &self.0 {
            recorded.note(change(), done.as_ref().err().copied());
        }
        done
    }
}

impl Recorded<'_> {
    #[cold]
    fn note(&self, change: AuditedChange<'_>, failed: Option<Status>) {
        match (change, failed) {
            // the client comes again, or the server runs the call again
            (_, Some(Status::Jukebox)) => return,
            // version 4 has one operation for both, which goes on with RMDIR
            (AuditedChange::Remove(..), Some(Status::IsDir)) => return,
            _ => {}
        }
        let (operation, object, place, to, set) = match change {
            AuditedChange::Remove(dir, name) => {
                (AuditedOperation::Remove, dir, entry(dir, name), None, None)
            }
            AuditedChange::Rmdir(dir, name) => {
                (AuditedOperation::Rmdir, dir, entry(dir, name), None, None)
            }
            AuditedChange::Rename((from, old), (to, new)) => {
                (AuditedOperation::Rename, from, entry(from, old), Some(entry(to, new)), None)
            }
            AuditedChange::Setattr(object, set) => {
                let place = AuditedPath { name: None, path: path(object) };
                (AuditedOperation::Setattr, object, place, None, set)
            }
        };
        self.sink.record(AuditRecord {
            time: SystemTime::now(),
            operation,
            peer: *self.peer,
            uid: self.uid,
            principal: self.principal.map(|principal| principal.name.clone()),
            acts_as_uid: object.cx().cred.uid,
            export: object.export().path_text(),
            place,
            to,
            set,
            failed,
        });
    }
}

/// An entry of a directory, as it is called now.
fn entry(dir: &Object<'_>, name: &[u8]) -> AuditedPath {
    let path = path(dir).map(|dir| dir.join(std::ffi::OsStr::from_bytes(name)));
    AuditedPath { name: Some(name.to_vec()), path }
}

/// The path of an object. The kernel knows none of a file that was opened by its handle and whose name it has not looked
/// up since: what it says then does not lie in the export.
fn path(object: &Object<'_>) -> Option<PathBuf> {
    let path = object.backend().local_path(&object.cx(), &object.fid)?;
    let root = object.backend().local_path(&object.cx(), &object.backend().root())?;
    path.starts_with::<&Path>(&root).then_some(path)
}
