//! A client of version 4.1 that takes files of which it has a delegation for unchanged, by their names: it reads them from
//! its own memory, until it has returned the delegation. What it writes to a file of which it has a write delegation it sends
//! before it returns that.

use super::facts::{Attrs, Seen};
use super::{PATIENCE, Party};
use crate::callbacks::connected;
use crate::rig::Server;
use client::nfs4::{Operations, Session, results_inside, succeeded};
use client::{Callback, CallbackReply, Client, Reply};
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, CbGetattrArgs, CbRecallAnyArgs, CbRecallArgs, CloseArgs, Createhow4, Fattr4, Nfsstat4,
    OpenArgs, OpenClaim4, OpenHow4, OpenOwner4, ReadArgs, RemoveArgs, RenameArgs, SetattrArgs,
    StableHow4, Stateid4, WriteArgs, attr, cb_op, op,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use xdr::{Reader, Writer};

/// `OPEN4_SHARE_ACCESS_READ` with `_WANT_READ_DELEG`, and `_WRITE` with `_WANT_NO_DELEG`.
const READ: u32 = 0x101;
const WRITE: u32 = 0x402;
/// `_BOTH` with `_WANT_WRITE_DELEG`.
const BOTH: u32 = 0x203;
const OPEN_DELEGATE_READ: u32 = 1;
const OPEN_DELEGATE_WRITE: u32 = 2;
const BAD_STATEID: u32 = 10_025;
const BAD_HANDLE: u32 = 10_001;
const ANONYMOUS: Stateid4 = Stateid4 { seqid: 0, other: [0; 12] };
/// The stateid that an operation before it has given.
const CURRENT: Stateid4 = Stateid4 { seqid: 1, other: [0; 12] };
/// How long it waits for callbacks when it is told to come back, and now and then.
const PAUSE: Duration = Duration::from_millis(3);
const GLANCE: Duration = Duration::from_millis(1);
/// How often files are read from memory between two glances.
const GLANCE_EVERY: u32 = 16;

/// What the answers to callbacks are made of.
#[derive(Default)]
struct Known {
    /// The delegations whose grant it has read.
    delegations: BTreeSet<[u8; 12]>,
    /// The change attributes and sizes of the files that it may write by one.
    attrs: BTreeMap<Vec<u8>, (u64, u64)>,
}

enum Told {
    Recall(Stateid4),
    /// All but so many are to be returned.
    RecallAny(usize),
}

struct Held {
    delegation: Delegation,
    handle: Vec<u8>,
    /// Nothing after the client has changed the file itself.
    seen: Option<Seen>,
    /// What was not sent, and its offset.
    unsent: Option<(u64, u64)>,
}

#[derive(Clone, Copy)]
struct Delegation {
    stateid: Stateid4,
    writes: bool,
}

pub struct Version4 {
    client: Client,
    session: Session,
    dir: Vec<u8>,
    told: Receiver<Told>,
    known: Arc<Mutex<Known>>,
    held: BTreeMap<String, Held>,
    turns: u32,
    /// Whether it asks for write delegations.
    writes: bool,
    /// How often it has written to its memory only.
    pub unsent: u64,
}

/// Answers a callback as a client does that learns of a delegation by the reply to its OPEN.
fn answer(callback: &Callback, known: &Mutex<Known>, tell: &Sender<Told>) -> CallbackReply {
    let Callback::Compound { operation, args, .. } = callback else {
        return CallbackReply::Ok(Vec::new());
    };
    let mut r = Reader::new(args);
    let told = match *operation {
        cb_op::RECALL => {
            let args: CbRecallArgs<'_> = r.get().unwrap();
            if !known.lock().unwrap().delegations.contains(&args.stateid.other) {
                return CallbackReply::Failed(BAD_STATEID);
            }
            Told::Recall(args.stateid)
        }
        cb_op::GETATTR => {
            let args: CbGetattrArgs<'_> = r.get().unwrap();
            let Some((change, size)) = known.lock().unwrap().attrs.get(args.fh.0).copied() else {
                return CallbackReply::Failed(BAD_HANDLE);
            };
            let values = [change.to_be_bytes(), size.to_be_bytes()].concat();
            let mut w = Writer::new();
            w.put(&Fattr4 { mask: args.attributes, values: Bytes(&values) });
            return CallbackReply::Ok(w.bytes().to_vec());
        }
        cb_op::RECALL_ANY => {
            let args: CbRecallAnyArgs = r.get().unwrap();
            Told::RecallAny(args.keep as usize)
        }
        _ => return CallbackReply::Ok(Vec::new()),
    };
    tell.send(told).unwrap();
    CallbackReply::Ok(Vec::new())
}

