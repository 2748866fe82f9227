//! The commands that use the control socket of a running server: one request each, the answer printed as a
//! table or as JSON.

use crate::cli::{ControlTarget, TableTarget};
use crate::columns::{
    self, BLOCKED, COUNTERS, NOT_SERVED, OUTBOUND, STATUS, UNLINKED, WARNING, table,
};
use crate::host_names::{self, beside};
use crate::settings::Assignment;
use crate::{default_paths, output, watch};
use admin::Align::Left;
use admin::api::{
    BlockedCallRow, BlockedExport, Changed, ClientRow, ConnRow, CopyRow, Counter, ExportRow,
    GraceStatus, LinkRow, OpRow, OutboundStatus, PoolRow, Reloaded, Request, SettingRow, SocketRow,
    Status, TcpMemory, WaitingExport,
};
use admin::{Client, Table};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// `bowline grace`.
pub fn grace(end: bool, to: &ControlTarget) -> anyhow::Result<ExitCode> {
    show(to, &Request::Grace { end }, grace_page)
}

fn grace_page(grace: &GraceStatus) -> String {
    let mut text = match (grace.running, grace.hosts.is_empty()) {
        (false, _) => "no grace period\n".to_owned(),
        (true, _) => format!(
            "grace period: ends in {} at the latest\n",
            admin::duration_s(grace.ends_in_ms.div_ceil(1000))
        ),
    };
    if grace.machines > 0 {
        let GraceStatus { machines, machines_answered, machines_given_up, .. } = grace;
        let _ = writeln!(
            text,
            "notified of the restart: {machines_answered} of {machines} hosts have answered, \
             {machines_given_up} never did"
        );
    }
    if !grace.hosts.is_empty() {
        let mut table = table(&columns::GRACE);
        let word = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        for host in &grace.hosts {
            let cells = [host.address.clone(), host.name.clone(), host.version.clone()];
            table.row(cells.into_iter().chain([word(host.reclaimed), word(host.answered)]));
        }
        text.push_str(&table.to_string());
    }
    text
}

/// `bowline status`.
pub fn status(to: &TableTarget, verbose: bool) -> anyhow::Result<ExitCode> {
    watch_table(to, "bowline status", &Request::Status, |status| status_page(status, verbose))
}

