//! A lock manager without a server, and clients that name themselves.

use crate::support::{Awake, exports};
use bowline_nfs::nlm::{Nlm, nlm_program};
use bowline_nfs::v4::V4;
use bowline_nfs::{Nfs, NfsSettings, Store};
use export::Exports;
use proto::nlm::{
    Answer, CancelArgs, FreeAllArgs, Holder, Lock, LockArgs, ShareAccess, ShareAnswer, ShareArgs,
    ShareDeny, Status, TestAnswer, TestArgs, TestResult, UnlockArgs, Versioned, Width,
    procedure as p,
};
use rpc::{
    AuthSys, Call, CallId, Credential, Fault, Outbound, OutboundCall, Peer, Principal, Program,
    Service, Transport, TransportSecurity,
};
use state::v4::V4Limits;
use state::{Limits, Now, Record, Recovery, State};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use vfs::Backend;
use xdr::{Reader, Writer};

/// Records, as far as they may be stored.
#[derive(Default)]
pub struct Records {
    pub stored: Mutex<Vec<Record>>,
    pub broken: AtomicBool,
}

impl Store for Records {
    fn append_all(&self, records: &[Record]) -> io::Result<()> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(io::Error::other("a full disk"));
        }
        self.stored.lock().unwrap().extend_from_slice(records);
        Ok(())
    }
}

/// Who sends requests of version 4.
pub struct Sender {
    /// Who has been proven to call, in place of root by AUTH_SYS.
    pub principal: Option<Principal>,
    pub security: TransportSecurity,
}

impl Default for Sender {
    fn default() -> Self {
        Self { principal: None, security: TransportSecurity::PLAIN }
    }
}

pub struct Rig {
    pub sender: Sender,
    pub nfs: Arc<Nfs>,
    pub program: Service<Nlm>,
    pub store: Arc<Records>,
    pub calls: Arc<Calls>,
}

/// Calls to clients, made as far as noting them.
#[derive(Default)]
pub struct Calls(Mutex<Vec<OutboundCall>>);

impl Outbound for Calls {
    fn call(&self, call: OutboundCall) -> CallId {
        self.0.lock().unwrap().push(call);
        CallId(0)
    }

    fn cancel(&self, _: CallId) {}
}

impl Calls {
    /// What was called since the last look.
    pub fn take(&self) -> Vec<OutboundCall> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A lock owner of a client.
#[derive(Clone, Copy)]
pub struct Owner {
    /// Where the client calls from.
    pub addr: &'static str,
    /// The process.
    pub svid: i32,
    /// Who the process is.
    pub uid: u32,
    pub version: u32,
}

pub const A: Owner = Owner { addr: "127.0.0.1:700", svid: 10, uid: 0, version: 4 };
/// Another process of the same client.
pub const A2: Owner = Owner { svid: 11, ..A };
/// Another client, behind the same address.
pub const B: Owner = Owner { addr: "127.0.0.1:800", svid: 20, uid: 0, version: 4 };

impl Owner {
    /// The client's name for itself: by its port, so that two of one address are two.
    fn name(&self) -> &'static [u8] {
        self.addr.as_bytes()
    }

    fn width(&self) -> Width {
        Width::of_version(self.version).unwrap()
    }

    pub fn lock<'a>(&self, handle: &'a [u8], offset: u64, len: u64) -> Lock<'a> {
        let oh: &'static [u8] = if self.svid == 10 { b"ten" } else { b"other" };
        Lock { caller_name: self.name(), handle, oh, svid: self.svid, offset, len }
    }
}

/// A lock that is in the way: mode, process, owner handle, offset and length.
type DelegationConflict = (bool, i32, Vec<u8>, u64, u64);

impl Rig {
    /// One writable export of this backend.
    pub fn over(backend: Arc<dyn Backend>) -> Self {
        Self::with(backend, exports::RW, &Recovery::default(), Limits::default())
    }

    pub fn with(
        backend: Arc<dyn Backend>,
        options: export::Options,
        recovery: &Recovery,
        limits: Limits,
    ) -> Self {
        let exports = Arc::new(exports::of(&[("/e", backend, options)]));
        let state = Arc::new(State::new(recovery, Now(0), limits, 1));
        Self::of(nfs_over(exports, V4::new(state, V4Limits::default())))
    }

