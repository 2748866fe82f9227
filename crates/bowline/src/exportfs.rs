//! `bowline exportfs`: what scripts, ZFS and OpenMediaVault call as exportfs(8), for a running server.
//!
//! The same as that program: options, output, and that changes without a server succeed if the files have them, because
//! a server reads the files when it starts. Different: a reload applies all of the files or nothing.

use crate::output::{self, UsageError};
use crate::{control_commands, default_paths};
use admin::api::{ExportChange, ExportRow, Reloaded, Request};
use admin::{Client, ClientError};
use clap::{Args, ValueHint};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Paths longer than this have a line of their own in a list.
const PATH_COLUMNS: usize = 14;

/// The options of `bowline exportfs`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of exportfs(8)")]
pub struct ExportfsOptions {
    /// Export everything that the exports files name; with -u, end all exports
    #[arg(short = 'a')]
    pub all: bool,
    /// Read the exports files again, and end what they do not name: bowline reload
    #[arg(short = 'r')]
    pub again: bool,
    /// End exports
    #[arg(short = 'u', conflicts_with = "again")]
    pub unexport: bool,
    /// Options of the exports that are named, as in exports(5)
    #[arg(short = 'o', value_name = "OPTIONS", requires = "exports")]
    pub options: Vec<String>,
    /// Only use the options of -o; it is always so
    #[arg(short = 'i')]
    pub ignore_files: bool,
    /// Have the server forget what it has asked about exports; it always knows what is in force
    #[arg(short = 'f')]
    pub flush: bool,
    /// List with options; with changes, print them
    #[arg(short = 'v')]
    pub verbose: bool,
    /// List in the format of an exports file
    #[arg(short = 's', conflicts_with_all = ["all", "again", "unexport", "exports"])]
    pub as_file: bool,
    /// Clients, and the directory that is exported to them; nothing before the colon is every machine
    #[arg(value_name = "CLIENT:/DIR", value_hint = ValueHint::AnyPath)]
    pub exports: Vec<String>,
    /// Control socket of the server [default: /run/bowline/control.sock, for an ordinary user
    /// $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
}

