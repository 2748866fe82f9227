//! What `doctor` asks a running server: what is configured and not served, what it warns of, calls that sleep in a disk.

use super::finding::{Finding, within};
use crate::default_paths;
use admin::api::{Request, Status};
use admin::{Client, ClientError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

const ABOUT: &str = "server";
/// A call that sleeps in a file system for so long is a problem; shorter ones are what disks are like.
const SLEEP_MAX_S: u64 = 10;

/// What was found; of a server that has answered, its process and where it listens.
pub struct Answered {
    pub findings: Vec<Finding>,
    pub process: Option<u32>,
    pub port: Option<u16>,
}

/// Asks the server of this control socket, or of the default one, where there need be none.
pub fn ask(named: Option<PathBuf>) -> Answered {
    let is_named = named.is_some();
    let path = named.unwrap_or_else(default_paths::control_socket);
    let asked = path.clone();
    let status = within(move || Client::connect(&asked)?.ask::<Status>(&Request::Status));
    match status {
        Some(Ok(status)) => {
            Answered { findings: about(&status), process: Some(status.pid), port: port(&status) }
        }
        Some(Err(error)) => not_there(no_answer(&path, is_named, &error)),
        None => {
            let text = format!("the server on {} does not answer", path.display());
            let remedy = "look at its log; `systemctl restart bowline` starts it again";
            not_there(Finding::problem(ABOUT, text, remedy))
        }
    }
}

fn not_there(finding: Finding) -> Answered {
    Answered { findings: vec![finding], process: None, port: None }
}

fn no_answer(path: &Path, is_named: bool, error: &ClientError) -> Finding {
    let shown = path.display();
    match error {
        ClientError::NoServer(_) if !is_named => {
            Finding::ok(ABOUT, format!("none runs with the control socket {shown}"))
        }
        ClientError::NoServer(_) => Finding::problem(
            ABOUT,
            format!("none answers on {shown}"),
            "start it, or name the socket that it has (its option --control)",
        ),
        ClientError::NoPermission(_) => Finding::note(
            ABOUT,
            format!("not asked: no permission for {shown}"),
            "run this as root or as the user that runs the server",
        ),
        other => Finding::problem(ABOUT, other.to_string(), "look at its log"),
    }
}

/// The port of the first address that it listens on.
fn port(status: &Status) -> Option<u16> {
    let address = status.listen.first()?.split(' ').next_back()?;
    Some(address.parse::<SocketAddr>().ok()?.port())
}

fn about(status: &Status) -> Vec<Finding> {
    let listens = status.listen.first().map_or("nothing", String::as_str);
    let mut found = vec![Finding::ok(
        ABOUT,
        format!(
            "version {} (process {}) serves {} exports on {listens}",
            status.version, status.pid, status.exports
        ),
    )];
    for export in &status.waiting_exports {
        found.push(Finding::problem(
            ABOUT,
            format!("{} is not served: {}", export.path, export.reason),
            "it is served as soon as its directory is there and answers",
        ));
    }
    for export in &status.blocked_exports {
        let seconds = export.oldest_ms / 1000;
        if seconds < SLEEP_MAX_S {
            continue;
        }
        found.push(Finding::problem(
            ABOUT,
            format!(
                "{} in {} has slept in the file system for {seconds} s; calls that sleep there: {}",
                export.oldest_call, export.path, export.calls
            ),
            "look at its disk or server; `bowline top --view calls` names the files",
        ));
    }
    let warn = |text: &String| Finding::note(ABOUT, text.clone(), "`bowline status` shows it too");
    found.extend(status.warnings.iter().map(warn));
    found
}
