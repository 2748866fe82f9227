//! A server in small: the state, a store that syncs at once, and a kernel whose locks are an array, so that a test can
//! ask for a lock and get the client's answer.

use bowline_state::{
    ByteRange, Caller, Effect, Effects, FileKey, HostId, How, Limits, LocalAnswer, LocalConflict,
    LocalOp, LockRequest, Mode, NotIdentified, Now, Plan, Record, Recovery, State, Tag, Transport,
    Who,
};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

/// The bytes that the kernel's array has.
pub const BYTES: u64 = 64;

/// An owner: the number of a host and of a process.
pub type Owner = (u8, i32);

/// The kernel's locks of one file: ours and a local program's.
#[derive(Clone, Default)]
pub struct Kernel {
    pub ours: HashMap<FileKey, Vec<Option<Mode>>>,
    pub local: HashMap<FileKey, Vec<Option<Mode>>>,
}

impl Kernel {
    /// Sets the pieces of an operation, or undoes them at the first conflict.
    pub fn run(&mut self, op: &LocalOp) -> LocalAnswer {
        for (done, piece) in op.pieces.iter().enumerate() {
            let span = span(piece.range);
            let shown = self.ours.entry(op.file).or_insert_with(|| vec![None; BYTES as usize]);
            assert!(
                shown[span.clone()].iter().all(|held| *held == piece.from),
                "the core is wrong about what the kernel shows: {piece:?}"
            );
            let local = self.local.get(&op.file);
            let conflicts = |at: &usize| {
                let held = local.and_then(|bytes| bytes[*at]);
                piece.to > piece.from
                    && matches!((held, piece.to), (Some(held), Some(to)) if held.conflicts(to))
            };
            if let Some(at) = span.clone().find(conflicts) {
                for undo in op.undo(done) {
                    assert!(undo.to < undo.from, "undoing only weakens");
                    let shown = self.ours.get_mut(&op.file).unwrap();
                    shown[self::span(undo.range)].fill(undo.to);
                }
                let at = at as u64;
                let mode = local.and_then(|bytes| bytes[at as usize]).unwrap();
                let range = ByteRange::new(at, at).unwrap();
                return LocalAnswer::Conflict(LocalConflict { range, mode, pid: 4711 });
            }
            self.ours.get_mut(&op.file).unwrap()[span].fill(piece.to);
        }
        if op.last {
            let shown = self.ours.remove(&op.file).unwrap_or_default();
            assert!(shown.iter().all(Option::is_none), "closed with locks");
        }
        LocalAnswer::Done
    }
}

/// The bytes of a range in the array.
pub fn span(range: ByteRange) -> std::ops::Range<usize> {
    let end = range.end().min(BYTES - 1) as usize + 1;
    range.start() as usize..end
}

pub fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end).unwrap()
}

pub fn file(number: u8) -> FileKey {
    FileKey::new(&[0, 0, 0, 1, number]).unwrap()
}

pub fn address(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, host))
}

pub fn name(host: u8) -> Vec<u8> {
    format!("host{host}").into_bytes()
}

/// The owner handle of a process.
pub fn oh(owner: Owner) -> Vec<u8> {
    format!("{}@host{}", owner.1, owner.0).into_bytes()
}

/// The small server.
#[derive(Clone)]
pub struct World {
    pub state: State,
    pub kernel: Kernel,
    pub now: Now,
    /// Local programs are excluded.
    pub local: bool,
    /// What was stored and synced.
    pub stored: Vec<Record>,
    /// Which requests were granted later, in order.
    pub told: Vec<Tag>,
    limits: Limits,
}

impl World {
    pub fn new(local: bool) -> Self {
        Self::with_limits(local, Limits::default())
    }

    pub fn with_limits(local: bool, limits: Limits) -> Self {
        let mut world = Self {
            state: State::new(&Recovery::default(), Now(0), limits.clone(), 1),
            kernel: Kernel::default(),
            now: Now(0),
            local,
            stored: Vec::new(),
            told: Vec::new(),
            limits,
        };
        world.stored = Recovery::default().start_records();
        world
    }

