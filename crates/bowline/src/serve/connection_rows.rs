//! The rows of `bowline conns`: a connection's counters, and what limits it.

use super::hung_calls::Sleeps;
use super::statistics::call_name;
use crate::settings::ByteSize;
use admin::api::{BlockedCallRow, ConnRow, LinkRow, TlsRow};
use admin::rates::ConnActivity;
use std::time::Duration;
use svc::{BlockedCallInfo, BufferInfo, BufferReduction, ConnInfo, ConnTls, Limit, LinkInfo};
use sys::tcp::Side;
use telemetry::OpName;

/// How long connections are watched to find what limits them: several round trips of a long path.
pub const WATCH: Duration = Duration::from_millis(250);
/// How often sleeping calls are looked for in that time.
pub const LOOKS: u32 = 10;

/// Rows of all connections, the one with the most calls first. `path` names an export by its index; `sleeps` has what was
/// seen while they were watched.
pub fn rows(
    infos: &[ConnInfo],
    ops: &[OpName],
    path: impl Fn(u16) -> String,
    sleeps: &Sleeps,
) -> Vec<ConnRow> {
    let oldest = |info: &ConnInfo| info.oldest_blocked.or_else(|| sleeps.of(info.peer));
    let blocked = |info: &BlockedCallInfo| BlockedCallRow {
        export: path(info.export),
        call: call_name(ops, info.program, info.version, info.procedure),
        age_ms: info.age_ms,
    };
    let row = |info: &ConnInfo| ConnRow {
        id: info.id,
        peer: info.peer.to_string(),
        local: info.local.to_string(),
        security: security(info),
        tls: info.tls.as_ref().map(tls_row),
        pool: info.pool as u64,
        age_s: info.age_ms / 1000,
        idle_s: info.idle_ms / 1000,
        calls: info.calls,
        bytes_in: info.bytes_in,
        bytes_out: info.bytes_out,
        in_flight: info.in_flight,
        unsent_bytes: info.queued_bytes as u64,
        oldest_blocked: oldest(info).as_ref().map(blocked),
        link: info.link.as_ref().map(|link| link_row(link, oldest(info).is_some())),
    };
    let mut rows: Vec<ConnRow> = infos.iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.calls));
    rows
}

/// What a connection does, as far as it is known without asking the kernel.
pub fn activity(info: &svc::ConnActivity) -> ConnActivity {
    ConnActivity {
        id: info.id,
        client: info.peer.ip().to_canonical(),
        idle_ms: info.idle_ms,
        calls: info.calls,
        bytes_in: info.bytes_in,
        bytes_out: info.bytes_out,
        unsent_bytes: info.queued_bytes as u64,
        in_flight: info.in_flight,
    }
}

/// What protects a connection, in the words of `xprtsec`.
fn security(info: &ConnInfo) -> String {
    let Some(tls) = &info.tls else { return "none".to_owned() };
    let whose = match &tls.certificate {
        None => "tls".to_owned(),
        Some(certificate) => format!("mtls {}", certificate.name),
    };
    if tls.in_kernel { format!("{whose}, kernel") } else { whose }
}

fn tls_row(tls: &ConnTls) -> TlsRow {
    let (suite, in_kernel) = (tls.suite.clone(), tls.in_kernel);
    let row = TlsRow { suite, in_kernel, ..TlsRow::default() };
    match &tls.certificate {
        None => row,
        Some(certificate) => TlsRow {
            subject: certificate.subject.clone(),
            issuer: certificate.issuer.clone(),
            serial: certificate.serial.clone(),
            fingerprint: certificate.fingerprint.clone(),
            ..row
        },
    }
}

/// What limits a connection, as the control socket shows it.
fn link_row(link: &LinkInfo, sleeps_in_file_system: bool) -> LinkRow {
    let lift = link.lift_bytes.map(|bytes| {
        let name = if link.limit == Limit::SendBuffer { "tcp-sndbuf" } else { "tcp-rcvbuf" };
        format!("{name}={}", ByteSize(bytes))
    });
    LinkRow {
        limit: match link.limit {
            // nothing arrives or leaves because the answer is not there yet
            Limit::Idle | Limit::Client | Limit::Server if sleeps_in_file_system => "disk",
            other => limit(other),
        }
        .to_owned(),
        lift,
        in_bytes_per_s: link.in_per_s,
        out_bytes_per_s: link.out_per_s,
        rtt_us: link.rtt_us.into(),
        rtt_min_us: link.rtt_min_us.into(),
        window_bytes: link.window_bytes,
        client_window_bytes: link.client_window_bytes,
        congestion_window_bytes: link.congestion_window_bytes,
        delivery_bytes_per_s: link.delivery_per_s,
        retransmits: link.retransmits.into(),
        out_of_order: link.out_of_order.into(),
        unread_bytes: link.unread_bytes,
        receive_buffer_bytes: link.receive_buffer_bytes.into(),
        send_buffer_bytes: link.send_buffer_bytes.into(),
        receive_buffer: load(link.receive),
        send_buffer: load(link.send),
        receive_buffer_cut_by: link
            .receive
            .reduced_by
            .map(|why| reduction_text(why, Side::Receive).to_owned()),
        send_buffer_cut_by: link
            .send
            .reduced_by
            .map(|why| reduction_text(why, Side::Send).to_owned()),
        congestion_control: link.congestion_control.clone(),
    }
}

fn load(info: BufferInfo) -> String {
    let size = |bytes: u32| ByteSize(bytes.into()).to_string();
    info.wanted_bytes.map_or_else(|| "auto".to_owned(), size)
}

const fn limit(limit: Limit) -> &'static str {
    match limit {
        Limit::Idle => "idle",
        Limit::Client => "client",
        Limit::Server => "server",
        Limit::ReceiveWindow => "receive-window",
        Limit::SendBuffer => "send-buffer",
        Limit::ClientWindow => "client-window",
        Limit::Congestion => "congestion",
    }
}

const fn reduction_text(why: BufferReduction, side: Side) -> &'static str {
    match (why, side) {
        (BufferReduction::Sysctl, Side::Receive) => "net.core.rmem_max",
        (BufferReduction::Sysctl, Side::Send) => "net.core.wmem_max",
        (BufferReduction::Memory, Side::Receive | Side::Send) => "net.ipv4.tcp_mem",
        (BufferReduction::WindowScale, Side::Receive | Side::Send) => "window-scale",
    }
}
