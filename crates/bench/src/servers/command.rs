//! Any server that a command line can start.
//!
//! In it `{DIR}` stands for the directory to export, `{PORT}` for NFS's port and `{MOUNT_PORT}` for
//! MOUNT's; without the latter MOUNT is expected on NFS's port. The command must stay in the foreground.

use super::process::{Placement, Process};
use super::{ScratchDir, ServerError, TestServer, ports, ready};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

/// Starts `template` for `dir`.
///
/// # Errors
/// [`ServerError`]; [`ServerError::Refused`] if the command has no `{PORT}`.
pub fn start(template: &str, dir: &Path, place: &Placement) -> Result<TestServer, ServerError> {
    let name = template.split_whitespace().next().unwrap_or("command").to_owned();
    let name = name.rsplit('/').next().unwrap_or("command").to_owned();
    if !template.contains("{PORT}") {
        let why = "the command must have {PORT} where the port belongs, and {DIR}".into();
        return Err(ServerError::Refused { name, why });
    }
    let scratch = ScratchDir::new()?;
    let dir = dir.canonicalize();
    let dir = dir.map_err(|e| ServerError::io("the directory to serve", &e))?;
    let export = dir.to_string_lossy().into_owned();
    let port = ports::free(place, None)?;
    let mount_port = if template.contains("{MOUNT_PORT}") { other(place, port)? } else { port };
    let line = template
        .replace("{DIR}", &quoted(&export))
        .replace("{PORT}", &port.to_string())
        .replace("{MOUNT_PORT}", &mount_port.to_string());
    let mut command = Command::new("sh");
    // the pid is to be the server's, not a shell's
    command.args(["-c", &format!("exec {line}")]);
    let mut process = Process::start(command, "dash", place)?;
    let addr = Ipv4Addr::LOCALHOST.into();
    let (nfs, mount) = ((addr, port).into(), (addr, mount_port).into());
    ready::wait(&name, &mut process, place, nfs, mount)?;
    Ok(TestServer {
        name,
        addr,
        port,
        mount_port,
        lock_port: None,
        export,
        command: line,
        control: None,
        pids: vec![process.pid()],
        process,
        place: place.clone(),
        _scratch: scratch,
    })
}

/// A free port that is not `port`.
pub(super) fn other(place: &Placement, port: u16) -> Result<u16, ServerError> {
    loop {
        let found = ports::free(place, None)?;
        if found != port {
            return Ok(found);
        }
    }
}

/// A command line as a person would type it.
pub(super) fn shown(program: &str, words: &[String]) -> String {
    let words = words.iter().map(|word| quoted(word));
    std::iter::once(program.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// A word for a shell, in quotes if it needs them.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::{quoted, start};
    use crate::servers::{Placement, ScratchDir, ServerError};

    #[test]
    fn words_are_quoted_only_if_needed() {
        assert_eq!((quoted("/a/b-c").as_str(), quoted("*").as_str()), ("/a/b-c", "'*'"));
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }

    #[test]
    fn errors_of_a_server_command_are_one_line() {
        let dir = ScratchDir::new().unwrap();
        let place = Placement::default();
        let error = start("server {DIR}", dir.path(), &place).unwrap_err();
        assert!(matches!(error, ServerError::Refused { .. }), "{error}");
        let error = start("/no/such/server {DIR} {PORT}", dir.path(), &place).unwrap_err();
        assert!(matches!(&error, ServerError::DidNotStart { name, .. } if name == "server"));
        assert!(error.to_string().contains("not found"), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}
