//! The operations of a COMPOUND as a client's own encoder writes them: numbers and bytes, without the server's layouts.
//!
//! Owns the operations' numbers and arguments. Every function returns one operation with its number in front.

use xdr::Writer;

/// A stateid as it is on the wire: `seqid`, then twelve bytes.
pub type Stateid = [u8; 16];

/// The stateid of "no open".
pub const ANONYMOUS: Stateid = [0; 16];

/// Operations.
pub mod op {
    pub const ACCESS: u32 = 3;
    pub const CLOSE: u32 = 4;
    pub const COMMIT: u32 = 5;
    pub const CREATE: u32 = 6;
    pub const GETATTR: u32 = 9;
    pub const GETFH: u32 = 10;
    pub const LINK: u32 = 11;
    pub const LOCK: u32 = 12;
    pub const LOCKT: u32 = 13;
    pub const LOCKU: u32 = 14;
    pub const LOOKUP: u32 = 15;
    pub const LOOKUPP: u32 = 16;
    pub const NVERIFY: u32 = 17;
    pub const OPEN: u32 = 18;
    pub const OPENATTR: u32 = 19;
    pub const OPEN_CONFIRM: u32 = 20;
    pub const OPEN_DOWNGRADE: u32 = 21;
    pub const PUTFH: u32 = 22;
    pub const PUTROOTFH: u32 = 24;
    pub const READ: u32 = 25;
    pub const READDIR: u32 = 26;
    pub const READLINK: u32 = 27;
    pub const REMOVE: u32 = 28;
    pub const RENAME: u32 = 29;
    pub const RENEW: u32 = 30;
    pub const RESTOREFH: u32 = 31;
    pub const SAVEFH: u32 = 32;
    pub const SECINFO: u32 = 33;
    pub const SETATTR: u32 = 34;
    pub const SETCLIENTID: u32 = 35;
    pub const SETCLIENTID_CONFIRM: u32 = 36;
    pub const WRITE: u32 = 38;
    pub const RELEASE_LOCKOWNER: u32 = 39;
    pub const BIND_CONN: u32 = 41;
    pub const EXCHANGE_ID: u32 = 42;
    pub const CREATE_SESSION: u32 = 43;
    pub const DESTROY_SESSION: u32 = 44;
    pub const FREE_STATEID: u32 = 45;
    pub const SECINFO_NO_NAME: u32 = 52;
    pub const SEQUENCE: u32 = 53;
    pub const TEST_STATEID: u32 = 55;
    pub const DESTROY_CLIENTID: u32 = 57;
    pub const RECLAIM_COMPLETE: u32 = 58;
    pub const ALLOCATE: u32 = 59;
    pub const COPY: u32 = 60;
    pub const DEALLOCATE: u32 = 62;
    pub const READ_PLUS: u32 = 68;
    pub const SEEK: u32 = 69;
    pub const CLONE: u32 = 71;
}

/// Arguments one after the other.
#[derive(Default)]
pub struct Args(Writer);

impl Args {
    pub fn of(number: u32) -> Self {
        Self::default().u32(number)
    }

    pub fn u32(mut self, value: u32) -> Self {
        self.0.u32(value);
        self
    }

    pub fn u64(mut self, value: u64) -> Self {
        self.0.u64(value);
        self
    }

    pub fn fixed(mut self, bytes: &[u8]) -> Self {
        assert_eq!(bytes.len() % 4, 0);
        self.0.raw(bytes);
        self
    }

    pub fn opaque(mut self, bytes: &[u8]) -> Self {
        self.0.opaque(bytes);
        self
    }

    pub fn bitmap(mut self, words: &[u32]) -> Self {
        self.0.u32(u32::try_from(words.len()).unwrap());
        for word in words {
            self.0.u32(*word);
        }
        self
    }

    pub fn end(self) -> Vec<u8> {
        self.0.bytes().to_vec()
    }
}

/// The bitmap of these attributes in as many words as it needs.
pub fn bits(attributes: &[u32]) -> Vec<u32> {
    let highest = attributes.iter().max().map_or(0, |last| last / 32 + 1);
    words(attributes, usize::try_from(highest).unwrap())
}

/// The same in this many words, of which the last may be 0.
pub fn words(attributes: &[u32], count: usize) -> Vec<u32> {
    let mut words = vec![0; count];
    for number in attributes {
        words[usize::try_from(number / 32).unwrap()] |= 1 << (number % 32);
    }
    words
}

/// The attributes that are also in this bitmap, in the bitmap's own number of words.
pub fn masked(wanted: &[u32], supported: &[u32]) -> Vec<u32> {
    wanted.iter().enumerate().map(|(at, word)| word & supported.get(at).unwrap_or(&0)).collect()
}

/// An operation without arguments.
pub fn plain(number: u32) -> Vec<u8> {
    Args::of(number).end()
}

/// An operation whose argument is a name or a filehandle.
pub fn named(number: u32, name: &[u8]) -> Vec<u8> {
    Args::of(number).opaque(name).end()
}

