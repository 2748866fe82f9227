//! A WRITE inside a COMPOUND of which data goes to the file before the record is whole: it does what it does whole, and its
//! request runs exactly once.

use crate::arriving::{Arriving, PAGE, contents, data, make, mem};
use crate::support::compounds::{Session, operation, plain, putfh};
use crate::support::dispatched::Dispatched;
use crate::support::exports;
use proptest::prelude::*;
use proto::layout::Bytes;
use proto::nfs4::{
    ClientAddr4, CloseArgs, CompoundHead, LINUX_CACHE_CONSISTENCY, LINUX_GETATTR, Nfsstat4,
    OpenArgs, OpenClaim4, OpenConfirmArgs, OpenDowngradeArgs, OpenHow4, OpenOwner4, SequenceArgs,
    SetclientidArgs, SetclientidConfirmArgs, StableHow4, Stateid4, WriteArgs, op,
};
use rpc::Verdict;
use std::rc::Rc;
use std::sync::Arc;
use xdr::{Reader, Writer};

/// Bytes of a reply before the COMPOUND's status.
const REPLY_HEADER: usize = 24;

/// A file that is open in a session.
struct Opened<'s> {
    server: &'s Dispatched,
    session: Rc<Session>,
    file: Vec<u8>,
    stateid: Stateid4,
}

impl<'s> Opened<'s> {
    fn new(server: &'s Dispatched, name: &[u8]) -> Self {
        Self::within(server, &Rc::new(Session::new(server)), name)
    }

    fn within(server: &'s Dispatched, session: &Rc<Session>, name: &[u8]) -> Self {
        let file = make(server, name);
        let stateid = session.open(server, name);
        Self { server, session: Rc::clone(session), file, stateid }
    }

    fn write_op(&self, offset: u64, stable: StableHow4, data: &[u8]) -> Vec<u8> {
        let (stateid, data) = (self.stateid, Bytes(data));
        operation(op::WRITE, &WriteArgs { stateid, offset, stable, data })
    }

    /// What Linux sends.
    fn write(&self, offset: u64, stable: StableHow4, data: &[u8]) -> Vec<u8> {
        let write = self.write_op(offset, stable, data);
        self.session.record(
            self.server,
            &[putfh(&self.file), write, operation(op::GETATTR, &LINUX_GETATTR)],
        )
    }

    fn call(&self, operations: &[Vec<u8>]) -> Done {
        self.send(&self.session.record(self.server, operations))
    }

    /// A record that arrives whole.
    fn send(&self, record: &[u8]) -> Done {
        let mut reply = Writer::new();
        assert_eq!(self.server.answer(record, &mut reply), Verdict::Reply);
        Done::of(reply.bytes())
    }
}

/// The reply to a COMPOUND.
#[derive(Debug, PartialEq, Eq)]
struct Done {
    status: Nfsstat4,
    /// From the first result on; without SEQUENCE's, which differ from request to request.
    results: Vec<u8>,
    count: u32,
}

impl Done {
    fn of(reply: &[u8]) -> Self {
        let mut r = Reader::new(&reply[REPLY_HEADER..]);
        let status = r.get().unwrap();
        r.opaque(1024).unwrap();
        let count = r.u32().unwrap();
        let sequence = if r.remaining() > 44 { 44 } else { 0 };
        Self { status, count, results: r.rest()[sequence..].to_vec() }
    }

    /// The count and the stability of the WRITE behind PUTFH.
    fn written(&self) -> (u32, u32) {
        assert_eq!(self.status, Nfsstat4::Ok);
        let mut r = Reader::new(&self.results);
        let [putfh, putfh_status, write, status] = r.words().unwrap();
        assert_eq!([putfh, putfh_status, write, status], [op::PUTFH, 0, op::WRITE, 0]);
        let [count, stable] = r.words().unwrap();
        (count, stable)
    }
}

