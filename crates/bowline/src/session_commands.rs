//! `bowline sessions`, `bowline opens` and `bowline delegations`.

use crate::cli::TableTarget;
use crate::columns::{self, table};
use crate::control_commands::watch_table;
use crate::host_names::beside;
use admin::api::{DelegationRow, OpenRow, Request, SessionRow};
use std::process::ExitCode;

/// `bowline sessions`.
pub fn sessions(to: &TableTarget) -> anyhow::Result<ExitCode> {
    watch_table(to, "bowline sessions", &Request::Sessions, |rows: &Vec<SessionRow>| {
        let mut table = table(&columns::SESSIONS);
        for row in rows {
            let session = match row.id.as_str() {
                "" => "none: version 4.0".to_owned(),
                id => id.to_owned(),
            };
            table.row([
                &format!("{} {}", beside(&row.address), row.client),
                &session,
                &row.state,
                &admin::duration_s(row.silent_ms / 1000),
                &row.slots.to_string(),
                &row.slots_used.to_string(),
                &row.slots_running.to_string(),
                &admin::bytes(row.request_bytes),
                &admin::bytes(row.response_bytes),
                &row.opens.to_string(),
                &row.owners.to_string(),
                &row.callback,
            ]);
        }
        table.to_string()
    })
}

/// `bowline opens`.
pub fn opens(to: &TableTarget) -> anyhow::Result<ExitCode> {
    watch_table(to, "bowline opens", &Request::Opens, |rows: &Vec<OpenRow>| {
        let mut table = table(&columns::OPENS);
        for row in rows {
            let client = format!("{} {}", beside(&row.address), row.client);
            table.row([&client, &row.file, &row.access, &row.deny, &row.owner]);
        }
        table.to_string()
    })
}

/// `bowline delegations`.
pub fn delegations(to: &TableTarget) -> anyhow::Result<ExitCode> {
    watch_table(to, "bowline delegations", &Request::Delegations, |rows: &Vec<DelegationRow>| {
        let mut table = table(&columns::DELEGATIONS);
        for row in rows {
            let client = format!("{} {}", beside(&row.address), row.client);
            let since = |ms: u64| admin::duration_s(ms / 1000);
            let recalled = row.recalled_ms.map_or_else(|| "-".to_owned(), since);
            table.row([&client, &row.file, &row.kind, &since(row.age_ms), &recalled]);
        }
        table.to_string()
    })
}