/// Runs it.
///
/// # Errors
/// The server refuses a change; the others that were asked for have been made.
pub fn exportfs(options: &ExportfsOptions) -> anyhow::Result<ExitCode> {
    let path = options.control.clone().unwrap_or_else(default_paths::control_socket);
    let requests = requests(options)?;
    if requests.is_empty() && options.flush {
        return Ok(ExitCode::SUCCESS);
    }
    let mut client = match Client::connect(&path) {
        Err(error @ ClientError::NoServer(_)) if options.is_of_files() => {
            output::print_error(format!("nothing is exported now: {error}"));
            return Ok(ExitCode::SUCCESS);
        }
        connected => connected?,
    };
    if requests.is_empty() {
        let rows: Vec<ExportRow> = client.ask(&Request::Exports)?;
        output::print(list(&rows, options.verbose, options.as_file))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut failed = None;
    for request in requests {
        match client.ask::<Reloaded>(&request) {
            Ok(done) if options.verbose => {
                output::print(control_commands::reload_text(&done, false))?
            }
            Ok(_) => {}
            Err(error) => {
                // all are tried, and each has its line
                if let Some(error) = failed.replace(error) {
                    output::print_error(error);
                }
            }
        }
    }
    failed.map_or(Ok(ExitCode::SUCCESS), |error| Err(error.into()))
}

impl ExportfsOptions {
    /// Whether a server that starts later does what is asked for.
    fn is_of_files(&self) -> bool {
        self.exports.is_empty() && (self.all || self.again)
    }
}

/// What the server is asked, in this order; nothing: the list of exports.
fn requests(options: &ExportfsOptions) -> anyhow::Result<Vec<Request>> {
    let mut requests = Vec::new();
    match (options.again, options.all, options.unexport) {
        (true, _, _) => requests.push(Request::Reload { dry_run: false }),
        (false, true, true) => requests.push(Request::Export(ExportChange::RemoveAll)),
        (false, true, false) => requests.push(Request::Export(ExportChange::AddConfigured)),
        (false, false, true) if options.exports.is_empty() => {
            let hint = "name CLIENT:/DIR, or all with -a";
            return Err(UsageError(format!("exportfs -u: {hint}")).into());
        }
        (false, false, _) => {}
    }
    for word in &options.exports {
        let (client, path) = split(word).ok_or_else(|| {
            UsageError(format!("{word}: write CLIENT:/DIR, for example 192.0.2.0/24:/srv/data"))
        })?;
        let (client, path) = (client.to_owned(), path.to_owned());
        requests.push(Request::Export(if options.unexport {
            ExportChange::Remove { client, path }
        } else {
            ExportChange::Add { client, path, options: options.options.join(",") }
        }));
    }
    Ok(requests)
}

/// Clients and directory. An IPv6 network has `:/` in it, so IPv6 needs brackets.
fn split(word: &str) -> Option<(&str, &str)> {
    let address = if word.starts_with('[') { word.find(']')? } else { 0 };
    let colon = word.get(address..)?.find(":/")?.checked_add(address)?;
    Some((word.get(..colon)?, word.get(colon.checked_add(1)?..)?))
}

/// The exports, a line for each client.
fn list(rows: &[ExportRow], verbose: bool, as_file: bool) -> String {
    let mut text = String::new();
    for row in rows {
        for rule in &row.rules {
            for client in rule.clients.split(", ") {
                let client = if client == "this machine" { "localhost" } else { client };
                let shown = if client == "*" && !as_file { "<world>" } else { client };
                let path = &row.path;
                let _ = match (as_file, path.len() > PATH_COLUMNS) {
                    (true, _) => write!(text, "{} {shown}", escaped(path)),
                    (false, true) => write!(text, "{path}\n\t\t{shown}"),
                    (false, false) => write!(text, "{path:<PATH_COLUMNS$}\t{shown}"),
                };
                if verbose || as_file {
                    let _ = write!(text, "({})", rule.options);
                }
                text.push('\n');
            }
        }
    }
    text
}

/// A path as exports(5) has it.
fn escaped(path: &str) -> String {
    let escape = |c: char| match c {
        ' ' | '\t' | '\n' | '"' | '\\' | '#' => format!("\\{:03o}", u32::from(c)),
        other => other.to_string(),
    };
    path.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::{list, requests, split};
    use crate::cli::{Cli, Command};
    use admin::api::{ExportChange, ExportRow, Request, RuleRow};
    use clap::Parser;

    fn asked(line: &str) -> Vec<Request> {
        let words = std::iter::once("bowline").chain(line.split(' '));
        let Command::Exportfs(options) = Cli::try_parse_from(words).unwrap().command else {
            unreachable!()
        };
        requests(&options).unwrap()
    }

    #[test]
    fn the_calls_of_scripts_are_understood() {
        let (client, path) = ("192.0.2.0/24".to_owned(), "/srv/a".to_owned());
        let options = "rw,no_root_squash".to_owned();
        let add = ExportChange::Add { client: client.clone(), path: path.clone(), options };
        for line in [
            "exportfs -o rw,no_root_squash 192.0.2.0/24:/srv/a",
            "exportfs -v -i -orw,no_root_squash 192.0.2.0/24:/srv/a",
            "exportfs -o rw -o no_root_squash 192.0.2.0/24:/srv/a",
        ] {
            assert_eq!(asked(line), [Request::Export(add.clone())], "{line}");
        }
        let reload = Request::Reload { dry_run: false };
        for line in ["exportfs -ra", "exportfs -r", "exportfs -a -r -v", "exportfs -arf"] {
            assert_eq!(asked(line), std::slice::from_ref(&reload), "{line}");
        }
        assert_eq!(asked("exportfs -a"), [Request::Export(ExportChange::AddConfigured)]);
        assert_eq!(asked("exportfs -ua"), [Request::Export(ExportChange::RemoveAll)]);
        let remove = ExportChange::Remove { client, path };
        assert_eq!(asked("exportfs -u 192.0.2.0/24:/srv/a"), [Request::Export(remove)]);
        for line in ["exportfs -v", "exportfs -s", "exportfs -f", "exportfs -iv"] {
            assert!(asked(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn client_and_directory_are_split() {
        assert_eq!(split("*:/a"), Some(("*", "/a")));
        assert_eq!(split(":/a:/b"), Some(("", "/a:/b")));
        assert_eq!(split("[2001:db8::]/32:/a"), Some(("[2001:db8::]/32", "/a")));
        for wrong in ["/a", "host", "host:a", "[::1:/a"] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn lists_are_those_of_exportfs() {
        let row: ExportRow = serde_json::from_value(serde_json::json!({
            "path": "/srv/a b", "directory": "/srv/a b", "id": 1, "uuid": "", "rules": [],
            "calls": 0, "errors": 0, "bytes_read": 0, "bytes_written": 0,
        }))
        .unwrap();
        let rule = |clients: &str| RuleRow { clients: clients.into(), options: "ro,sync".into() };
        let short = ExportRow { rules: vec![rule("*, @staff")], ..row.clone() };
        let long = ExportRow { path: "/srv/a/long/path".into(), rules: vec![rule("h")], ..row };
        let rows = [short, long];
        assert_eq!(
            list(&rows, false, false),
            "/srv/a b      \t<world>\n/srv/a b      \t@staff\n/srv/a/long/path\n\t\th\n"
        );
        assert!(list(&rows, true, false).contains("\t<world>(ro,sync)\n"));
        let file = list(&rows, false, true);
        assert!(file.starts_with("/srv/a\\040b *(ro,sync)\n"), "{file}");
        assert_eq!(export::exports_file::parse(file.as_bytes()).entries.len(), 2);
    }
}
