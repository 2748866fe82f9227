//! Applies `tcp-rcvbuf` and `tcp-sndbuf` to a running server, and describes what limits a size.

use super::byte_size::ByteSize;
use super::setting_type::SettingType;
use super::tcp_buffers::{BufferSettings, Scope, ScopedSize};
use crate::serve::parts::{Applied, ServerParts};
use export::{BufferSize, Table};
use svc::{BufferTotals, Server};
use sys::tcp::Side;

/// Applies a new size; `settings` holds it already.
///
/// # Errors
/// There is no memory for such a buffer, or too many scopes have a size.
pub fn apply(
    parts: &ServerParts,
    side: Side,
    new: &ScopedSize,
    settings: &BufferSettings,
) -> Applied {
    if let Some(totals) = parts.with_server(Server::buffer_totals) {
        check(side, new, settings, totals)?;
    }
    let exports = parts.exports.load();
    size_exports(&exports, settings);
    let own = Box::new(settings.clone());
    let applied = parts.with_server(|server| server.set_buffers(own)).unwrap_or_default();
    let mut notes = notes(side, new, settings, &applied);
    if let Scope::Export(path) = &new.scope
        && !exports.exports().iter().any(|export| export.path_text() == *path)
    {
        notes.push(format!("no export has the path {path} now"));
    }
    Ok(notes)
}

/// Gives the exports the sizes that are set for their paths.
pub fn size_exports(table: &Table, settings: &BufferSettings) {
    for export in table.exports() {
        export.set_buffers(settings.of_export(&export.path_text()));
    }
}

/// Checks the sizes that a server starts with, and returns notes about them.
///
/// # Errors
/// There is no memory for such a buffer.
pub fn check_at_start(
    settings: &BufferSettings,
    totals: BufferTotals,
) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    for (side, sizes) in [(Side::Receive, &settings.receive), (Side::Send, &settings.send)] {
        for size in sizes.list() {
            check(side, &size, settings, totals).map_err(anyhow::Error::msg)?;
            let found = notes(side, &size, settings, &svc::Applied::default());
            let name = format!("{}{}={size}", name_of(side), size.scope);
            all.extend(found.iter().map(|note| format!("{name}: {note}")));
        }
    }
    Ok(all)
}

const fn name_of(side: Side) -> &'static str {
    match side {
        Side::Receive => "tcp-rcvbuf",
        Side::Send => "tcp-sndbuf",
    }
}

/// Whether a size can be accepted: one buffer of it must fit into what all connections may have together.
fn check(
    side: Side,
    new: &ScopedSize,
    settings: &BufferSettings,
    totals: BufferTotals,
) -> Result<(), String> {
    let sizes = match side {
        Side::Receive => &settings.receive,
        Side::Send => &settings.send,
    };
    sizes.has_room()?;
    let BufferSize::Bytes(bytes) = new.size else { return Ok(()) };
    let kernel_bytes = u64::from(bytes) * 2;
    if totals.promised_bytes_max == 0 || kernel_bytes <= totals.promised_bytes_max {
        return Ok(());
    }
    Err(format!(
        "{}={new}: one such buffer takes {} with the kernel's overhead, more than all connections may \
         have together, {} (net.ipv4.tcp_mem): choose a smaller size, or raise the sysctl",
        name_of(side),
        admin::bytes(kernel_bytes),
        admin::bytes(totals.promised_bytes_max)
    ))
}

/// Notes for the operator about an accepted size.
fn notes(
    side: Side,
    new: &ScopedSize,
    settings: &BufferSettings,
    applied: &svc::Applied,
) -> Vec<String> {
    let mut notes = Vec::new();
    if let BufferSize::Bytes(bytes) = new.size {
        notes.extend(sysctl_limit(side, bytes));
        notes.extend(below_default(side, bytes));
        if side == Side::Receive && new.scope != Scope::Server {
            notes.extend(beyond_window_scale(bytes, settings.receive.server_wide()));
        }
    }
    notes.extend(open_connections(applied));
    notes
}

/// Tries the size on a socket of its own, and says if a sysctl reduces it.
fn sysctl_limit(side: Side, bytes: u32) -> Option<String> {
    let got = sys::tcp::try_buffer(side, bytes).ok()?;
    if u64::from(got) >= u64::from(bytes) * 2 {
        return None;
    }
    let name = match side {
        Side::Receive => "net.core.rmem_max",
        Side::Send => "net.core.wmem_max",
    };
    Some(format!(
        "{name} reduces it to {}: raise it with `sysctl -w {name}={bytes}`, or give the server \
         CAP_NET_ADMIN",
        ByteSize((got / 2).into())
    ))
}

fn below_default(side: Side, bytes: u32) -> Option<String> {
    let name = match side {
        Side::Receive => "tcp_rmem",
        Side::Send => "tcp_wmem",
    };
    let default = *sys::tcp::sysctl_triple(name)?.get(1)?;
    (u64::from(bytes) * 2 <= default).then(|| {
        format!(
            "it has no effect: sizes are minima, and a connection starts with {} (net.ipv4.{name}), \
             which includes the kernel's overhead",
            ByteSize(default)
        )
    })
}

/// The window scale is chosen for the listener before client and export are known; a larger receive buffer
/// cannot be used fully.
fn beyond_window_scale(bytes: u32, server_wide: BufferSize) -> Option<String> {
    let largest = *sys::tcp::sysctl_triple("tcp_rmem")?.get(2)?;
    let listener = match server_wide {
        BufferSize::Bytes(bytes) => bytes.into(),
        BufferSize::Unset | BufferSize::Auto => 0,
    };
    let usable = largest.max(listener);
    (u64::from(bytes) > usable).then(|| {
        format!(
            "windows larger than {} may not be possible: the window scale is agreed on before the client \
             or the export is known; raise the last number of net.ipv4.tcp_rmem, or set tcp-rcvbuf for \
             the whole server",
            ByteSize(usable)
        )
    })
}

fn open_connections(applied: &svc::Applied) -> Option<String> {
    let svc::Applied {
        connections,
        as_wanted,
        reduced_by_sysctl,
        reduced_by_memory,
        reduced_by_scale,
    } = *applied;
    if connections == 0 {
        return None;
    }
    let mut text = format!("of {connections} open connections, {as_wanted} have the new size");
    for (count, why) in [
        (reduced_by_sysctl, "are limited by a sysctl"),
        (reduced_by_memory, "are limited because all buffers together must fit net.ipv4.tcp_mem"),
        (reduced_by_scale, "cannot use all of it before they reconnect"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {why}"));
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::{BufferSettings, SettingType, Side, check};
    use crate::settings::tcp_buffers::ScopedSizes;
    use svc::BufferTotals;

    #[test]
    fn a_buffer_larger_than_tcp_memory_is_rejected() {
        let totals = BufferTotals { promised_bytes: 0, promised_bytes_max: 32 << 20 };
        let sizes = ScopedSizes::default();
        let settings = BufferSettings { receive: sizes.clone(), send: sizes };
        let tried = |text| {
            let size = ScopedSizes::parse(None, text).unwrap();
            check(Side::Receive, &size, &settings, totals)
        };
        assert_eq!(tried("16M"), Ok(()));
        let error = tried("17M").unwrap_err();
        assert!(error.contains("net.ipv4.tcp_mem"), "{error}");
    }
}
