//! The changes of a reload, as text.

use crate::client_rules::Rule;
use crate::export::Export;
use crate::table::{Table, WaitingExport};
use std::sync::Arc;

/// One line for each export that was added or removed, that started or stopped waiting, and for each other
/// difference; empty if there is none.
pub fn table_changes(old: &Table, new: &Table) -> Vec<String> {
    let mut lines = Vec::new();
    for gone in old.exports().iter().filter(|export| find(new, &export.path).is_none()) {
        let path = gone.path_text();
        lines.push(match find_waiting(new, &gone.path) {
            Some(waits) => format!("{path}: not served at present: {}", waits.reason),
            None => format!("{path}: no longer exported"),
        });
    }
    let is_new = |path: &[u8]| find(old, path).is_none() && find_waiting(old, path).is_none();
    for gone in old.waiting() {
        let path = &gone.spec.path;
        if find(new, path).is_none() && find_waiting(new, path).is_none() {
            lines.push(format!("{}: no longer exported", String::from_utf8_lossy(path)));
        }
    }
    for waits in new.waiting().iter().filter(|waits| is_new(&waits.spec.path)) {
        let path = String::from_utf8_lossy(&waits.spec.path);
        lines.push(format!("{path}: exported, but not served at present: {}", waits.reason));
    }
    for export in new.exports() {
        match find(old, &export.path) {
            None if is_new(&export.path) => {
                lines.push(format!("{}: exported to {}", export.path_text(), rules(export)));
            }
            None => lines.push(format!("{}: now served to {}", export.path_text(), rules(export))),
            Some(before) => stayed(before, export, &mut lines),
        }
    }
    lines
}

fn find<'t>(table: &'t Table, path: &[u8]) -> Option<&'t Export> {
    table.exports().iter().find(|other| other.path == path).map(|found| &**found)
}

fn find_waiting<'t>(table: &'t Table, path: &[u8]) -> Option<&'t WaitingExport> {
    table.waiting().iter().find(|other| other.spec.path == path)
}

fn rules(export: &Export) -> String {
    if export.rules().is_empty() {
        return "nobody".to_owned();
    }
    let text = |rule: &Rule| format!("{}({})", rule.client, rule.options_text());
    export.rules().iter().map(text).collect::<Vec<_>>().join(" ")
}

fn stayed(old: &Export, new: &Export, lines: &mut Vec<String>) {
    let path = new.path_text();
    if old.uuid != new.uuid {
        lines.push(format!("{path}: the fsid changed; clients have to mount it again"));
    }
    if old.source != new.source {
        lines.push(format!("{path}: now serves {} instead of {}", new.source, old.source));
    } else if old.uuid == new.uuid
        && !std::ptr::addr_eq(Arc::as_ptr(&old.backend), Arc::as_ptr(&new.backend))
    {
        lines.push(format!(
            "{path}: {} is a different directory now; clients have to mount it again",
            new.source
        ));
    }
    if old.locations != new.locations {
        let text = |export: &Export| {
            let locations = export.locations.as_ref();
            locations.map_or_else(|| "no other locations".to_owned(), ToString::to_string)
        };
        lines.push(format!("{path}: {} instead of {}", text(new), text(old)));
    }
    let same = |a: &Rule, b: &Rule| a.client == b.client && a.certificate == b.certificate;
    for rule in old.rules() {
        if !new.rules().iter().any(|other| same(rule, other)) {
            lines.push(format!("{path}: no longer for {}", rule.client));
        }
    }
    for rule in new.rules() {
        let (client, now) = (&rule.client, rule.options_text());
        match old.rules().iter().find(|other| same(rule, other)) {
            None => lines.push(format!("{path}: now also for {client}({now})")),
            Some(before) if before != rule => {
                lines.push(format!(
                    "{path}: {client}({now}) instead of ({})",
                    before.options_text()
                ));
            }
            Some(_) => {}
        }
    }
    let order = |export: &Export| export.client_names();
    let (was, is) = (order(old), order(new));
    if was != is && was.len() == is.len() && was.iter().all(|client| is.contains(client)) {
        lines.push(format!("{path}: the order of its clients changed"));
    }
}
