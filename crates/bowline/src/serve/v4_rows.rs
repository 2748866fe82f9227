//! The clients, sessions, opens, delegations and copies of version 4 as the control socket shows them.

use super::lock_rows::{hex, share_text, text};
use admin::api::{CopyRow, DelegationRow, OpenRow, SessionRow};
use nfs::{CopyView, DelegationView, Nfs, OpenView};
use state::v4::{CallbackPath, ClientRow, ClientState, DelegationKind};
use std::collections::HashMap;
use std::net::IpAddr;

/// What a client has.
#[derive(Debug, Clone, Copy)]
pub struct V4Counts {
    /// Where it made itself known from.
    pub address: IpAddr,
    /// Its sessions.
    pub sessions: u64,
    /// Its opens.
    pub opens: u64,
    /// Its lease is over.
    pub courtesy: bool,
    /// Whether its callback address answers, if it is a client of version 4.0.
    pub callback: Option<&'static str>,
}

/// What each client has.
pub fn counts(nfs: &Nfs) -> Vec<V4Counts> {
    let rows = nfs.v4.state.client_rows(nfs.clock.now());
    let confirmed = rows.iter().filter(|row| row.state != ClientState::Unconfirmed);
    let count = |row: &ClientRow| V4Counts {
        address: row.address.to_canonical(),
        sessions: row.sessions as u64,
        opens: row.opens as u64,
        courtesy: row.state == ClientState::Courtesy,
        callback: row.callback.map(callback_text),
    };
    confirmed.map(count).collect()
}

const fn callback_text(path: CallbackPath) -> &'static str {
    match path {
        CallbackPath::Unknown => "untried",
        CallbackPath::Up => "up",
        CallbackPath::Down => "down",
    }
}

fn clients(nfs: &Nfs) -> HashMap<u64, ClientRow> {
    let rows = nfs.v4.state.client_rows(nfs.clock.now());
    rows.into_iter().map(|row| (row.id, row)).collect()
}

/// What of a row is the client's.
fn session_row(client: &ClientRow) -> SessionRow {
    SessionRow {
        address: client.address.to_canonical().to_string(),
        client: text(&client.owner),
        id: String::new(),
        state: match client.state {
            ClientState::Courtesy => "courtesy",
            ClientState::Unconfirmed | ClientState::Active => "active",
        }
        .to_owned(),
        silent_ms: client.silent_ms,
        slots: 0,
        slots_used: 0,
        slots_running: 0,
        request_bytes: 0,
        response_bytes: 0,
        opens: client.opens as u64,
        owners: client.owners as u64,
        callback: client.callback.map_or("", callback_text).to_owned(),
    }
}

/// A row for each session, and for each client of version 4.0.
pub fn sessions(nfs: &Nfs) -> Vec<SessionRow> {
    let clients = clients(nfs);
    let sessions = nfs.v4.state.session_rows();
    let row = |session: &state::v4::SessionRow| {
        // a client that ended just now
        let client = clients.get(&session.client)?;
        Some(SessionRow {
            id: hex(&session.id),
            slots: session.slots.into(),
            slots_used: session.slots_used.into(),
            slots_running: session.slots_running.into(),
            request_bytes: session.request_bytes.into(),
            response_bytes: session.response_bytes.into(),
            callback: if session.callbacks { "up" } else { "down" }.to_owned(),
            ..session_row(client)
        })
    };
    let without_sessions =
        clients.values().filter(|row| row.minor0 && row.state != ClientState::Unconfirmed);
    sessions.iter().filter_map(row).chain(without_sessions.map(session_row)).collect()
}

/// A row for each open.
pub fn opens(nfs: &Nfs) -> Vec<OpenRow> {
    let clients = clients(nfs);
    let row = |seen: &OpenView| {
        let client = clients.get(&seen.open.client)?;
        Some(OpenRow {
            address: client.address.to_canonical().to_string(),
            client: text(&client.owner),
            owner: text(&seen.open.owner),
            export: seen.export.clone().unwrap_or_default(),
            file: seen.path.clone().unwrap_or_else(|| hex(seen.open.file.bytes())),
            access: share_text(seen.open.mode.access).to_owned(),
            deny: share_text(seen.open.mode.deny).to_owned(),
        })
    };
    nfs.v4_opens().iter().filter_map(row).collect()
}

const fn kind_text(kind: DelegationKind) -> &'static str {
    match kind {
        DelegationKind::Read => "read",
        DelegationKind::Write => "write",
        DelegationKind::Directory => "directory",
    }
}

/// A row for each delegation.
pub fn delegations(nfs: &Nfs) -> Vec<DelegationRow> {
    let clients = clients(nfs);
    let row = |seen: &DelegationView| {
        let (held, client) = (&seen.delegation, clients.get(&seen.delegation.client)?);
        Some(DelegationRow {
            address: client.address.to_canonical().to_string(),
            client: text(&client.owner),
            export: seen.export.clone().unwrap_or_default(),
            file: seen.path.clone().unwrap_or_else(|| hex(held.file.bytes())),
            kind: kind_text(held.kind).to_owned(),
            age_ms: held.age_ms,
            recalled_ms: held.recalled_ms,
        })
    };
    nfs.v4_delegations().iter().filter_map(row).collect()
}

/// A row for each copy that was answered and is under way.
pub fn copies(nfs: &Nfs) -> Vec<CopyRow> {
    let clients = clients(nfs);
    let row = |seen: &CopyView| {
        let client = clients.get(&seen.client)?;
        let [source, target] = seen.files.clone().map(Option::unwrap_or_default);
        Some(CopyRow {
            address: client.address.to_canonical().to_string(),
            client: text(&client.owner),
            export: seen.export.clone(),
            source,
            target,
            copied: seen.copied,
            total: seen.total,
            age_ms: seen.age_ms,
        })
    };
    nfs.v4.copies.views(nfs.clock.now()).iter().filter_map(row).collect()
}
