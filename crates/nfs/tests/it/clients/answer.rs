//! The results of a COMPOUND as a client's own decoder reads them: every operation to its last byte.
//!
//! Owns: how wide each result and each attribute is (RFC 7530, RFC 8881, RFC 7862), without the server's layouts. A reply
//! with a byte too many or too few fails the test.

use super::wire::{Stateid, op};
use std::collections::BTreeMap;
use xdr::Reader;

/// A name's, handle's or text's longest length that a client takes.
const LONGEST: usize = 64 * 1024;

/// The values of attributes, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attrs(BTreeMap<u32, Vec<u8>>);

impl Attrs {
    /// Decodes an `fattr4`.
    fn of(r: &mut Reader<'_>) -> Self {
        let bitmap = bitmap(r);
        let values = r.opaque(LONGEST).unwrap();
        let mut values = Reader::new(values);
        let attrs = numbers(&bitmap).into_iter().map(|number| (number, value(&mut values, number)));
        let attrs = Self(attrs.collect());
        values.end().unwrap();
        attrs
    }

    /// Which attributes there are.
    pub fn numbers(&self) -> Vec<u32> {
        self.0.keys().copied().collect()
    }

    pub fn has(&self, number: u32) -> bool {
        self.0.contains_key(&number)
    }

    /// The bytes of a value.
    pub fn raw(&self, number: u32) -> &[u8] {
        self.0.get(&number).unwrap_or_else(|| panic!("attribute {number} is missing"))
    }

    pub fn u32(&self, number: u32) -> u32 {
        Reader::new(self.raw(number)).u32().unwrap()
    }

    pub fn u64(&self, number: u32) -> u64 {
        Reader::new(self.raw(number)).u64().unwrap()
    }

    /// Text, or a filehandle.
    pub fn opaque(&self, number: u32) -> Vec<u8> {
        Reader::new(self.raw(number)).opaque(LONGEST).unwrap().to_vec()
    }

    pub fn bitmap(&self, number: u32) -> Vec<u32> {
        bitmap(&mut Reader::new(self.raw(number)))
    }
}

/// A bitmap's words.
fn bitmap(r: &mut Reader<'_>) -> Vec<u32> {
    let count = r.u32().unwrap();
    assert!(count <= 3, "a bitmap of {count} words");
    (0..count).map(|_| r.u32().unwrap()).collect()
}

/// The attributes in a bitmap.
pub fn numbers(bitmap: &[u32]) -> Vec<u32> {
    let all = (0..32 * u32::try_from(bitmap.len()).unwrap())
        .filter(|number| bitmap[usize::try_from(number / 32).unwrap()] & (1 << (number % 32)) != 0);
    all.collect()
}

/// The bytes of an attribute's value.
fn value(r: &mut Reader<'_>, number: u32) -> Vec<u8> {
    let before = r.rest();
    match number {
        0 | 62 | 75 => drop(bitmap(r)),
        1 | 2 | 10 | 11 | 13 | 28 | 29 | 33 | 35 | 77 | 79 => drop(r.u32().unwrap()),
        3 | 4 | 20..=23 | 27 | 30 | 31 | 38..=40 | 42..=45 | 55 => drop(r.u64().unwrap()),
        5..=7 | 9 | 14..=18 | 25 | 26 | 34 | 46 | 82 => drop(r.bool().unwrap()),
        8 => drop(r.opaque_fixed(16).unwrap()),
        12 => acl(r),
        19 | 32 | 36 | 37 => drop(r.opaque(LONGEST).unwrap()),
        24 => locations(r),
        41 => drop(r.words::<2>().unwrap()),
        47 | 49..=53 => {
            r.u64().unwrap();
            assert!(r.u32().unwrap() < 1_000_000_000, "attribute {number}");
        }
        number => panic!("attribute {number} was not asked for"),
    }
    before[..before.len() - r.remaining()].to_vec()
}

fn acl(r: &mut Reader<'_>) {
    for _ in 0..r.u32().unwrap() {
        r.words::<3>().unwrap();
        r.opaque(LONGEST).unwrap();
    }
}

fn path(r: &mut Reader<'_>) {
    for _ in 0..r.u32().unwrap() {
        r.opaque(LONGEST).unwrap();
    }
}

fn locations(r: &mut Reader<'_>) {
    path(r);
    for _ in 0..r.u32().unwrap() {
        path(r);
        path(r);
    }
}

