//! Random histories of requests over a network that loses, doubles, reorders and delays requests and replies: on each slot
//! of a session every request runs exactly once, and its sender gets the reply of that run (RFC 8881 §2.10.6).
//!
//! The requests are those that a second run would change: CREATE, REMOVE, RENAME, LINK, and OPEN, whose stateid counts. The
//! model runs each of them when the server must: when the first copy arrives whose number is the next of its slot. A
//! history is given by its seed, which a failure names. `SEEDS=100000` for more of them.

use super::{Client, NONE, Results, listed, name, ok, oper, plain, send};
use proto::layout::Bytes;
use proto::nfs4::{
    CreateArgs, CreateType4, Createhow4, Nfsstat4, OpenArgs, OpenClaim4, OpenHow4, OpenOwner4,
    SequenceArgs, Stateid4, op,
};
use std::collections::BTreeMap;

const SLOTS: usize = 4;
const STEPS: usize = 150;
const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
/// The file that is opened, which stays.
const OPENED: &[u8] = b"opened";

/// Numbers that follow from a seed (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Mkdir(usize),
    Remove(usize),
    Rename(usize, usize),
    /// Another name of the file that is opened.
    Link(usize),
    Open,
}

/// What a name stands for: a directory, or a file of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Object {
    Dir,
    File,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    slot: usize,
    number: u32,
    change: Change,
    cachethis: bool,
}

struct World {
    client: Client,
    numbers: Numbers,
    /// The number of the last request on slot 0 before the history.
    first: u32,
    /// Per slot the number of the last request that was sent, and that request while its reply is awaited.
    sent: [(u32, Option<Sent>); SLOTS],
    /// Per slot the number of the last request that ran, and its reply.
    ran: [(u32, Vec<u8>); SLOTS],
    requests: Vec<Sent>,
    replies: Vec<(Sent, Vec<u8>)>,
    /// The directory as it must be.
    model: BTreeMap<Vec<u8>, Object>,
    /// How often the file was opened.
    opens: u32,
    /// Requests that arrived again, and those that arrived too late.
    again: usize,
    late: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let client = Client::new();
        client.create(OPENED);
        Self {
            first: client.sequence.get(),
            client,
            numbers: Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            sent: [(0, None); SLOTS],
            ran: Default::default(),
            requests: Vec::new(),
            replies: Vec::new(),
            model: BTreeMap::new(),
            opens: 1,
            again: 0,
            late: 0,
        }
    }

    fn step(&mut self) {
        match self.numbers.below(16) {
            0..=4 => self.begin(),
            5 => self.send_again(),
            6..=10 => self.deliver_request(),
            11..=13 => self.deliver_reply(),
            14 => lose(&mut self.numbers, &mut self.requests),
            _ => lose(&mut self.numbers, &mut self.replies),
        }
    }

    fn begin(&mut self) {
        let slot = self.numbers.below(SLOTS);
        let (number, waiting) = &mut self.sent[slot];
        if waiting.is_some() {
            return self.send_again();
        }
        let (one, other) = (self.numbers.below(NAMES.len()), self.numbers.below(NAMES.len()));
        let change = match self.numbers.below(6) {
            0 | 1 => Change::Mkdir(one),
            2 => Change::Remove(one),
            3 => Change::Rename(one, other),
            4 => Change::Link(one),
            _ => Change::Open,
        };
        *number += 1;
        let cachethis = self.numbers.below(2) == 0;
        let sent = Sent { slot, number: *number, change, cachethis };
        *waiting = Some(sent);
        self.requests.push(sent);
    }

    fn send_again(&mut self) {
        let waiting: Vec<Sent> = self.sent.iter().filter_map(|(_, waiting)| *waiting).collect();
        if !waiting.is_empty() {
            self.requests.push(waiting[self.numbers.below(waiting.len())]);
        }
    }

    fn deliver_request(&mut self) {
        let Some(sent) = pick(&mut self.numbers, &mut self.requests) else { return };
        let reply = self.call(&sent);
        let (last, first_reply) = &self.ran[sent.slot];
        if sent.number == last + 1 {
            let expected = self.run(sent.change);
            let status = Results::of(reply.clone()).status;
            assert_eq!(status == Nfsstat4::Ok, expected, "{sent:?} gives {status:?}");
            if let Change::Open = sent.change {
                assert_eq!(opened(&reply).seqid, self.opens);
            }
            self.ran[sent.slot] = (sent.number, reply.clone());
        } else if sent.number == *last {
            self.again += 1;
            let status = Results::of(reply.clone()).status;
            // a request that changed nothing need not be kept
            let is_uncached = status == Nfsstat4::RetryUncachedRep
                && !sent.cachethis
                && Results::of(first_reply.clone()).status != Nfsstat4::Ok;
            assert!(reply == *first_reply || is_uncached, "{sent:?} again: {status:?}");
        } else {
            self.late += 1;
            assert_eq!(Results::of(reply.clone()).status, Nfsstat4::SeqMisordered, "{sent:?}");
        }
        self.replies.push((sent, reply));
    }

    /// The sender takes the reply of the request that it waits for, and no other.
    fn deliver_reply(&mut self) {
        let Some((sent, reply)) = pick(&mut self.numbers, &mut self.replies) else { return };
        let (number, waiting) = &mut self.sent[sent.slot];
        if *number == sent.number && waiting.take().is_some() {
            let (ran, first_reply) = &self.ran[sent.slot];
            let is_uncached = Results::of(reply.clone()).status == Nfsstat4::RetryUncachedRep;
            assert_eq!(*ran, sent.number);
            assert!(reply == *first_reply || is_uncached, "{sent:?}");
        }
    }

    fn call(&self, sent: &Sent) -> Vec<u8> {
        let sequence = SequenceArgs {
            sessionid: self.client.session,
            sequenceid: sent.number + if sent.slot == 0 { self.first } else { 0 },
            slotid: sent.slot as u32,
            highest_slotid: SLOTS as u32 - 1,
            cachethis: sent.cachethis,
        };
        let mut ops = vec![oper(op::SEQUENCE, &sequence)];
        ops.extend(self.operations(sent.change));
        send(&self.client.server, 1, &ops).bytes
    }

    fn operations(&self, change: Change) -> Vec<Vec<u8>> {
        let root = || self.client.putfh(&self.client.server.root());
        match change {
            Change::Mkdir(one) => {
                let args =
                    CreateArgs { what: CreateType4::Dir, name: Bytes(NAMES[one]), attrs: NONE };
                vec![root(), oper(op::CREATE, &args)]
            }
            Change::Remove(one) => vec![root(), name(op::REMOVE, NAMES[one])],
            Change::Rename(one, other) => {
                let names = [name(op::RENAME, NAMES[one]), name(0, NAMES[other])[4..].to_vec()];
                vec![root(), plain(op::SAVEFH), names.concat()]
            }
            Change::Link(one) => vec![
                root(),
                name(op::LOOKUP, OPENED),
                plain(op::SAVEFH),
                root(),
                name(op::LINK, NAMES[one]),
            ],
            Change::Open => {
                let args = OpenArgs {
                    seqid: 0,
                    share_access: 1,
                    share_deny: 0,
                    owner: OpenOwner4 { clientid: self.client.id, owner: Bytes(b"owner") },
                    how: OpenHow4::Create(Createhow4::Unchecked(NONE)),
                    claim: OpenClaim4::Null(Bytes(OPENED)),
                };
                vec![root(), oper(op::OPEN, &args)]
            }
        }
    }

    /// Does to the model what the request does; whether it succeeds.
    fn run(&mut self, change: Change) -> bool {
        let get = |at: usize| self.model.get(NAMES[at]).copied();
        match change {
            Change::Mkdir(one) => {
                let is_free = get(one).is_none();
                self.model.entry(NAMES[one].to_vec()).or_insert(Object::Dir);
                is_free
            }
            Change::Remove(one) => self.model.remove(NAMES[one]).is_some(),
            Change::Rename(one, other) => {
                let (Some(from), to) = (get(one), get(other)) else { return false };
                if to.is_some_and(|to| to != from) {
                    return false;
                }
                // of two names of one file both stay
                if one != other && (from == Object::Dir || to.is_none()) {
                    self.model.remove(NAMES[one]);
                    self.model.insert(NAMES[other].to_vec(), from);
                }
                true
            }
            Change::Link(one) => {
                let is_free = get(one).is_none();
                self.model.entry(NAMES[one].to_vec()).or_insert(Object::File);
                is_free
            }
            Change::Open => {
                self.opens += 1;
                true
            }
        }
    }

    /// The directory is what the requests that ran have made of it.
    fn check(&self) {
        self.client.sequence.set(self.first + self.ran[0].0);
        let root = [self.client.putfh(&self.client.server.root())];
        let listed = listed(&self.client, &root, 0, 4096).0;
        let kind = |kind| if kind == DIR { Object::Dir } else { Object::File };
        let listed = listed.into_iter().filter(|(name, _)| name != OPENED);
        let listed: BTreeMap<_, _> = listed.map(|(name, of)| (name, kind(of))).collect();
        assert_eq!(listed, self.model);
    }
}

