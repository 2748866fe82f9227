//! A small program for tests of the dispatcher: every way in which a procedure can end.

use bowline_rpc::{
    ArgumentSink, Begun, Blocking, Call, CallHost, ConnId, Consumed, Credential, Deferred,
    DispatchSettings, Dispatcher, Done, Fault, LargeArgument, Line, OpIndex, Outcome,
    PartialRecord, Peer, Piece, Plan, Posted, Row, Service, Transport, Version,
};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use xdr::{Reader, Writer};

pub mod seal;

/// The toy's program number.
pub const PROGRAM: u32 = 400_000;
/// The second program's number; it has the versions 2 and 4 and NULL only.
pub const OTHER: u32 = 400_001;

/// Procedures of version 1.
pub mod procedure {
    /// Does nothing.
    pub const NULL: u32 = 0;
    /// Gives the argument back.
    pub const ECHO: u32 = 1;
    /// Counts; not idempotent.
    pub const COUNT: u32 = 2;
    /// Writes half a result, then says SYSTEM_ERR; not idempotent.
    pub const FAIL: u32 = 3;
    /// Writes half a result, then panics; not idempotent.
    pub const PANIC: u32 = 4;
    /// Wants AUTH_SYS; gives the user id.
    pub const WHO: u32 = 5;
    /// Never answers; not idempotent.
    pub const SILENT: u32 = 6;
    /// May sleep; not idempotent.
    pub const SLEEPY: u32 = 7;
    /// A hole in the numbers.
    pub const HOLE: u32 = 8;
    /// Takes data as it comes, in fours; gives all of it back, and what follows it.
    pub const GATHER: u32 = 9;
    /// Would do the same, but is not idempotent.
    pub const HOARD: u32 = 10;
    /// Panics over data that comes early, and over the call.
    pub const BURST: u32 = 11;
    /// Not idempotent: counts, and does not end before it may.
    pub const HELD: u32 = 12;
    /// Counts, and does not say how far; a late copy would undo later calls.
    pub const UNDO: u32 = 13;
    /// Counts; whether it is idempotent and urgent depends on its argument.
    pub const MIXED: u32 = 14;
    /// Several operations.
    pub const COMPOUND: u32 = 15;
    /// Is answered later.
    pub const LATER: u32 = 16;
    /// Is answered later; not idempotent.
    pub const LATER_ONCE: u32 = 17;
    /// Panics over the second piece of its data, and over the call.
    pub const BURST_LATER: u32 = 18;
    /// Gives the length from which on its reply takes ranges of files.
    pub const RANGES: u32 = 19;
    /// Cannot be answered now; not idempotent.
    pub const NOT_NOW: u32 = 20;
}

/// What the toy's procedures work on.
#[derive(Default)]
pub struct State {
    /// How often COUNT ran.
    pub count: AtomicU32,
    /// That HELD may not end.
    pub hold: AtomicBool,
    /// The connections that live.
    pub alive: Mutex<Vec<ConnId>>,
    /// Calls of LATER and LATER_ONCE that are pending.
    pub deferred: Mutex<Vec<Deferred>>,
}

type Ran = Result<(), Fault>;

fn null(_: &State, _: &mut Call<'_>, args: &mut Reader<'_>, _: &mut Writer) -> Ran {
    Ok(args.end()?)
}

fn echo(_: &State, call: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    let data = args.opaque(1024)?;
    reply.opaque(data);
    args.end()?;
    call.outcome.bytes_read = u32::try_from(data.len()).unwrap_or(u32::MAX);
    Ok(())
}

fn count(state: &State, call: &mut Call<'_>, _: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    reply.u32(state.count.fetch_add(1, Ordering::SeqCst));
    call.outcome = Outcome {
        export: Some(3),
        status: 17,
        bytes_read: 1,
        bytes_written: 2,
        ..Outcome::default()
    };
    Ok(())
}

