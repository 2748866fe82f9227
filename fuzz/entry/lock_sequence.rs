//! A sequence of calls to the state of locks, against a mode for each owner and byte. Each call is four bytes: what and
//! who, the first byte of the range, its length, and the mode.
//!
//! After each call no byte is held by two owners in modes that exclude each other, whoever asked holds what he was told,
//! and a request that was refused was in somebody's way.

use state::{
    ByteRange, Caller, Effect, FileKey, HostRemoval, How, Limits, LockRequest, Mode, Now, Plan,
    Recovery, State, Tag, Transport, Who,
};
use std::net::{IpAddr, Ipv4Addr};

/// Owners; two of them are of one host.
const OWNERS: [(u8, i32); 4] = [(1, 10), (1, 11), (2, 20), (3, 30)];
const BYTES: usize = 32;

type Held = [[Option<Mode>; BYTES]; OWNERS.len()];

struct Sequence {
    state: State,
    file: FileKey,
    now: Now,
    next_tag: u64,
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let recovery = Recovery::default();
    let file = FileKey::new(&[0, 0, 0, 1, 7]).unwrap();
    let state = State::new(&recovery, Now(0), Limits::default(), 1);
    let mut sequence = Sequence { state, file, now: Now(0), next_tag: 0 };
    for call in data.chunks_exact(4).take(512) {
        sequence.step([call[0], call[1], call[2], call[3]]);
    }
}

impl Sequence {
    fn host(&self, owner: usize) -> state::HostId {
        let number = OWNERS[owner].0;
        let caller = Caller {
            addr: IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)),
            name: &[b'h', number],
            local: IpAddr::V4(Ipv4Addr::LOCALHOST),
            nlm_version: 4,
            transport: Transport::Udp,
            nsm_state: 0,
        };
        self.state.identify(self.now, &caller).unwrap()
    }

    fn step(&mut self, [what, start, len, mode]: [u8; 4]) {
        let owner = usize::from(what >> 4) % OWNERS.len();
        let start = u64::from(start) % BYTES as u64;
        let end = (start + u64::from(len)).min(BYTES as u64 - 1);
        // the last byte stands for all from there on
        let range =
            ByteRange::new(start, if end == BYTES as u64 - 1 { u64::MAX } else { end }).unwrap();
        let mode = if mode & 1 == 0 { Mode::Read } else { Mode::Write };
        self.now = Now(self.now.0 + 1);
        let before = self.held();
        match what & 7 {
            0 | 1 => self.lock(owner, range, mode, How::Try, &before),
            2 | 3 => {
                self.next_tag += 1;
                self.lock(owner, range, mode, How::Wait(Tag(self.next_tag)), &before);
            }
            4 => self.lock(owner, range, mode, How::Reclaim, &before),
            5 => {
                let (plan, effects) = {
                    let who = Who::Nlm { host: self.host(owner), svid: OWNERS[owner].1, oh: b"o" };
                    self.state.unlock(self.now, &self.file, &who, range)
                };
                assert!(matches!(plan, Plan::Granted), "{plan:?}");
                done(effects);
            }
            6 => {
                let who = Who::Nlm { host: self.host(owner), svid: OWNERS[owner].1, oh: b"o" };
                let (_, effects) = self.state.cancel(self.now, &self.file, &who, range, mode);
                done(effects);
            }
            _ => {
                match self.state.release_host(self.now, self.host(owner)) {
                    HostRemoval::Record(record) => done(self.state.persisted(self.now, &record)),
                    HostRemoval::Gone(_, effects) => done(effects),
                    HostRemoval::Unknown => panic!("it has just called"),
                }
                let held = self.held();
                let of = OWNERS[owner].0;
                for (at, (host, _)) in OWNERS.iter().enumerate() {
                    assert!(*host != of || held[at] == [None; BYTES], "it holds nothing any more");
                }
            }
        }
        self.check();
    }

    fn lock(&mut self, owner: usize, range: ByteRange, mode: Mode, how: How, before: &Held) {
        let plan = loop {
            let who = Who::Nlm { host: self.host(owner), svid: OWNERS[owner].1, oh: b"o" };
            let request =
                LockRequest { who, range, mode, how, local: false, monitored: true, kept: None };
            let (plan, effects) = self.state.lock(self.now, &self.file, &request);
            done(effects);
            match plan {
                Plan::Record(record) => done(self.state.persisted(self.now, &record)),
                plan => break plan,
            }
        };
        let excluded = before.iter().enumerate().any(|(at, held)| {
            at != owner && held[span(range)].iter().flatten().any(|held| held.conflicts(mode))
        });
        match plan {
            Plan::Granted => {
                assert!(!excluded, "granted though somebody holds it");
                assert!(self.held()[owner][span(range)].iter().all(|held| *held == Some(mode)));
            }
            Plan::Denied(_) | Plan::Deadlock => assert!(excluded, "refused though nobody holds it"),
            Plan::Blocked(_) => assert!(how != How::Try, "nobody asked to wait"),
            Plan::NoGrace => assert!(how == How::Reclaim),
            other => panic!("{other:?}"),
        }
    }

    fn held(&self) -> Held {
        let mut held = [[None; BYTES]; OWNERS.len()];
        let Some(row) = self.state.file_row(self.now, &self.file) else { return held };
        for lock in &row.locks {
            assert!(lock.tentative_ms.is_none(), "nobody asks the kernel here");
            let who = lock.holder.who();
            let owner = (0..OWNERS.len())
                .find(|at| who == Who::Nlm { host: self.host(*at), svid: OWNERS[*at].1, oh: b"o" });
            held[owner.unwrap()][span(lock.range)].fill(Some(lock.mode));
        }
        held
    }

    fn check(&self) {
        let held = self.held();
        for (at, one) in held.iter().enumerate() {
            for other in &held[at + 1..] {
                let both = one
                    .iter()
                    .zip(other)
                    .any(|pair| matches!(pair, (Some(a), Some(b)) if a.conflicts(*b)));
                assert!(!both, "two owners hold one byte");
            }
        }
    }
}

fn span(range: ByteRange) -> std::ops::Range<usize> {
    range.start() as usize..range.end().min(BYTES as u64 - 1) as usize + 1
}

fn done(effects: state::Effects) {
    for effect in effects {
        assert!(!matches!(effect, Effect::Local(..)), "nobody asks the kernel here");
    }
}
