//! Callbacks of version 4.1 over real connections: to clients that answer, that answer wrongly or not at all, and whose
//! connections close.

use crate::operator_tables::connect;
use crate::rig::Server;
use client::nfs4::{
    CALLBACK_PROGRAM, Operations, Session, results, results_inside, status_flags, succeeded,
};
use client::{Callback, CallbackReply, Client, Identity};
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, CbNotifyLockArgs, CbSequenceArgs, Createhow4, Fattr4, LockArgs, LockOwner4, LockType4,
    Locker4, LockuArgs, Nfsstat4, OpenArgs, OpenClaim4, OpenHow4, OpenOwner4, Stateid4, cb_op, op,
};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use xdr::{Encode, Reader, Writer};

/// A limit on waiting that keeps a failure from hanging.
const PATIENCE: Duration = Duration::from_secs(60);
const AUTH_NONE: u32 = 0;
const AUTH_SYS: u32 = 1;
const MAY_NOTIFY_LOCK: u32 = 0x20;
/// `CDFC4_BACK_OR_BOTH`, and `CDFS4_BOTH`.
const BACK_OR_BOTH: u32 = 7;
const BOTH: u32 = 3;
/// `SEQ4_STATUS_CB_PATH_DOWN` and `SEQ4_STATUS_CB_PATH_DOWN_SESSION`.
const PATH_DOWN: u32 = 0x201;

/// A server with one export, `e`.
fn server() -> (TempDir, Server) {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let export = format!("e={}", dir.path().display());
    let server = Server::start(&[&export, "--set", "versions=3,4.1"]);
    (dir, server)
}

/// A client with a session that has the file open.
struct Locker {
    client: Client,
    session: Session,
    seen: Receiver<Callback>,
    name: &'static [u8],
    handle: Vec<u8>,
    open: Stateid4,
    flags: u32,
    lock: Option<Stateid4>,
}

/// A connection, by an ordinary user.
pub fn connected(server: &Server) -> Client {
    let mut client = connect(server);
    client.set_identity(Some(Identity::new(65_534, 65_534)));
    client
}

fn open_args(owner: &[u8]) -> OpenArgs<'_> {
    OpenArgs {
        seqid: 0,
        share_access: 3,
        share_deny: 0,
        owner: OpenOwner4 { clientid: 0, owner: Bytes(owner) },
        how: OpenHow4::Create(Createhow4::Unchecked(Fattr4 {
            mask: Bitmap4::NONE,
            values: Bytes(b""),
        })),
        claim: OpenClaim4::Null(Bytes(b"file")),
    }
}

impl Locker {
    /// A client that answers callbacks by `answer`.
    fn new(
        server: &Server,
        name: &'static [u8],
        back_slots: u32,
        answer: impl FnMut(&Callback) -> CallbackReply + Send + 'static,
    ) -> Self {
        let mut client = connected(server);
        let seen = watch(&mut client, answer);
        let session = client.open_session_with_callbacks(name, (4, back_slots)).unwrap();
        Self::opened(client, session, seen, name)
    }

    fn opened(
        mut client: Client,
        mut session: Session,
        seen: Receiver<Callback>,
        name: &'static [u8],
    ) -> Self {
        let operations = Operations::new()
            .bare(op::PUTROOTFH)
            .with(op::LOOKUP, &Bytes::<255>(b"e"))
            .with(op::OPEN, &open_args(name))
            .bare(op::GETFH);
        let reply = client.compound(&mut session, &operations).unwrap();
        let mut r = results_inside(&reply).unwrap();
        succeeded(&mut r, op::PUTROOTFH).unwrap();
        succeeded(&mut r, op::LOOKUP).unwrap();
        succeeded(&mut r, op::OPEN).unwrap();
        let open = r.get().unwrap();
        r.opaque_fixed(20).unwrap();
        let flags = r.u32().unwrap();
        let _set: Bitmap4 = r.get().unwrap();
        assert_eq!(r.u32().unwrap(), 0, "no delegation");
        succeeded(&mut r, op::GETFH).unwrap();
        let handle = r.opaque(128).unwrap().to_vec();
        Self { client, session, seen, name, handle, open, flags, lock: None }
    }

    /// Asks for a write lock of the whole file that it would wait for.
    fn ask(&mut self) -> Nfsstat4 {
        let owner = LockOwner4 { clientid: 0, owner: Bytes(self.name) };
        let locker = self.lock.map_or(Locker4::by_open(self.open, owner), Locker4::by_lock);
        let (offset, length) = (0, u64::MAX);
        let args = LockArgs { kind: LockType4::WriteWait, reclaim: false, offset, length, locker };
        let operations = Operations::new().at(&self.handle).with(op::LOCK, &args);
        let reply = self.client.compound(&mut self.session, &operations).unwrap();
        let status = Reader::new(reply.body()).get().unwrap();
        if status == Nfsstat4::Ok {
            let mut r = results_inside(&reply).unwrap();
            succeeded(&mut r, op::PUTFH).unwrap();
            succeeded(&mut r, op::LOCK).unwrap();
            self.lock = Some(r.get().unwrap());
        }
        status
    }