fn undo(state: &State, _: &mut Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Ran {
    state.count.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

fn held(state: &State, call: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    count(state, call, args, reply)?;
    while state.hold.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn fail(state: &State, _: &mut Call<'_>, _: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    state.count.fetch_add(1, Ordering::SeqCst);
    reply.u64(u64::MAX);
    Err(Fault::SystemErr)
}

fn panics(state: &State, call: &mut Call<'_>, _: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    state.count.fetch_add(1, Ordering::SeqCst);
    reply.u64(u64::MAX);
    // Unwinds without the message on standard error that a test's log would be full of.
    std::panic::resume_unwind(Box::new(call.xid));
}

fn who(_: &State, call: &mut Call<'_>, _: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    match call.credential {
        Credential::Anonymous => Err(Fault::TooWeak),
        Credential::Principal(principal) => {
            reply.opaque(&principal.name);
            Ok(())
        }
        Credential::Sys(sys) => {
            reply.u32(sys.uid);
            Ok(())
        }
    }
}

fn not_now(state: &State, _: &mut Call<'_>, _: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    state.count.fetch_add(1, Ordering::SeqCst);
    reply.u64(u64::MAX);
    Err(Fault::NotNow)
}

fn silent(state: &State, _: &mut Call<'_>, _: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    state.count.fetch_add(1, Ordering::SeqCst);
    reply.u32(1);
    Err(Fault::Silence)
}

/// The operations inside COMPOUND.
pub const OPERATIONS: [&str; 3] = ["NOTHING", "ADD", "FAIL"];

/// A list of operations, run one after the other until one fails; the results are their numbers.
fn compound(_: &State, call: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    let operations = args.count(8)?;
    let main = main_operation(args.rest());
    for _ in 0..operations {
        let operation = u16::try_from(args.u32()?).map_err(|_| Fault::SystemErr)?;
        let status = if operation == 2 { 70 } else { 0 };
        reply.u32(operation.into());
        if main == Some(operation) {
            call.outcome.status = status;
        } else {
            call.count_operation(operation, status);
        }
    }
    Ok(args.end()?)
}

/// The highest number of a list of operations.
fn main_operation(list: &[u8]) -> Option<u16> {
    let words = list.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word));
    words.max().and_then(|main| u16::try_from(main).ok())
}

fn plan_compound(_: &State, args: &[u8], _: Transport) -> Plan {
    match main_operation(args.get(4..).unwrap_or_default()) {
        Some(main) if usize::from(main) < OPERATIONS.len() => PLAIN.counted_as(main),
        Some(_) | None => PLAIN,
    }
}

/// Keeps its call pending; answers 0 at once if as many are pending as may be.
fn later(state: &State, call: &mut Call<'_>, _: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    state.count.fetch_add(1, Ordering::SeqCst);
    call.outcome.export = Some(5);
    reply.u32(0);
    if let Some(deferred) = call.defer() {
        assert!(call.defer().is_none(), "only once");
        state.deferred.lock().unwrap().push(deferred);
        // what is returned has no meaning any more
        return Err(Fault::SystemErr);
    }
    Ok(())
}

/// From which length on the reply takes ranges of files; 0 for never.
fn ranges(_: &State, _: &mut Call<'_>, _: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    let shortest = reply.range_min().unwrap_or(0);
    reply.u32(u32::try_from(shortest).unwrap_or(u32::MAX));
    Ok(())
}