/// An entry of READDIR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub cookie: u64,
    pub name: String,
    pub attrs: Attrs,
}

/// What OPEN grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    pub stateid: Stateid,
    /// Whether the change of the directory was in one step, and its change before and after.
    pub change: (bool, u64, u64),
    pub flags: u32,
    /// The attributes that were set.
    pub set: Vec<u32>,
    /// The type of the delegation.
    pub delegation: u32,
}

/// What CREATE_SESSION grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub id: [u8; 16],
    pub sequence: u32,
    pub flags: u32,
    /// The channels, each in the order of the arguments.
    pub channels: [[u32; 6]; 2],
}

/// What EXCHANGE_ID says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub clientid: u64,
    pub sequence: u32,
    pub flags: u32,
    pub minor_id: u64,
    pub major_id: Vec<u8>,
    pub scope: Vec<u8>,
}

/// What SEQUENCE says: session, sequence, slot, highest slot, target highest slot, status flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequenced {
    pub session: [u8; 16],
    pub sequence: u32,
    pub slot: u32,
    pub highest: u32,
    pub target: u32,
    pub flags: u32,
}

/// A lock in the way: offset, length, kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    pub offset: u64,
    pub len: u64,
    pub kind: u32,
    pub clientid: u64,
    pub owner: Vec<u8>,
}

/// The result of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Nothing,
    Access { supported: u32, granted: u32 },
    Attrs(Attrs),
    Bits(Vec<u32>),
    Bound([u8; 16]),
    Change((bool, u64, u64)),
    Changes([(bool, u64, u64); 2]),
    Client { clientid: u64, confirm: [u8; 8] },
    Created { change: (bool, u64, u64), set: Vec<u32> },
    Data { eof: bool, data: Vec<u8> },
    Denied(Denied),
    Dir { verifier: [u8; 8], entries: Vec<Entry>, eof: bool },
    Flavors(Vec<u32>),
    Handle(Vec<u8>),
    Known(Known),
    Opened(Opened),
    Found { eof: bool, offset: u64 },
    Sequenced(Sequenced),
    Session(Session),
    Stateid(Stateid),
    States(Vec<u32>),
    Target(Vec<u8>),
    Verifier([u8; 8]),
    Written { count: u32, committed: u32, verifier: [u8; 8] },
}

fn change(r: &mut Reader<'_>) -> (bool, u64, u64) {
    (r.bool().unwrap(), r.u64().unwrap(), r.u64().unwrap())
}

fn opened(r: &mut Reader<'_>) -> Opened {
    let stateid = r.array().unwrap();
    let change = change(r);
    let flags = r.u32().unwrap();
    let set = bitmap(r);
    let delegation = r.u32().unwrap();
    match delegation {
        0 => {}
        1 => {
            r.opaque_fixed(20).unwrap();
            ace(r);
        }
        2 => {
            r.opaque_fixed(20).unwrap();
            match r.u32().unwrap() {
                1 => drop(r.u64().unwrap()),
                2 => drop(r.words::<2>().unwrap()),
                other => panic!("a limit by {other}"),
            }
            ace(r);
        }
        // the reason, and for two of them whether the server will say when
        3 => match r.u32().unwrap() {
            1 | 2 => drop(r.bool().unwrap()),
            0 | 3..=9 => {}
            other => panic!("no delegation by reason {other}"),
        },
        other => panic!("a delegation of type {other}"),
    }
    Opened { stateid, change, flags, set, delegation }
}

fn ace(r: &mut Reader<'_>) {
    r.words::<3>().unwrap();
    r.opaque(LONGEST).unwrap();
}

fn directory(r: &mut Reader<'_>) -> Answer {
    let verifier = r.array().unwrap();
    let mut entries: Vec<Entry> = Vec::new();
    while r.bool().unwrap() {
        let cookie = r.u64().unwrap();
        let name = String::from_utf8(r.opaque(LONGEST).unwrap().to_vec()).unwrap();
        assert!(cookie > 2, "{name} has a cookie that means the start");
        entries.push(Entry { cookie, name, attrs: Attrs::of(r) });
    }
    Answer::Dir { verifier, entries, eof: r.bool().unwrap() }
}