    fn unlock(&mut self) {
        let stateid = self.lock.unwrap();
        let (offset, length) = (0, u64::MAX);
        let args = LockuArgs { kind: LockType4::Write, seqid: 0, stateid, offset, length };
        let operations = Operations::new().at(&self.handle).with(op::LOCKU, &args);
        let reply = self.client.compound(&mut self.session, &operations).unwrap();
        let mut r = results_inside(&reply).unwrap();
        succeeded(&mut r, op::PUTFH).unwrap();
        succeeded(&mut r, op::LOCKU).unwrap();
        self.lock = Some(r.get().unwrap());
    }

    /// The status flags that SEQUENCE is answered with.
    fn status(&mut self) -> u32 {
        let reply = self.client.compound(&mut self.session, &Operations::new()).unwrap();
        status_flags(&reply).unwrap()
    }

    /// Waits until SEQUENCE is answered with these flags.
    fn await_status(&mut self, flags: u32) {
        until(|| self.status() == flags);
    }

    /// The next callback that is no probe.
    fn callback(&mut self) -> Seen {
        next(&mut self.client, &self.seen)
    }
}

/// Arguments, as numbers.
struct Words([u32; 3]);

impl Encode for Words {
    fn encode(&self, w: &mut Writer) {
        w.words(self.0);
    }
}

/// A callback that has arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    program: u32,
    flavor: u32,
    sequence: CbSequenceArgs,
    pub operation: u32,
    pub args: Vec<u8>,
}

/// Has a client answer callbacks by `answer`; those that arrive.
pub fn watch(
    client: &mut Client,
    mut answer: impl FnMut(&Callback) -> CallbackReply + Send + 'static,
) -> Receiver<Callback> {
    let (sender, seen) = channel();
    client.answer_callbacks(Box::new(move |callback| {
        sender.send(callback.clone()).unwrap();
        answer(callback)
    }));
    seen
}

pub fn until(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "waited in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn next(client: &mut Client, seen: &Receiver<Callback>) -> Seen {
    loop {
        while let Ok(callback) = seen.try_recv() {
            if let Callback::Compound { program, flavor, sequence, operation, args } = callback {
                return Seen { program, flavor, sequence, operation, args };
            }
        }
        assert!(client.wait_for_callback(PATIENCE).unwrap(), "no callback comes");
    }
}

pub fn fine(_: &Callback) -> CallbackReply {
    CallbackReply::Ok(Vec::new())
}

fn silent(_: &Callback) -> CallbackReply {
    CallbackReply::Silence
}

#[test]
fn a_waiter_is_notified_of_a_released_lock_and_gets_it() {
    let (_dir, server) = server();
    let mut holder = Locker::new(&server, b"holder", 1, fine);
    let mut waiter = Locker::new(&server, b"waiter", 8, fine);
    let mut third = Locker::new(&server, b"third", 8, fine);
    assert_eq!(waiter.flags & MAY_NOTIFY_LOCK, MAY_NOTIFY_LOCK);
    assert_eq!(waiter.status(), 0);
    assert_eq!(holder.ask(), Nfsstat4::Ok);
    assert_eq!(waiter.ask(), Nfsstat4::Denied);
    assert_eq!(third.ask(), Nfsstat4::Denied);
    assert_eq!(waiter.ask(), Nfsstat4::Denied, "asked again: one request still");
    holder.unlock();
    let called = waiter.callback();
    assert_eq!((called.program, called.flavor), (CALLBACK_PROGRAM, AUTH_SYS));
    assert_eq!((called.sequence.sequenceid, called.sequence.slotid), (1, 0));
    assert_eq!(called.operation, cb_op::NOTIFY_LOCK);
    let mut r = Reader::new(&called.args);
    let args: CbNotifyLockArgs<'_> = r.get().unwrap();
    r.end().unwrap();
    assert_eq!((args.fh.0, args.owner.owner.0), (&waiter.handle[..], &b"waiter"[..]));
    assert_eq!(args.owner.clientid, waiter.session.client_id);
    // who came later does not get it meanwhile
    assert_eq!(third.ask(), Nfsstat4::Denied);
    assert_eq!(waiter.ask(), Nfsstat4::Ok);
    waiter.unlock();
    assert_eq!(third.callback().operation, cb_op::NOTIFY_LOCK);
    assert_eq!(third.ask(), Nfsstat4::Ok);
}