impl Version4 {
    pub fn new(server: &Server, path: &[u8], name: &[u8], writes: bool) -> Self {
        let mut client = connected(server);
        let (tell, told) = channel();
        let known = Arc::new(Mutex::new(Known::default()));
        let handler_knows = Arc::clone(&known);
        client.answer_callbacks(Box::new(move |callback| answer(callback, &handler_knows, &tell)));
        let session = client.open_session_with_callbacks(name, (4, 16)).unwrap();
        // filehandles are the same in all versions
        let dir = connected(server).mount(path).unwrap().bytes().to_vec();
        let held = BTreeMap::new();
        Self { client, session, dir, told, known, held, turns: 0, writes, unsent: 0 }
    }

    /// Returns what was recalled.
    fn return_recalled(&mut self) {
        while let Ok(told) = self.told.try_recv() {
            match told {
                Told::Recall(stateid) => {
                    let held = |held: &(&String, &Held)| held.1.delegation.stateid == stateid;
                    if let Some(name) = self.held.iter().find(held).map(|(name, _)| name.clone()) {
                        self.give_back(&name);
                    }
                }
                Told::RecallAny(keep) => {
                    while self.held.len() > keep
                        && let Some(name) = self.held.keys().next().cloned()
                    {
                        self.give_back(&name);
                    }
                }
            }
        }
    }

    fn give_back(&mut self, name: &str) {
        let Some(held) = self.held.remove(name) else { return };
        let stateid = held.delegation.stateid;
        if let Some((offset, number)) = held.unsent {
            self.send(&held.handle, stateid, offset, &number.to_be_bytes());
        }
        let operations = Operations::new().at(&held.handle).with(op::DELEGRETURN, &stateid);
        let reply = self.client.compound(&mut self.session, &operations).unwrap();
        assert_eq!(status(&reply), Nfsstat4::Ok, "{name} is returned");
        let mut known = self.known.lock().unwrap();
        known.delegations.remove(&stateid.other);
        known.attrs.remove(&held.handle);
    }

    fn send(&mut self, handle: &[u8], stateid: Stateid4, offset: u64, data: &[u8]) {
        let data = Bytes(data);
        let args = WriteArgs { stateid, offset, stable: StableHow4::FileSync, data };
        self.call(&Operations::new().at(handle).with(op::WRITE, &args)).unwrap();
    }

    /// A compound until its answer is not that it is to come back.
    fn call(&mut self, operations: &Operations) -> Result<Reply, Nfsstat4> {
        let end = Instant::now() + PATIENCE;
        loop {
            let reply = self.client.compound(&mut self.session, operations).unwrap();
            match status(&reply) {
                Nfsstat4::Ok => return Ok(reply),
                Nfsstat4::Delay => {
                    assert!(Instant::now() < end, "it is always to come back");
                    self.client.wait_for_callback(PAUSE).unwrap();
                    self.return_recalled();
                }
                status => return Err(status),
            }
        }
    }

    fn open_args<'a>(name: &'a str, share_access: u32, how: OpenHow4<'a>) -> OpenArgs<'a> {
        OpenArgs {
            seqid: 0,
            share_access,
            share_deny: 0,
            owner: OpenOwner4 { clientid: 0, owner: Bytes(b"owner") },
            how,
            claim: OpenClaim4::Null(Bytes(name.as_bytes())),
        }
    }

    fn close(&mut self, handle: &[u8], stateid: Stateid4) {
        let args = CloseArgs { seqid: 0, stateid };
        self.call(&Operations::new().at(handle).with(op::CLOSE, &args)).unwrap();
    }

    /// Opens a file for writing, writes, and closes it.
    fn write_to(&mut self, name: &str, how: OpenHow4<'_>, offset: u64, data: &[u8]) {
        let args = Self::open_args(name, WRITE, how);
        let open = Operations::new().at(&self.dir).with(op::OPEN, &args).bare(op::GETFH);
        let reply = self.call(&open).unwrap();
        let mut r = inside(&reply, &[op::PUTFH, op::OPEN]);
        let (stateid, _) = opened(&mut r);
        succeeded(&mut r, op::GETFH).unwrap();
        let handle = r.opaque(128).unwrap().to_vec();
        self.send(&handle, stateid, offset, data);
        self.close(&handle, stateid);
    }