fn hole(_: &State, _: &mut Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Ran {
    Err(Fault::ProcUnavail)
}

/// Data, which it gives back, and what follows it, which it gives back as well.
fn gather(_: &State, _: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    reply.opaque(args.opaque(1 << 20)?);
    reply.raw(args.rest());
    Ok(())
}

/// Does what [`gather`] does, four bytes at a time.
struct GatherSink {
    taken: Vec<u8>,
    /// Panics when it has taken this much.
    panics_at: usize,
}

impl ArgumentSink for GatherSink {
    fn take(&mut self, _: &dyn Blocking, piece: Piece<'_>) -> Consumed {
        if self.taken.len() >= self.panics_at {
            std::panic::resume_unwind(Box::new(()));
        }
        let Piece::Bytes(data) = piece else { return Consumed::NoMore };
        let now = data.len() / 4 * 4;
        self.taken.extend_from_slice(&data[..now]);
        if now == 0 { Consumed::TooFew } else { Consumed::Bytes(now) }
    }

    fn finish(
        self: Box<Self>,
        call: &mut Call<'_>,
        data: &[u8],
        args: &mut Reader<'_>,
        reply: &mut Writer,
    ) -> Ran {
        reply.opaque(&[&self.taken, data].concat());
        reply.raw(args.rest());
        if args.remaining() > 0 {
            call.count_operation(1, 0);
        }
        Ok(())
    }
}

fn begin_with(panics_at: usize, args: &mut Reader<'_>) -> Begun {
    let Ok(len) = args.u32() else { return Begun::TooFew };
    let sink = Box::new(GatherSink { taken: Vec::new(), panics_at });
    Begun::Sink { sink, data_len: len as usize }
}

fn begin_gather(_: &Arc<State>, _: &mut Call<'_>, args: &mut Reader<'_>, _: usize) -> Begun {
    begin_with(usize::MAX, args)
}

fn begin_burst(_: &Arc<State>, _: &mut Call<'_>, _: &mut Reader<'_>, _: usize) -> Begun {
    std::panic::resume_unwind(Box::new(()));
}

fn begin_burst_later(_: &Arc<State>, _: &mut Call<'_>, args: &mut Reader<'_>, _: usize) -> Begun {
    begin_with(4, args)
}

const KEPT: Plan = Plan::NON_IDEMPOTENT;
const PLAIN: Plan = Plan::IDEMPOTENT;

/// Plans MIXED: of an odd first argument the reply is kept; of 4 and more, it goes first.
fn plan_mixed(_: &State, args: &[u8], _: Transport) -> Plan {
    let first = Reader::new(args).u32().unwrap_or(0);
    let plan = if first & 1 == 1 { KEPT } else { PLAIN };
    if first >= 4 { plan.urgent() } else { plan }
}

static ROWS: [Row<State>; 21] = [
    Row::new("NULL", PLAIN, null),
    Row::new("ECHO", PLAIN, echo),
    Row::new("COUNT", KEPT, count),
    Row::new("FAIL", KEPT, fail),
    Row::new("PANIC", KEPT, panics),
    Row::new("WHO", PLAIN.urgent(), who),
    Row::new("SILENT", KEPT, silent),
    Row::new("SLEEPY", KEPT.blocking(), count),
    Row::new("HOLE", PLAIN, hole),
    Row::new("GATHER", PLAIN, gather).beginning_with(begin_gather),
    Row::new("HOARD", KEPT, gather).beginning_with(begin_gather),
    Row::new("BURST", PLAIN, panics).beginning_with(begin_burst),
    Row::new("HELD", KEPT, held),
    Row::new("UNDO", Plan::REPLAY_UNSAFE, undo),
    Row::new("MIXED", PLAIN, count).planned_by(plan_mixed),
    Row::new("COMPOUND", PLAIN, compound).planned_by(plan_compound),
    Row::new("LATER", PLAIN, later),
    Row::new("LATER_ONCE", KEPT, later),
    Row::new("BURST_LATER", PLAIN, panics).beginning_with(begin_burst_later),
    Row::new("RANGES", PLAIN, ranges),
    Row::new("NOT_NOW", KEPT, not_now),
];
static VERSIONS: [Version<State>; 1] =
    [Version { number: 1, rows: &ROWS, operations: &OPERATIONS }];

static NULL_ROW: [Row<State>; 1] = [Row::new("NULL", PLAIN, null)];
static OTHER_VERSIONS: [Version<State>; 2] =
    [Version::new(2, &NULL_ROW), Version::new(4, &NULL_ROW)];

/// A dispatcher over the toy, with what goes around it.
pub struct Toy {
    /// Under test.
    pub dispatcher: Dispatcher,
    /// The procedures' state.
    pub state: Arc<State>,
    slept: AtomicUsize,
    /// Operations that were counted inside calls.
    pub operations: Mutex<Vec<(OpIndex, u32)>>,
    /// The replies of deferred calls, and how many are pending.
    pub posted: Arc<PostedReplies>,
}

impl Blocking for Toy {
    fn will_block(&self) {
        self.slept.fetch_add(1, Ordering::SeqCst);
    }
}

/// Where the replies of deferred calls go.
#[derive(Default)]
pub struct PostedReplies {
    /// What was posted.
    pub replies: Mutex<Vec<(Vec<u8>, Done)>>,
    /// How many are pending.
    pub pending: AtomicUsize,
}

/// Replies that may be pending.
pub const PENDING_MAX: usize = 4;

/// The way of one deferred reply.
struct ToyLine(Arc<PostedReplies>);

impl Line for ToyLine {
    fn post(self: Box<Self>, reply: Writer, done: &Done) -> Posted {
        self.0.replies.lock().unwrap().push((reply.bytes().to_vec(), *done));
        Posted::Sent
    }
}

impl Drop for ToyLine {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Ordering::SeqCst);
    }
}

