//! What happened between two samples of a server's counters: rates and latencies.
//!
//! Counters of what came or went in between begin at 0, and none runs backwards, even if the server was restarted.

mod watched_conns;

pub use watched_conns::ConnActivity;

use crate::Control;
use crate::api::{
    ClientRow, ConnRow, ExportSample, Histogram, OpSample, PoolRow, Sample, SleepingCallRow,
};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

/// The figures of one interval.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Rates {
    /// Its length.
    pub interval_s: f64,
    /// The whole server.
    pub total: Row,
    /// One line about the server, and its warnings.
    pub server: Server,
    /// By client.
    pub clients: Vec<Row>,
    /// By export.
    pub exports: Vec<Row>,
    /// By procedure.
    pub operations: Vec<Row>,
    /// By connection.
    pub connections: Vec<Row>,
    /// By pool.
    pub pools: Vec<Row>,
    /// Calls that sleep in a file system or did a moment ago, the longest first; [`SlowCalls`] has those of the last seconds.
    pub calls: Vec<Row>,
}

/// The server's state at the end of the interval.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Server {
    /// Its version.
    pub version: String,
    /// Seconds since its start.
    pub uptime_s: u64,
    /// Open connections.
    pub connections: u64,
    /// Threads that process calls.
    pub worker_threads: u64,
    /// Resident memory.
    pub memory_bytes: u64,
    /// What calls wait for now.
    pub waits: Waits,
    /// What is wrong: exports whose file system does not answer, then the warnings of `bowline status`.
    pub problems: Vec<String>,
}

/// What calls and connections wait for at the end of the interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Calls that sleep in a file system.
    pub disk_calls: u64,
    /// The longest of these sleeps.
    pub disk_oldest_ms: u64,
    /// Calls that wait because too many sleep in their export already.
    pub share_calls: u64,
    /// Connections and datagrams that wait for a thread.
    pub threads: u64,
    /// Connections with replies that the network or the client does not take yet.
    pub network_connections: u64,
    /// Requests of clients that wait for a lock of another.
    pub lock_requests: u64,
}

impl Waits {
    fn of(sample: &Sample) -> Self {
        let blocked = &sample.status.blocked_exports;
        Self {
            disk_calls: blocked.iter().map(|export| export.calls).sum(),
            disk_oldest_ms: blocked.iter().map(|export| export.oldest_ms).max().unwrap_or(0),
            share_calls: blocked.iter().map(|export| export.waiting).sum(),
            threads: sample.pools.iter().map(|pool| pool.queued).sum(),
            network_connections: sample.activity.iter().filter(|conn| conn.unsent_bytes > 0).count()
                as u64,
            lock_requests: sample.lock_requests_waiting,
        }
    }
}

/// What one client, export, procedure, connection or pool did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Calls per second.
    pub calls_per_s: f64,
    /// Calls per second that ended with an error; none where it is not counted.
    pub errors_per_s: Option<f64>,
    /// Bytes per second to the server: of calls, or of data written to an export.
    pub in_bytes_per_s: f64,
    /// Bytes per second from the server: of replies, or of data read from an export.
    pub out_bytes_per_s: f64,
    /// Half of the calls were faster; none without calls, or where it is not measured.
    pub p50_ns: Option<u64>,
    /// 99 of 100 calls were faster.
    pub p99_ns: Option<u64>,
    /// What else is to be known: what limits it, what it has mounted.
    pub note: String,
}

/// From this age on, a blocked export is a problem.
const BLOCKED_MS: u64 = 2000;

impl Rates {
    /// The figures of the time between two samples.
    pub fn between(before: &Sample, after: &Sample) -> Self {
        Self::busiest(before, after, usize::MAX).0
    }

