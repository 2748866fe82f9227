//! What a copy that goes on after its COPY was answered does in a step ([`super::copies`]): its stateids and its export
//! are checked again, then the next part is copied, with its caller's rights. And how its client is told of its end.

use super::callback::{CallbackAnswer, CallbackFailure, Operation, Recipient};
use super::copies::{AsyncCopy, Copies, CopyFacts, CopyServer, CopyWork, Step};
use super::frame::{Frame, file_key};
use super::status::{Failed, nfsstat4};
use crate::Nfs;
use crate::object::{Object, OwnedObject};
use crate::verbs::CopySteps;
use export::Exports;
use proto::nfs4::{Nfsstat4, OffloadInfo4, StableHow4, Stateid4, op};
use rpc::IgnoreBlocking;
use state::v4::{DelegationKind, Stateid, StateidError, V4State};
use state::{FileKey, Now, ShareBits};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use vfs::{Right, Status};

/// How long a file system may say "later" without a break.
const LATER_MAX: Duration = Duration::from_secs(30);

/// What gives the right to one of the files: an open, a lock or a delegation.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopyStateid {
    file: FileKey,
    stateid: Stateid,
    access: ShareBits,
}

impl CopyStateid {
    /// `None` for a special stateid: nothing keeps others from what it gives the right to at this moment.
    pub fn new(object: &Object<'_>, stateid: Stateid4, access: ShareBits) -> Option<Self> {
        if matches!(stateid, Stateid4::ANONYMOUS | Stateid4::BYPASS) {
            return None;
        }
        let file = file_key(object.export().id.0, &object.fid)?;
        // whatever the version is by then
        Some(Self { file, stateid: Stateid { seqid: 0, other: stateid.other }, access })
    }

    /// Whether it still gives the right.
    fn check(&self, state: &V4State, client: u64) -> Result<(), StateidError> {
        let reading = state.read();
        match reading.check_access(client, self.stateid, &self.file, self.access) {
            Ok(_) => Ok(()),
            Err(StateidError::Bad) => {
                match reading.check_delegation(client, self.stateid, Some(&self.file))?.kind {
                    DelegationKind::Read if self.access != ShareBits::READ => {
                        Err(StateidError::OpenMode)
                    }
                    DelegationKind::Directory => Err(StateidError::Bad),
                    DelegationKind::Read | DelegationKind::Write => Ok(()),
                }
            }
            Err(error) => Err(error),
        }
    }
}

/// A file of a copy.
struct File {
    object: OwnedObject,
    right: Right,
    stateid: CopyStateid,
    /// Keeps the file when its last name goes.
    _kept: Option<Box<dyn Any + Send + Sync>>,
}

impl File {
    /// `None` if it cannot be kept.
    fn new(object: &Object<'_>, stateid: CopyStateid) -> Option<Self> {
        let kept: Option<Box<dyn Any + Send + Sync>> =
            match object.backend().keep(&object.cx(), &object.fid) {
                Ok(kept) => Some(Box::new(kept)),
                Err(Status::NotSupp) => None,
                Err(_) => return None,
            };
        let right = object.right;
        Some(Self { object: object.clone().into_owned(), right, stateid, _kept: kept })
    }

    fn object(&self) -> Object<'_> {
        let mut object = self.object.as_object(&IgnoreBlocking);
        object.right = self.right;
        object
    }
}

/// A copy's work.
struct IntraServerCopy {
    exports: Arc<Exports>,
    client: u64,
    source: File,
    target: File,
    steps: CopySteps,
    later_since: Option<Instant>,
}

impl CopyWork for IntraServerCopy {
    fn copied(&self) -> u64 {
        self.steps.copied().count
    }