/// An operation whose argument is one word.
pub fn word(number: u32, value: u32) -> Vec<u8> {
    Args::of(number).u32(value).end()
}

/// An operation whose argument is a client's id.
pub fn of_client(number: u32, clientid: u64) -> Vec<u8> {
    Args::of(number).u64(clientid).end()
}

/// An operation whose argument is a session's id or a stateid.
pub fn sixteen(number: u32, id: &[u8; 16]) -> Vec<u8> {
    Args::of(number).fixed(id).end()
}

pub fn putfh(handle: &[u8]) -> Vec<u8> {
    named(op::PUTFH, handle)
}

pub fn lookup(name: &str) -> Vec<u8> {
    named(op::LOOKUP, name.as_bytes())
}

pub fn remove(name: &str) -> Vec<u8> {
    named(op::REMOVE, name.as_bytes())
}

pub fn getattr(bitmap: &[u32]) -> Vec<u8> {
    Args::of(op::GETATTR).bitmap(bitmap).end()
}

/// NVERIFY of these values.
pub fn nverify(bitmap: &[u32], values: &[u8]) -> Vec<u8> {
    Args::of(op::NVERIFY).bitmap(bitmap).opaque(values).end()
}

pub fn rename(from: &str, to: &str) -> Vec<u8> {
    Args::of(op::RENAME).opaque(from.as_bytes()).opaque(to.as_bytes()).end()
}

pub fn read(stateid: &Stateid, offset: u64, count: u32) -> Vec<u8> {
    Args::of(op::READ).fixed(stateid).u64(offset).u32(count).end()
}

/// WRITE; `stable` is 0 for unstable data, 2 for data and metadata on the disk.
pub fn write(stateid: &Stateid, offset: u64, stable: u32, data: &[u8]) -> Vec<u8> {
    Args::of(op::WRITE).fixed(stateid).u64(offset).u32(stable).opaque(data).end()
}

pub fn commit(offset: u64, count: u32) -> Vec<u8> {
    Args::of(op::COMMIT).u64(offset).u32(count).end()
}

/// READDIR from a cookie and its verifier.
pub fn readdir(
    (cookie, verifier): (u64, [u8; 8]),
    dircount: u32,
    maxcount: u32,
    bitmap: &[u32],
) -> Vec<u8> {
    let args = Args::of(op::READDIR).u64(cookie).fixed(&verifier).u32(dircount).u32(maxcount);
    args.bitmap(bitmap).end()
}

pub fn setattr(stateid: &Stateid, bitmap: &[u32], values: &[u8]) -> Vec<u8> {
    Args::of(op::SETATTR).fixed(stateid).bitmap(bitmap).opaque(values).end()
}

/// The kinds of CREATE that the tests use.
pub enum Made<'a> {
    Dir,
    Symlink(&'a str),
    Fifo,
}

pub fn create(made: &Made<'_>, name: &str, bitmap: &[u32], values: &[u8]) -> Vec<u8> {
    let args = Args::of(op::CREATE);
    let args = match made {
        Made::Dir => args.u32(2),
        Made::Symlink(target) => args.u32(5).opaque(target.as_bytes()),
        Made::Fifo => args.u32(7),
    };
    args.opaque(name.as_bytes()).bitmap(bitmap).opaque(values).end()
}

/// Whether an OPEN creates the file, and how.
pub enum How<'a> {
    Existing,
    Unchecked(&'a [u32], &'a [u8]),
    Guarded(&'a [u32], &'a [u8]),
    /// `EXCLUSIVE4`.
    Exclusive([u8; 8]),
    /// `EXCLUSIVE4_1`.
    ExclusiveWith([u8; 8], &'a [u32], &'a [u8]),
}

/// What an OPEN is of.
pub enum Claim<'a> {
    Null(&'a str),
    /// `CLAIM_PREVIOUS`, with the type of the delegation that the client had.
    Previous(u32),
    /// `CLAIM_FH`.
    Handle,
}

/// OPEN but for how and what.
pub struct Open<'a> {
    pub seqid: u32,
    pub access: u32,
    pub deny: u32,
    pub clientid: u64,
    pub owner: &'a [u8],
}

impl Open<'_> {
    pub fn of(&self, how: &How<'_>, claim: &Claim<'_>) -> Vec<u8> {
        let args = Args::of(op::OPEN).u32(self.seqid).u32(self.access).u32(self.deny);
        let args = args.u64(self.clientid).opaque(self.owner);
        let args = match how {
            How::Existing => args.u32(0),
            How::Unchecked(bitmap, values) => args.u32(1).u32(0).bitmap(bitmap).opaque(values),
            How::Guarded(bitmap, values) => args.u32(1).u32(1).bitmap(bitmap).opaque(values),
            How::Exclusive(verifier) => args.u32(1).u32(2).fixed(verifier),
            How::ExclusiveWith(verifier, bitmap, values) => {
                args.u32(1).u32(3).fixed(verifier).bitmap(bitmap).opaque(values)
            }
        };
        let args = match claim {
            Claim::Null(name) => args.u32(0).opaque(name.as_bytes()),
            Claim::Previous(delegation) => args.u32(1).u32(*delegation),
            Claim::Handle => args.u32(4),
        };
        args.end()
    }
}