#[test]
fn a_lock_that_is_not_fetched_goes_to_the_next() {
    let (_dir, server) = server();
    let mut holder = Locker::new(&server, b"holder", 1, fine);
    let mut gone = Locker::new(&server, b"gone", 1, fine);
    let mut next = Locker::new(&server, b"next", 1, fine);
    assert_eq!(holder.ask(), Nfsstat4::Ok);
    assert_eq!(gone.ask(), Nfsstat4::Denied);
    assert_eq!(next.ask(), Nfsstat4::Denied);
    holder.unlock();
    // its process was killed while it waited
    gone.callback();
    next.callback();
    assert_eq!(next.ask(), Nfsstat4::Ok);
}

#[test]
fn a_client_without_callback_replies_gets_path_down_and_loses_its_turn() {
    let (_dir, server) = server();
    let mut holder = Locker::new(&server, b"holder", 1, fine);
    let mut mute = Locker::new(&server, b"mute", 1, silent);
    let mut next = Locker::new(&server, b"next", 1, fine);
    assert_eq!(holder.ask(), Nfsstat4::Ok);
    assert_eq!(mute.ask(), Nfsstat4::Denied);
    assert_eq!(next.ask(), Nfsstat4::Denied);
    holder.unlock();
    mute.callback();
    next.callback();
    assert_eq!(next.ask(), Nfsstat4::Ok);
    mute.await_status(PATH_DOWN);
    // binding the connection again gives it another chance
    let _seen = watch(&mut mute.client, fine);
    assert_eq!(mute.client.bind_to_session(&mute.session, BACK_OR_BOTH).unwrap(), BOTH);
    mute.await_status(0);
}

#[test]
fn a_callback_lost_on_one_connection_is_retried_on_the_next_with_the_same_sequence_id() {
    let (_dir, server) = server();
    let mut holder = Locker::new(&server, b"holder", 1, fine);
    let mut waiter = Locker::new(&server, b"waiter", 1, silent);
    let mut second = connected(&server);
    let seen = watch(&mut second, fine);
    assert_eq!(second.bind_to_session(&waiter.session, BACK_OR_BOTH).unwrap(), BOTH);
    assert_eq!(holder.ask(), Nfsstat4::Ok);
    assert_eq!(waiter.ask(), Nfsstat4::Denied);
    holder.unlock();
    let lost = waiter.callback();
    // closed with the callback on its way
    let Locker { client, mut session, .. } = waiter;
    drop(client);
    let again = next(&mut second, &seen);
    assert_eq!((again.sequence, again.args), (lost.sequence, lost.args));
    let reply = second.compound(&mut session, &Operations::new()).unwrap();
    assert_eq!(status_flags(&reply).unwrap(), 0, "one connection is left");
}

#[test]
fn flags_follow_the_connections_and_sequence_binds_none() {
    let (_dir, server) = server();
    let Locker { client, mut session, .. } = Locker::new(&server, b"client", 1, fine);
    drop(client);
    let mut other = connected(&server);
    let seen = watch(&mut other, fine);
    let mut flags = || {
        let reply = other.compound(&mut session, &Operations::new()).unwrap();
        status_flags(&reply).unwrap()
    };
    until(|| flags() == PATH_DOWN);
    assert_eq!(flags(), PATH_DOWN, "SEQUENCE binds to the fore channel only");
    let session_now = session.clone();
    assert_eq!(other.bind_to_session(&session_now, BACK_OR_BOTH).unwrap(), BOTH);
    let reply = other.compound(&mut session, &Operations::new()).unwrap();
    assert_eq!(status_flags(&reply).unwrap(), 0);
    while !matches!(seen.try_recv(), Ok(Callback::Null { program: CALLBACK_PROGRAM })) {
        assert!(other.wait_for_callback(PATIENCE).unwrap(), "no probe comes");
    }
    // bound to both, which cannot be undone
    assert!(other.bind_to_session(&session, 1).is_err());
}

#[test]
fn a_session_without_a_back_channel_has_no_flags_and_is_not_called() {
    let (_dir, server) = server();
    let mut client = connected(&server);
    let seen = watch(&mut client, fine);
    let session = client.open_session(b"plain", 4).unwrap();
    let mut plain = Locker::opened(client, session, seen, b"plain");
    assert_eq!(plain.flags & MAY_NOTIFY_LOCK, 0);
    assert_eq!(plain.status(), 0);
    let mut holder = Locker::new(&server, b"holder", 1, fine);
    assert_eq!(holder.ask(), Nfsstat4::Ok);
    assert_eq!(plain.ask(), Nfsstat4::Denied);
    holder.unlock();
    assert_eq!(plain.ask(), Nfsstat4::Ok, "by asking again");
    assert!(plain.seen.try_recv().is_err());
}

