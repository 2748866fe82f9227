//! The metrics of a running server: what they are called and what they count.
//!
//! Labels are bounded: procedures, statuses that a protocol has, exports, pools, programs. Clients have no label, as
//! there is no limit on them; `bowline clients` and `bowline top` list them.

use super::parts::ServerParts;
use super::refusals::Refusals;
use super::{process_info, statistics};
use admin::api::BlockedExport;
use admin::{Exposition, Format, HttpCounts, Kind};
use state::Phase;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use svc::Server;
use telemetry::{Buckets, Counter, OpRow, Snapshot};

/// Upper bounds of the histogram's buckets, as powers of two of nanoseconds: 8 µs to 34 s, four times as long each.
/// They are bounds of buckets of the server's own histogram as well, so that nothing is estimated.
const BOUNDS: [u32; 12] = [13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35];

/// What metrics are made of.
pub struct Sources<'c> {
    /// The parts of the server.
    pub parts: &'c ServerParts,
    /// The calls that were refused.
    pub refusals: &'c Refusals,
    /// The counters.
    pub snapshot: &'c Snapshot,
    /// Clients that have called over UDP.
    pub udp_clients: usize,
    /// Exports with blocked calls.
    pub blocked: &'c [BlockedExport],
    /// Time since the server began to serve.
    pub uptime: Duration,
    /// When the TLS certificate ends, in seconds since 1970; `None` without one.
    pub certificate_end: Option<i64>,
    /// Connections to the web page; `None` without one.
    pub web: Option<&'c HttpCounts>,
}

impl Sources<'_> {
    /// Asks the server; a default once it has been stopped.
    fn server<T: Default>(&self, ask: impl FnOnce(&Server) -> T) -> T {
        self.parts.with_server(ask).unwrap_or_default()
    }
}

/// The text of all metrics.
pub fn text(sources: &Sources<'_>, format: Format) -> String {
    let snapshot = sources.snapshot;
    let mut out = Exposition::new(format);
    process(&mut out, sources.uptime);
    if let Some(end) = sources.certificate_end {
        let name = "tls_certificate_end_seconds";
        out.family(name, Kind::Gauge, "When the TLS certificate ends, in seconds since 1970.");
        out.gauge(name, &[], end as f64);
    }
    procedures(&mut out, snapshot);
    exports(&mut out, sources);
    blocked(&mut out, sources.blocked);
    pools(&mut out, sources);
    network(&mut out, sources);
    sources.web.iter().for_each(|counts| web_page(&mut out, counts));
    locks(&mut out, sources.parts);
    delegations(&mut out, sources.parts);
    unlinked_files(&mut out, sources.parts);
    copies(&mut out, sources.parts);
    kept_attributes(&mut out, sources.parts);
    kerberos(&mut out, sources.parts);
    out.family("audit_lost", Kind::Counter, "Records of the setting audit that were not written.");
    out.counter("audit_lost", &[], sources.parts.audit.lost());
    events(&mut out, snapshot);
    out.finish()
}

fn process(out: &mut Exposition, uptime: Duration) {
    let seen = process_info::read();
    out.family("build_info", Kind::Gauge, "The version of the server; always 1.");
    out.gauge("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    let mut one = |name, help, value: f64| {
        out.family(name, Kind::Gauge, help);
        out.gauge(name, &[], value);
    };
    one("uptime_seconds", "Time since the server began to serve.", uptime.as_secs_f64());
    one("resident_memory_bytes", "Resident memory of the process.", number(seen.memory_bytes));
    one(
        "memory_limit_bytes",
        "The memory limit: of the control group, or the machine's memory.",
        number(sys::limits::memory_bytes_max()),
    );
    one("threads", "Threads of the process.", number(seen.threads));
    one("open_files", "Open descriptors of the process.", number(seen.open_files));
    one("open_files_limit", "The limit of open descriptors.", number(seen.open_files_max));
    out.family("cpu_seconds", Kind::Counter, "Processor time of the process, user and system.");
    out.counter("cpu_seconds", &[], seen.cpu_ms as f64 / 1000.0);
}

