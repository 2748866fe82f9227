//! The load generator: simulated clients that call an NFS server and time its answers.
//!
//! The path of a call: `generator/` chooses it → `sim_client` assigns a slot and an xid → `call` encodes it (of version 4
//! with `version4`) → `socket` sends it; the reply returns through `socket` → `sim_client` → `reply` → `counters`.
//! `thread_loop` is the loop of one thread; `file_set` is prepared on the server beforehand, with the calls of `setup`.
//!
//! Running threads share only the file set, which is read-only, and a stop flag.

mod call;
mod counters;
mod error;
mod file_set;
mod generator;
mod op;
mod pattern;
mod plan;
mod recording;
mod reply;
mod report;
mod sec;
mod setup;
mod sim_client;
mod socket;
mod thread_loop;
mod version4;

pub use counters::LiveCounters;
pub use error::LoadError;
pub use file_set::{BENCH_DIR, FileSet};
pub(crate) use generator::Rng;
pub use op::{Op, Version};
pub use plan::{CLIENTS_MAX, DEPTH_MAX, Pace, Plan, Proto, Stable, Workload};
pub(crate) use plan::{FILE_BYTES, FILES};
pub use report::{Fairness, Latency, LoadReport, OpReport, ServerCost, ServerReport};
pub use sec::Sec;

use call::CallTemplate;
use counters::ThreadCounters;
use sec::Protection;
use sim_client::SimClient;
use socket::ClientSocket;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use thread_loop::{Client, LoadShared, ThreadOutcome};
use version4::StateReturn;

/// Whether `piece` is the data of the WRITEs of client number `client`, or the start of it.
pub fn is_write_data(client: usize, piece: &[u8]) -> bool {
    pattern::matches(u32::try_from(client).unwrap_or(0), 0, piece)
}

/// Number of reserved ports left to other programs.
const RESERVED_SPARE: usize = 112;

/// The result of a load.
#[derive(Debug)]
pub struct Run {
    /// The counters.
    pub report: LoadReport,
    /// Why it ended early, if it did.
    pub error: Option<LoadError>,
    /// The clients of version 4; dropped with this, they close what they have open.
    _state_return: StateReturn,
}

/// The user of client number `client`.
fn identity(plan: &Plan, client: usize) -> client::Identity {
    let number = u32::try_from(client).unwrap_or(0);
    let id = if plan.uid == 0 { 0 } else { plan.uid.wrapping_add(number) };
    let mut identity = client::Identity::new(id, id);
    identity.machine = format!("bench-{client}");
    identity
}

/// Connects all clients and distributes them among the threads.
fn connect_all(plan: &Plan, file_set: &Arc<FileSet>) -> Result<Vec<Vec<Client>>, LoadError> {
    let threads = plan.threads.clamp(1, plan.clients);
    let per_thread = plan.clients.div_ceil(threads);
    let protection = Protection::of(plan)?;
    let mut dealt: Vec<Vec<Client>> = Vec::with_capacity(threads);
    for client in 0..plan.clients {
        let index = client.checked_rem(plan.servers.len()).unwrap_or(0);
        let server = *plan.servers.get(index).ok_or_else(|| LoadError::Plan("no server".into()))?;
        let server = match file_set.lock_port.filter(|_| plan.workload == Workload::Lock) {
            Some(port) => (server.ip(), port).into(),
            None => server,
        };
        let (socket, caller) = ClientSocket::open(plan, client, server, &protection)?;
        let identity = identity(plan, client);
        // a protected call gets its record mark when it is protected
        let marked = plan.proto == Proto::Tcp && caller.is_none();
        let template = CallTemplate::new(plan.version, &identity, marked)
            .with_fragments(plan.fragment as usize);
        let state = if plan.version.opens() {
            let failed = |source| LoadError::Io { doing: "a socket's mode", source };
            let refused = |source| LoadError::SetUp { client: client + 1, server, source };
            let over = if plan.sec == Sec::Tls {
                setup::connect_sealed(server, plan)?
            } else {
                let stream = socket.begin_blocking().map_err(failed)?;
                client::Client::over_tcp(stream, plan.timeout).map_err(refused)?
            };
            let state = version4::set_up(plan, file_set, client, server, over, identity)?;
            socket.end_blocking().map_err(failed)?;
            Some(state)
        } else {
            None
        };
        let number = client.checked_rem(per_thread).unwrap_or(0);
        let generator = generator::of(plan, file_set, client);
        let sim = SimClient::new(plan, client, number, server, (template, state), generator)
            .protected_by(caller);
        if number == 0 {
            dealt.push(Vec::with_capacity(per_thread));
        }
        if let Some(hand) = dealt.last_mut() {
            hand.push(Client::new(sim, socket));
        }
    }
    Ok(dealt)
}

/// Whether clients use reserved ports where the plan does not say: as the kernel's client does, if
/// the process may and there are enough of them.
fn with_ports(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    let enough = plan.clients + RESERVED_SPARE <= 512;
    let may = || {
        let first = plan.servers.first().copied();
        first.is_some_and(|server| sys::outgoing::bind_reserved(server).is_ok())
    };
    plan.reserved_ports = Some(plan.reserved_ports.unwrap_or_else(|| enough && may()));
    plan
}

/// Runs the load that `plan` describes, in the calling thread's network namespace. `live` can be read by
/// other threads meanwhile, and `stop` ends it early.
///
/// # Errors
/// Only errors that prevent the start; later ones are in [`Run::error`], with the counters so far.
pub fn run(
    plan: &Plan,
    file_set: &Arc<FileSet>,
    live: &LiveCounters,
    stop: &AtomicBool,
) -> Result<Run, LoadError> {
    run_from(plan, file_set, live, stop, || {})
}

/// As [`run`]; `counted_from_here` is called once, at the end of the warm-up, while the load goes on.
///
/// # Errors
/// As [`run`].
pub fn run_from(
    plan: &Plan,
    file_set: &Arc<FileSet>,
    live: &LiveCounters,
    stop: &AtomicBool,
    counted_from_here: impl FnOnce(),
) -> Result<Run, LoadError> {
    plan.check().map_err(LoadError::Plan)?;
    sys::limits::raise_open_files();
    let plan = with_ports(plan);
    let hands = connect_all(&plan, file_set)?;
    let broken = AtomicBool::new(false);
    let shared = LoadShared { plan: &plan, live, stop, broken: &broken, start: Instant::now() };
    let outcomes: Vec<ThreadOutcome> = std::thread::scope(|scope| {
        let shared = &shared;
        let threads: Vec<_> = hands
            .into_iter()
            .enumerate()
            .map(|(thread, clients)| {
                scope.spawn(move || thread_loop::thread_loop(shared, thread, clients))
            })
            .collect();
        std::thread::sleep(plan.warmup);
        counted_from_here();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let mut counters = ThreadCounters::new(0);
    let (mut error, mut state_return) = (None, StateReturn::of(&plan));
    let mut counted = std::time::Duration::ZERO;
    for one in outcomes {
        counters.add(one.counters);
        error = error.or(one.error);
        counted = counted.max(one.counted);
        one.clients.into_iter().for_each(|client| client.return_state(&mut state_return));
    }
    let report = report::report(&plan, &counters, counted, error.as_ref());
    Ok(Run { report, error, _state_return: state_return })
}
