//! Converts statistics of telemetry and svc to the rows of the control socket.

use super::v4_rows::V4Counts;
use admin::api::{
    BlockedExport, ClientRow, Counter, DelayRow, ExportSample, Histogram, OpRow, OpSample,
    OutboundStatus, PoolRow, SocketRow, TcpMemory, UnansweringHost,
};
use nfs::mount::MountEntry;
use proto::mount::MountError;
use proto::nfs3::Nfsstat3;
use rpc::Transport;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use svc::{BufferTotals, ClientInfo, Leader, PoolInfo, Server, SocketInfo, SocketKind};
use telemetry::{DatagramTotals, OpName, Snapshot};

/// Procedures that have been called, the most frequent first.
pub fn ops(snapshot: &Snapshot) -> Vec<OpRow> {
    let called = snapshot.ops.iter().filter(|op| op.calls > 0 || op.nested > 0);
    let mut rows: Vec<OpRow> = called.map(op_row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.calls, row.inside)));
    rows
}

fn op_row(op: &telemetry::OpRow) -> OpRow {
    let errors = op
        .errors
        .iter()
        .map(|error| Counter { name: status_name(&op.program, error.status), value: error.count });
    OpRow {
        program: op.program.clone(),
        version: op.version,
        procedure: op.procedure.clone(),
        calls: op.calls,
        errors: errors.collect(),
        p50_ns: nanoseconds(op.latency.p50_us),
        p99_ns: nanoseconds(op.latency.p99_us),
        max_ns: nanoseconds(op.latency.max_us),
        bytes_in: op.bytes_in,
        bytes_out: op.bytes_out,
        inside: op.nested,
        inside_failed: op.nested_failed,
        copies: Vec::new(),
    }
}

/// The counters of procedures that have been called.
pub fn op_samples(snapshot: &Snapshot) -> Vec<OpSample> {
    let called = snapshot.ops.iter().filter(|op| op.calls > 0);
    let sample = |op: &telemetry::OpRow| OpSample {
        program: op.program.clone(),
        version: op.version,
        procedure: op.procedure.clone(),
        calls: op.calls,
        errors: op.failed,
        bytes_in: op.bytes_in,
        bytes_out: op.bytes_out,
        latency: histogram(&op.buckets),
    };
    called.map(sample).collect()
}

/// The counters of an export; all zero if it has not been used.
pub fn export_sample(
    path: String,
    used: Option<&telemetry::ExportRow>,
    refused: u64,
) -> ExportSample {
    ExportSample {
        path,
        calls: used.map_or(0, |row| row.calls),
        errors: used.map_or(0, |row| row.failed),
        bytes_read: used.map_or(0, |row| row.bytes_read),
        bytes_written: used.map_or(0, |row| row.bytes_written),
        refused,
        latency: used.map(|row| histogram(&row.buckets)).unwrap_or_default(),
    }
}

fn histogram(buckets: &telemetry::Buckets) -> Histogram {
    Histogram { total_ns: buckets.total_ns, buckets: buckets.counts.clone() }
}

/// Counters that are not zero.
pub fn counters(snapshot: &Snapshot) -> Vec<Counter> {
    let all = snapshot.counters.iter().filter(|(_, value)| **value > 0);
    all.map(|(name, value)| Counter { name: name.clone(), value: *value }).collect()
}

/// One counter by its name; 0 if there is none.
pub fn counter(snapshot: &Snapshot, name: &str) -> u64 {
    snapshot.counters.get(name).copied().unwrap_or(0)
}

/// What clients have proven: the address of each, and who it is.
#[derive(Default)]
pub struct Identities {
    /// Principals that have contexts.
    pub principals: Vec<(IpAddr, String)>,
    /// Names of certificates of connections.
    pub certificates: Vec<(IpAddr, String)>,
    /// Pairs of machines that call themselves the same over version 4.
    pub same_names: Vec<(IpAddr, IpAddr)>,
}

/// Clients that are or were connected or have called over UDP, and those with an entry in the mount list.
/// `refused` has how often each client was refused, and what the last time.
pub fn clients(
    (infos, datagrams): (Vec<ClientInfo>, HashMap<IpAddr, DatagramTotals>),
    mounted: &[MountEntry],
    v4: &[V4Counts],
    refused: Vec<(IpAddr, u64, String)>,
    identities: Identities,
) -> Vec<ClientRow> {
    let mut rows = ClientRows::default();
    rows.add_calls(infos, datagrams);
    for mount in mounted {
        rows.of(mount.client).mounts.push(mount.path.clone());
    }
    for count in v4 {
        let row = rows.of(count.address);
        row.sessions += count.sessions;
        row.opens += count.opens;
        row.courtesy += u64::from(count.courtesy);
        if let Some(callback) = count.callback {
            add_new(&mut row.callback, callback.to_owned());
        }
    }
    for (client, count, last) in refused {
        let row = rows.of(client);
        row.refused = count;
        row.last_refusal = Some(last);
    }
    rows.add_identities(identities);
    rows.0.into_values().collect()
}

