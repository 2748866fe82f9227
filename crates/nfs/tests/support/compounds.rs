//! COMPOUNDs of version 4.1 over a [`Dispatched`]: a session, and requests as the Linux client makes them.

use super::dispatched::Dispatched;
use proto::layout::Bytes;
use proto::nfs4::{
    CompoundHead, ExchangeIdArgs, OpenArgs, OpenClaim4, OpenHow4, OpenOwner4, SequenceArgs,
    StateProtectHow, Stateid4, op,
};
use std::cell::Cell;
use xdr::{Encode, Reader, Writer};

/// COMPOUND's number.
const COMPOUND: u32 = 1;
/// Bytes of a reply before the COMPOUND's status.
const REPLY_HEADER: usize = 24;

/// One operation with its arguments.
pub fn operation(number: u32, args: &impl Encode) -> Vec<u8> {
    let mut w = Writer::new();
    w.u32(number);
    w.put(args);
    w.bytes().to_vec()
}

/// An operation that has none.
pub fn plain(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// PUTFH.
pub fn putfh(handle: &[u8]) -> Vec<u8> {
    operation(op::PUTFH, &Bytes::<128>(handle))
}

/// A record with these operations.
pub fn compound(server: &Dispatched, operations: &[Vec<u8>]) -> Vec<u8> {
    let mut w = Writer::new();
    let count = u32::try_from(operations.len()).unwrap();
    w.put(&CompoundHead { tag: b"", minor: 1, count });
    w.raw(&operations.concat());
    server.record_of(4, COMPOUND, w.bytes())
}

/// A session, of which one slot is used.
pub struct Session {
    id: [u8; 16],
    client: u64,
    slot: u32,
    sequence: Cell<u32>,
}

impl Session {
    /// A client of its own with a session.
    pub fn new(server: &Dispatched) -> Self {
        let args = ExchangeIdArgs {
            verifier: [1; 8],
            ownerid: b"client",
            flags: 0,
            state_protect: StateProtectHow::None,
            impl_id: None,
        };
        let found = answered(server, &compound(server, &[operation(op::EXCHANGE_ID, &args)]));
        let client = results(&found).u64().unwrap();
        let mut w = Writer::new();
        w.u32(op::CREATE_SESSION);
        w.u64(client);
        w.words([1, 0]);
        w.words([0, 1 << 21, 1 << 21, 4096, 32, 8, 0]);
        w.words([0, 4096, 4096, 4096, 8, 8, 0]);
        w.words([0x4000_0000, 1, 0]);
        let made = answered(server, &compound(server, &[w.bytes().to_vec()]));
        let id = results(&made).array().unwrap();
        let session = Self { id, client, slot: 0, sequence: Cell::new(0) };
        answered(server, &session.record(server, &[operation(op::RECLAIM_COMPLETE, &false)]));
        session
    }

    /// The same session on another slot.
    pub const fn on_slot(&self, slot: u32) -> Self {
        Self { id: self.id, client: self.client, slot, sequence: Cell::new(0) }
    }

    /// The next request on the slot.
    pub fn record(&self, server: &Dispatched, operations: &[Vec<u8>]) -> Vec<u8> {
        self.sequence.set(self.sequence.get() + 1);
        let args = SequenceArgs {
            sessionid: self.id,
            sequenceid: self.sequence.get(),
            slotid: self.slot,
            highest_slotid: self.slot,
            cachethis: false,
        };
        compound(server, &[&[operation(op::SEQUENCE, &args)], operations].concat())
    }

    /// Runs these operations, which succeed.
    pub fn run(&self, server: &Dispatched, operations: &[Vec<u8>]) -> Vec<u8> {
        answered(server, &self.record(server, operations))
    }

    /// OPEN of a file for reading and writing.
    pub fn open_args<'n>(&self, name: &'n [u8]) -> OpenArgs<'n> {
        OpenArgs {
            seqid: 0,
            share_access: 3,
            share_deny: 0,
            owner: OpenOwner4 { clientid: self.client, owner: Bytes(b"owner") },
            how: OpenHow4::NoCreate,
            claim: OpenClaim4::Null(Bytes(name)),
        }
    }

    /// The stateid of a file that is open from now on.
    pub fn open(&self, server: &Dispatched, name: &[u8]) -> Stateid4 {
        self.open_with_handle(server, name).1
    }

    /// The same, and the file's handle.
    pub fn open_with_handle(&self, server: &Dispatched, name: &[u8]) -> (Vec<u8>, Stateid4) {
        let open = operation(op::OPEN, &self.open_args(name));
        let opened = self.run(server, &[putfh(&server.root), open, plain(op::GETFH)]);
        // SEQUENCE with its result, PUTFH, OPEN
        let mut r = Reader::new(&opened[REPLY_HEADER + 12 + 8 + 36 + 8 + 8..]);
        let stateid = r.get().unwrap();
        // change_info4, flags, no attributes, no delegation, GETFH
        r.opaque_fixed(20 + 4).unwrap();
        let _set: proto::nfs4::Bitmap4 = r.get().unwrap();
        r.words::<3>().unwrap();
        (r.opaque(128).unwrap().to_vec(), stateid)
    }
}

/// The reply to a record, which says success.
fn answered(server: &Dispatched, record: &[u8]) -> Vec<u8> {
    let mut reply = Writer::new();
    assert_eq!(server.answer(record, &mut reply), rpc::Verdict::Reply);
    let reply = reply.bytes().to_vec();
    assert_eq!(reply[REPLY_HEADER..REPLY_HEADER + 4], [0; 4], "the COMPOUND failed");
    reply
}

/// The result of the first operation.
fn results(reply: &[u8]) -> Reader<'_> {
    Reader::new(&reply[REPLY_HEADER + 12 + 8..])
}