/// Nothing while no export names Kerberos.
fn kerberos(out: &mut Exposition, parts: &ServerParts) {
    let Some(counts) = parts.kerberos.counts() else { return };
    out.family("gss_contexts", Kind::Gauge, "Kerberos contexts that clients have.");
    out.gauge("gss_contexts", &[], number(counts.contexts));
    let mut one = |name, help, count| {
        out.family(name, Kind::Counter, help);
        out.counter(name, &[], count);
    };
    one("gss_established", "Kerberos contexts established.", counts.established);
    one("gss_refused", "Tokens of clients that were refused.", counts.refused);
    one("gss_dropped", "Tokens for which the queue had no place.", counts.dropped);
    one("gss_evicted", "Contexts that made room for others.", counts.evicted);
    one("gss_expired", "Contexts that were used after their end.", counts.expired);
    one("gss_wrong_checksums", "Messages whose checksum was wrong.", counts.wrong_checksums);
    one("gss_replays", "Messages that were sent twice or too late.", counts.replays);
    one(
        "gss_unknown_contexts",
        "Messages of contexts that are not here, as after a restart.",
        counts.unknown_contexts,
    );
}

fn procedures(out: &mut Exposition, snapshot: &Snapshot) {
    let called: Vec<(&OpRow, String)> = snapshot
        .ops
        .iter()
        .filter(|op| op.calls > 0 || op.nested > 0)
        .map(|op| (op, op.version.to_string()))
        .collect();
    let mut each = |name: &str, help: &str, value: fn(&OpRow) -> u64| {
        out.family(name, Kind::Counter, help);
        for (op, version) in &called {
            out.counter(name, &labels(op, version), value(op));
        }
    };
    each("calls", "Calls answered.", |op| op.calls);
    each("call_received_bytes", "Bytes of the calls' records.", |op| op.bytes_in);
    each("call_sent_bytes", "Bytes of the replies.", |op| op.bytes_out);
    each(
        "nested_operations",
        "Operations run inside of calls that are counted as another (COMPOUND).",
        |op| op.nested,
    );
    each("nested_operation_errors", "Of these, those that ended with an error.", |op| {
        op.nested_failed
    });
    let name = "call_errors";
    out.family(
        name,
        Kind::Counter,
        "Calls answered with a status other than success, by the protocol's status.",
    );
    for (op, version) in &called {
        let [program, version, procedure] = labels(op, version);
        let mut count = |status: &str, count| {
            out.counter(name, &[program, version, procedure, ("status", status)], count);
        };
        for error in &op.errors {
            count(&statistics::status_name(&op.program, error.status), error.count);
        }
        if op.other_errors > 0 {
            count("other", op.other_errors);
        }
    }
    let name = "call_duration_seconds";
    out.family(name, Kind::Histogram, "Time from the start of a call's execution to its reply.");
    for (op, version) in &called {
        let sum = seconds(op.buckets.total_ns);
        out.histogram(name, &labels(op, version), &cumulative(&op.buckets), (op.calls, sum));
    }
}

fn labels<'l>(op: &'l OpRow, version: &'l str) -> [(&'l str, &'l str); 3] {
    [("program", &op.program), ("version", version), ("procedure", &op.procedure)]
}

/// How many calls were at most as long as each of the [`BOUNDS`].
fn cumulative(buckets: &Buckets) -> Vec<(f64, u64)> {
    let below = |bound_ns: u64| {
        let within = buckets.counts.iter().filter(|(n, _)| telemetry::upper_ns(*n) <= bound_ns);
        within.map(|(_, count)| count).sum()
    };
    BOUNDS.iter().map(|bits| (seconds(1 << bits), below(1 << bits))).collect()
}

/// An export's numbers.
#[derive(Default)]
struct ExportNumbers {
    path: String,
    calls: u64,
    errors: u64,
    io_errors: u64,
    read: u64,
    written: u64,
    refused: u64,
    total_ns: u64,
}