/// Rows of clients that are being filled.
#[derive(Default)]
struct ClientRows(BTreeMap<IpAddr, ClientRow>);

impl ClientRows {
    /// The row of a client.
    fn of(&mut self, client: IpAddr) -> &mut ClientRow {
        let empty = || ClientRow { address: client.to_string(), ..ClientRow::default() };
        self.0.entry(client).or_insert_with(empty)
    }

    fn add_calls(&mut self, infos: Vec<ClientInfo>, datagrams: HashMap<IpAddr, DatagramTotals>) {
        for info in infos {
            let row = self.of(info.address.to_canonical());
            row.connections += info.connections;
            row.displaced += info.totals.displaced;
            row.calls += info.totals.calls;
            row.bytes_in += info.totals.bytes_in;
            row.bytes_out += info.totals.bytes_out;
        }
        for (address, totals) in datagrams {
            let row = self.of(address);
            row.calls += totals.calls;
            row.udp_calls += totals.calls;
            row.bytes_in += totals.bytes_in;
            row.bytes_out += totals.bytes_out;
        }
    }

    /// Each principal; certificates and machines of the same name once.
    fn add_identities(&mut self, identities: Identities) {
        for (client, principal) in identities.principals {
            self.of(client).principals.push(principal);
        }
        for (client, certificate) in identities.certificates {
            add_new(&mut self.of(client).certificates, certificate);
        }
        for (one, other) in identities.same_names {
            add_new(&mut self.of(one).same_name, other.to_string());
            add_new(&mut self.of(other).same_name, one.to_string());
        }
    }
}

fn add_new(all: &mut Vec<String>, text: String) {
    if !all.contains(&text) {
        all.push(text);
    }
}

/// Listen addresses and datagram sockets.
pub fn sockets(infos: &[SocketInfo]) -> Vec<SocketRow> {
    let row = |info: &SocketInfo| SocketRow {
        transport: transport(info.transport).to_owned(),
        local: info.local.to_string(),
        adopted: info.inherited,
        interface: info.interface.clone(),
        cpu: info.cpu,
        received: info.received,
        sent: info.sent,
        bytes_in: info.bytes_in,
        bytes_out: info.bytes_out,
        drops: info.drops,
        buffer_in: info.buffer_in as u64,
        buffer_out: info.buffer_out as u64,
        note: info.note.clone(),
    };
    infos.iter().map(row).collect()
}

/// The addresses that the server listens on; `bowline sockets` lists the sockets.
pub fn listening(server: &Server) -> Vec<String> {
    let kind = |of| match of {
        Transport::Tcp => SocketKind::Tcp,
        Transport::Udp => SocketKind::Udp,
    };
    let addrs = server.local_addrs().into_iter();
    addrs.map(|(of, addr)| format!("{} {addr}", transport(kind(of)))).collect()
}

/// `tcp` or `udp`.
pub const fn transport(kind: SocketKind) -> &'static str {
    match kind {
        SocketKind::Tcp => "tcp",
        SocketKind::Udp => "udp",
    }
}

/// Thread pools.
pub fn pools(infos: &[PoolInfo]) -> Vec<PoolRow> {
    let row = |info: &PoolInfo| PoolRow {
        pool: info.index as u64,
        cpus: ranges(&info.cpus),
        threads: info.threads as u64,
        parked: info.parked as u64,
        threads_min: info.threads_min as u64,
        threads_max: info.threads_max as u64,
        connections: info.connections as u64,
        calls: info.calls,
        promotions: info.promotions,
        promotions_failed: info.promotions_failed,
        rescues: info.rescues,
        leader: leader(info.leader).to_owned(),
        wake_policy: info.wake_policy.to_string(),
        blocked: info.blocked as u64,
        reserves: info.reserves as u64,
        queued: info.queued as u64,
        arrived: info.arrived,
        enqueued: info.enqueued,
        waited: info.waited,
        overloads_avoided: info.overloads_avoided,
        woken: info.wakeups,
        timed_out: info.timed_out,
        exhausted: info.exhausted,
        unstuck: info.unstuck,
        queue_delay: delay(&info.queue_delay),
        wake_delay: delay(&info.wake_delay),
    };
    infos.iter().map(row).collect()
}