pub fn open_confirm(stateid: &Stateid, seqid: u32) -> Vec<u8> {
    Args::of(op::OPEN_CONFIRM).fixed(stateid).u32(seqid).end()
}

pub fn open_downgrade(stateid: &Stateid, seqid: u32, access: u32, deny: u32) -> Vec<u8> {
    Args::of(op::OPEN_DOWNGRADE).fixed(stateid).u32(seqid).u32(access).u32(deny).end()
}

pub fn close(seqid: u32, stateid: &Stateid) -> Vec<u8> {
    Args::of(op::CLOSE).u32(seqid).fixed(stateid).end()
}

/// A range of bytes to lock: 1 to read, 2 to write, and 2 more to wait.
#[derive(Clone, Copy)]
pub struct Range {
    pub kind: u32,
    pub offset: u64,
    pub len: u64,
}

/// A lock owner, and the client's id in front.
#[derive(Clone, Copy)]
pub struct Locker<'a> {
    pub clientid: u64,
    pub owner: &'a [u8],
}

/// LOCK of an owner that has no lock of this file yet: seqid of the open, the open, seqid of the lock owner.
pub fn lock_first(
    range: Range,
    reclaim: bool,
    (open_seqid, open, lock_seqid): (u32, &Stateid, u32),
    locker: Locker<'_>,
) -> Vec<u8> {
    let args = Args::of(op::LOCK).u32(range.kind).u32(reclaim.into());
    let args = args.u64(range.offset).u64(range.len).u32(1).u32(open_seqid).fixed(open);
    args.u32(lock_seqid).u64(locker.clientid).opaque(locker.owner).end()
}

/// LOCK of an owner that has locks of this file.
pub fn lock_again(range: Range, stateid: &Stateid, seqid: u32) -> Vec<u8> {
    let args = Args::of(op::LOCK).u32(range.kind).u32(0).u64(range.offset).u64(range.len);
    args.u32(0).fixed(stateid).u32(seqid).end()
}

pub fn lockt(range: Range, locker: Locker<'_>) -> Vec<u8> {
    let args = Args::of(op::LOCKT).u32(range.kind).u64(range.offset).u64(range.len);
    args.u64(locker.clientid).opaque(locker.owner).end()
}

pub fn locku(range: Range, seqid: u32, stateid: &Stateid) -> Vec<u8> {
    let args = Args::of(op::LOCKU).u32(range.kind).u32(seqid).fixed(stateid);
    args.u64(range.offset).u64(range.len).end()
}

/// The implementation id in EXCHANGE_ID: domain, name, seconds of its date.
pub struct Implementation<'a>(pub &'a [u8], pub &'a [u8], pub u64);

/// EXCHANGE_ID without state protection.
pub fn exchange_id(
    verifier: [u8; 8],
    owner: &[u8],
    flags: u32,
    implementation: &Implementation<'_>,
) -> Vec<u8> {
    let args = Args::of(op::EXCHANGE_ID).fixed(&verifier).opaque(owner).u32(flags).u32(0);
    let args = args.u32(1).opaque(implementation.0).opaque(implementation.1);
    args.u64(implementation.2).u32(0).end()
}

/// CREATE_SESSION. A channel is: header padding, largest request, largest reply, largest cached reply, operations,
/// slots. `parms` is how callbacks are to be protected.
pub fn create_session(
    (clientid, sequence): (u64, u32),
    flags: u32,
    channels: [[u32; 6]; 2],
    program: u32,
    parms: &[Vec<u8>],
) -> Vec<u8> {
    let mut args = Args::of(op::CREATE_SESSION).u64(clientid).u32(sequence).u32(flags);
    for channel in channels {
        for value in channel {
            args = args.u32(value);
        }
        // no ca_rdma_ird
        args = args.u32(0);
    }
    args = args.u32(program).u32(u32::try_from(parms.len()).unwrap());
    args.fixed(&parms.concat()).end()
}

/// AUTH_NONE for callbacks.
pub fn auth_none() -> Vec<u8> {
    Args::of(0).end()
}

/// AUTH_SYS for callbacks: stamp, machine, user, group, groups.
pub fn auth_sys(stamp: u32, machine: &[u8], uid: u32, gid: u32, groups: &[u32]) -> Vec<u8> {
    Args::of(1).u32(stamp).opaque(machine).u32(uid).u32(gid).bitmap(groups).end()
}

/// SETCLIENTID: verifier, name, and where callbacks go: program, netid, universal address, ident.
pub fn setclientid(
    verifier: [u8; 8],
    name: &[u8],
    (program, netid, address, ident): (u32, &str, &str, u32),
) -> Vec<u8> {
    let args = Args::of(op::SETCLIENTID).fixed(&verifier).opaque(name).u32(program);
    args.opaque(netid.as_bytes()).opaque(address.as_bytes()).u32(ident).end()
}