impl CallHost for Toy {
    fn line(&self) -> Option<Box<dyn Line>> {
        if self.posted.pending.fetch_add(1, Ordering::SeqCst) < PENDING_MAX {
            return Some(Box::new(ToyLine(Arc::clone(&self.posted))));
        }
        self.posted.pending.fetch_sub(1, Ordering::SeqCst);
        None
    }

    fn count_operation(&self, op: OpIndex, status: u32) {
        self.operations.lock().unwrap().push((op, status));
    }
}

/// The host of a call that came by a connection.
struct CallFrom<'t> {
    toy: &'t Toy,
    conn: Option<ConnId>,
}

impl Blocking for CallFrom<'_> {
    fn will_block(&self) {
        self.toy.will_block();
    }
}

impl CallHost for CallFrom<'_> {
    fn line(&self) -> Option<Box<dyn Line>> {
        self.toy.line()
    }

    fn count_operation(&self, op: OpIndex, status: u32) {
        self.toy.count_operation(op, status);
    }

    fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    fn lives(&self, conn: ConnId) -> bool {
        self.toy.state.alive.lock().unwrap().contains(&conn)
    }
}

impl Toy {
    /// A toy with these settings.
    pub fn new(settings: DispatchSettings) -> Self {
        let state = Arc::new(State::default());
        let toy = Service {
            number: PROGRAM,
            name: "toy",
            versions: &VERSIONS,
            state: Arc::clone(&state),
        };
        let other = Service {
            number: OTHER,
            name: "other",
            versions: &OTHER_VERSIONS,
            state: Arc::clone(&state),
        };
        let dispatcher = Dispatcher::new(vec![Box::new(toy), Box::new(other)], settings);
        Self {
            dispatcher,
            state,
            slept: AtomicUsize::new(0),
            operations: Mutex::default(),
            posted: Arc::default(),
        }
    }

    /// Dispatches over TCP at time 0.
    pub fn dispatch(&self, record: &[u8], reply: &mut Writer) -> Done {
        self.dispatch_from(peer(Transport::Tcp, 700), record, reply)
    }

    /// Dispatches at time 0. Over TCP each of the client's ports is a connection with that number.
    pub fn dispatch_from(&self, peer: Peer, record: &[u8], reply: &mut Writer) -> Done {
        let conn = ConnId(peer.addr.port().into());
        let host = CallFrom { toy: self, conn: (peer.transport == Transport::Tcp).then_some(conn) };
        self.dispatcher.dispatch(record, &peer, 0, &host, reply)
    }

    /// Dispatches a record that arrives in two parts, of which data is taken as soon as the first
    /// is there, over TCP at time 0; and how many bytes were taken.
    pub fn dispatch_parts(&self, record: &[u8], cut: usize, reply: &mut Writer) -> (Done, usize) {
        let (mut first, second) = (record[..cut].to_vec(), &record[cut..]);
        let mut large = LargeArgument::default();
        self.take(&mut first, second.len(), &mut large);
        first.extend_from_slice(second);
        let taken = large.taken();
        (self.finish(&first, large, reply), taken)
    }

    /// Takes data from what has arrived of a record.
    pub fn take(&self, so_far: &mut Vec<u8>, missing: usize, large: &mut LargeArgument) {
        let partial = PartialRecord { so_far, piped: None, missing };
        let (peer, before) = (peer(Transport::Tcp, 700), large.taken());
        let taken = self.dispatcher.take_data(partial, &peer, self, large);
        assert_eq!(taken.len(), large.taken() - before);
        so_far.drain(taken);
    }

    /// Answers what is left of a record.
    pub fn finish(&self, record: &[u8], large: LargeArgument, reply: &mut Writer) -> Done {
        let peer = peer(Transport::Tcp, 700);
        match large.is_empty() {
            true => self.dispatch(record, reply),
            false => self.dispatcher.finish(record, large, &peer, self, reply),
        }
    }

    /// How often a call said that it may sleep.
    pub fn slept(&self) -> usize {
        self.slept.load(Ordering::SeqCst)
    }

    /// How often a procedure that counts ran.
    pub fn count(&self) -> u32 {
        self.state.count.load(Ordering::SeqCst)
    }
}

/// A client at 10.0.0.2.
pub fn peer(transport: Transport, port: u16) -> Peer {
    Peer {
        addr: ([10, 0, 0, 2], port).into(),
        local: ([10, 0, 0, 1], 2049).into(),
        transport,
        security: bowline_rpc::TransportSecurity::PLAIN,
    }
}