fn exports(out: &mut Exposition, sources: &Sources<'_>) {
    let table = sources.parts.exports.load();
    let used: std::collections::HashMap<u16, _> =
        sources.snapshot.exports.iter().map(|row| (row.index, row)).collect();
    let row = |export: &std::sync::Arc<export::Export>| {
        let used = used.get(&export.index);
        ExportNumbers {
            path: export.path_text(),
            calls: used.map_or(0, |row| row.calls),
            errors: used.map_or(0, |row| row.failed),
            io_errors: used.map_or(0, |row| row.io_errors),
            read: used.map_or(0, |row| row.bytes_read),
            written: used.map_or(0, |row| row.bytes_written),
            refused: sources.refusals.of_export(export.index).map_or(0, |refused| refused.count),
            total_ns: used.map_or(0, |row| row.buckets.total_ns),
        }
    };
    let rows: Vec<ExportNumbers> = table.exports().iter().map(row).collect();
    out.family("exports", Kind::Gauge, "Directories that are served.");
    out.gauge("exports", &[], rows.len());
    let mut each = |name: &str, help: &str, value: fn(&ExportNumbers) -> f64| {
        out.family(name, Kind::Counter, help);
        for row in &rows {
            out.counter(name, &[("export", &row.path)], value(row));
        }
    };
    each("export_calls", "Calls for the export.", |row| number(row.calls));
    each("export_errors", "Calls for the export that were answered with an error.", |row| {
        number(row.errors)
    });
    each(
        "export_io_errors",
        "Calls for the export that failed because its disk or file system did.",
        |row| number(row.io_errors),
    );
    each("export_read_bytes", "Data read from the export.", |row| number(row.read));
    each("export_written_bytes", "Data written to the export.", |row| number(row.written));
    each(
        "export_refused_calls",
        "Calls refused because of the client, its port or its flavour.",
        |row| number(row.refused),
    );
    each("export_call_seconds", "Time that the export's calls took, together.", |row| {
        seconds(row.total_ns)
    });
}

fn blocked(out: &mut Exposition, rows: &[BlockedExport]) {
    let mut each = |name: &str, help: &str, value: fn(&BlockedExport) -> f64| {
        out.family(name, Kind::Gauge, help);
        for row in rows {
            out.gauge(name, &[("export", &row.path)], value(row));
        }
    };
    each("export_blocked_calls", "Calls that sleep in the export's file system now.", |row| {
        number(row.calls)
    });
    each(
        "export_waiting_calls",
        "Calls that wait because the export's share of the threads is used up.",
        |row| number(row.waiting),
    );
    each(
        "export_oldest_blocked_seconds",
        "For how long the oldest of these calls has slept.",
        |row| row.oldest_ms as f64 / 1000.0,
    );
}

fn pools(out: &mut Exposition, sources: &Sources<'_>) {
    let pools = sources.server(Server::pools);
    let names: Vec<String> = pools.iter().map(|pool| pool.index.to_string()).collect();
    let rows = || pools.iter().zip(&names);
    let mut gauge = |name: &str, help: &str, value: fn(&svc::PoolInfo) -> usize| {
        out.family(name, Kind::Gauge, help);
        for (pool, label) in rows() {
            out.gauge(name, &[("pool", label)], value(pool));
        }
    };
    gauge("pool_threads", "Threads of the pool.", |pool| pool.threads);
    gauge("pool_idle_threads", "Idle threads of the pool.", |pool| pool.parked);
    gauge("pool_threads_limit", "Most threads of the pool.", |pool| pool.threads_max);
    gauge("pool_connections", "Connections of the pool.", |pool| pool.connections);
    gauge("pool_queued", "Connections and datagrams that wait for a thread.", |pool| pool.queued);
    let mut counter = |name: &str, help: &str, value: fn(&svc::PoolInfo) -> u64| {
        out.family(name, Kind::Counter, help);
        for (pool, label) in rows() {
            out.counter(name, &[("pool", label)], value(pool));
        }
    };
    counter("pool_calls", "Calls answered by the pool.", |pool| pool.calls);
    counter(
        "pool_exhausted",
        "Times that a thread was needed and none could be started.",
        |pool| pool.exhausted.saturating_add(pool.promotions_failed),
    );
}

fn network(out: &mut Exposition, sources: &Sources<'_>) {
    let drops = sources.server(Server::sockets).iter().map(|socket| socket.drops).sum();
    let memory = statistics::tcp_memory(sources.parts.with_server(Server::buffer_totals));
    let outbound = sources.parts.outbound.info();
    let mut gauge = |name, help, value: u64| {
        out.family(name, Kind::Gauge, help);
        out.gauge(name, &[], value);
    };
    gauge("connections", "Open connections.", sources.server(Server::connections) as u64);
    gauge(
        "udp_clients",
        "Clients that have called over UDP; each thread remembers the last 256.",
        sources.udp_clients as u64,
    );
    gauge(
        "tcp_memory_promised_bytes",
        "What socket buffers with a configured size hold if all are full.",
        memory.promised_bytes,
    );
    gauge(
        "tcp_memory_machine_bytes",
        "What all TCP sockets of the machine hold.",
        memory.machine_bytes,
    );
    gauge(
        "tcp_memory_pressure_bytes",
        "Above this the kernel slows down all connections; 0 if unknown.",
        memory.machine_bytes_pressure,
    );
    gauge(
        "outbound_waiting_calls",
        "Calls to clients' machines that wait for their turn.",
        outbound.waiting as u64,
    );
    gauge(
        "outbound_unanswering_hosts",
        "Clients' machines that did not answer the last call.",
        outbound.unanswering_hosts as u64,
    );
    let mut counter = |name, help, value: u64| {
        out.family(name, Kind::Counter, help);
        out.counter(name, &[], value);
    };
    counter(
        "datagrams_overflowed",
        "Datagrams dropped by the kernel because a socket's buffer was full.",
        drops,
    );
    counter(
        "outbound_calls",
        "Calls to clients' machines: lock callbacks and notifications.",
        outbound.counters.calls,
    );
    counter(
        "outbound_failed_calls",
        "Of these, those without an answer.",
        outbound.counters.failed,
    );
}