const STABLE: [StableHow4; 3] = [StableHow4::Unstable, StableHow4::DataSync, StableHow4::FileSync];

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Wherever the record is cut, the file and the answer are those of the whole.
    #[test]
    fn a_write_in_pieces_equals_a_whole_write(
        offset in 0..3 * PAGE as u64,
        len in PAGE..6 * PAGE,
        cuts in prop::collection::vec(1..2 * PAGE, 0..8),
        stable in prop::sample::select(&STABLE[..]),
        piped: bool,
    ) {
        let server = mem();
        let whole = Opened::new(&server, b"whole");
        let pieces = Opened::within(&server, &whole.session, b"pieces");
        let data = data(len);
        let at_once = whole.send(&whole.write(offset, stable, &data));
        let record = pieces.write(offset, stable, &data);
        let mut arriving = Arriving::new(&server, record).piped(piped);
        for bytes in cuts {
            // the transport asks only from many bytes on
            let first = if arriving.at == 0 { 1024 } else { 0 };
            prop_assert!(arriving.arrive(first + bytes));
            let end = offset as usize + arriving.large.taken();
            prop_assert!(arriving.large.is_empty() || end.is_multiple_of(PAGE));
        }
        let in_pieces = Done::of(&arriving.reply());
        prop_assert_eq!(in_pieces.written(), at_once.written());
        prop_assert_eq!(in_pieces.written().0 as usize, len);
        prop_assert_eq!((in_pieces.count, in_pieces.results.len()), (4, at_once.results.len()));
        prop_assert_eq!(contents(&server, &pieces.file), contents(&server, &whole.file));
    }
}

#[test]
fn the_request_of_a_broken_record_runs_when_it_comes_again() {
    let server = mem();
    let opened = Opened::new(&server, b"f");
    let record = opened.write(0, StableHow4::FileSync, &data(65_536));
    let mut arriving = Arriving::new(&server, record.clone());
    assert!(arriving.arrive(40_000) && arriving.large.taken() > 0);
    // the connection breaks
    drop(arriving);
    assert_eq!(opened.send(&record).written(), (65_536, StableHow4::FileSync.number()));
    assert_eq!(contents(&server, &opened.file), data(65_536));
    assert_eq!(opened.send(&record).status, Nfsstat4::RetryUncachedRep, "and only once");
    // the same where it comes in pieces again
    let record = opened.write(65_536, StableHow4::Unstable, &data(65_536));
    for finish in [false, true] {
        let mut arriving = Arriving::new(&server, record.clone());
        assert!(arriving.arrive(40_000) && arriving.large.taken() > 0);
        if finish {
            assert_eq!(Done::of(&arriving.reply()).written().0, 65_536);
        }
    }
    assert_eq!(contents(&server, &opened.file), [data(65_536), data(65_536)].concat());
}

/// The client has given up the connection by which the first half came; what is left of it there arrives after the client
/// has gone on.
#[test]
fn a_request_that_came_again_by_another_connection_takes_over() {
    let server = mem();
    let opened = Opened::new(&server, b"f");
    let record = opened.write(0, StableHow4::Unstable, &data(65_536));
    let mut first = Arriving::new(&server, record.clone());
    assert!(first.arrive(40_000) && first.large.taken() > 0);
    // it does not go ahead a second time
    let mut again = Arriving::new(&server, record.clone());
    assert!(!again.arrive(40_000) && again.large.is_empty());
    assert_eq!(Done::of(&again.reply()).written().0, 65_536);
    let other = vec![1; 65_536];
    assert_eq!(opened.send(&opened.write(0, StableHow4::Unstable, &other)).written().0, 65_536);
    first.arrive(20_000);
    assert_ne!(Done::of(&first.reply()).status, Nfsstat4::Ok);
    assert!(contents(&server, &opened.file) == other, "nothing of the first is written any more");
}