    /// The figures of the time between two samples, of each kind so many rows, the busiest; and how many were left out.
    pub fn busiest(before: &Sample, after: &Sample, rows: usize) -> (Self, HiddenRows) {
        // another server, or the same one started again
        let none = Sample::default();
        let before = if before.status.pid == after.status.pid { before } else { &none };
        let interval_s = after.at_ms.saturating_sub(before.at_ms).max(1) as f64 / 1000.0;
        let per = PerSecond(interval_s);
        let rates = Self {
            interval_s,
            total: total(before, after, per),
            server: server(after),
            clients: clients(before, after, per, rows),
            exports: exports(before, after, per, rows),
            operations: operations(before, after, per, rows),
            connections: connections(before, after, per, rows),
            pools: pools(before, after, per),
            calls: after.sleeping.iter().take(rows).map(|call| sleeping(call, 0)).collect(),
        };
        // connections that were not watched have no row
        let watched = if after.conns.is_empty() { 0 } else { after.activity.len() };
        let hidden = HiddenRows {
            clients: after.clients.len() - rates.clients.len(),
            exports: after.exports.len() - rates.exports.len(),
            operations: after.ops.len() - rates.operations.len(),
            connections: watched.saturating_sub(rates.connections.len()),
            calls: after.sleeping.len() - rates.calls.len(),
        };
        (rates, hidden)
    }
}

/// Rows that were left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenRows {
    /// Of clients.
    pub clients: usize,
    /// Of exports.
    pub exports: usize,
    /// Of procedures.
    pub operations: usize,
    /// Of connections.
    pub connections: usize,
    /// Of calls.
    pub calls: usize,
}

/// Differences of counters per second.
#[derive(Clone, Copy)]
struct PerSecond(f64);

impl PerSecond {
    fn of(self, before: u64, after: u64) -> f64 {
        after.saturating_sub(before) as f64 / self.0
    }
}

fn server(after: &Sample) -> Server {
    let status = &after.status;
    let hung = status.blocked_exports.iter().filter(|export| export.oldest_ms >= BLOCKED_MS);
    let hung = hung.map(|export| {
        let age = crate::duration_s(export.oldest_ms / 1000);
        let mut calls = after.sleeping.iter().filter(|call| !call.ended);
        let oldest = calls.find(|call| call.export == export.path);
        let client = oldest.and_then(|call| call.client.as_deref());
        let client = client.map_or_else(String::new, |client| format!(" of {client}"));
        let what = oldest.and_then(|call| call.system_call.as_deref());
        let what = what.map_or_else(String::new, |what| format!(", in {what}"));
        format!("{} does not answer: {}{client} for {age}{what}", export.path, export.oldest_call)
    });
    Server {
        version: status.version.clone(),
        uptime_s: status.uptime_s,
        connections: status.connections,
        worker_threads: status.worker_threads,
        memory_bytes: status.memory_bytes,
        waits: Waits::of(after),
        problems: hung.chain(status.warnings.iter().cloned()).collect(),
    }
}

fn total(before: &Sample, after: &Sample, per: PerSecond) -> Row {
    let mut calls = Calls::default();
    let known: HashMap<_, _> = before.ops.iter().map(|op| (op_key(op), op)).collect();
    for op in &after.ops {
        calls.add(&op.latency, known.get(&op_key(op)).map(|op| &op.latency));
    }
    let (old, new) = (&before.status, &after.status);
    Row {
        name: "all".to_owned(),
        calls_per_s: per.of(old.calls, new.calls),
        errors_per_s: Some(per.of(old.errors, new.errors)),
        in_bytes_per_s: per.of(old.bytes_in, new.bytes_in),
        out_bytes_per_s: per.of(old.bytes_out, new.bytes_out),
        p50_ns: calls.quantile(500),
        p99_ns: calls.quantile(990),
        note: String::new(),
    }
}

fn op_key(op: &OpSample) -> (String, u32, String) {
    (op.program.clone(), op.version, op.procedure.clone())
}