    /// One export with this rule.
    pub fn with_rule(backend: &Arc<dyn Backend>, rule: export::Rule) -> Self {
        let exports = Arc::new(exports::of_rule("/e", backend, rule));
        Self::of(Nfs::new(exports, NfsSettings::default()))
    }

    /// The server over the same files that starts when this one has been killed.
    pub fn restarted(&self) -> Self {
        let stored = self.store.stored.lock().unwrap().clone();
        let recovery = Recovery::of(stored.iter().cloned());
        let options = self.nfs.exports.load().exports()[0].rules()[0].options;
        let exports = Arc::new(exports::of(&[("/e", self.backend(), options)]));
        let state = Arc::new(State::new(&recovery, Now(0), Limits::default(), 1));
        let v4 = V4::new(state, V4Limits::default()).with_epoch(recovery.instance() + 1);
        let rig = Self::of(nfs_over(exports, v4));
        let all = stored.into_iter().chain(recovery.start_records()).collect();
        *rig.store.stored.lock().unwrap() = all;
        rig
    }

    /// The same with these limits, and those of version 4.
    pub fn with_limits(backend: Arc<dyn Backend>, limits: Limits, version_4: V4Limits) -> Self {
        let exports = Arc::new(exports::of(&[("/e", backend, exports::RW)]));
        let state = Arc::new(State::new(&Recovery::default(), Now(0), limits, 1));
        Self::of(nfs_over(exports, V4::new(state, version_4)))
    }

    fn of(nfs: Nfs) -> Self {
        let store = Arc::new(Records::default());
        let records = Arc::clone(&store) as Arc<dyn Store>;
        let nfs = Arc::new(nfs.with_store(records));
        let calls = Arc::new(Calls::default());
        let outbound = Arc::clone(&calls) as Arc<dyn Outbound>;
        let nlm = Nlm::new(Arc::clone(&nfs), outbound, b"server");
        let nlm = Arc::new(nlm);
        let for_version_4: Weak<Nlm> = Arc::downgrade(&nlm);
        nfs.set_lock_manager(for_version_4);
        Self { sender: Sender::default(), nfs, program: nlm_program(nlm), store, calls }
    }

    pub fn nlm(&self) -> &Nlm {
        &self.program.state
    }