#[test]
fn a_slot_is_taken_while_its_request_arrives() {
    let server = mem();
    let opened = Opened::new(&server, b"f");
    let record = opened.write(0, StableHow4::Unstable, &data(65_536));
    let mut arriving = Arriving::new(&server, record);
    assert!(arriving.arrive(40_000));
    let next = opened.session.record(&server, &[plain(op::PUTROOTFH)]);
    assert_eq!(opened.send(&next).status, Nfsstat4::SeqMisordered);
    assert_eq!(Done::of(&arriving.reply()).written().0, 65_536);
    assert_eq!(opened.send(&next).status, Nfsstat4::Ok);
}

#[test]
fn a_stateid_that_ends_meanwhile_ends_the_write() {
    for close in [true, false] {
        let server = mem();
        let opened = Opened::new(&server, b"f");
        let mut arriving =
            Arriving::new(&server, opened.write(0, StableHow4::Unstable, &data(65_536)));
        assert!(arriving.arrive(20_000));
        let taken = arriving.large.taken();
        let (stateid, seqid) = (opened.stateid, 0);
        let ends = match close {
            true => operation(op::CLOSE, &CloseArgs { seqid, stateid }),
            false => {
                let (share_access, share_deny) = (1, 0);
                let args = OpenDowngradeArgs { stateid, seqid, share_access, share_deny };
                operation(op::OPEN_DOWNGRADE, &args)
            }
        };
        let other = opened.session.on_slot(1);
        let record = other.record(&server, &[putfh(&opened.file), ends]);
        assert_eq!(opened.send(&record).status, if close { Nfsstat4::Ok } else { Nfsstat4::Inval });
        arriving.arrive(20_000);
        let done = Done::of(&arriving.reply());
        if close {
            assert_eq!(done.status, Nfsstat4::BadStateid);
            assert_eq!(contents(&server, &opened.file), data(taken));
        } else {
            // it was never opened for reading alone
            assert_eq!(done.written().0, 65_536);
        }
    }
}

#[test]
fn a_reload_applies_to_a_write_that_arrives() {
    for (refused, options) in
        [(Some(Nfsstat4::RoFs), Some(exports::RO)), (Some(Nfsstat4::Stale), None)]
    {
        let backend = exports::mem();
        let server = Dispatched::over(Arc::clone(&backend));
        let opened = Opened::new(&server, b"f");
        let mut arriving =
            Arriving::new(&server, opened.write(0, StableHow4::Unstable, &data(65_536)));
        assert!(arriving.arrive(20_000));
        let first = arriving.large.taken();
        let rows = options.map(|options| ("/e", Arc::clone(&backend), options));
        server.nfs.exports.replace(exports::table(rows.as_slice()));
        arriving.arrive(20_000);
        assert_eq!(Some(Done::of(&arriving.reply()).status), refused);
        server.nfs.exports.replace(exports::table(&[("/e", backend, exports::RW)]));
        assert_eq!(contents(&server, &opened.file), data(first));
    }
    // one that changes nothing for the client ends the write early
    let backend = exports::mem();
    let server = Dispatched::over(Arc::clone(&backend));
    let opened = Opened::new(&server, b"f");
    let record = opened.write(0, StableHow4::FileSync, &data(65_536));
    let mut arriving = Arriving::new(&server, record);
    assert!(arriving.arrive(20_000));
    let first = arriving.large.taken();
    server.nfs.exports.replace(exports::table(&[("/e", backend, exports::RW)]));
    arriving.arrive(20_000);
    assert_eq!(
        Done::of(&arriving.reply()).written(),
        (first as u32, StableHow4::FileSync.number())
    );
    assert_eq!(contents(&server, &opened.file), data(first));
}

