//! What a shell completes: the words of the command line from its definition; settings with their values, and experiments,
//! from their tables; exports and clients from the running server, if it answers at once.
//!
//! Who asks for them is [`crate::generate`].

use crate::default_paths;
use crate::settings::ROWS;
use admin::Client;
use admin::api::{ClientRow, ExportRow, Request};
use clap_complete::CompletionCandidate;
use std::ffi::OsStr;

/// Most exports or clients that are offered.
const OFFERED_MAX: usize = 200;

/// `KEY=VALUE` of a setting: the keys, then the words that the value can be.
pub fn assignments(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let Some((key, _)) = current.split_once('=') else {
        let keys = ROWS.iter().filter(|row| row.key.starts_with(current));
        return keys
            .map(|row| CompletionCandidate::new(row.key_equals).help(Some(row.help.into())))
            .collect();
    };
    let name = key.split_once('@').map_or(key, |(name, _)| name);
    let Some(row) = ROWS.iter().find(|row| row.key == name) else { return Vec::new() };
    // a word in capitals stands for something else
    let words =
        row.values.split(['|', ',']).filter(|w| !w.contains(|c: char| c.is_ascii_uppercase()));
    let whole = words.map(|word| format!("{key}={word}"));
    let fitting = whole.filter(|whole| whole.starts_with(current));
    fitting.map(CompletionCandidate::new).collect()
}

/// The experiments of `bowline bench run`.
pub fn experiments(current: &OsStr) -> Vec<CompletionCandidate> {
    let all = bench::experiments::ALL.iter();
    let all = all.map(|one| (one.name.to_owned(), one.question.to_owned()));
    starting(current, all.chain([("all".to_owned(), "all of them".to_owned())]))
}

/// The paths that the running server exports.
pub fn exports(current: &OsStr) -> Vec<CompletionCandidate> {
    let rows: Vec<ExportRow> = asked(&Request::Exports);
    starting(current, rows.into_iter().map(|row| (row.path, row.directory)))
}

/// The clients of the running server.
pub fn clients(current: &OsStr) -> Vec<CompletionCandidate> {
    let rows: Vec<ClientRow> = asked(&Request::Clients);
    starting(current, rows.into_iter().map(|row| (row.address, row.mounts.join(" "))))
}

fn starting(
    current: &OsStr,
    all: impl Iterator<Item = (String, String)>,
) -> Vec<CompletionCandidate> {
    let current = current.to_str().unwrap_or_default();
    let fitting = all.filter(|(value, _)| value.starts_with(current)).take(OFFERED_MAX);
    fitting
        .map(|(value, help)| {
            CompletionCandidate::new(value).help((!help.is_empty()).then(|| help.into()))
        })
        .collect()
}

/// What the server at the usual place answers; nothing if there is none.
fn asked<T: serde::de::DeserializeOwned>(request: &Request) -> Vec<T> {
    let server = Client::connect(&default_paths::control_socket());
    server.and_then(|mut server| server.ask(request)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{assignments, experiments};
    use clap_complete::CompletionCandidate;

    fn values(candidates: &[CompletionCandidate]) -> Vec<&str> {
        candidates.iter().map(|one| one.get_value().to_str().unwrap()).collect()
    }

    #[test]
    fn settings_and_their_values_are_completed() {
        assert_eq!(values(&assignments("thr".as_ref())), ["threads="]);
        let all = ["zero-copy=on", "zero-copy=off", "zero-copy=auto"];
        assert_eq!(values(&assignments("zero-copy=".as_ref())), all);
        assert_eq!(values(&assignments("zero-copy=a".as_ref())), ["zero-copy=auto"]);
        let scoped = values(&assignments("tcp-rcvbuf@/srv=".as_ref())).len();
        assert_eq!(scoped, 2, "auto and 0; SIZE stands for a number");
        assert!(assignments("colour=".as_ref()).is_empty());
    }

    #[test]
    fn experiments_are_completed() {
        assert!(!experiments("".as_ref()).is_empty());
        assert!(experiments("no such experiment".as_ref()).is_empty());
    }
}
