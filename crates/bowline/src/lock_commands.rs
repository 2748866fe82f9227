//! `bowline locks` and `bowline release`.

use crate::cli::{ControlTarget, TableTarget};
use crate::columns::{self, table};
use crate::control_commands::{show, watch_table};
use crate::host_names::beside;
use admin::api::{LockRow, Released, Request};
use std::process::ExitCode;

/// `bowline locks`.
pub fn locks(to: &TableTarget) -> anyhow::Result<ExitCode> {
    watch_table(to, "bowline locks", &Request::Locks, |rows: &Vec<LockRow>| {
        let mut table = table(&columns::LOCKS);
        for row in rows {
            table.row([
                &format!("{} {}", beside(&row.address), row.client),
                &row.owner,
                &row.file,
                &row.kind,
                &row.mode,
                &range(row),
                &waiting(row),
            ]);
        }
        table.to_string()
    })
}

fn range(row: &LockRow) -> String {
    match (row.start, row.end) {
        (0, None) => "all".to_owned(),
        (start, None) => format!("{start}.."),
        (start, Some(end)) => format!("{start}..{end}"),
    }
}

fn waiting(row: &LockRow) -> String {
    let Some(waiting_ms) = row.waiting_ms else { return String::new() };
    let local = if row.blocked_locally { "local " } else { "" };
    format!("{local}{}", admin::duration_s(waiting_ms / 1000))
}

/// `bowline release`.
pub fn release(what: &str, to: &ControlTarget) -> anyhow::Result<ExitCode> {
    show(to, &Request::Release { what: what.to_owned() }, |done: &Released| {
        let Released { clients, files, locks } = done;
        match clients {
            0 => format!("released {locks} locks of {files} files\n"),
            clients => format!("released {locks} locks of {clients} clients\n"),
        }
    })
}