#[test]
fn operations_behind_the_data_run() {
    let server = mem();
    let opened = Opened::new(&server, b"f");
    let stateid = opened.stateid;
    let record = opened.session.record(
        &server,
        &[
            putfh(&opened.file),
            opened.write_op(0, StableHow4::Unstable, &data(40_001)),
            operation(op::CLOSE, &CloseArgs { seqid: 0, stateid }),
            plain(op::GETFH),
        ],
    );
    let mut arriving = Arriving::new(&server, record);
    assert!(arriving.arrive(39_000) && arriving.large.taken() > 0);
    let done = Done::of(&arriving.reply());
    assert_eq!((done.count, done.written().0), (5, 40_001));
    assert!(
        done.results.ends_with(&[opened.file.clone(), vec![0; opened.file.len() % 4]].concat())
    );
    assert_eq!(contents(&server, &opened.file), data(40_001));
    let close = operation(op::CLOSE, &CloseArgs { seqid: 0, stateid });
    assert_eq!(opened.call(&[putfh(&opened.file), close]).status, Nfsstat4::BadStateid);
}

/// Whatever is not plainly in order is received whole, and answered as ever.
#[test]
fn what_is_not_in_order_is_received_whole() {
    let server = mem();
    let opened = Opened::new(&server, b"f");
    let write = |stateid| {
        let args = WriteArgs {
            stateid,
            offset: 0,
            stable: StableHow4::Unstable,
            data: Bytes(&[7; 40_000]),
        };
        operation(op::WRITE, &args)
    };
    let mut forged = opened.file.clone();
    *forged.last_mut().unwrap() ^= 1;
    let other = Stateid4 { seqid: 1, other: [9; 12] };
    let ahead = |operations: &[Vec<u8>]| {
        let record = opened.session.record(&server, operations);
        let mut arriving = Arriving::new(&server, record);
        assert!(!arriving.arrive(30_000), "nothing may go ahead");
        assert!(arriving.large.is_empty());
        Done::of(&arriving.reply()).status
    };
    let file = || putfh(&opened.file);
    assert_eq!(ahead(&[file(), write(other)]), Nfsstat4::BadStateid);
    assert_eq!(ahead(&[putfh(&forged), write(opened.stateid)]), Nfsstat4::BadHandle);
    assert_eq!(ahead(&[putfh(&server.root), write(opened.stateid)]), Nfsstat4::BadStateid);
    assert_eq!(contents(&server, &opened.file), b"");
    // with the permissions of the mode
    assert_eq!(ahead(&[file(), write(Stateid4::ANONYMOUS)]), Nfsstat4::Ok);
    assert_eq!(ahead(&[file(), plain(op::GETFH), write(opened.stateid)]), Nfsstat4::Ok);
}

#[test]
fn a_reply_that_is_to_be_kept_is_of_a_request_that_was_whole() {
    let server = mem();
    let opened = Opened::new(&server, b"f");
    let other = opened.session.on_slot(2);
    let mut record = other.record(
        &server,
        &[putfh(&opened.file), opened.write_op(0, StableHow4::Unstable, &data(40_000))],
    );
    let cachethis = SequenceArgs {
        sessionid: [0; 16],
        sequenceid: 1,
        slotid: 2,
        highest_slotid: 2,
        cachethis: true,
    };
    // the last word of SEQUENCE's arguments
    let sequence = operation(op::SEQUENCE, &cachethis);
    let put = putfh(&opened.file);
    let at = record.windows(put.len()).position(|bytes| bytes == put).unwrap();
    record[at - 4..at].copy_from_slice(&sequence[sequence.len() - 4..]);
    let mut arriving = Arriving::new(&server, record.clone());
    assert!(!arriving.arrive(30_000));
    assert_eq!(Done::of(&arriving.reply()).written().0, 40_000);
    assert_eq!(opened.send(&record).written().0, 40_000, "the kept reply");
}