    /// The server is killed and starts again; the kernel drops what it held.
    pub fn restart(&mut self) {
        let mut bytes = Vec::new();
        self.stored.iter().for_each(|record| record.encode(&mut bytes));
        let recovery = Recovery::of(bowline_state::Records::new(&bytes));
        self.stored.extend(recovery.start_records());
        self.state = State::new(&recovery, self.now, self.limits.clone(), 1);
        self.kernel.ours.clear();
        self.told.clear();
    }

    pub fn host(&self, host: u8) -> HostId {
        self.try_host(host).unwrap()
    }

    pub fn try_host(&self, host: u8) -> Result<HostId, NotIdentified> {
        let caller = Caller {
            addr: address(host),
            name: &name(host),
            local: address(200),
            nlm_version: 4,
            transport: Transport::Tcp,
            nsm_state: 0,
        };
        self.state.identify(self.now, &caller)
    }

    /// Stores what is asked for and settles with the kernel until there is an answer for the client.
    pub fn lock(
        &mut self,
        owner: Owner,
        file: FileKey,
        range: ByteRange,
        mode: Mode,
        how: How,
    ) -> Plan {
        let oh = oh(owner);
        loop {
            let who = Who::Nlm { host: self.host(owner.0), svid: owner.1, oh: &oh };
            let request = LockRequest {
                who,
                range,
                mode,
                how,
                local: self.local,
                monitored: true,
                kept: None,
            };
            let (plan, effects) = self.state.lock(self.now, &file, &request);
            self.run(effects);
            match plan {
                Plan::Record(record) => self.store(&record),
                Plan::Local(ticket, op) => {
                    let answer = self.kernel.run(&op);
                    let (plan, effects) = self.state.settle(self.now, &ticket, answer);
                    self.run(effects);
                    return plan;
                }
                plan => return plan,
            }
        }
    }

    pub fn store(&mut self, record: &Record) {
        self.stored.push(record.clone());
        let effects = self.state.persisted(self.now, record);
        self.run(effects);
    }

    pub fn unlock(&mut self, owner: Owner, file: FileKey, range: ByteRange) -> Plan {
        let oh = oh(owner);
        let who = Who::Nlm { host: self.host(owner.0), svid: owner.1, oh: &oh };
        let (plan, effects) = self.state.unlock(self.now, &file, &who, range);
        self.run(effects);
        plan
    }

    pub fn cancel(
        &mut self,
        owner: Owner,
        file: FileKey,
        range: ByteRange,
        mode: Mode,
    ) -> bowline_state::Cancelled {
        let oh = oh(owner);
        let who = Who::Nlm { host: self.host(owner.0), svid: owner.1, oh: &oh };
        let (found, effects) = self.state.cancel(self.now, &file, &who, range, mode);
        self.run(effects);
        found
    }

    /// Runs effects, and what follows from them.
    pub fn run(&mut self, effects: Effects) {
        let mut open: std::collections::VecDeque<Effect> = effects.into_iter().collect();
        while let Some(effect) = open.pop_front() {
            match effect {
                Effect::Granted(granted) => self.told.push(granted.tag),
                Effect::LetGo(_) => {}
                Effect::Local(ticket, op) => {
                    let answer = self.kernel.run(&op);
                    let (_plan, effects) = self.state.settle(self.now, &ticket, answer);
                    open.extend(effects);
                }
            }
        }
    }

    pub fn tick(&mut self, later_ms: u64) {
        self.now = Now(self.now.0 + later_ms);
        let (record, effects) = self.state.tick(self.now, 16);
        if let Some(record) = record {
            self.store(&record);
        }
        self.run(effects);
    }

    /// The modes in which an owner holds each byte of a file.
    pub fn held(&self, owner: Owner, file: FileKey) -> Vec<Option<Mode>> {
        let mut bytes = vec![None; BYTES as usize];
        let Some(row) = self.state.file_row(self.now, &file) else { return bytes };
        let host = self.host(owner.0);
        let own = row.locks.iter().filter(|lock| {
            let Who::Nlm { host: of, svid, .. } = lock.holder.who() else { panic!("not of NLM") };
            lock.tentative_ms.is_none() && (of, svid) == (host, owner.1)
        });
        own.for_each(|lock| bytes[span(lock.range)].fill(Some(lock.mode)));
        bytes
    }
}