/// The page and the metrics themselves, over HTTP.
fn web_page(out: &mut Exposition, counts: &HttpCounts) {
    let name = "web_connections";
    out.family(name, Kind::Counter, "Connections to the web page and the metrics.");
    out.counter(name, &[("security", "none")], counts.plain.load(Relaxed));
    out.counter(name, &[("security", "tls")], counts.encrypted.load(Relaxed));
    let mut one = |name, help, count: u64| {
        out.family(name, Kind::Counter, help);
        out.counter(name, &[], count);
    };
    one(
        "web_failed_handshakes",
        "Connections to the web page whose TLS handshake failed or took too long.",
        counts.failed_handshakes.load(Relaxed),
    );
    one(
        "web_refused_connections",
        "Connections to the web page that were closed because there were too many.",
        counts.refused.load(Relaxed),
    );
    one(
        "web_refused_changes",
        "Requests to change a setting on the web page with a wrong token, or unencrypted from elsewhere.",
        counts.refused_changes.load(Relaxed),
    );
}

fn delegations(out: &mut Exposition, parts: &ServerParts) {
    let counts = parts.nfs.delegation_counts();
    for (name, help, value) in [
        ("delegations", "Files and directories that clients may take for unchanged.", counts.held),
        ("delegations_writing", "Of these, those that the client may write.", counts.writing),
        ("delegations_directories", "Of these, those of directories.", counts.directories),
        ("delegations_recalled", "Of these, those that are being recalled.", counts.recalled),
    ] {
        out.family(name, Kind::Gauge, help);
        out.gauge(name, &[], value);
    }
    for (name, help, value) in [
        ("delegations_granted", "Delegations given to clients.", counts.granted),
        ("delegation_recalls", "Recalls sent to clients, with those sent again.", counts.recalls),
        (
            "delegation_queries",
            "Times that the holder of a write delegation was asked for the attributes of its file.",
            counts.asked,
        ),
        ("delegation_queries_answered", "Of these, those answered in time.", counts.answered),
        ("delegations_returned", "Delegations that clients returned.", counts.returned),
        ("delegations_revoked", "Delegations taken, as they were not returned.", counts.revoked),
    ] {
        out.family(name, Kind::Counter, help);
        out.counter(name, &[], value);
    }
    let name = "delegation_return_seconds";
    out.family(name, Kind::Histogram, "From the recall of a delegation to its return.");
    let mut below = 0;
    let buckets = nfs::RETURN_BOUNDS_MS.iter().zip(counts.return_times).map(|(bound, count)| {
        below += count;
        (*bound as f64 / 1000.0, below)
    });
    let buckets: Vec<_> = buckets.collect();
    out.histogram(name, &[], &buckets, (counts.recalled_returns, counts.return_ms as f64 / 1000.0));
}

/// Copies that go on after their COPY was answered.
fn copies(out: &mut Exposition, parts: &ServerParts) {
    let counts = parts.nfs.v4.copies.counts();
    let name = "async_copies_under_way";
    out.family(name, Kind::Gauge, "Copies that were answered and are under way.");
    out.gauge(name, &[], counts.under_way);
    for (name, help, value) in [
        ("async_copies_begun", "Copies that went on after they were answered.", counts.begun),
        ("async_copies_done", "Of these, those that ended with success.", counts.done),
        ("async_copies_failed", "Of these, those that ended with an error.", counts.failed),
        (
            "async_copies_cancelled",
            "Of these, those that ended by or with the client.",
            counts.cancelled,
        ),
        ("async_copies_refused", "Copies for which there was no room to go on.", counts.refused),
        ("async_copied_bytes", "Bytes that these have copied.", counts.bytes),
    ] {
        out.family(name, Kind::Counter, help);
        out.counter(name, &[], value);
    }
}

