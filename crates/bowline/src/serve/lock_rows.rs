//! The locks as `bowline locks` shows them.

use admin::api::LockRow;
use nfs::nlm::{HeldKind, HeldRow};
use state::{Mode, ShareBits};
use std::fmt::Write as _;

/// A row for each lock, request and share reservation.
pub fn rows(held: &[HeldRow]) -> Vec<LockRow> {
    held.iter().map(row).collect()
}

fn row(held: &HeldRow) -> LockRow {
    let (kind, mode, waiting) = match held.kind {
        HeldKind::Lock(mode) => ("lock", mode_text(mode).to_owned(), None),
        HeldKind::Waiting { mode, local, waiting_ms } => {
            ("waiting", mode_text(mode).to_owned(), Some((waiting_ms, local)))
        }
        HeldKind::Share { access, deny } => {
            ("share", format!("{}, denies {}", share_text(access), share_text(deny)), None)
        }
    };
    let end = Some(held.range.end()).filter(|end| *end != u64::MAX);
    LockRow {
        address: held.addr.to_string(),
        client: text(&held.client),
        owner: owner_text(held),
        export: held.export.clone().unwrap_or_default(),
        file: held.path.clone().unwrap_or_else(|| hex(held.file.bytes())),
        kind: kind.to_owned(),
        mode,
        start: held.range.start(),
        end,
        waiting_ms: waiting.map(|(waiting_ms, _)| waiting_ms),
        blocked_locally: waiting.is_some_and(|(_, local)| local),
    }
}

const fn mode_text(mode: Mode) -> &'static str {
    match mode {
        Mode::Read => "read",
        Mode::Write => "write",
    }
}

/// What a share reservation is for.
pub fn share_text(bits: ShareBits) -> &'static str {
    match bits.number() {
        0 => "nothing",
        1 => "read",
        2 => "write",
        _ => "read and write",
    }
}

/// The process, and the owner handle, which most clients write as text.
fn owner_text(held: &HeldRow) -> String {
    let oh = text(&held.oh);
    held.svid.map_or_else(|| oh.clone(), |svid| format!("{svid} {oh}"))
}

/// Bytes of a client: as text if they are some, else in hexadecimal.
pub fn text(bytes: &[u8]) -> String {
    let shown = std::str::from_utf8(bytes).ok();
    let shown = shown.filter(|text| !text.chars().any(char::is_control));
    shown.map_or_else(|| hex(bytes), ToOwned::to_owned)
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // writing to a string does not fail
        let _ = write!(text, "{byte:02x}");
        text
    })
}