    /// Opens a file so that it may be kept, and reads it; `None` if there is none of this name.
    fn open_and_read(&mut self, name: &str, share_access: u32) -> Option<(Stateid4, Held)> {
        let args = Self::open_args(name, share_access, OpenHow4::NoCreate);
        let operations = Operations::new()
            .at(&self.dir)
            .with(op::OPEN, &args)
            .bare(op::GETFH)
            .with(op::GETATTR, &Bitmap4::of(&[attr::CHANGE, attr::SIZE, attr::MODE]))
            .with(op::READ, &ReadArgs { stateid: CURRENT, offset: 0, count: 32 });
        let reply = match self.call(&operations) {
            Ok(reply) => reply,
            Err(Nfsstat4::NoEnt) => return None,
            Err(status) => panic!("{name}: {status:?}"),
        };
        let mut r = inside(&reply, &[op::PUTFH, op::OPEN]);
        let (open, delegation) = opened(&mut r);
        succeeded(&mut r, op::GETFH).unwrap();
        let handle = r.opaque(128).unwrap().to_vec();
        succeeded(&mut r, op::GETATTR).unwrap();
        let attrs: Fattr4<'_> = r.get().unwrap();
        let mut values = Reader::new(attrs.values.0);
        let (change, size) = (values.u64().unwrap(), values.u64().unwrap());
        let mode = values.u32().unwrap();
        succeeded(&mut r, op::READ).unwrap();
        let _eof = r.bool().unwrap();
        let seen = Some(Seen::new(r.opaque(32).unwrap(), size, mode));
        if let Some(delegation) = delegation {
            let mut known = self.known.lock().unwrap();
            known.delegations.insert(delegation.stateid.other);
            if delegation.writes {
                known.attrs.insert(handle.clone(), (change, size));
            }
        }
        let none = Delegation { stateid: ANONYMOUS, writes: false };
        let delegation = delegation.unwrap_or(none);
        Some((open, Held { delegation, handle, seen, unsent: None }))
    }

    /// Keeps what was opened with a delegation, and closes it.
    fn keep(&mut self, name: &str, open: Stateid4, opened: Held) {
        let handle = opened.handle.clone();
        if opened.delegation.stateid != ANONYMOUS {
            assert!(self.held.insert(name.to_owned(), opened).is_none(), "two of {name}");
        }
        self.close(&handle, open);
    }

    /// Writes to a file of which it has a write delegation, or gets one; false if it gets none.
    fn write_unsent(&mut self, name: &str, offset: u64, number: u64) -> bool {
        let may_write = |held: &Held| held.delegation.writes && held.seen.is_some();
        if !self.held.get(name).is_some_and(may_write) {
            self.give_back(name);
            let (open, opened) = self.open_and_read(name, BOTH).unwrap();
            self.keep(name, open, opened);
        }
        match self.held.get_mut(name) {
            Some(held @ Held { delegation: Delegation { writes: true, .. }, .. }) => {
                if let Some(seen) = &mut held.seen {
                    seen.numbers[offset as usize / 8] = number;
                }
                if held.unsent.replace((offset, number)).is_none()
                    && let Some((change, _)) =
                        self.known.lock().unwrap().attrs.get_mut(&held.handle)
                {
                    *change += 1;
                }
                self.unsent += 1;
                true
            }
            _ => false,
        }
    }

    fn set(&mut self, name: &str, number: u32, value: &[u8]) {
        let attrs = Fattr4 { mask: Bitmap4::of(&[number]), values: Bytes(value) };
        let args = SetattrArgs { stateid: ANONYMOUS, attrs };
        let at = Operations::new().at(&self.dir).with(op::LOOKUP, &Bytes::<255>(name.as_bytes()));
        self.call(&at.with(op::SETATTR, &args)).unwrap();
    }

    /// The client changes the file itself: it returns its delegation before that or has it recalled, by turns.
    fn before_own_change(&mut self, name: &str) {
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(2) {
            self.give_back(name);
        } else if let Some(held) = self.held.get_mut(name) {
            held.seen = None;
        }
    }
}

fn status(reply: &Reply) -> Nfsstat4 {
    Reader::new(reply.body()).get().unwrap()
}

/// The results behind those of these operations, of which the last one's is not read yet.
fn inside<'a>(reply: &'a Reply, numbers: &[u32]) -> Reader<'a> {
    let mut r = results_inside(reply).unwrap();
    numbers.iter().for_each(|number| succeeded(&mut r, *number).unwrap());
    r
}