fn unlinked_files(out: &mut Exposition, parts: &ServerParts) {
    let counts = parts.open_files.unlinked_counts();
    let name = "unlinked_files";
    let help = "Open files in .bowline-open, without another name (preserve-unlinked).";
    out.family(name, Kind::Gauge, help);
    out.gauge(name, &[], counts.held);
    for (name, help, value) in [
        ("unlinked_files_added", "Times that an open file was linked there.", counts.added),
        (
            "unlinked_files_failed",
            "Times that it could not be: the file lasts as long as the server.",
            counts.failed,
        ),
    ] {
        out.family(name, Kind::Counter, help);
        out.counter(name, &[], value);
    }
}

fn kept_attributes(out: &mut Exposition, parts: &ServerParts) {
    let counts = parts.open_files.attr_cache_counts();
    for (name, help, value) in [
        (
            "attr_cache_hits",
            "Attributes answered from those read before (attr-cache).",
            counts.hits,
        ),
        (
            "attr_cache_misses",
            "Attributes that were read although the export allows older ones (attr-cache).",
            counts.misses,
        ),
        (
            "attr_cache_listings",
            "Listings of directories whose names were kept (attr-cache).",
            counts.listings,
        ),
    ] {
        out.family(name, Kind::Counter, help);
        out.counter(name, &[], value);
    }
}

fn locks(out: &mut Exposition, parts: &ServerParts) {
    let totals = parts.nfs.state.totals();
    let mut gauge = |name, help, value: usize| {
        out.family(name, Kind::Gauge, help);
        out.gauge(name, &[], value);
    };
    gauge("locked_files", "Files with locks, requests for locks, or shares.", totals.files);
    gauge("lock_clients", "Clients of the lock manager.", totals.hosts);
    gauge("locks", "Ranges that are locked.", totals.ranges);
    gauge("lock_requests_waiting", "Requests that wait for a lock of another.", totals.waiters);
    gauge(
        "grace_period",
        "1 while locks from before the restart may be reclaimed, and new ones wait.",
        usize::from(totals.grace != Phase::Over),
    );
    let settings = &parts.nfs.settings;
    gauge("read_limit_bytes", "Most data of one READ.", settings.max_read.load(Relaxed) as usize);
    gauge(
        "write_limit_bytes",
        "Most data of one WRITE.",
        settings.max_write.load(Relaxed) as usize,
    );
}

/// The plain counters, each under its own name.
fn events(out: &mut Exposition, snapshot: &Snapshot) {
    for (name, about) in Counter::ABOUT {
        let value = snapshot.counters.get(*name).copied().unwrap_or(0);
        // a name that ends with `bytes` is a unit and comes last
        let name = match name.split_once('-') {
            Some(("bytes", rest)) => format!("{}_bytes", rest.replace('-', "_")),
            _ => name.replace('-', "_"),
        };
        let name = if name == "connections" { "connections_accepted".to_owned() } else { name };
        out.family(&name, Kind::Counter, about.trim());
        out.counter(&name, &[], value);
    }
}

#[expect(clippy::cast_precision_loss, reason = "the format's numbers are of this type")]
const fn number(value: u64) -> f64 {
    value as f64
}

#[expect(clippy::cast_precision_loss, reason = "the format's numbers are of this type")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::{BOUNDS, cumulative};
    use telemetry::{Buckets, bucket_of, upper_ns};

    #[test]
    fn metric_bounds_match_histogram_buckets() {
        for bits in BOUNDS {
            let bound = 1_u64 << bits;
            assert_eq!(upper_ns(bucket_of(bound - 1)), bound);
        }
    }

    #[test]
    fn calls_are_counted_in_each_bucket_that_is_long_enough() {
        let counts =
            vec![(bucket_of(8_000), 3), (bucket_of(8_500), 2), (bucket_of(60_000_000_000), 1)];
        let rows = cumulative(&Buckets { total_ns: 0, counts });
        assert_eq!((rows[0].1, rows[1].1, rows[11].1), (3, 5, 5));
        assert!((rows[0].0 - 8.192e-6).abs() < 1e-12);
    }
}