fn operations(before: &Sample, after: &Sample, per: PerSecond, rows: usize) -> Vec<Row> {
    let known: HashMap<_, _> = before.ops.iter().map(|op| (op_key(op), op)).collect();
    let old = |op: &OpSample| known.get(&op_key(op)).copied();
    let row = |op: &OpSample| {
        let old = old(op);
        let was = |of: fn(&OpSample) -> u64| old.map_or(0, of);
        let mut calls = Calls::default();
        calls.add(&op.latency, old.map(|op| &op.latency));
        Row {
            name: format!("{} v{} {}", op.program, op.version, op.procedure),
            calls_per_s: per.of(was(|op| op.calls), op.calls),
            errors_per_s: Some(per.of(was(|op| op.errors), op.errors)),
            in_bytes_per_s: per.of(was(|op| op.bytes_in), op.bytes_in),
            out_bytes_per_s: per.of(was(|op| op.bytes_out), op.bytes_out),
            p50_ns: calls.quantile(500),
            p99_ns: calls.quantile(990),
            note: format!("{} in all", crate::count(op.calls)),
        }
    };
    let calls_per_s = |op: &OpSample| per.of(old(op).map_or(0, |old| old.calls), op.calls);
    let by_name = |one: &OpSample, other: &OpSample| op_key(one).cmp(&op_key(other));
    busiest(&after.ops, rows, calls_per_s, by_name).into_iter().map(row).collect()
}

fn exports(before: &Sample, after: &Sample, per: PerSecond, rows: usize) -> Vec<Row> {
    let known: HashMap<_, _> = before.exports.iter().map(|e| (e.path.as_str(), e)).collect();
    let old = |export: &ExportSample| known.get(export.path.as_str()).copied();
    let row = |export: &ExportSample| {
        let old = old(export);
        let was = |of: fn(&ExportSample) -> u64| old.map_or(0, of);
        let mut calls = Calls::default();
        calls.add(&export.latency, old.map(|export| &export.latency));
        let hung =
            after.status.blocked_exports.iter().find(|b| b.path == export.path && b.calls > 0);
        let blocked = hung.map(|hung| {
            let age = crate::duration_ns(hung.oldest_ms.saturating_mul(1_000_000));
            let sleep = if hung.calls == 1 { "call sleeps" } else { "calls sleep" };
            format!("{} {sleep} on disk, oldest {} {age}", hung.calls, hung.oldest_call)
        });
        let refused =
            (export.refused > 0).then(|| format!("{} refused", crate::count(export.refused)));
        Row {
            name: export.path.clone(),
            calls_per_s: per.of(was(|e| e.calls), export.calls),
            errors_per_s: Some(per.of(was(|e| e.errors), export.errors)),
            in_bytes_per_s: per.of(was(|e| e.bytes_written), export.bytes_written),
            out_bytes_per_s: per.of(was(|e| e.bytes_read), export.bytes_read),
            p50_ns: calls.quantile(500),
            p99_ns: calls.quantile(990),
            note: blocked.into_iter().chain(refused).collect::<Vec<_>>().join("; "),
        }
    };
    let calls_per_s =
        |export: &ExportSample| per.of(old(export).map_or(0, |e| e.calls), export.calls);
    let by_name = |one: &ExportSample, other: &ExportSample| one.path.cmp(&other.path);
    busiest(&after.exports, rows, calls_per_s, by_name).into_iter().map(row).collect()
}