    fn step(&mut self, state: &V4State, buffer: &mut Vec<u8>) -> Step {
        let table = self.exports.load();
        // whether the client may still do that is not known here
        if !self.source.object.is_of(&table) || !self.target.object.is_of(&table) {
            return Step::Stopped(Nfsstat4::Delay);
        }
        drop(table);
        let stateids = [&self.source.stateid, &self.target.stateid];
        let checked =
            stateids.into_iter().try_for_each(|stateid| stateid.check(state, self.client));
        if let Err(error) = checked {
            return Step::Stopped(Failed::from(error).status(op::COPY, 2));
        }
        let stepped = {
            let (source, target) = (self.source.object(), self.target.object());
            self.steps.step(&source, &target, buffer)
        };
        match stepped {
            Err(Status::Jukebox) => {
                let since = *self.later_since.get_or_insert_with(Instant::now);
                match since.elapsed() < LATER_MAX {
                    true => Step::Later,
                    false => Step::Stopped(Nfsstat4::Delay),
                }
            }
            Err(status) => Step::Failed(nfsstat4(status, op::COPY, 2)),
            Ok(()) => {
                self.later_since = None;
                if self.steps.is_done() { Step::Done } else { Step::More }
            }
        }
    }
}

/// Has the rest of a copy made after it was answered; its stateid, or `None` if there is no room.
pub(super) fn begin(
    frame: &Frame<'_>,
    source: (&Object<'_>, CopyStateid),
    target: (&Object<'_>, CopyStateid),
    steps: CopySteps,
) -> Option<Stateid> {
    let (v4, client) = (frame.v4(), frame.session().ok()?.client_id());
    let export = target.0.export();
    let path = |object: &Object<'_>| {
        let path = object.backend().local_path(&object.cx(), &object.fid)?;
        Some(path.to_string_lossy().into_owned())
    };
    let facts = CopyFacts {
        stateid: v4.state.copy_stateid(),
        client,
        principal: frame.principal,
        file: target.1.file,
        handle: target.0.seal(&target.0.fid).bytes().into(),
        export: export.id.0,
        export_path: export.path_text(),
        files: [path(source.0), path(target.0)],
        total: steps.total(),
        verifier: steps.copied().verifier,
        begun_ms: frame.now.0,
    };
    let stateid = facts.stateid;
    let work = IntraServerCopy {
        exports: Arc::clone(&frame.nfs.exports),
        client,
        source: File::new(source.0, source.1)?,
        target: File::new(target.0, target.1)?,
        steps,
        later_since: None,
    };
    v4.copies.begin(&AsyncCopy::new(facts, Box::new(work))).then_some(stateid)
}

impl CopyServer for Nfs {
    fn copies(&self) -> &Copies {
        &self.v4.copies
    }

    fn state(&self) -> &V4State {
        &self.v4.state
    }

    fn now(&self) -> Now {
        self.clock.now()
    }

    fn copy_stepped(&self, copy: &AsyncCopy) {
        self.after_copied(copy.facts.client, &copy.facts.file, &IgnoreBlocking);
    }

    fn tell_copy_ended(self: Arc<Self>, copy: &AsyncCopy, status: Nfsstat4) {
        let copied = copy.copied.load(Relaxed);
        let info = match status {
            Nfsstat4::Ok => OffloadInfo4::Done {
                count: copied,
                committed: StableHow4::Unstable,
                verifier: copy.facts.verifier,
            },
            status => OffloadInfo4::Failed { status, bytes_copied: copied },
        };
        let CopyFacts { stateid, client, handle, .. } = &copy.facts;
        let operation = Operation::Offload { handle: handle.clone(), stateid: *stateid, info };
        let (server, other) = (Arc::downgrade(&self), stateid.other);
        let done = Box::new(move |answer: Result<CallbackAnswer<'_>, CallbackFailure>| {
            let Some(server) = server.upgrade() else { return };
            let has_told = match answer {
                Ok(answer) => answer.status != Nfsstat4::Delay.number(),
                // it has run
                Err(CallbackFailure::AnswerLost) => true,
                Err(_) => false,
            };
            server.v4.copies.answered(&other, has_told, server.clock.now());
        });
        self.v4.callbacks.call(Recipient::Client(*client), operation, done);
    }
}

impl Nfs {
    /// Lets copies go on after they were answered, as far as the setting says; without this none does.
    pub fn serve_copies(self: &Arc<Self>) {
        let server: Arc<dyn CopyServer> = Arc::<Self>::clone(self);
        self.v4.copies.set_server(Arc::downgrade(&server));
    }

    /// Looks after copies and their outcomes. When it is to be called again, in milliseconds of the clock.
    pub fn tick_copies(&self) -> Option<u64> {
        self.v4.copies.tick()
    }
}