fn flavors(r: &mut Reader<'_>) -> Answer {
    let count = r.u32().unwrap();
    let flavors = (0..count).map(|_| {
        let flavor = r.u32().unwrap();
        if flavor == 6 {
            r.opaque(LONGEST).unwrap();
            r.words::<2>().unwrap();
        }
        flavor
    });
    Answer::Flavors(flavors.collect())
}

fn known(r: &mut Reader<'_>) -> Answer {
    let clientid = r.u64().unwrap();
    let [sequence, flags, protection] = r.words().unwrap();
    assert_eq!(protection, 0, "no state protection was asked for");
    let minor_id = r.u64().unwrap();
    let major_id = r.opaque(1024).unwrap().to_vec();
    let scope = r.opaque(1024).unwrap().to_vec();
    let implementations = r.u32().unwrap();
    assert!(implementations <= 1);
    for _ in 0..implementations {
        r.opaque(1024).unwrap();
        r.opaque(1024).unwrap();
        r.u64().unwrap();
        r.u32().unwrap();
    }
    Answer::Known(Known { clientid, sequence, flags, minor_id, major_id, scope })
}

fn session(r: &mut Reader<'_>) -> Answer {
    let id = r.array().unwrap();
    let [sequence, flags] = r.words().unwrap();
    let mut channel = || {
        let channel = r.words().unwrap();
        // ms-nfs41-client and the macOS client read no values of ca_rdma_ird
        assert_eq!(r.u32().unwrap(), 0, "nobody asked for ca_rdma_ird");
        channel
    };
    Answer::Session(Session { id, sequence, flags, channels: [channel(), channel()] })
}

fn sequenced(r: &mut Reader<'_>) -> Answer {
    let session = r.array().unwrap();
    let [sequence, slot, highest, target, flags] = r.words().unwrap();
    Answer::Sequenced(Sequenced { session, sequence, slot, highest, target, flags })
}

fn denied(r: &mut Reader<'_>) -> Answer {
    let (offset, len, kind) = (r.u64().unwrap(), r.u64().unwrap(), r.u32().unwrap());
    let (clientid, owner) = (r.u64().unwrap(), r.opaque(1024).unwrap().to_vec());
    Answer::Denied(Denied { offset, len, kind, clientid, owner })
}

/// `write_response4` of COPY: no callback, so no stateid.
fn copied(r: &mut Reader<'_>) -> Answer {
    assert_eq!(r.u32().unwrap(), 0, "the copy was to be finished");
    let count = u32::try_from(r.u64().unwrap()).unwrap();
    let committed = r.u32().unwrap();
    let verifier = r.array().unwrap();
    r.words::<2>().unwrap();
    Answer::Written { count, committed, verifier }
}

/// READ_PLUS, whose holes become zeros.
fn read_plus(r: &mut Reader<'_>) -> Answer {
    let eof = r.bool().unwrap();
    let mut data = Vec::new();
    for _ in 0..r.u32().unwrap() {
        let content = r.u32().unwrap();
        r.u64().unwrap();
        match content {
            0 => data.extend_from_slice(r.opaque(1 << 24).unwrap()),
            1 => data.resize(data.len() + usize::try_from(r.u64().unwrap()).unwrap(), 0),
            other => panic!("a segment of type {other}"),
        }
    }
    Answer::Data { eof, data }
}

