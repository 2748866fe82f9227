//! A record as a line of JSON. The keys are documented in docs/json.md.

use nfs::audit::{AuditRecord, AuditedPath};
use rpc::Transport;
use serde::Serialize;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::{SetAttr, SetTime};

/// The version of the format.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct RecordJson<'r> {
    version: u32,
    time: String,
    operation: &'static str,
    client: String,
    port: u16,
    transport: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    acts_as: u32,
    export: &'r str,
    #[serde(flatten)]
    place: PathJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<PathJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<AttributesJson>,
    result: String,
}

#[derive(Serialize)]
struct PathJson {
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

#[derive(Serialize)]
struct AttributesJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    atime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtime: Option<String>,
}

#[derive(Serialize)]
struct DroppedJson {
    version: u32,
    time: String,
    dropped: u64,
}

/// Appends the line of a record.
pub fn put(lines: &mut Vec<u8>, record: &AuditRecord) {
    let line = RecordJson {
        version: VERSION,
        time: time(record.time),
        operation: record.operation.name(),
        client: record.peer.addr.ip().to_canonical().to_string(),
        port: record.peer.addr.port(),
        transport: match record.peer.transport {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        },
        user: record.uid,
        principal: record.principal.as_ref().map(|name| String::from_utf8_lossy(name).into()),
        acts_as: record.acts_as_uid,
        export: &record.export,
        place: place(&record.place),
        to: record.to.as_ref().map(place),
        set: record.set.as_ref().map(set),
        result: record.failed.map_or_else(|| "ok".to_owned(), |status| status.to_string()),
    };
    put_json(lines, &line);
}

/// Appends a line that says how many records are missing here.
pub fn put_dropped(lines: &mut Vec<u8>, dropped: u64) {
    put_json(lines, &DroppedJson { version: VERSION, time: time(SystemTime::now()), dropped });
}

fn put_json(lines: &mut Vec<u8>, line: &impl Serialize) {
    // strings and numbers can always be written to memory
    if serde_json::to_writer(&mut *lines, line).is_ok() {
        lines.push(b'\n');
    }
}

/// A path with its bytes where it is no UTF-8; the name where there is no path.
fn place(place: &AuditedPath) -> PathJson {
    let hex = |bytes: &[u8]| {
        let mut text = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            let _ = write!(text, "{byte:02x}");
        }
        text
    };
    let bytes = place.path.as_ref().map(|path| path.as_os_str().as_bytes());
    let name = place.name.as_deref().filter(|_| bytes.is_none());
    PathJson {
        path: bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
        path_hex: bytes.filter(|bytes| std::str::from_utf8(bytes).is_err()).map(hex),
        name: name.map(|name| String::from_utf8_lossy(name).into_owned()),
    }
}

fn set(set: &SetAttr) -> AttributesJson {
    let moment = |set: SetTime| match set {
        SetTime::Keep => None,
        SetTime::Now => Some("now".to_owned()),
        SetTime::To(to) | SetTime::Delegated(to) => Some(utc(to.sec, to.nsec / 1000)),
    };
    AttributesJson {
        mode: set.mode.map(|mode| format!("{mode:04o}")),
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        atime: moment(set.atime),
        mtime: moment(set.mtime),
    }
}

fn time(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    utc(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_micros())
}

/// A moment as in RFC 3339, in UTC; as seconds where the year has more than four digits.
fn utc(sec: i64, micros: u32) -> String {
    /// The last second of the year 9999, and the first one of the year 0.
    const LAST: i64 = 253_402_300_799;
    const FIRST: i64 = -62_167_219_200;
    if !(FIRST..=LAST).contains(&sec) {
        return sec.to_string();
    }
    let (days, in_day) = (sec.div_euclid(86_400), sec.rem_euclid(86_400));
    // days since 0000-03-01, in cycles of 400 years
    let shifted = days + 719_468;
    let (cycle, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_cycle = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_cycle + cycle * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (in_day / 3600, in_day / 60 % 60, in_day % 60);
    format!("{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn moments_are_written_in_utc() {
        for (sec, expected) in [
            (0, "1970-01-01T00:00:00.000007Z"),
            (951_782_399, "2000-02-28T23:59:59.000007Z"),
            (951_782_400, "2000-02-29T00:00:00.000007Z"),
            (1_704_067_199, "2023-12-31T23:59:59.000007Z"),
            (-1, "1969-12-31T23:59:59.000007Z"),
            (253_402_300_799, "9999-12-31T23:59:59.000007Z"),
            (253_402_300_800, "253402300800"),
        ] {
            assert_eq!(utc(sec, 7), expected);
        }
    }
}