/// `bowline metrics`.
pub fn metrics(control: Option<PathBuf>, openmetrics: bool) -> anyhow::Result<ExitCode> {
    let path = control.unwrap_or_else(default_paths::control_socket);
    let text: String = Client::connect(&path)?.ask(&Request::Metrics { openmetrics })?;
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// `bowline token`.
pub fn token(control: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let path = control.unwrap_or_else(default_paths::control_socket);
    let token: String = Client::connect(&path)?.ask(&Request::Token)?;
    output::print(token + "\n")?;
    Ok(ExitCode::SUCCESS)
}

/// `bowline exports`.
pub fn exports(to: &TableTarget) -> anyhow::Result<ExitCode> {
    watch_table(to, "bowline exports", &Request::Exports, |rows: &Vec<ExportRow>| {
        let mut table = table(&columns::EXPORTS);
        for row in rows {
            let numbers = [
                admin::count(row.calls),
                admin::count(row.errors),
                admin::bytes(row.bytes_read),
                admin::bytes(row.bytes_written),
                refusals(row.refused, row.last_refusal.as_ref()),
            ];
            for (index, rule) in row.rules.iter().enumerate() {
                if index == 0 {
                    let words =
                        [&row.path, &row.directory, &row.state, &rule.clients, &rule.options];
                    table.row(words.into_iter().chain(&numbers));
                } else {
                    table.row(["", "", "", &rule.clients, &rule.options]);
                }
            }
        }
        table.to_string()
    })
}

/// `bowline clients`.
pub fn clients(to: &TableTarget) -> anyhow::Result<ExitCode> {
    watch_table(to, "bowline clients", &Request::Clients, |rows: &Vec<ClientRow>| {
        let mut table = table(&columns::CLIENTS);
        for row in rows {
            table.row([
                &beside(&row.address),
                &connections(row),
                &admin::count(row.calls),
                &admin::count(row.udp_calls),
                &admin::bytes(row.bytes_in),
                &admin::bytes(row.bytes_out),
                &row.mounts.join(" "),
                &sessions(row),
                &row.opens.to_string(),
                &row.callback.join(" "),
                &identities(row),
                &refusals(row.refused, row.last_refusal.as_ref()),
            ]);
        }
        table.to_string()
    })
}

fn connections(row: &ClientRow) -> String {
    match row.displaced {
        0 => row.connections.to_string(),
        displaced => format!("{}, {} displaced", row.connections, admin::count(displaced)),
    }
}

/// Who a client has proven to be: the first few, and how many more.
fn identities(row: &ClientRow) -> String {
    const SHOWN: usize = 4;
    let all = || row.principals.iter().chain(&row.certificates);
    let mut shown: Vec<String> = all().take(SHOWN).cloned().collect();
    let more = all().count().saturating_sub(SHOWN);
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown.join(" ")
}

fn sessions(row: &ClientRow) -> String {
    let courtesy = match row.courtesy {
        0 => String::new(),
        courtesy => format!(", {courtesy} courtesy"),
    };
    let same_name = match row.same_name.as_slice() {
        [] => String::new(),
        others => format!(", name also used by {}", others.join(" ")),
    };
    format!("{}{courtesy}{same_name}", row.sessions)
}

/// `bowline conns`.
pub fn conns(to: &TableTarget) -> anyhow::Result<ExitCode> {
    watch_table(to, "bowline conns", &Request::Conns, |rows: &Vec<ConnRow>| {
        let mut table = table(&columns::CONNS);
        for row in rows {
            let cells = [
                beside(&row.peer),
                row.local.clone(),
                row.security.clone(),
                row.pool.to_string(),
                admin::duration_s(row.age_s),
                admin::duration_s(row.idle_s),
                admin::count(row.calls),
                row.in_flight.to_string(),
                row.oldest_blocked.as_ref().map_or_else(String::new, oldest),
                admin::bytes(row.bytes_in),
                admin::bytes(row.bytes_out),
                admin::bytes(row.unsent_bytes),
            ];
            let link = row.link.as_ref().map(link_cells);
            table.row(cells.into_iter().chain(link.into_iter().flatten()));
        }
        table.to_string()
    })
}

/// The count of refused calls and the last one; empty if there was none.
fn refusals(count: u64, last: Option<&String>) -> String {
    last.map_or_else(String::new, |last| format!("{}: {last}", admin::count(count)))
}

/// The age of a blocked call.
fn oldest(blocked: &BlockedCallRow) -> String {
    admin::duration_ns(blocked.age_ms.saturating_mul(1_000_000))
}

/// What limits a connection, and what would raise the limit.
fn link_cells(link: &LinkRow) -> [String; 7] {
    let rtt = if link.rtt_us == 0 {
        "-".to_owned()
    } else {
        admin::duration_ns(link.rtt_us.saturating_mul(1000))
    };
    let now = format!("{}/s", admin::bytes(link.in_bytes_per_s.max(link.out_bytes_per_s)));
    let limit = match &link.lift {
        Some(lift) => format!("{}: try {lift}", link.limit),
        None => link.limit.clone(),
    };
    [
        rtt,
        admin::bytes(link.window_bytes),
        buffer(
            &link.receive_buffer,
            link.receive_buffer_bytes,
            link.receive_buffer_cut_by.as_ref(),
        ),
        buffer(&link.send_buffer, link.send_buffer_bytes, link.send_buffer_cut_by.as_ref()),
        admin::count(link.retransmits),
        now,
        limit,
    ]
}

/// A buffer: the configured size, a mark if the actual one is smaller, and the actual size.
fn buffer(wanted: &str, bytes: u64, cut_by: Option<&String>) -> String {
    let mark = if cut_by.is_some() { "!" } else { "" };
    format!("{wanted}{mark} {}", admin::bytes(bytes))
}

/// `bowline sockets`.
pub fn sockets(to: &TableTarget) -> anyhow::Result<ExitCode> {
    watch_table(to, "bowline sockets", &Request::Sockets, |rows: &Vec<SocketRow>| {
        let mut table = table(&columns::SOCKETS);
        for row in rows {
            let from = if row.adopted { "systemd" } else { "bowline" };
            let cpu = row.cpu.map_or_else(String::new, |cpu| cpu.to_string());
            // the traffic of connections is shown by `bowline conns`
            let carried =
                |shown: String| if row.transport == "tcp" { "-".to_owned() } else { shown };
            table.row([
                row.transport.as_str(),
                &row.local,
                row.interface.as_deref().unwrap_or("any"),
                &cpu,
                from,
                &admin::count(row.received),
                &carried(admin::count(row.sent)),
                &carried(admin::bytes(row.bytes_in)),
                &carried(admin::bytes(row.bytes_out)),
                &carried(admin::count(row.drops)),
                &row.note,
            ]);
        }
        table.to_string() + &balance(rows)
    })
}

/// One line: how evenly datagrams were sent over the interfaces that sent any.
fn balance(rows: &[SocketRow]) -> String {
    let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
    for row in rows {
        if let Some(interface) = row.interface.as_deref().filter(|_| row.bytes_out > 0) {
            let sent = bytes.entry(interface).or_default();
            *sent = sent.saturating_add(row.bytes_out);
        }
    }
    let (least, most) = (bytes.values().min(), bytes.values().max());
    match (least, most) {
        (Some(least), Some(most)) if bytes.len() > 1 => {
            let ratio = *most as f64 / *least as f64;
            format!("UDP bytes out over {} interfaces, most / least: {ratio:.2}\n", bytes.len())
        }
        _ => String::new(),
    }
}

fn microseconds(ns: u64) -> String {
    format!("{} us", ns.div_ceil(1000))
}

/// `bowline pools`.
pub fn pools(to: &TableTarget) -> anyhow::Result<ExitCode> {
    watch_table(to, "bowline pools", &Request::Pools, |rows: &Vec<PoolRow>| {
        let mut table = table(&columns::POOLS);
        for row in rows {
            let cpus = if row.cpus.is_empty() { "any" } else { &row.cpus };
            table.row([
                row.pool.to_string().as_str(),
                cpus,
                &row.threads.to_string(),
                &row.parked.to_string(),
                &row.blocked.to_string(),
                &format!("{}..{}", row.threads_min, row.threads_max),
                &row.connections.to_string(),
                &admin::count(row.calls),
                &row.wake_policy,
                &admin::count(row.arrived),
                &admin::count(row.waited),
                &admin::count(row.wake_delay.count),
                &admin::count(row.timed_out),
                &admin::count(row.promotions),
                &admin::count(row.promotions_failed),
                &admin::count(row.rescues),
                &microseconds(row.queue_delay.p99_ns),
                &microseconds(row.wake_delay.p99_ns),
                &row.leader,
            ]);
        }
        table.to_string()
    })
}

/// `bowline ops`.
pub fn ops(to: &TableTarget) -> anyhow::Result<ExitCode> {
    watch_table(to, "bowline ops", &Request::Ops, |rows: &Vec<OpRow>| {
        let mut table = table(&columns::OPS);
        for row in rows {
            table.row([
                &format!("{} v{}", row.program, row.version),
                &row.procedure,
                &admin::count(row.calls),
                &admin::duration_ns(row.p50_ns),
                &admin::duration_ns(row.p99_ns),
                &admin::duration_ns(row.max_ns),
                &admin::bytes(row.bytes_in),
                &admin::bytes(row.bytes_out),
                &inside(row),
                &counters(&row.errors),
            ]);
        }
        let copies: Vec<&CopyRow> = rows.iter().flat_map(|row| &row.copies).collect();
        if copies.is_empty() {
            return table.to_string();
        }
        format!("{table}\n{}", copies_table(&copies))
    })
}

/// The copies that were answered and are under way.
fn copies_table(copies: &[&CopyRow]) -> Table {
    let mut table = table(&columns::COPIES);
    let path = |path: &str| if path.is_empty() { "-".to_owned() } else { path.to_owned() };
    for copy in copies {
        let done = copy.copied.saturating_mul(100).checked_div(copy.total).unwrap_or(100);
        table.row([
            &format!("{} {}", copy.address, copy.client),
            &path(&copy.source),
            &path(&copy.target),
            &admin::bytes(copy.copied),
            &admin::bytes(copy.total),
            &format!("{done}%"),
            &admin::duration_ns(copy.age_ms.saturating_mul(1_000_000)),
        ]);
    }
    table
}

/// How often an operation ran in other calls, and how often it failed there.
fn inside(row: &OpRow) -> String {
    match (row.inside, row.inside_failed) {
        (0, _) => String::new(),
        (ran, 0) => admin::count(ran),
        (ran, failed) => format!("{}/{}", admin::count(ran), admin::count(failed)),
    }
}

/// `bowline set`.
pub fn set(new: &Assignment, to: &ControlTarget) -> anyhow::Result<ExitCode> {
    let request = Request::Set { key: new.key(), value: new.value() };
    show(to, &request, |done: &Changed| {
        let mut text = format!("{}: {} (was {})\n", done.key, done.value, done.before);
        for note in &done.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text
    })
}

/// `bowline get`.
pub fn settings(key: Option<String>, to: &ControlTarget) -> anyhow::Result<ExitCode> {
    let one = key.is_some();
    show(to, &Request::Get { key }, move |rows: &Vec<SettingRow>| match rows.as_slice() {
        [row] if one => format!("{}\n", row.value),
        rows => {
            let mut table = table(&columns::SETTINGS);
            for row in rows {
                table.row([&row.key, &row.value, &row.changes, &row.about]);
            }
            table.to_string()
        }
    })
}

/// `bowline reload`.
pub fn reload(dry_run: bool, to: &ControlTarget) -> anyhow::Result<ExitCode> {
    show(to, &Request::Reload { dry_run }, |done| reload_text(done, dry_run))
}

/// The result of a reload, one line for each difference.
pub fn reload_text(done: &Reloaded, dry_run: bool) -> String {
    let mut text = String::new();
    for line in &done.changes {
        let _ = writeln!(text, "{line}");
    }
    for note in &done.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let changes = match (done.changes.is_empty(), dry_run) {
        (true, false) => "nothing changed",
        (true, true) => "nothing would change",
        (false, false) => "applied",
        (false, true) => "not applied",
    };
    let exports = if done.exports == 1 { "export" } else { "exports" };
    let _ = writeln!(text, "{changes}: {} {exports}", done.exports);
    text
}

/// Sends a request and prints the answer; with `--watch`, again and again.
pub fn watch_table<T: DeserializeOwned + Serialize>(
    to: &TableTarget,
    title: &str,
    request: &Request,
    page: impl Fn(&T) -> String,
) -> anyhow::Result<ExitCode> {
    if to.wide {
        output::show_all_columns();
    }
    let Some(interval) = to.watch else {
        let answer: T = ask(&to.server, request)?;
        host_names::settle(|| _ = page(&answer));
        show_answer(&to.server, &answer, page)?;
        return Ok(ExitCode::SUCCESS);
    };
    watch::repeat(interval, title, || {
        let answer: T = ask(&to.server, request)?;
        // a line for each answer, for programs
        let text = if to.server.json { serde_json::to_string(&answer)? } else { page(&answer) };
        Ok(with_line_end(text))
    })
}

/// Prints an answer: as JSON, or as `page` makes it.
pub fn show_answer<T: Serialize>(
    to: &ControlTarget,
    answer: &T,
    page: impl FnOnce(&T) -> String,
) -> anyhow::Result<()> {
    let text = if to.json { serde_json::to_string_pretty(answer)? } else { page(answer) };
    output::print(with_line_end(text))
}

/// Sends a request and prints the answer.
pub fn show<T: DeserializeOwned + Serialize>(
    to: &ControlTarget,
    request: &Request,
    page: impl FnOnce(&T) -> String,
) -> anyhow::Result<ExitCode> {
    let answer: T = ask(to, request)?;
    show_answer(to, &answer, page)?;
    Ok(ExitCode::SUCCESS)
}

/// Sends a request on a connection of its own.
pub fn ask<T: DeserializeOwned>(to: &ControlTarget, request: &Request) -> anyhow::Result<T> {
    let path = to.control.clone().unwrap_or_else(default_paths::control_socket);
    Ok(Client::connect(&path)?.ask(request)?)
}

fn with_line_end(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn counters(list: &[Counter]) -> String {
    let shown = list.iter().map(|c| format!("{} {}", c.name, admin::count(c.value)));
    shown.collect::<Vec<_>>().join(", ")
}

fn status_page(s: &Status, verbose: bool) -> String {
    let mut table = Table::new(&[("bowline", Left), (&s.version, Left)]);
    for (line, value) in STATUS.iter().zip(status_values(s)) {
        if line.name != COUNTERS || verbose {
            table.row([line.name, &value]);
        }
    }
    if s.unlinked_files > 0 {
        table.row([UNLINKED.name, &admin::count(s.unlinked_files)]);
    }
    for export in s.blocked_exports.iter().filter(|export| export.oldest_ms >= BLOCKED_SHOWN_MS) {
        table.row([BLOCKED.name, &blocked_text(export)]);
    }
    if s.outbound.unanswering > 0 {
        table.row([OUTBOUND.name, &outbound_text(&s.outbound)]);
    }
    for export in &s.waiting_exports {
        let WaitingExport { path, reason, waiting_s, .. } = export;
        let age = admin::duration_s(*waiting_s);
        table.row([NOT_SERVED.name, &format!("{path} for {age}: {reason}")]);
    }
    for warning in &s.warnings {
        table.row([WARNING.name, warning]);
    }
    table.to_string()
}

/// An export is shown as blocked when its oldest call is at least this old; shorter waits for a disk are normal.
const BLOCKED_SHOWN_MS: u64 = 2000;

fn blocked_text(export: &BlockedExport) -> String {
    let BlockedExport { path, calls, waiting, oldest_ms, oldest_call, refused } = export;
    let age = admin::duration_s(oldest_ms / 1000);
    format!("{path}: {calls} calls, {waiting} waiting, {oldest_call} for {age}, {refused} refused")
}

/// Which machines do not answer calls of the server, the worst first.
fn outbound_text(outbound: &OutboundStatus) -> String {
    let shown = outbound.unanswering_hosts.iter().take(3);
    let mut hosts: Vec<String> = shown
        .map(|host| format!("{} ({}, {} times)", host.address, host.last, host.failures))
        .collect();
    let more = outbound.unanswering.saturating_sub(hosts.len() as u64);
    if more > 0 {
        hosts.push(format!("{more} more"));
    }
    format!("{}; clients that wait for a lock retry automatically", hosts.join(", "))
}

/// The values of the lines of [`STATUS`].
fn status_values(s: &Status) -> [String; STATUS.len()] {
    let rights = if s.privileged { "acts as each client's user" } else { "not privileged" };
    let (all, recent) = (admin::per_second(s.calls_per_s), admin::per_second(s.calls_per_s_recent));
    let (read, written) = (admin::bytes(s.bytes_read), admin::bytes(s.bytes_written));
    let (bytes_in, bytes_out) = (admin::bytes(s.bytes_in), admin::bytes(s.bytes_out));
    [
        format!("{}, user {}, {rights}", s.pid, s.uid),
        s.sandbox.clone(),
        s.kernel_tls.clone(),
        s.directory_delegations.clone(),
        admin::duration_s(s.uptime_s),
        s.listen.join(", "),
        s.portmap.clone(),
        s.state_dir.clone(),
        match s.waiting_exports.len() {
            0 => s.exports.to_string(),
            more => format!("{} served, {more} not: {}", s.exports, s.state),
        },
        format!("{} of {}", admin::count(s.connections), admin::count(s.connections_max)),
        format!("{}, {all} since the start, {recent} recently", admin::count(s.calls)),
        format!("{}, {} calls rejected", admin::count(s.errors), s.rejected),
        format!("{read} read, {written} written"),
        format!("{bytes_in} in, {bytes_out} out"),
        format!(
            "{} workers, {} others",
            s.worker_threads,
            s.threads - s.worker_threads.min(s.threads)
        ),
        format!(
            "{} of {}, {} for calls",
            admin::bytes(s.memory_bytes),
            admin::bytes(s.memory_bytes_max),
            admin::bytes(s.call_memory_bytes_max)
        ),
        tcp_memory(&s.tcp_memory),
        format!("{} of {}", s.open_files, s.open_files_max),
        counters(&s.counters),
    ]
}

/// The status in one line, for the log.
pub fn status_line(s: &Status) -> String {
    let recent = admin::per_second(s.calls_per_s_recent);
    format!(
        "status: up {}, exports {}, connections {}, calls {} ({recent} recently), errors {}, \
         rejected {}, read {}, written {}, threads {}, memory {}, warnings {}",
        admin::duration_s(s.uptime_s),
        s.exports,
        s.connections,
        s.calls,
        s.errors,
        s.rejected,
        admin::bytes(s.bytes_read),
        admin::bytes(s.bytes_written),
        s.threads,
        admin::bytes(s.memory_bytes),
        s.warnings.len(),
    )
}

fn tcp_memory(memory: &TcpMemory) -> String {
    let configured = admin::bytes(memory.promised_bytes);
    let max = admin::bytes(memory.promised_bytes_max);
    let machine = admin::bytes(memory.machine_bytes);
    let pressure = match memory.machine_bytes_pressure {
        0 => String::new(),
        bytes => format!(", pressure above {}", admin::bytes(bytes)),
    };
    format!("{configured} configured of at most {max}; all TCP sockets hold {machine}{pressure}")
}

#[cfg(test)]
mod tests {
    use super::{reload_text, status_page};
    use admin::api::{BlockedExport, Reloaded, Status};

    fn blocked(oldest_ms: u64, path: &str) -> BlockedExport {
        let oldest_call = "nfs v3 READ".to_owned();
        BlockedExport {
            path: path.to_owned(),
            calls: 3,
            waiting: 2,
            oldest_ms,
            oldest_call,
            refused: 1,
        }
    }

    #[test]
    fn the_status_page_has_the_important_values() {
        let status = Status {
            version: "1.2.3".into(),
            pid: 42,
            listen: vec!["tcp 127.0.0.1:2049".into()],
            warnings: vec!["look here".into()],
            threads: 23,
            worker_threads: 14,
            unlinked_files: 3,
            blocked_exports: vec![blocked(7000, "/hung"), blocked(1000, "/slow")],
            ..Status::default()
        };
        let page = status_page(&status, false);
        assert!(
            page.contains("/hung: 3 calls, 2 waiting, nfs v3 READ for 7 s, 1 refused"),
            "{page}"
        );
        assert!(!page.contains("/slow"), "{page}");
        assert!(page.contains("unlinked files"), "{page}");
        assert!(!page.contains("counters") && status_page(&status, true).contains("counters"));
        assert!(page.contains("14 workers, 9 others"), "{page}");
        for part in ["1.2.3", "42", "tcp 127.0.0.1:2049", "not privileged", "look here"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn a_reload_prints_its_differences() {
        let done = Reloaded { changes: vec!["/a: gone".into()], exports: 2, notes: Vec::new() };
        assert_eq!(reload_text(&done, false), "/a: gone\napplied: 2 exports\n");
        assert_eq!(reload_text(&done, true), "/a: gone\nnot applied: 2 exports\n");
        assert_eq!(reload_text(&Reloaded::default(), false), "nothing changed: 0 exports\n");
        let one = Reloaded { exports: 1, ..Reloaded::default() };
        assert_eq!(reload_text(&one, false), "nothing changed: 1 export\n");
    }
}