    /// The backend of the export.
    pub fn backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.nfs.exports.load().exports()[0].backend)
    }

    /// The handle of the root.
    pub fn root(&self) -> Vec<u8> {
        let table = self.nfs.exports.load();
        let export = &table.exports()[0];
        export.seal(&export.backend.root()).bytes().to_vec()
    }

    /// The handle of an entry of the root.
    pub fn handle(&self, name: &str) -> Vec<u8> {
        let table = self.nfs.exports.load();
        let export = &table.exports()[0];
        let cx = vfs::Cx {
            cred: vfs::Cred { uid: 0, gid: 0, groups: &[] },
            blocking: &NeverBlocks,
            durability: vfs::Durability::Async,
            right: vfs::Right::Check,
            attr_cache_ms: 0,
        };
        let name = vfs::Component::Name(vfs::Name::new(name.as_bytes()).unwrap());
        let found = export.backend.lookup(&cx, &export.backend.root(), name).unwrap();
        export.seal(&found.node.fid).bytes().to_vec()
    }

    /// The bytes of a result.
    pub fn try_call<'a>(
        &self,
        who: Owner,
        procedure: u32,
        args: &impl Versioned<'a>,
    ) -> Result<Vec<u8>, Fault> {
        let mut w = Writer::new();
        args.encode(&mut w, who.width());
        let peer = Peer {
            addr: who.addr.parse().unwrap(),
            local: "127.0.0.1:2049".parse().unwrap(),
            transport: Transport::Tcp,
            security: rpc::TransportSecurity::PLAIN,
        };
        let sys = AuthSys::new(b"test", who.uid, who.uid, &[]).unwrap();
        let mut call = Call::new(1, &peer, Credential::Sys(sys), &Awake);
        let row = self.program.row(who.version, procedure).unwrap().id;
        let mut reply = Writer::new();
        self.program.run(row, &mut call, &mut Reader::new(w.bytes()), &mut reply)?;
        Ok(reply.bytes().to_vec())
    }

    fn answer<'a>(&self, who: Owner, procedure: u32, args: &impl Versioned<'a>) -> Status {
        let bytes = self.try_call(who, procedure, args).unwrap();
        let mut r = Reader::new(&bytes);
        let answer = Answer::decode(&mut r, who.width()).unwrap();
        r.end().unwrap();
        assert_eq!(answer.cookie, b"cookie");
        answer.status
    }

    /// LOCK that does not wait.
    pub fn lock(&self, who: Owner, exclusive: bool, lock: Lock<'_>) -> Status {
        self.lock_with(who, LockArgs { exclusive, ..try_args(lock) })
    }

    pub fn lock_with(&self, who: Owner, args: LockArgs<'_>) -> Status {
        self.answer(who, p::LOCK, &args)
    }

    pub fn nm_lock(&self, who: Owner, lock: Lock<'_>) -> Status {
        self.answer(who, p::NM_LOCK, &try_args(lock))
    }

    pub fn unlock(&self, who: Owner, lock: Lock<'_>) -> Status {
        self.answer(who, p::UNLOCK, &UnlockArgs { cookie: b"cookie", lock })
    }

    pub fn cancel(&self, who: Owner, exclusive: bool, lock: Lock<'_>) -> Status {
        self.answer(who, p::CANCEL, &CancelArgs { cookie: b"cookie", block: true, exclusive, lock })
    }

    pub fn test(
        &self,
        who: Owner,
        exclusive: bool,
        lock: Lock<'_>,
    ) -> Result<(), (Status, Option<DelegationConflict>)> {
        let args = TestArgs { cookie: b"cookie", exclusive, lock };
        let bytes = self.try_call(who, p::TEST, &args).unwrap();
        let mut r = Reader::new(&bytes);
        let answer = TestAnswer::decode(&mut r, who.width()).unwrap();
        r.end().unwrap();
        match answer.result {
            TestResult::Other(Status::Granted) => Ok(()),
            TestResult::Other(status) => Err((status, None)),
            TestResult::Denied(Holder { exclusive, svid, oh, offset, len }) => {
                Err((Status::Denied, Some((exclusive, svid, oh.to_vec(), offset, len))))
            }
        }
    }

    pub fn share(
        &self,
        who: Owner,
        procedure: u32,
        handle: &[u8],
        (access, deny): (ShareAccess, ShareDeny),
    ) -> Status {
        let args = ShareArgs {
            cookie: b"cookie",
            caller_name: who.name(),
            handle,
            oh: b"dos",
            deny,
            access,
            reclaim: false,
        };
        let bytes = self.try_call(who, procedure, &args).unwrap();
        let answer = ShareAnswer::decode(&mut Reader::new(&bytes), who.width()).unwrap();
        assert_eq!((answer.cookie, answer.sequence), (&b"cookie"[..], 0));
        answer.status
    }

    pub fn free_all(&self, who: Owner, name: &[u8]) {
        let result = self.try_call(who, p::FREE_ALL, &FreeAllArgs { name, state: 0 }).unwrap();
        assert!(result.is_empty());
    }
}

fn nfs_over(exports: Arc<Exports>, v4: V4) -> Nfs {
    Nfs::new(exports, NfsSettings::default()).with_version_4(v4)
}

pub fn try_args(lock: Lock<'_>) -> LockArgs<'_> {
    LockArgs { cookie: b"cookie", block: false, exclusive: true, lock, reclaim: false, state: 1 }
}

pub struct NeverBlocks;

impl vfs::Blocking for NeverBlocks {
    fn will_block(&self) -> vfs::Result<()> {
        Ok(())
    }
}

/// A file system in memory with one file.
pub fn file_in_memory() -> Arc<dyn Backend> {
    let backend = exports::mem();
    let cx = vfs::Cx {
        cred: vfs::Cred { uid: 0, gid: 0, groups: &[] },
        blocking: &NeverBlocks,
        durability: vfs::Durability::Async,
        right: vfs::Right::Check,
        attr_cache_ms: 0,
    };
    let set = vfs::SetAttr { mode: Some(0o600), ..vfs::SetAttr::default() };
    let name = vfs::Name::new(b"file").unwrap();
    backend.create(&cx, &backend.root(), name, vfs::Create::Guarded(set)).unwrap();
    backend
}