/// `nfs_ftype4` of a directory.
const DIR: u32 = 2;

/// The stateid of an OPEN that succeeded.
fn opened(reply: &[u8]) -> Stateid4 {
    let done = Results::of(reply.to_vec());
    let mut r = done.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::OPEN);
    r.get().unwrap()
}

/// One of these, which may arrive once more.
fn pick<T: Clone>(numbers: &mut Numbers, all: &mut Vec<T>) -> Option<T> {
    if all.is_empty() {
        return None;
    }
    let at = numbers.below(all.len());
    if numbers.below(4) == 0 { Some(all[at].clone()) } else { Some(all.swap_remove(at)) }
}

fn lose<T>(numbers: &mut Numbers, all: &mut Vec<T>) {
    if !all.is_empty() {
        // as a connection that is cut
        let first = if numbers.below(4) == 0 { 0 } else { all.len() - 1 };
        all.truncate(first);
    }
}

#[test]
fn each_request_runs_once_and_its_sender_gets_its_reply() {
    let seeds: u64 = std::env::var("SEEDS").map_or(300, |seeds| seeds.parse().unwrap());
    let first: u64 = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
    let (mut ran, mut again, mut late) = (0, 0, 0);
    for seed in first..first + seeds {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            (0..STEPS).for_each(|_| world.step());
            world.check();
            let ran: u32 = world.ran.iter().map(|(number, _)| number).sum();
            (u64::from(ran), world.again as u64, world.late as u64)
        });
        let run = run.unwrap_or_else(|_| panic!("in the history of SEED={seed} SEEDS=1"));
        (ran, again, late) = (ran + run.0, again + run.1, late + run.2);
    }
    println!("{seeds} histories: {ran} requests ran, {again} came again, {late} came too late");
    assert!(
        seeds < 100 || ran > 10 * seeds && again > 2 * seeds && late > seeds,
        "{ran} {again} {late}"
    );
}
