//! Connections' socket buffers, as the operator changes them and asks for them.

use super::control::ServerControl;
use crate::settings::{Key, Value, Values};
use crate::tcp_buffers::{self, Rules, Scoped};
use admin::Refused;
use admin::api::{LinkRow, TcpMemory};
use export::Table;
use std::time::Duration;
use svc::{Applied, BufferInfo, BufferTotals, Cut, Limit, LinkInfo};
use sys::tcp::Side;

/// How long a connection is watched to tell what limits it: several round trips of a long path.
pub const WATCH: Duration = Duration::from_millis(250);

impl ServerControl {
    /// Applies a new size, with what there is to say about it. `after` has it already.
    ///
    /// # Errors
    /// It cannot be taken.
    pub(super) fn size_buffers(
        &self,
        side: Side,
        new: &Scoped,
        after: &Values,
    ) -> Result<Vec<String>, Refused> {
        let rules = after.buffers();
        let totals = self.with_server(|server| Some(server.buffer_totals()));
        if let Some(totals) = totals {
            check(side, new, &rules, totals).map_err(Refused)?;
        }
        size_exports(&self.exports.load(), &rules);
        let own = Box::new(rules.clone());
        let applied = self.with_server(|server| Some(server.set_buffers(own))).unwrap_or_default();
        let mut notes = tcp_buffers::notes(side, new, &rules, &applied);
        if let tcp_buffers::Scope::Export(path) = &new.scope
            && !self.exports.load().exports().iter().any(|export| export.path_text() == *path)
        {
            notes.push(format!("no export has the path {path} now"));
        }
        Ok(notes)
    }

    /// What the buffers of all connections hold and may hold.
    pub(super) fn tcp_memory(&self) -> TcpMemory {
        let totals = self.with_server(|server| Some(server.buffer_totals()));
        let pressure = sys::tcp::sysctl_triple("tcp_mem").map(|[_, pressure, _]| pressure);
        let page = sys::limits::page_bytes();
        TcpMemory {
            promised_bytes: totals.map_or(0, |totals| totals.promised_bytes),
            promised_bytes_max: totals.map_or(0, |totals| totals.promised_bytes_max),
            machine_bytes: sys::tcp::memory_in_use().unwrap_or(0),
            machine_bytes_pressure: pressure.unwrap_or(0).saturating_mul(page),
        }
    }
}

fn check(side: Side, new: &Scoped, rules: &Rules, totals: BufferTotals) -> Result<(), String> {
    let (name, sizes) = match side {
        Side::Receive => ("tcp-rcvbuf", &rules.receive),
        Side::Send => ("tcp-sndbuf", &rules.send),
    };
    sizes.has_room()?;
    tcp_buffers::check(name, new, totals)
}

/// Gives the exports the sizes of their paths.
pub fn size_exports(table: &Table, rules: &Rules) {
    for export in table.exports() {
        export.set_buffers(rules.for_export(&export.path_text()));
    }
}

/// What there is to say about the sizes that a server starts with.
///
/// # Errors
/// One of them cannot be taken.
pub fn at_start(values: &Values, totals: BufferTotals) -> anyhow::Result<Vec<String>> {
    let rules = values.buffers();
    let mut notes = Vec::new();
    for value in values.all_of(Key::TcpRcvbuf).iter().chain(&values.all_of(Key::TcpSndbuf)) {
        let (side, size) = match value {
            Value::TcpRcvbuf(size) => (Side::Receive, size),
            Value::TcpSndbuf(size) => (Side::Send, size),
            _ => continue,
        };
        check(side, size, &rules, totals).map_err(|why| anyhow::anyhow!(why))?;
        let told = tcp_buffers::notes(side, size, &rules, &Applied::default());
        notes.extend(told.iter().map(|note| format!("{}={value}: {note}", value.full_name())));
    }
    Ok(notes)
}

/// How a connection does, in the words of the control socket.
pub fn link_row(link: &LinkInfo) -> LinkRow {
    let lift = link.lift_bytes.map(|bytes| {
        let name = if link.limit == Limit::SendBuffer { "tcp-sndbuf" } else { "tcp-rcvbuf" };
        format!("{name}={}", crate::values::Size(bytes))
    });
    LinkRow {
        limit: limit(link.limit).to_owned(),
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
        receive_buffer_cut_by: link.receive.cut.map(|cut| cut_by(cut, Side::Receive).to_owned()),
        send_buffer_cut_by: link.send.cut.map(|cut| cut_by(cut, Side::Send).to_owned()),
        congestion_control: link.congestion_control.clone(),
    }
}

fn load(info: BufferInfo) -> String {
    let size = |bytes: u32| crate::values::Size(bytes.into()).to_string();
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

const fn cut_by(cut: Cut, side: Side) -> &'static str {
    match (cut, side) {
        (Cut::Sysctl, Side::Receive) => "net.core.rmem_max",
        (Cut::Sysctl, Side::Send) => "net.core.wmem_max",
        (Cut::Memory, Side::Receive | Side::Send) => "net.ipv4.tcp_mem",
        (Cut::WindowScale, Side::Receive | Side::Send) => "window-scale",
    }
}