/// The result of OPEN: the open, and the delegation.
fn opened(r: &mut Reader<'_>) -> (Stateid4, Option<Delegation>) {
    let open = r.get().unwrap();
    r.opaque_fixed(20).unwrap();
    r.u32().unwrap();
    let _set: Bitmap4 = r.get().unwrap();
    match r.u32().unwrap() {
        0 => (open, None),
        kind @ (OPEN_DELEGATE_READ | OPEN_DELEGATE_WRITE) => {
            let (stateid, writes) = (r.get().unwrap(), kind == OPEN_DELEGATE_WRITE);
            let _recalled = r.bool().unwrap();
            if writes {
                // nothing is reserved
                assert_eq!(r.words().unwrap(), [2, 0, 1]);
            }
            assert_eq!(r.words().unwrap(), [0, 0, 0, 0]);
            (open, Some(Delegation { stateid, writes }))
        }
        3 => {
            if let 1 | 2 = r.u32().unwrap() {
                r.u32().unwrap();
            }
            (open, None)
        }
        other => panic!("a delegation of type {other}"),
    }
}

impl Party for Version4 {
    fn look(&mut self) {
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(GLANCE_EVERY) {
            self.client.wait_for_callback(GLANCE).unwrap();
        }
        self.return_recalled();
    }

    fn end(&mut self) {
        while let Some(name) = self.held.keys().next().cloned() {
            self.give_back(&name);
        }
    }

    fn read(&mut self, name: &str) -> (Option<Seen>, bool) {
        match self.held.get(name) {
            Some(Held { seen: Some(seen), .. }) => return (Some(*seen), true),
            Some(_) => self.give_back(name),
            None => {}
        }
        let Some((open, opened)) = self.open_and_read(name, READ) else { return (None, false) };
        let seen = opened.seen;
        self.keep(name, open, opened);
        (seen, false)
    }

    fn stat(&mut self, name: &str) -> Option<Attrs> {
        // of its own files it knows more than the server
        if self.held.contains_key(name) {
            return None;
        }
        let asked = Bitmap4::of(&[attr::CHANGE, attr::SIZE]);
        let operations = Operations::new()
            .at(&self.dir)
            .with(op::LOOKUP, &Bytes::<255>(name.as_bytes()))
            .with(op::GETATTR, &asked);
        let reply = self.call(&operations).unwrap();
        let mut r = inside(&reply, &[op::PUTFH, op::LOOKUP, op::GETATTR]);
        let attrs: Fattr4<'_> = r.get().unwrap();
        let mut values = Reader::new(attrs.values.0);
        let (change, size) = (values.u64().unwrap(), values.u64().unwrap());
        Some(Attrs { changes: (change, 0), size })
    }

    fn write(&mut self, name: &str, offset: u64, number: u64) {
        if self.writes && self.write_unsent(name, offset, number) {
            return;
        }
        self.before_own_change(name);
        self.write_to(name, OpenHow4::NoCreate, offset, &number.to_be_bytes());
    }

    fn set_size(&mut self, name: &str, size: u64) {
        self.before_own_change(name);
        self.set(name, attr::SIZE, &size.to_be_bytes());
        if let Some(held) = self.held.get(name)
            && let Some((_, is)) = self.known.lock().unwrap().attrs.get_mut(&held.handle)
        {
            *is = size;
        }
    }

    fn set_mode(&mut self, name: &str, mode: u32) {
        self.before_own_change(name);
        self.set(name, attr::MODE, &mode.to_be_bytes());
    }

    fn replace(&mut self, name: &str, number: u64) {
        self.before_own_change(name);
        let (new, mode) = (format!("{name}.new"), 0o644_u32.to_be_bytes());
        let attrs = Fattr4 { mask: Bitmap4::of(&[attr::MODE]), values: Bytes(&mode) };
        let how = OpenHow4::Create(Createhow4::Unchecked(attrs));
        let mut data = [0; 64];
        data[..8].copy_from_slice(&number.to_be_bytes());
        self.write_to(&new, how, 0, &data);
        self.rename(&new, name);
        // it is of the file that was replaced
        self.give_back(name);
    }

    fn remove(&mut self, name: &str) {
        self.before_own_change(name);
        let args = RemoveArgs { name: Bytes(name.as_bytes()) };
        self.call(&Operations::new().at(&self.dir).with(op::REMOVE, &args)).unwrap();
        self.give_back(name);
    }

    fn rename(&mut self, from: &str, to: &str) {
        self.before_own_change(from);
        let args = RenameArgs { old: Bytes(from.as_bytes()), new: Bytes(to.as_bytes()) };
        let operations = Operations::new().at(&self.dir).bare(op::SAVEFH).with(op::RENAME, &args);
        self.call(&operations).unwrap();
        self.give_back(from);
    }
}
