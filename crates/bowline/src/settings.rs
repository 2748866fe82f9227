//! Run-time settings: one table of rows ([`table`]), and the values in force.
//!
//! `--set`, the configuration's `[set]` table, `bowline set` and `bowline get` parse and print through the
//! rows. [`Values`] is plain data; the server keeps it behind a lock of its own.

mod apply_tcp_buffers;
mod audit;
mod byte_size;
mod clap_parsers;
mod row;
mod sandbox;
mod setting_type;
mod table;
mod tcp_buffers;
mod tls;

pub use audit::AuditFile;
pub use sandbox::Sandbox;
pub use tls::TlsDemand;

pub use apply_tcp_buffers::{check_at_start as check_tcp_buffers, size_exports};
pub use byte_size::ByteSize;
pub use clap_parsers::{AssignmentParser, KeyParser};
pub use row::{Assignment, Row};
pub use table::{ROWS, Values, udp_buffer_bytes};

use export::exports_file::nearest_name;
use std::str::FromStr;

/// The row of a key; a scope behind an `@` is ignored.
///
/// # Errors
/// There is no such setting; with the one that may be meant, and all that there are.
pub fn row(key: &str) -> Result<&'static Row, String> {
    let name = split_scope(key).0;
    ROWS.iter().find(|row| row.key == name).ok_or_else(|| {
        let names: Vec<&str> = ROWS.iter().map(|row| row.key).collect();
        let hint = match nearest_name(name.as_bytes(), names.iter().copied()) {
            Some(key) => format!("did you mean {key}? "),
            None if crate::serve_options::NAMES.contains(&name) => {
                format!(
                    "{name} is an option of `bowline serve` and a key of its configuration file; "
                )
            }
            None => String::new(),
        };
        format!("no setting is called {name:?}: {hint}there are {}", names.join(", "))
    })
}

/// Parses a value for a key.
///
/// # Errors
/// Which key or value is wrong, and what is right.
pub fn parse(key: &str, value: &str) -> Result<Assignment, String> {
    let row = row(key)?;
    parse_for(row, split_scope(key).1, value)
        .map_err(|error| format!("{key}: {error} ({})", row.summary()))
}

fn parse_for(row: &'static Row, scope: Option<&str>, value: &str) -> Result<Assignment, String> {
    Ok(Assignment { row, change: row.field.parse(scope, value)? })
}

/// What is in force under a key: the key in its normal form, and the value.
///
/// # Errors
/// There is no such setting, or it has no such scope.
pub fn value_of(values: &Values, key: &str) -> Result<(String, String), String> {
    let row = row(key)?;
    let (_, scope) = split_scope(key);
    let found = match scope {
        None => row.field.list(values).into_iter().next(),
        Some(scope) => {
            Some(row.field.of_scope(values, scope).map_err(|error| format!("{key}: {error}"))?)
        }
    };
    let (scope, value) = found.unwrap_or_default();
    Ok((format!("{}{scope}", row.key), value))
}

fn split_scope(key: &str) -> (&str, Option<&str>) {
    key.split_once('@').map_or((key, None), |(name, scope)| (name, Some(scope)))
}

impl FromStr for Assignment {
    type Err = String;

    /// `KEY=VALUE`, as on the command line.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((key, value)) = text.rsplit_once('=') {
            return parse(key.trim(), value.trim());
        }
        // a wrong key is the first thing to say
        let row = row(text.trim())?;
        Err(format!("a value is missing: write {}={} ({})", row.key, row.values, row.help))
    }
}

#[cfg(test)]
mod tests {
    use super::{Assignment, ROWS, Values, parse, row, value_of};

    #[test]
    fn every_default_can_be_set_again() {
        let mut values = Values::default();
        for row in &ROWS {
            for (key, shown) in row.list(&Values::default()) {
                assert_eq!(key, row.key);
                let new = parse(row.key, &shown).unwrap();
                assert_eq!((new.key(), new.value()), (key, shown));
                new.store(&mut values);
            }
            let live = !["sandbox", "tls", "tls-handshake-threads"].contains(&row.key);
            assert_eq!((row.is_live(), row.changes() == "live"), (live, live), "{}", row.key);
            assert!(row.help.len() > 20 && !row.help.ends_with('.'), "{}", row.key);
            assert!(row.manual.ends_with('.'), "{}", row.key);
        }
        assert_eq!(values, Values::default());
    }

    #[test]
    fn an_assignment_is_parsed_once_and_stored() {
        let new: Assignment = "max-read=64K".parse().unwrap();
        let mut values = Values::default();
        assert_eq!(new.previous(&values), "1M");
        new.store(&mut values);
        assert_eq!(values.max_read.0.bytes(), 65536);
        assert_eq!(value_of(&values, "max-read").unwrap().1, "64K");
    }

    #[test]
    fn a_misspelled_key_gets_a_hint() {
        let error = "max-reed=64K".parse::<Assignment>().unwrap_err();
        assert!(error.contains("did you mean max-read?"), "{error}");
        assert!(error.contains("max-read, max-write"), "{error}");
        assert!(!row("colour").err().unwrap().contains("did you mean"));
        assert!(row("port").err().unwrap().contains("port is an option of `bowline serve`"));
        let error = "threads".parse::<Assignment>().unwrap_err();
        assert!(error.contains("write threads="), "{error}");
    }

    #[test]
    fn buffer_sizes_have_scopes() {
        let mut values = Values::default();
        for (text, key, value) in [
            ("tcp-rcvbuf=16M", "tcp-rcvbuf", "16M"),
            ("tcp-rcvbuf@10.0.0.0/8=4M", "tcp-rcvbuf@10.0.0.0/8", "4M"),
            ("tcp-sndbuf@/srv/a=b=1M", "tcp-sndbuf@/srv/a=b", "1M"),
        ] {
            let new: Assignment = text.parse().unwrap();
            assert_eq!(new.key(), key);
            assert_ne!(new.previous(&values), value);
            new.store(&mut values);
            assert_eq!(value_of(&values, key).unwrap(), (key.to_owned(), value.to_owned()));
        }
        assert_eq!(row("tcp-rcvbuf").unwrap().list(&values).len(), 2);
        let (key, unset) = value_of(&values, "tcp-sndbuf@10.0.0.1").unwrap();
        assert_eq!((key.as_str(), unset.as_str()), ("tcp-sndbuf@10.0.0.1/32", "0"));
        for wrong in ["tcp-rcvbuf@nowhere=1M", "max-read@10.0.0.0/8=64K", "tcp-rcvbuf@=1M"] {
            assert!(wrong.parse::<Assignment>().is_err(), "{wrong}");
        }
        assert!(value_of(&values, "max-read@/srv").is_err());
    }
}