#[test]
fn another_users_write_is_received_whole_and_refused() {
    let mut server = mem();
    let (record, file) = {
        let opened = Opened::new(&server, b"f");
        (opened.write(0, StableHow4::Unstable, &data(40_000)), opened.file)
    };
    let uid_at = record.windows(12).position(|bytes| bytes == [0; 12]).unwrap();
    server.user = (1000, 1000);
    let mut other = record;
    // uid and gid of AUTH_SYS, and no groups
    other[uid_at..uid_at + 8].copy_from_slice(&[0, 0, 3, 232, 0, 0, 3, 232]);
    let mut arriving = Arriving::new(&server, other);
    assert!(!arriving.arrive(30_000));
    assert_eq!(Done::of(&arriving.reply()).status, Nfsstat4::Access);
    server.user = (0, 0);
    assert_eq!(contents(&server, &file), b"");
}

/// A client of version 4.0 with a file that is open.
struct Opened0<'s> {
    server: &'s Dispatched,
    file: Vec<u8>,
    stateid: Stateid4,
}

/// The status of a COMPOUND, and its results.
fn done0(reply: &[u8]) -> (Nfsstat4, Vec<u8>) {
    let mut r = Reader::new(&reply[REPLY_HEADER..]);
    let status = r.get().unwrap();
    let [_tag, _count] = r.words().unwrap();
    (status, r.rest().to_vec())
}

impl<'s> Opened0<'s> {
    fn new(server: &'s Dispatched, name: &[u8]) -> Self {
        server.nfs.settings.set_versions(&"3,4.0".parse().unwrap());
        let file = make(server, name);
        let mut opened = Self { server, file, stateid: Stateid4::ANONYMOUS };
        let args = SetclientidArgs {
            verifier: [1; 8],
            id: Bytes(b"client"),
            cb_program: 0x4000_0000,
            cb_location: ClientAddr4 { netid: Bytes(b"tcp"), addr: Bytes(b"127.0.0.1.3.132") },
            callback_ident: 1,
        };
        let known = opened.call(&[operation(op::SETCLIENTID, &args)]);
        let mut r = Reader::new(&known[8..]);
        let (clientid, confirm) = (r.u64().unwrap(), r.array().unwrap());
        let args = SetclientidConfirmArgs { clientid, confirm };
        opened.call(&[operation(op::SETCLIENTID_CONFIRM, &args)]);
        let args = OpenArgs {
            seqid: 1,
            share_access: 3,
            share_deny: 0,
            owner: OpenOwner4 { clientid, owner: Bytes(b"owner") },
            how: OpenHow4::NoCreate,
            claim: OpenClaim4::Null(Bytes(name)),
        };
        let found = opened.call(&[putfh(&server.root), operation(op::OPEN, &args)]);
        let stateid = Reader::new(&found[16..]).get().unwrap();
        let args = OpenConfirmArgs { stateid, seqid: 2 };
        let confirmed = opened.call(&[putfh(&opened.file), operation(op::OPEN_CONFIRM, &args)]);
        opened.stateid = Reader::new(&confirmed[16..]).get().unwrap();
        opened
    }

    fn record(&self, operations: &[Vec<u8>]) -> Vec<u8> {
        let mut w = Writer::new();
        let count = u32::try_from(operations.len()).unwrap();
        w.put(&CompoundHead { tag: b"", minor: 0, count });
        w.raw(&operations.concat());
        self.server.record_of(4, 1, w.bytes())
    }

    /// What these operations come to, which succeed.
    fn call(&self, operations: &[Vec<u8>]) -> Vec<u8> {
        let mut reply = Writer::new();
        assert_eq!(self.server.answer(&self.record(operations), &mut reply), Verdict::Reply);
        let (status, results) = done0(reply.bytes());
        assert_eq!(status, Nfsstat4::Ok);
        results
    }

    fn write_op(&self, stable: StableHow4, data: &[u8]) -> Vec<u8> {
        let args = WriteArgs { stateid: self.stateid, offset: 0, stable, data: Bytes(data) };
        operation(op::WRITE, &args)
    }

