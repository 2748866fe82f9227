//! What `doctor` asks a running server: what is configured and not served, what it warns of, calls that sleep in a disk.

use super::finding::{Finding, within};
use crate::default_paths;
use admin::api::{Request, Status};
use admin::{Client, ClientError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

const ABOUT: &str = "server";

/// What was found, and where the server listens, if there is one.
pub struct Answered {
    pub findings: Vec<Finding>,
    pub port: Option<u16>,
}

/// Asks the server of this control socket, or of the default one, where there need be none.
pub fn ask(named: Option<PathBuf>) -> Answered {
    let is_named = named.is_some();
    let path = named.unwrap_or_else(default_paths::control_socket);
    let asked = path.clone();
    let status = within(move || Client::connect(&asked)?.ask::<Status>(&Request::Status));
    match status {
        Some(Ok(status)) => Answered { port: port(&status), findings: about(&status) },
        Some(Err(error)) => {
            Answered { findings: vec![no_answer(&path, is_named, &error)], port: None }
        }
        None => {
            let text = format!("the server on {} does not answer", path.display());
            let remedy = "look at its log; `systemctl restart bowline` starts it again";
            Answered { findings: vec![Finding::problem(ABOUT, text, remedy)], port: None }
        }
    }
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
        found.push(Finding::problem(
            ABOUT,
            format!(
                "{} calls sleep in the file system of {}, the oldest for {seconds} s",
                export.calls, export.path
            ),
            "look at its disk or server; `bowline top --view calls` names the files",
        ));
    }
    let warn = |text: &String| Finding::note(ABOUT, text.clone(), "`bowline status` shows it too");
    found.extend(status.warnings.iter().map(warn));
    found
}
