//! COMPOUND of the canned server: which operation a call is about, and the reply to it, made once.
//!
//! SEQUENCE and PUTFH are passed over by their lengths; the operation behind them decides. A reply has the results of
//! what the loads send with it. A client gets the same client id and session as all others.

use client::nfs4::CALLBACK_PROGRAM;
use proto::layout::Bytes;
use proto::nfs4::{Bitmap4, ChangeInfo4, Fattr4, Stateid4, attr, op};
use xdr::{Reader, Writer};

/// Bytes of a call that are looked at, its mark included: those before the operation, and the arguments of OPEN up to
/// whether it makes the file.
pub(super) const HEAD_MAX: usize = 640;
/// Bytes of a call before its credential, its mark included.
const CREDENTIAL_AT: usize = 28;
/// Operations have numbers below this.
const NUMBERS: usize = 72;
/// Bytes of the values of the attributes that the loads ask of a file, and of those that tell whether it changed.
const ATTRIBUTES: usize = 128;
const CONSISTENCY: usize = 40;
/// Slots that a session is granted.
const SLOTS: u32 = 4096;

/// What a COMPOUND is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Main {
    /// The first operation behind SEQUENCE and PUTFH; SEQUENCE if there is none.
    pub op: u32,
    /// Whether there is a SEQUENCE.
    pub in_session: bool,
    /// OPEN that makes the file.
    pub creates: bool,
}

/// The main operation of a call that begins so; one that does not decode is an illegal one.
pub(super) fn main_op(head: &[u8]) -> Main {
    let mut in_session = false;
    let op = find(head, &mut in_session);
    let (op, creates) = op.unwrap_or((op::ILLEGAL, false));
    Main { op, in_session, creates }
}

fn find(head: &[u8], in_session: &mut bool) -> Result<(u32, bool), xdr::Error> {
    let mut r = Reader::new(head.get(CREDENTIAL_AT..).unwrap_or_default());
    for _credential_and_verifier in 0..2 {
        r.u32()?;
        r.opaque(HEAD_MAX)?;
    }
    r.opaque(HEAD_MAX)?;
    let [_minor, count] = r.words()?;
    for _ in 0..count {
        match r.u32()? {
            op::SEQUENCE => {
                r.words::<8>()?;
                *in_session = true;
            }
            op::PUTFH => drop(r.opaque(HEAD_MAX)?),
            op::OPEN => {
                // seqid, access, deny, the client's id
                r.words::<5>()?;
                r.opaque(HEAD_MAX)?;
                return Ok((op::OPEN, r.u32()? == 1));
            }
            other => return Ok((other, false)),
        }
    }
    Ok((op::SEQUENCE, false))
}

/// The replies, from the COMPOUND's status on.
pub(super) struct Replies {
    /// By operation: without SEQUENCE, and with it.
    bodies: [Vec<Vec<u8>>; 2],
}

impl Replies {
    pub(super) fn new() -> Self {
        let of =
            |in_session| (0_u32..).take(NUMBERS).map(|number| body(number, in_session)).collect();
        Self { bodies: [of(false), of(true)] }
    }

    /// The reply to what a COMPOUND is about. That of READ ends with the length of its data, which follows.
    pub(super) fn to(&self, main: Main) -> &[u8] {
        let [outside, inside] = &self.bodies;
        let bodies = if main.in_session { inside } else { outside };
        bodies.get(main.op as usize).or_else(|| bodies.first()).map_or(&[], Vec::as_slice)
    }
}

/// Appends results and counts them.
struct Results {
    w: Writer,
    count: u32,
}

impl Results {
    fn add(&mut self, number: u32) -> &mut Writer {
        self.count += 1;
        self.w.words([number, 0]);
        &mut self.w
    }

    fn attributes(&mut self, bytes: usize) {
        let mask = Bitmap4::of(&[attr::TYPE, attr::MODE]);
        let zeros = [0; ATTRIBUTES];
        let values = Bytes(zeros.get(..bytes).unwrap_or_default());
        self.add(op::GETATTR).put(&Fattr4 { mask, values });
    }

    fn handle(&mut self) {
        self.add(op::GETFH).opaque(&[1; 40]);
    }
}

fn body(number: u32, in_session: bool) -> Vec<u8> {
    let mut results = Results { w: Writer::new(), count: 0 };
    // no status, no tag, and how many results
    results.w.words([0, 0]);
    let count_at = results.w.mark();
    results.w.u32(0);
    if in_session {
        results.add(op::SEQUENCE).words([0; 9]);
    }
    if number != op::SEQUENCE && !makes_clients(number, &mut results) {
        results.add(op::PUTFH);
        on_file(number, &mut results);
    }
    let count = results.count;
    results.w.patch_u32(count_at, count);
    results.w.bytes().to_vec()
}

/// The operations on client ids and sessions; false: it is none of them.
fn makes_clients(number: u32, results: &mut Results) -> bool {
    match number {
        op::EXCHANGE_ID => {
            let w = results.add(number);
            // the client's id, its first number, no flags, no protection, the server's minor id
            w.words([0, 1, 1, 0, 0, 0, 0]);
            w.opaque(b"bound");
            w.opaque(b"bound");
            w.u32(0);
        }
        op::CREATE_SESSION => {
            let w = results.add(number);
            w.words([7, 7, 7, 7, 1, 0]);
            for slots in [SLOTS, 1] {
                w.words([0, 2 << 20, 2 << 20, 4096, 16, slots, 0]);
            }
        }
        op::SETCLIENTID => results.add(number).words([0, 1, 0, CALLBACK_PROGRAM]),
        op::SETCLIENTID_CONFIRM
        | op::RECLAIM_COMPLETE
        | op::DESTROY_SESSION
        | op::DESTROY_CLIENTID => drop(results.add(number)),
        _ => return false,
    }
    true
}

fn on_file(number: u32, results: &mut Results) {
    let stateid = Stateid4 { seqid: 1, other: [7; 12] };
    match number {
        op::GETATTR => results.attributes(ATTRIBUTES),
        op::LOOKUP => {
            results.add(number);
            results.handle();
            results.attributes(ATTRIBUTES);
        }
        op::ACCESS => {
            results.add(number).words([0x3f, 0x3f]);
            results.attributes(CONSISTENCY);
        }
        op::READ => results.add(number).words([0, 0]),
        op::WRITE => {
            // the request is not known: the smallest reply that is not an error
            results.add(number).words([1, 2, 0, 0]);
            results.attributes(CONSISTENCY);
        }
        op::COMMIT => results.add(number).words([0, 0]),
        op::OPEN => {
            let w = results.add(number);
            w.put(&stateid);
            w.put(&ChangeInfo4 { atomic: true, before: 1, after: 2 });
            // no flags, no attributes set, no delegation
            w.words([0, 0, 0]);
            results.handle();
            results.add(op::ACCESS).words([0x3f, 0x3f]);
            results.attributes(ATTRIBUTES);
        }
        op::CLOSE => results.add(number).put(&Stateid4::INVALID),
        op::REMOVE => {
            results.add(number).put(&ChangeInfo4 { atomic: true, before: 1, after: 2 });
        }
        _ => drop(results.add(number)),
    }
}