fn clients(before: &Sample, after: &Sample, per: PerSecond, rows: usize) -> Vec<Row> {
    let known: HashMap<_, _> = before.clients.iter().map(|c| (c.address.as_str(), c)).collect();
    let limits = limits(before, after);
    let old = |client: &ClientRow| known.get(client.address.as_str()).copied();
    let row = |client: &ClientRow| {
        let old = old(client);
        let was = |of: fn(&ClientRow) -> u64| old.map_or(0, of);
        let udp = per.of(was(|c| c.udp_calls), client.udp_calls);
        let conns = match (client.connections, udp > 0.0) {
            (0, true) => "UDP".to_owned(),
            (1, false) => "1 connection".to_owned(),
            (n, false) => format!("{n} connections"),
            (n, true) => format!("{n} connections and UDP"),
        };
        let mounts = (!client.mounts.is_empty()).then(|| client.mounts.join(" "));
        let refused = client.last_refusal.as_ref().map(|last| format!("refused {last}"));
        Row {
            name: client.address.clone(),
            calls_per_s: per.of(was(|c| c.calls), client.calls),
            in_bytes_per_s: per.of(was(|c| c.bytes_in), client.bytes_in),
            out_bytes_per_s: per.of(was(|c| c.bytes_out), client.bytes_out),
            note: [limits.get(&client.address).cloned(), Some(conns), mounts, refused]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join("; "),
            ..Row::default()
        }
    };
    let calls_per_s = |client: &ClientRow| per.of(old(client).map_or(0, |c| c.calls), client.calls);
    let by_name = |one: &ClientRow, other: &ClientRow| one.address.cmp(&other.address);
    busiest(&after.clients, rows, calls_per_s, by_name).into_iter().map(row).collect()
}

/// What the watched connections had done before, by number.
fn activity_before<'s>(before: &'s Sample, after: &Sample) -> HashMap<u64, &'s ConnActivity> {
    let watched: HashSet<u64> = after.conns.iter().map(|conn| conn.id).collect();
    let known = before.activity.iter().filter(|conn| watched.contains(&conn.id));
    known.map(|conn| (conn.id, conn)).collect()
}

/// Those that were watched.
fn connections(before: &Sample, after: &Sample, per: PerSecond, rows: usize) -> Vec<Row> {
    let known = activity_before(before, after);
    let row = |conn: &ConnRow| {
        let old = known.get(&conn.id).copied();
        let was = |of: fn(&ConnActivity) -> u64| old.map_or(0, of);
        Row {
            name: conn.peer.clone(),
            calls_per_s: per.of(was(|c| c.calls), conn.calls),
            in_bytes_per_s: per.of(was(|c| c.bytes_in), conn.bytes_in),
            out_bytes_per_s: per.of(was(|c| c.bytes_out), conn.bytes_out),
            note: connection_note(conn),
            ..Row::default()
        }
    };
    let calls = |conn: &ConnRow| known.get(&conn.id).map_or(0, |old| old.calls);
    let calls_per_s = |conn: &ConnRow| per.of(calls(conn), conn.calls);
    let by_name = |one: &ConnRow, other: &ConnRow| one.peer.cmp(&other.peer);
    busiest(&after.conns, rows, calls_per_s, by_name).into_iter().map(row).collect()
}

/// What limits the busiest connection of each client, by address; nothing of those that are idle.
fn limits(before: &Sample, after: &Sample) -> HashMap<String, String> {
    let known = activity_before(before, after);
    let mut busiest: HashMap<String, ((bool, u64), &ConnRow)> = HashMap::new();
    let busy = |conn: &&ConnRow| conn.link.as_ref().is_some_and(|link| link.limit != "idle");
    for conn in after.conns.iter().filter(busy) {
        let Ok(peer) = conn.peer.parse::<SocketAddr>() else { continue };
        let old = known.get(&conn.id);
        let old = old.map_or(0, |old| old.bytes_in.saturating_add(old.bytes_out));
        let bytes = conn.bytes_in.saturating_add(conn.bytes_out).saturating_sub(old);
        let rank = (conn.oldest_blocked.is_some(), bytes);
        let place = busiest.entry(peer.ip().to_canonical().to_string()).or_insert((rank, conn));
        if rank > place.0 {
            *place = (rank, conn);
        }
    }
    busiest.into_iter().map(|(client, (_, conn))| (client, connection_note(conn))).collect()
}

