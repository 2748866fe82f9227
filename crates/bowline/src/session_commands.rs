//! `bowline sessions` and `bowline opens`.

use crate::cli::TableTarget;
use crate::columns::{self, table};
use crate::control_commands::watch_table;
use admin::api::{OpenRow, Request, SessionRow};
use std::process::ExitCode;

/// `bowline sessions`.
pub fn sessions(to: &TableTarget) -> anyhow::Result<ExitCode> {
    watch_table(to, "bowline sessions", &Request::Sessions, |rows: &Vec<SessionRow>| {
        let mut table = table(&columns::SESSIONS);
        for row in rows {
            table.row([
                &format!("{} {}", row.address, row.client),
                &row.id,
                &row.state,
                &admin::duration_s(row.silent_ms / 1000),
                &row.slots.to_string(),
                &row.slots_used.to_string(),
                &row.slots_running.to_string(),
                &admin::bytes(row.request_bytes),
                &admin::bytes(row.response_bytes),
                &row.opens.to_string(),
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
            let client = format!("{} {}", row.address, row.client);
            table.row([&client, &row.file, &row.access, &row.deny, &row.owner]);
        }
        table.to_string()
    })
}