    /// A WRITE with the attributes behind it by which Linux sees changes.
    fn write(&self, stable: StableHow4, data: &[u8]) -> Vec<u8> {
        let getattr = operation(op::GETATTR, &LINUX_CACHE_CONSISTENCY);
        self.record(&[putfh(&self.file), self.write_op(stable, data), getattr])
    }

    fn close(&self) -> Vec<u8> {
        operation(op::CLOSE, &CloseArgs { seqid: 3, stateid: self.stateid })
    }
}

/// The status, and if that is success the count and the stability of the WRITE behind PUTFH.
fn written0(reply: &[u8]) -> (Nfsstat4, Option<(u32, u32)>) {
    let (status, results) = done0(reply);
    let counts = || {
        let mut r = Reader::new(&results);
        assert_eq!(r.words().unwrap(), [op::PUTFH, 0, op::WRITE, 0]);
        let [count, stable] = r.words().unwrap();
        (count, stable)
    };
    (status, (status == Nfsstat4::Ok).then(counts))
}

#[test]
fn a_write_of_version_4_0_goes_ahead() {
    for (stable, piped) in STABLE.into_iter().flat_map(|stable| [(stable, false), (stable, true)]) {
        let server = mem();
        let opened = Opened0::new(&server, b"f");
        let record = opened.write(stable, &data(65_536));
        let mut arriving = Arriving::new(&server, record).piped(piped);
        assert!(arriving.arrive(20_000) && arriving.arrive(20_000));
        let taken = arriving.large.taken();
        assert!(taken > 0 && taken.is_multiple_of(PAGE));
        assert_eq!(contents(&server, &opened.file), data(taken), "it is in the file already");
        let (status, written) = written0(&arriving.reply());
        let (count, committed) = written.unwrap();
        assert_eq!((status, count), (Nfsstat4::Ok, 65_536));
        assert!(committed >= stable.number());
        assert_eq!(contents(&server, &opened.file), data(65_536));
    }
}

#[test]
fn a_record_of_version_4_0_that_breaks_can_come_again() {
    let server = mem();
    let opened = Opened0::new(&server, b"f");
    let record = opened.write(StableHow4::FileSync, &data(65_536));
    let mut arriving = Arriving::new(&server, record.clone());
    assert!(arriving.arrive(40_000) && arriving.large.taken() > 0);
    drop(arriving);
    let mut reply = Writer::new();
    assert_eq!(server.answer(&record, &mut reply), Verdict::Reply);
    let expected = (65_536, StableHow4::FileSync.number());
    assert_eq!(written0(reply.bytes()), (Nfsstat4::Ok, Some(expected)));
    assert_eq!(contents(&server, &opened.file), data(65_536));
}

#[test]
fn a_write_of_version_4_0_ends_with_its_open() {
    let server = mem();
    let opened = Opened0::new(&server, b"f");
    let mut arriving = Arriving::new(&server, opened.write(StableHow4::Unstable, &data(65_536)));
    assert!(arriving.arrive(20_000));
    let taken = arriving.large.taken();
    opened.call(&[putfh(&opened.file), opened.close()]);
    arriving.arrive(20_000);
    assert_eq!(written0(&arriving.reply()), (Nfsstat4::BadStateid, None));
    assert_eq!(contents(&server, &opened.file), data(taken));
}

/// A COMPOUND that does more than to write must not do it twice: version 4.0 has no slots that would see to that.
#[test]
fn what_stands_behind_data_of_version_4_0_is_received_with_it() {
    let server = mem();
    let opened = Opened0::new(&server, b"f");
    let write = opened.write_op(StableHow4::Unstable, &data(40_000));
    let record = opened.record(&[putfh(&opened.file), write, opened.close()]);
    let mut arriving = Arriving::new(&server, record);
    assert!(!arriving.arrive(30_000) && arriving.large.is_empty());
    assert_eq!(done0(&arriving.reply()).0, Nfsstat4::Ok);
    assert_eq!(contents(&server, &opened.file), data(40_000));
}