/// A limit in words: what a connection waits for.
fn limit_words(limit: &str) -> &str {
    match limit {
        "disk" => "waits for the disk",
        "client" => "the client asks for no more",
        "server" => "the server reads too slowly",
        "receive-window" => "the server's receive window is full",
        "send-buffer" => "the server's send buffer is full",
        "client-window" => "the client takes replies slowly",
        "congestion" => "the network",
        other => other,
    }
}

/// What limits a connection.
fn connection_note(conn: &ConnRow) -> String {
    let limit = conn.link.as_ref().map_or("closed", |link| limit_words(&link.limit));
    let lift = conn.link.as_ref().and_then(|link| link.lift.as_ref());
    let lift = lift.map_or_else(String::new, |lift| format!(": try {lift}"));
    let oldest = conn.oldest_blocked.as_ref().map_or_else(String::new, |blocked| {
        let age = crate::duration_ns(blocked.age_ms.saturating_mul(1_000_000));
        format!(", {} in {} for {age}", blocked.call, blocked.export)
    });
    format!("{limit}{lift}{oldest}")
}

fn pools(before: &Sample, after: &Sample, per: PerSecond) -> Vec<Row> {
    let row = |pool: &PoolRow| {
        let old = before.pools.iter().find(|old| old.pool == pool.pool);
        Row {
            name: format!("pool {}", pool.pool),
            calls_per_s: per.of(old.map_or(0, |old| old.calls), pool.calls),
            note: format!(
                "{} connection{}, {} threads, {} idle, leader {}",
                pool.connections,
                if pool.connections == 1 { "" } else { "s" },
                pool.threads,
                pool.parked,
                pool.leader
            ),
            ..Row::default()
        }
    };
    after.pools.iter().map(row).collect()
}

/// A call that sleeps, or did so long ago.
fn sleeping(call: &SleepingCallRow, ago_ms: u64) -> Row {
    let age = crate::duration_ns(call.age_ms.saturating_mul(1_000_000));
    let client = call.client.as_deref().unwrap_or("somebody");
    let what = match call.system_call.as_deref() {
        Some(what) if what.contains(" of ") => what.to_owned(),
        Some(what) => format!("{what} in {}", call.export),
        None => call.export.clone(),
    };
    let ended = match (call.ended, ago_ms) {
        (false, _) => String::new(),
        (true, ..1000) => ", ended".to_owned(),
        (true, ago_ms) => format!(", {} ago", crate::duration_s(ago_ms / 1000)),
    };
    let note = format!("{age}  {client}  {what}{ended}");
    Row { name: call.call.clone(), note, ..Row::default() }
}

/// The figures since the last time, and how many rows were left out.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Watched {
    /// The figures; without rates the first time.
    pub rates: Rates,
    /// Rows that were left out because others are busier.
    pub hidden: HiddenRows,
}

/// What a reader of several samples has seen so far.
#[derive(Debug, Default)]
pub struct Watcher {
    last: Option<Sample>,
    slow_calls: SlowCalls,
}

impl Watcher {
    /// The figures since the last sample, so many rows of each kind.
    pub fn take(&mut self, sample: Sample, rows: usize) -> Watched {
        let last = self.last.as_ref().unwrap_or(&sample);
        let (mut rates, mut hidden) = Rates::busiest(last, &sample, rows);
        rates.calls = self.slow_calls.take(&sample);
        hidden.calls = rates.calls.len().saturating_sub(rows);
        rates.calls.truncate(rows);
        self.last = Some(sample);
        Watched { rates, hidden }
    }

    /// As [`Watcher::take`], of a sample that it takes now; with `conns` it watches the connections for a quarter of a second,
    /// at most as many as there are rows.
    pub fn look(&mut self, control: &dyn Control, conns: bool, rows: usize) -> Watched {
        let chosen = conns.then(|| {
            let before = self.last.as_ref().map(|last| last.activity.as_slice());
            watched_conns::chosen(before.unwrap_or_default(), &control.conn_activity(), rows)
        });
        self.take(control.sample(chosen.as_ref()), rows)
    }