const fn delay(delay: &svc::Delay) -> DelayRow {
    let svc::Delay { count, mean_ns, p99_ns, max_ns } = *delay;
    DelayRow { count, mean_ns, p99_ns, max_ns }
}

/// What the buffers of all connections hold and may hold.
pub fn tcp_memory(totals: Option<BufferTotals>) -> TcpMemory {
    let pressure = sys::tcp::sysctl_triple("tcp_mem").map_or(0, |[_, pressure, _]| pressure);
    TcpMemory {
        promised_bytes: totals.map_or(0, |totals| totals.promised_bytes),
        promised_bytes_max: totals.map_or(0, |totals| totals.promised_bytes_max),
        machine_bytes: sys::tcp::memory_in_use().unwrap_or(0),
        machine_bytes_pressure: pressure * sys::limits::page_bytes(),
    }
}

/// Calls to clients' machines.
pub fn outbound(info: &svc::OutboundInfo) -> OutboundStatus {
    let host = |host: &svc::UnansweringHost| UnansweringHost {
        address: host.addr.to_string(),
        failures: host.failures.into(),
        last: host.last.to_string(),
        waiting: host.waiting as u64,
        next_in_ms: host.next_in_ms,
    };
    OutboundStatus {
        calls: info.counters.calls,
        answered: info.counters.answered,
        failed: info.counters.failed,
        dropped: info.counters.dropped,
        waiting: info.waiting as u64,
        under_way: info.under_way as u64,
        sockets: info.endpoints as u64,
        unanswering: info.unanswering_hosts as u64,
        unanswering_hosts: info.unanswering.iter().map(host).collect(),
    }
}

/// Exports with blocked calls, the one with the oldest call first. `path` names an export by its index.
pub fn blocked_exports(
    infos: &[svc::BlockedExport],
    ops: &[OpName],
    path: impl Fn(u16) -> String,
) -> Vec<BlockedExport> {
    let row = |info: &svc::BlockedExport| BlockedExport {
        path: path(info.export),
        calls: info.calls as u64,
        waiting: info.waiting as u64,
        oldest_ms: info.oldest_ms,
        oldest_call: call_name(ops, info.program, info.version, info.procedure),
        refused: info.refused,
    };
    let blocked = infos.iter().filter(|info| info.calls > 0 || info.waiting > 0);
    let mut rows: Vec<BlockedExport> = blocked.map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.oldest_ms));
    rows
}

/// A call as `nfs v3 READ`. The procedures of a version are listed in the order of their numbers.
pub fn call_name(ops: &[OpName], program: u32, version: u32, procedure: u32) -> String {
    let name = match program {
        proto::nfs3::PROGRAM => "nfs",
        proto::nfsacl::PROGRAM => "nfsacl",
        proto::mount::PROGRAM => "mount",
        proto::rquota::PROGRAM => "rquota",
        proto::portmap::PROGRAM => "portmap",
        proto::nlm::PROGRAM => "nlm",
        _ => return format!("program {program} v{version} procedure {procedure}"),
    };
    let mut procedures = ops.iter().filter(|op| op.program == name && op.version == version);
    let procedure_name = procedures.nth(procedure as usize).map(|op| op.procedure.to_owned());
    let procedure = procedure_name.unwrap_or_else(|| format!("procedure {procedure}"));
    format!("{name} v{version} {procedure}")
}

const fn leader(leader: Leader) -> &'static str {
    match leader {
        Leader::Waiting => "waiting",
        Leader::Queueing => "queueing",
        Leader::Serving => "serving",
        Leader::Vacant => "vacant",
        Leader::Retired => "retired",
    }
}