/// The result of an operation behind its status.
fn answer(r: &mut Reader<'_>, number: u32, status: u32) -> Answer {
    match (number, status) {
        (op::SETATTR, _) => Answer::Bits(bitmap(r)),
        (op::LOCK | op::LOCKT, 10010) => denied(r),
        (_, 1..) => Answer::Nothing,
        (op::ACCESS, _) => {
            Answer::Access { supported: r.u32().unwrap(), granted: r.u32().unwrap() }
        }
        (op::GETATTR, _) => Answer::Attrs(Attrs::of(r)),
        (op::GETFH, _) => Answer::Handle(r.opaque(128).unwrap().to_vec()),
        (op::LINK | op::REMOVE, _) => Answer::Change(change(r)),
        (op::RENAME, _) => Answer::Changes([change(r), change(r)]),
        (op::CREATE, _) => Answer::Created { change: change(r), set: bitmap(r) },
        (op::OPEN, _) => Answer::Opened(opened(r)),
        (op::OPEN_CONFIRM | op::OPEN_DOWNGRADE | op::CLOSE | op::LOCK | op::LOCKU, _) => {
            Answer::Stateid(r.array().unwrap())
        }
        (op::READ, _) => {
            Answer::Data { eof: r.bool().unwrap(), data: r.opaque(1 << 24).unwrap().to_vec() }
        }
        (op::READDIR, _) => directory(r),
        (op::READLINK, _) => Answer::Target(r.opaque(LONGEST).unwrap().to_vec()),
        (op::SECINFO | op::SECINFO_NO_NAME, _) => flavors(r),
        (op::SETCLIENTID, _) => {
            Answer::Client { clientid: r.u64().unwrap(), confirm: r.array().unwrap() }
        }
        (op::WRITE, _) => {
            let [count, committed] = r.words().unwrap();
            Answer::Written { count, committed, verifier: r.array().unwrap() }
        }
        (op::COMMIT, _) => Answer::Verifier(r.array().unwrap()),
        (op::BIND_CONN, _) => {
            let id = r.array().unwrap();
            r.words::<2>().unwrap();
            Answer::Bound(id)
        }
        (op::EXCHANGE_ID, _) => known(r),
        (op::CREATE_SESSION, _) => session(r),
        (op::SEQUENCE, _) => sequenced(r),
        (op::TEST_STATEID, _) => {
            let count = r.u32().unwrap();
            Answer::States((0..count).map(|_| r.u32().unwrap()).collect())
        }
        (op::COPY, _) => copied(r),
        (op::READ_PLUS, _) => read_plus(r),
        (op::SEEK, _) => Answer::Found { eof: r.bool().unwrap(), offset: r.u64().unwrap() },
        _ => Answer::Nothing,
    }
}

/// A COMPOUND's reply.
#[derive(Debug)]
pub struct Reply {
    pub status: u32,
    pub tag: Vec<u8>,
    /// Operation, status, result.
    pub results: Vec<(u32, u32, Answer)>,
}

impl Reply {
    pub fn of(bytes: &[u8]) -> Self {
        let mut r = Reader::new(bytes);
        let status = r.u32().unwrap();
        let tag = r.opaque(LONGEST).unwrap().to_vec();
        let count = r.u32().unwrap();
        let results = (0..count).map(|_| {
            let [number, status] = r.words().unwrap();
            (number, status, answer(&mut r, number, status))
        });
        let results: Vec<_> = results.collect();
        r.end().unwrap();
        if let Some((_, last, _)) = results.last() {
            assert_eq!(*last, status, "the last operation's status is the COMPOUND's");
        }
        Self { status, tag, results }
    }

    fn all_of(&self, number: u32) -> impl Iterator<Item = &Answer> {
        self.results.iter().filter(move |result| result.0 == number).map(|result| &result.2)
    }

    /// The result of the only such operation, or the first.
    pub fn first(&self, number: u32) -> &Answer {
        self.all_of(number).next().unwrap_or_else(|| panic!("no {number} in {self:?}"))
    }

    /// All GETATTRs' results.
    pub fn attrs(&self) -> Vec<&Attrs> {
        let attrs = self.all_of(op::GETATTR).map(|answer| match answer {
            Answer::Attrs(attrs) => attrs,
            other => panic!("{other:?}"),
        });
        attrs.collect()
    }

    /// The last GETFH's handle.
    pub fn handle(&self) -> Vec<u8> {
        match self.all_of(op::GETFH).last() {
            Some(Answer::Handle(handle)) => handle.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub fn opened(&self) -> &Opened {
        match self.first(op::OPEN) {
            Answer::Opened(opened) => opened,
            other => panic!("{other:?}"),
        }
    }

    /// The stateid of an operation that changes one.
    pub fn stateid(&self, number: u32) -> Stateid {
        match self.first(number) {
            Answer::Stateid(stateid) => *stateid,
            other => panic!("{other:?}"),
        }
    }

    /// READ's data and whether it ends at the end of the file.
    pub fn data(&self) -> (bool, &[u8]) {
        match self.results.last() {
            Some((_, _, Answer::Data { eof, data })) => (*eof, data),
            _ => match self.first(op::READ) {
                Answer::Data { eof, data } => (*eof, data),
                other => panic!("{other:?}"),
            },
        }
    }

    /// READDIR's verifier, entries, and whether they are the last.
    pub fn dir(&self) -> ([u8; 8], &[Entry], bool) {
        match self.first(op::READDIR) {
            Answer::Dir { verifier, entries, eof } => (*verifier, entries, *eof),
            other => panic!("{other:?}"),
        }
    }
}