    /// Milliseconds from the server's start to the last sample; none before there was one.
    pub fn at_ms(&self) -> Option<u64> {
        self.last.as_ref().map(|last| last.at_ms)
    }
}

/// How long a call that has ended is shown.
const SLOW_CALLS_MS: u64 = 10_000;
/// Most calls that are shown.
const SLOW_CALLS_MAX: usize = 50;

/// The slowest calls of the last seconds, over several samples.
#[derive(Debug, Default)]
pub struct SlowCalls {
    /// Each with the time of the sample that had it last.
    seen: Vec<(u64, SleepingCallRow)>,
}

impl SlowCalls {
    /// Adds the calls of a sample; returns all of the last seconds, the slowest first.
    pub fn take(&mut self, sample: &Sample) -> Vec<Row> {
        let same = |a: &SleepingCallRow, b: &SleepingCallRow| {
            (&a.call, &a.export, &a.client, &a.system_call)
                == (&b.call, &b.export, &b.client, &b.system_call)
        };
        // what is not in the sample any more has ended; times run backwards when the server was started again
        self.seen.retain(|(at_ms, _)| {
            sample.at_ms.checked_sub(*at_ms).is_some_and(|ago_ms| ago_ms <= SLOW_CALLS_MS)
        });
        self.seen.iter_mut().for_each(|(_, call)| call.ended = true);
        for call in &sample.sleeping {
            match self.seen.iter_mut().find(|(_, known)| same(known, call)) {
                Some((at_ms, known)) if call.age_ms >= known.age_ms => {
                    (*at_ms, *known) = (sample.at_ms, call.clone());
                }
                Some(_) => {}
                None => self.seen.push((sample.at_ms, call.clone())),
            }
        }
        self.seen.sort_by_key(|(_, call)| std::cmp::Reverse(call.age_ms));
        self.seen.truncate(SLOW_CALLS_MAX);
        let row = |(at_ms, call): &(u64, SleepingCallRow)| sleeping(call, sample.at_ms - at_ms);
        self.seen.iter().map(row).collect()
    }
}

/// So many of the busiest, the busiest first, then by name.
fn busiest<T>(
    all: &[T],
    most: usize,
    calls_per_s: impl Fn(&T) -> f64,
    by_name: impl Fn(&T, &T) -> Ordering,
) -> Vec<&T> {
    let mut all: Vec<(f64, &T)> = all.iter().map(|one| (calls_per_s(one), one)).collect();
    let order = |(a, one): &(f64, &T), (b, other): &(f64, &T)| {
        b.total_cmp(a).then_with(|| by_name(one, other))
    };
    if most > 0 && most < all.len() {
        all.select_nth_unstable_by(most - 1, order);
    }
    all.truncate(most);
    all.sort_by(order);
    all.into_iter().map(|(_, one)| one).collect()
}

/// The calls of an interval by latency.
#[derive(Default)]
struct Calls {
    buckets: Vec<(usize, u64)>,
}

impl Calls {
    /// Adds those that came to a histogram.
    fn add(&mut self, after: &Histogram, before: Option<&Histogram>) {
        let old: HashMap<usize, u64> =
            before.map(|before| before.buckets.iter().copied().collect()).unwrap_or_default();
        for (bucket, count) in &after.buckets {
            let new = count.saturating_sub(old.get(bucket).copied().unwrap_or(0));
            if new > 0 {
                self.buckets.push((*bucket, new));
            }
        }
    }

    /// The middle of the bucket in which `per_mille` of the calls are reached; none without calls.
    fn quantile(&self, per_mille: u64) -> Option<u64> {
        let mut buckets = self.buckets.clone();
        buckets.sort_unstable();
        let all: u64 = buckets.iter().map(|(_, count)| count).sum();
        let wanted = (all * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        buckets.iter().find_map(|(bucket, count)| {
            seen += count;
            (seen >= wanted).then(|| telemetry::middle_ns(*bucket))
        })
    }
}
