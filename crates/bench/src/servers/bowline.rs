//! Bowline under test: this very binary unless another build is named.

use super::process::{Placement, Process};
use super::{ScratchDir, ServerError, TestServer, ports, ready};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The running program, even if its file has been replaced since.
const OWN: &str = "/proc/self/exe";

/// What is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Export {
    /// A directory, to everyone, root as root, from any port.
    Dir(PathBuf),
    /// An empty file system in memory, called this.
    Memory(String),
    /// The same, called `memory`, on a disk as slow as this says (`delay=SHARE:MIN..MAXms`).
    SlowMemory(String),
}

/// How to start it.
#[derive(Debug, Clone)]
pub struct Options {
    /// What it is called in tables.
    pub name: String,
    /// Another build; `None`: this program.
    pub program: Option<PathBuf>,
    /// What is served.
    pub export: Export,
    /// More export options of a directory, as exports(5) has them: `attr-cache=1000`; empty: none.
    pub export_options: String,
    /// Where it listens; the first is where the clients go.
    pub listen: Vec<IpAddr>,
    /// Its port; `None`: any that is free.
    pub port: Option<u16>,
    /// Settings, as `wake-policy` and `cap:5`.
    pub settings: Vec<(String, String)>,
    /// Whether it serves port 111 as well.
    pub portmap: bool,
    /// More of the command line.
    pub more: Vec<String>,
    /// Where it runs.
    pub place: Placement,
}

impl Options {
    /// Serves `dir` on the loopback with the defaults.
    pub fn of_dir(dir: &Path) -> Self {
        Self::of(Export::Dir(dir.to_path_buf()))
    }

    /// Serves an empty file system in memory.
    pub fn of_memory() -> Self {
        Self::of(Export::Memory("memory".into()))
    }

    /// Serves an empty file system in memory on a slow disk.
    pub fn of_slow_memory(delay: &str) -> Self {
        Self::of(Export::SlowMemory(delay.into()))
    }

    fn of(export: Export) -> Self {
        Self {
            name: "bowline".into(),
            program: None,
            export,
            export_options: String::new(),
            listen: vec![Ipv4Addr::LOCALHOST.into()],
            port: None,
            settings: Vec::new(),
            portmap: false,
            more: Vec::new(),
            place: Placement::default(),
        }
    }

    /// With one setting more.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }
}

/// Starts it.
///
/// # Errors
/// [`ServerError`].
pub fn start(options: &Options) -> Result<TestServer, ServerError> {
    let place = &options.place;
    let scratch = ScratchDir::new()?;
    let port = ports::free(place, options.port)?;
    let control = scratch.path().join("control.sock");
    let (export, words) = words(options, &scratch, port, &control)?;
    let mut command = Command::new(options.program.as_deref().unwrap_or(Path::new(OWN)));
    command.arg0("bowline").args(&words);
    let mut process = Process::start(command, "bowline", place)?;
    let addr = options.listen.first().copied().unwrap_or(Ipv4Addr::LOCALHOST.into());
    let subject = (addr, port).into();
    ready::wait(&options.name, &mut process, place, subject, subject)?;
    Ok(TestServer {
        name: options.name.clone(),
        addr,
        port,
        mount_port: port,
        lock_port: None,
        export,
        command: super::command::shown("bowline", &words),
        control: Some(control),
        pids: vec![process.pid()],
        process,
        place: place.clone(),
        _scratch: scratch,
    })
}

/// The path that clients mount, and the command line.
fn words(
    options: &Options,
    scratch: &ScratchDir,
    port: u16,
    control: &Path,
) -> Result<(String, Vec<String>), ServerError> {
    let mut words = vec!["serve".to_owned()];
    let shown = |path: &Path| path.to_string_lossy().into_owned();
    let export = match &options.export {
        Export::Dir(dir) => {
            let dir = dir.canonicalize();
            let dir = dir.map_err(|e| ServerError::io("the directory to serve", &e))?;
            let more = if options.export_options.is_empty() { "" } else { "," };
            let row = format!(
                "{} *(rw,no_root_squash,insecure{more}{})\n",
                escaped(&shown(&dir)),
                options.export_options
            );
            let file = scratch.file("exports", &row)?;
            words.extend(["--exports".to_owned(), shown(&file)]);
            shown(&dir)
        }
        Export::Memory(name) => {
            words.extend([format!("{name}=mem:"), "--client".into(), "*".into()]);
            format!("/{name}")
        }
        Export::SlowMemory(delay) => {
            words.extend([format!("memory=mem:{delay}"), "--client".into(), "*".into()]);
            "/memory".to_owned()
        }
    };
    for addr in &options.listen {
        words.extend(["--listen".to_owned(), addr.to_string()]);
    }
    let portmap = if options.portmap { "serve" } else { "off" };
    words.extend(["--port".to_owned(), port.to_string(), "--portmap".into(), portmap.into()]);
    words.extend(["--state-dir".to_owned(), shown(&scratch.path().join("state"))]);
    words.extend(["--control".to_owned(), shown(control)]);
    for (key, value) in &options.settings {
        words.extend(["--set".to_owned(), format!("{key}={value}")]);
    }
    words.extend(options.more.iter().cloned());
    Ok((export, words))
}

/// A path as exports(5) has it: what would end it is written as `\` and three octal digits.
fn escaped(path: &str) -> String {
    let mut text = String::new();
    for byte in path.chars() {
        if byte.is_whitespace() || matches!(byte, '"' | '\\' | '#' | '(' | ')') {
            let mut room = [0; 4];
            for byte in byte.encode_utf8(&mut room).bytes() {
                let _ = write!(text, "\\{byte:03o}");
            }
        } else {
            text.push(byte);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Options, escaped, words};
    use crate::servers::ScratchDir;
    use std::path::Path;

    #[test]
    fn the_command_line_contains_all_options() {
        let scratch = ScratchDir::new().unwrap();
        let dir = scratch.dir("a dir").unwrap();
        let options = Options::of_dir(&dir).set("wake-policy", "cap:5");
        let (export, words) = words(&options, &scratch, 2049, Path::new("/c.sock")).unwrap();
        assert_eq!(export, dir.canonicalize().unwrap().to_str().unwrap());
        let words = words.join(" ");
        for part in
            ["--listen 127.0.0.1", "--port 2049", "--set wake-policy=cap:5", "--control /c.sock"]
        {
            assert!(words.contains(part), "{part}: {words}");
        }
        let exports = std::fs::read_to_string(scratch.path().join("exports")).unwrap();
        assert!(exports.contains("a\\040dir *(rw,no_root_squash"), "{exports}");
        assert!(super::start(&Options::of_dir(Path::new("/no/such"))).is_err());
    }

    #[test]
    fn a_directory_has_the_export_options() {
        let scratch = ScratchDir::new().unwrap();
        let dir = scratch.dir("dir").unwrap();
        let row = |export_options: &str| {
            let export_options = export_options.to_owned();
            let options = Options { export_options, ..Options::of_dir(&dir) };
            words(&options, &scratch, 2049, Path::new("/c.sock")).unwrap();
            std::fs::read_to_string(scratch.path().join("exports")).unwrap()
        };
        assert!(row("").ends_with(" *(rw,no_root_squash,insecure)\n"));
        assert!(row("async,attr-cache=5").ends_with(",insecure,async,attr-cache=5)\n"));
    }

    #[test]
    fn paths_are_escaped_as_in_exports_5() {
        assert_eq!(escaped("/a b\"c/\u{a0}x"), "/a\\040b\\042c/\\302\\240x");
    }
}