#[test]
fn a_misordered_sequence_id_is_retried_with_the_next() {
    let (_dir, server) = server();
    let mut holder = Locker::new(&server, b"holder", 1, fine);
    let mut first = true;
    let mut waiter = Locker::new(&server, b"waiter", 1, move |callback| match callback {
        Callback::Compound { .. } if std::mem::replace(&mut first, false) => {
            CallbackReply::SequenceFailed(Nfsstat4::SeqMisordered.number())
        }
        _ => CallbackReply::Ok(Vec::new()),
    });
    assert_eq!(holder.ask(), Nfsstat4::Ok);
    assert_eq!(waiter.ask(), Nfsstat4::Denied);
    holder.unlock();
    assert_eq!(waiter.callback().sequence.sequenceid, 1);
    assert_eq!(waiter.callback().sequence.sequenceid, 2);
    assert_eq!(waiter.ask(), Nfsstat4::Ok);
    assert_eq!(waiter.status(), 0);
}

#[test]
fn a_client_that_is_not_ready_is_called_again() {
    for on_slot in [true, false] {
        let (_dir, server) = server();
        let mut holder = Locker::new(&server, b"holder", 1, fine);
        let mut left = 2;
        let delay = Nfsstat4::Delay.number();
        let mut waiter = Locker::new(&server, b"waiter", 1, move |callback| match callback {
            Callback::Compound { .. } if left > 0 => {
                left -= 1;
                match on_slot {
                    true => CallbackReply::SequenceFailed(delay),
                    false => CallbackReply::Failed(delay),
                }
            }
            _ => CallbackReply::Ok(Vec::new()),
        });
        assert_eq!(holder.ask(), Nfsstat4::Ok);
        assert_eq!(waiter.ask(), Nfsstat4::Denied);
        holder.unlock();
        let numbers = [(); 3].map(|()| waiter.callback().sequence.sequenceid);
        assert_eq!(numbers, if on_slot { [1, 1, 1] } else { [1, 2, 3] });
        assert_eq!(waiter.ask(), Nfsstat4::Ok);
    }
}

#[test]
fn backchannel_ctl_changes_program_and_flavour() {
    let (_dir, server) = server();
    let mut holder = Locker::new(&server, b"holder", 1, fine);
    let mut waiter = Locker::new(&server, b"waiter", 1, fine);
    // AUTH_NONE
    let operations = Operations::new().with(op::BACKCHANNEL_CTL, &Words([0x4000_0009, 1, 0]));
    results(&waiter.client.compound(&mut waiter.session, &operations).unwrap()).unwrap();
    assert_eq!(holder.ask(), Nfsstat4::Ok);
    assert_eq!(waiter.ask(), Nfsstat4::Denied);
    holder.unlock();
    let called = waiter.callback();
    assert_eq!((called.program, called.flavor), (0x4000_0009, AUTH_NONE));
}

#[test]
fn a_session_ends_with_a_callback_under_way_which_goes_over_another_one() {
    let (_dir, server) = server();
    let mut holder = Locker::new(&server, b"holder", 1, fine);
    let mut waiter = Locker::new(&server, b"waiter", 1, silent);
    assert_eq!(holder.ask(), Nfsstat4::Ok);
    assert_eq!(waiter.ask(), Nfsstat4::Denied);
    holder.unlock();
    waiter.callback();
    let mut second = connected(&server);
    let seen = watch(&mut second, fine);
    let _other = second.open_session_with_callbacks(b"waiter", (4, 1)).unwrap_err();
    // RECLAIM_COMPLETE was sent before; the session is there
    second.destroy_session(&waiter.session).unwrap();
    drop(waiter.client);
    assert_eq!(next(&mut second, &seen).operation, cb_op::NOTIFY_LOCK);
}

#[test]
fn a_client_is_called_when_its_session_is_to_have_fewer_slots() {
    let (_dir, server) = server();
    let mut client = connected(&server);
    let seen = watch(&mut client, fine);
    let mut session = client.open_session_with_callbacks(b"client", (64, 1)).unwrap();
    assert!(server.ask(&["set", "session-slots=16"]).status.success());
    let called = next(&mut client, &seen);
    assert_eq!(called.operation, cb_op::RECALL_SLOT);
    assert_eq!(called.args, 15_u32.to_be_bytes());
    client.compound(&mut session, &Operations::new()).unwrap();
    client.compound(&mut session, &Operations::new()).unwrap();
    let rows = server.json("sessions");
    assert_eq!(rows[0]["slots"], 64, "it goes on using all: {rows}");
}