/// Sorted numbers as `0-3,8`.
fn ranges(numbers: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let text = |(first, last): (usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    runs.into_iter().map(text).collect::<Vec<_>>().join(",")
}

/// The protocol's name of a status, for example `NOENT`; the number if it has none.
pub fn status_name(program: &str, status: u32) -> String {
    let name = match program {
        "nfs" | "nfsacl" => Nfsstat3::from_number(status).map(|s| format!("{s:?}")),
        "mount" => MountError::from_number(status).map(|s| format!("{s:?}")),
        "rquota" => {
            ["NoQuota", "Perm"].get(status.wrapping_sub(2) as usize).map(ToString::to_string)
        }
        _ => None,
    };
    name.map_or_else(|| status.to_string(), |name| name.to_uppercase())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shown to people")]
fn nanoseconds(us: f64) -> u64 {
    (us * 1000.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::{
        V4Counts, blocked_exports, call_name, clients, counter, counters, ops, ranges, status_name,
    };
    use nfs::mount::MountEntry;
    use std::collections::HashMap;
    use telemetry::{Call, Counter, OpName, Telemetry};

    #[test]
    fn statuses_have_the_names_of_the_protocol() {
        assert_eq!(status_name("nfs", 2), "NOENT");
        assert_eq!(status_name("nfs", 10_001), "BADHANDLE");
        assert_eq!(status_name("nfs", 99), "99");
        assert_eq!(status_name("mount", 13), "ACCES");
        assert_eq!(status_name("nfsacl", 10_004), "NOTSUPP");
        assert_eq!(status_name("rquota", 2), "NOQUOTA");
        assert_eq!(status_name("rquota", 1), "1");
        assert_eq!(status_name("portmap", 13), "13");
    }

    #[test]
    fn cpus_are_printed_as_ranges() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[3]), "3");
        assert_eq!(ranges(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
    }

    #[test]
    fn a_client_without_a_connection_is_listed_with_its_mounts() {
        let mount = MountEntry {
            client: "10.0.0.1".parse().unwrap(),
            name: "x".into(),
            path: "/a".into(),
            version: 3,
            transport: "tcp",
            since_unix_s: 1,
        };
        let refused =
            ("10.0.0.2".parse().unwrap(), 3, "/b: not a client of this export".to_owned());
        let v4 = [V4Counts {
            address: "10.0.0.3".parse().unwrap(),
            sessions: 1,
            opens: 2,
            courtesy: true,
            callback: Some("up"),
        }; 2];
        let here: std::net::IpAddr = "192.0.2.7".parse().unwrap();
        let identities = super::Identities {
            principals: vec![(here, "alice@LAB.TEST".into()), (here, "bob@LAB.TEST".into())],
            certificates: vec![(here, "web".into()), (here, "web".into())],
            same_names: vec![(here, "10.0.0.3".parse().unwrap()); 2],
        };
        let rows = clients((Vec::new(), HashMap::new()), &[mount], &v4, vec![refused], identities);
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[3].principals, ["alice@LAB.TEST", "bob@LAB.TEST"]);
        assert_eq!(rows[3].certificates, ["web"], "once for all its connections");
        assert_eq!(rows[3].same_name, ["10.0.0.3"]);
        assert_eq!(rows[2].same_name, ["192.0.2.7"]);
        assert_eq!((rows[2].sessions, rows[2].opens), (2, 4), "two clients of one address");
        assert_eq!(rows[2].callback, ["up"], "once for both");
        assert_eq!((rows[1].address.as_str(), rows[1].refused), ("10.0.0.2", 3));
        assert_eq!((rows[0].connections, rows[0].mounts.as_slice()), (0, &["/a".to_owned()][..]));
    }

    #[test]
    fn blocked_exports_name_the_oldest_call() {
        let op = |procedure| OpName { program: "nfs", version: 3, procedure };
        let ops = [op("NULL"), op("GETATTR"), op("SETATTR")];
        let info = |export, oldest_ms| svc::BlockedExport {
            export,
            calls: 1,
            waiting: 2,
            oldest_ms,
            program: proto::nfs3::PROGRAM,
            version: 3,
            procedure: 2,
            refused: 4,
        };
        let ended = svc::BlockedExport { calls: 0, waiting: 0, ..info(9, 0) };
        let rows = blocked_exports(&[info(0, 10), ended, info(1, 5000)], &ops, |n| format!("/{n}"));
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].path.as_str(), rows[0].oldest_call.as_str()), ("/1", "nfs v3 SETATTR"));
        assert_eq!(call_name(&ops, 7, 1, 3), "program 7 v1 procedure 3");
        assert_eq!(call_name(&ops, proto::nfs3::PROGRAM, 3, 9), "nfs v3 procedure 9");
    }

    #[test]
    fn procedures_without_calls_are_left_out() {
        let name = |procedure| OpName { program: "nfs", version: 3, procedure };
        let telemetry = Telemetry::new(vec![name("NULL"), name("GETATTR")]);
        let worker = telemetry.worker();
        worker.add(Counter::Connections, 2);
        worker.call(&Call { op: 1, status: 70, latency_ns: 5_000, ..Call::default() });
        let snapshot = telemetry.snapshot();
        let rows = ops(&snapshot);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].procedure.as_str(), rows[0].max_ns), ("GETATTR", 5_000));
        assert_eq!(rows[0].errors[0].name, "STALE");
        assert_eq!(counter(&snapshot, "connections"), 2);
        assert_eq!(counters(&snapshot).len(), 1);
    }
}
