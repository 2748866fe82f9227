//! Combines the command line, the configuration file and the defaults into one [`ServeConfig`].
//!
//! The command line takes precedence over the file, and the file over the defaults; a list replaces the
//! whole list of the next level. Paths in the file are relative to the file's directory.

mod file;
mod file_error;

pub use file::read;
pub use file_error::FileError;

use crate::default_paths;
use crate::output::UsageError;
use crate::serve::portmap::PortmapMode;
use crate::serve_options::ServeOptions;
use crate::settings::Values;
use anyhow::bail;
use export::Source;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// NFS's port.
const PORT: u16 = 2049;

/// What `serve` does.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// Directories by the command line or the configuration.
    pub dirs: Vec<Dir>,
    /// The exports(5) files, and directories of them.
    pub exports: Vec<PathBuf>,
    /// Where to listen.
    pub listen: Vec<IpAddr>,
    /// The port.
    pub port: u16,
    /// Whether nobody may change anything, whatever an exports file says.
    pub read_only: bool,
    /// Who may mount `dirs`; empty: this machine.
    pub clients: Vec<String>,
    /// What to do about the portmapper.
    pub portmap: PortmapMode,
    /// Where state is kept.
    pub state_dir: PathBuf,
    /// Where the control socket is.
    pub control: PathBuf,
    /// Run-time settings to start with.
    pub values: Values,
    /// Whether to prove the service over the wire.
    pub prove: bool,
}

impl ServeConfig {
    /// What a server that was started with these settings cannot take from others while it runs.
    pub fn restart_notes(&self, now: &Self) -> Vec<String> {
        let kept = [
            ("listen", self.listen == now.listen),
            ("port", self.port == now.port),
            ("portmap", self.portmap == now.portmap),
            ("state-dir", self.state_dir == now.state_dir),
            ("control", self.control == now.control),
        ];
        let changed: Vec<&str> =
            kept.iter().filter(|(_, same)| !same).map(|(key, _)| *key).collect();
        let mut notes = Vec::new();
        if !changed.is_empty() {
            let keys = changed.join(", ");
            notes.push(format!("the configuration has another {keys} now: restart to apply that"));
        }
        if self.values != now.values {
            let what = "the configuration has other run-time settings now: `bowline set` applies \
                        them, or a restart";
            notes.push(what.to_owned());
        }
        notes
    }
}

/// Something to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dir {
    /// What clients mount: `/NAME`, or the directory's own full path.
    pub name: Option<String>,
    /// What is served.
    pub source: Source,
}

impl Dir {
    /// Parses `DIR` or `NAME=DIR`.
    ///
    /// # Errors
    /// [`UsageError`].
    pub fn parse(text: &str, base: &Path) -> Result<Self, UsageError> {
        let (name, dir) = match text.split_once('=') {
            Some((name, dir)) if !name.contains('/') => (Some(checked_name(name)?), dir),
            _ => (None, text),
        };
        let source = match dir {
            "" => {
                return Err(UsageError(format!(
                    "{text:?} names no directory: write DIR or NAME=DIR"
                )));
            }
            "mem:" => Source::Memory,
            dir => match dir.strip_prefix("mem:") {
                Some(slow) => Source::SlowMemory(slow.parse().map_err(UsageError)?),
                None => Source::Directory(base.join(dir)),
            },
        };
        if !matches!(source, Source::Directory(_)) && name.is_none() {
            return Err(UsageError("a file system in memory needs a name: write NAME=mem:".into()));
        }
        Ok(Self { name, source })
    }
}

fn checked_name(name: &str) -> Result<String, UsageError> {
    if name.is_empty() || name == "." || name == ".." || name.chars().any(char::is_control) {
        return Err(UsageError(format!("{name:?} cannot be an export's name: write NAME=DIR")));
    }
    Ok(name.to_owned())
}

/// Merges the layers.
///
/// # Errors
/// A [`UsageError`] for a wrong command line; what is wrong with the configuration file, and where.
pub fn resolve(options: ServeOptions) -> anyhow::Result<ServeConfig> {
    let (file, base) = match &options.config {
        Some(path) => (read(path)?, path.parent().map(Path::to_path_buf).unwrap_or_default()),
        None => (ServeOptions::default(), PathBuf::new()),
    };
    let here = Path::new("");
    let (dirs, dirs_base) =
        if options.dirs.is_empty() { (file.dirs, base.as_path()) } else { (options.dirs, here) };
    let dirs = dirs.iter().map(|d| Dir::parse(d, dirs_base)).collect::<Result<Vec<_>, _>>()?;
    let within = |path: PathBuf| base.join(path);
    let exports = first(options.exports, file.exports.into_iter().map(within).collect());
    if dirs.is_empty() && exports.is_empty() {
        let what = "nothing to serve: name a directory, as in `bowline serve /some/dir`, or an \
                    exports file with --exports";
        return Err(UsageError(what.into()).into());
    }
    if dirs.is_empty() {
        check_client_option(&options.client, options.config.as_deref(), &file.client)?;
    }
    if let Some(what) = overlap(&options.listen) {
        return Err(UsageError(what).into());
    }
    let mut listen = first(options.listen, file.listen);
    if let (Some(what), Some(path)) = (overlap(&listen), &options.config) {
        bail!("{}: the key listen: {what}", path.display());
    }
    if listen.is_empty() {
        listen.push(Ipv4Addr::LOCALHOST.into());
    }
    let mut values = Values::default();
    for assignment in file.set.iter().chain(&options.set) {
        assignment.store(&mut values);
    }
    Ok(ServeConfig {
        dirs,
        exports,
        listen,
        port: options.port.or(file.port).unwrap_or(PORT),
        read_only: options.read_only || file.read_only,
        clients: first(options.client, file.client),
        portmap: options.portmap.or(file.portmap).unwrap_or_default(),
        state_dir: options
            .state_dir
            .or(file.state_dir.map(within))
            .unwrap_or_else(default_paths::state_dir),
        control: options
            .control
            .or(file.control.map(within))
            .unwrap_or_else(default_paths::control_socket),
        values,
        prove: options.prove || file.prove,
    })
}

/// Whoever says who may mount must not believe that it holds for an exports file.
fn check_client_option(
    clients: &[String],
    file: Option<&Path>,
    in_file: &[String],
) -> anyhow::Result<()> {
    let why = "is for the directories named, and none is: the exports file says itself who may \
               mount what; name a directory, or leave";
    if !clients.is_empty() {
        return Err(UsageError(format!("--client {why} --client out")).into());
    }
    match file {
        Some(path) if !in_file.is_empty() => {
            bail!("{}: the key client {why} the key out", path.display())
        }
        Some(_) | None => Ok(()),
    }
}

/// What is wrong with addresses of which one has another in it: the kernel gives both to nobody.
fn overlap(listen: &[IpAddr]) -> Option<String> {
    let others = |place: usize| listen.iter().enumerate().filter(move |(other, _)| *other != place);
    listen.iter().enumerate().find_map(|(place, all)| {
        let within =
            |ip: &IpAddr| ip == all || all.is_unspecified() && ip.is_ipv4() == all.is_ipv4();
        let (_, ip) = others(place).find(|(_, ip)| within(ip))?;
        Some(match ip == all {
            true => format!("{ip} is to be listened on twice: name it once"),
            false => format!("{all} has {ip} in it: listen on one of them"),
        })
    })
}

fn first<T>(above: Vec<T>, below: Vec<T>) -> Vec<T> {
    if above.is_empty() { below } else { above }
}

#[cfg(test)]
mod tests {
    use super::{Dir, resolve};
    use crate::cli::{Cli, Command};
    use crate::output::UsageError;
    use crate::serve::portmap::PortmapMode;
    use crate::serve_options::ServeOptions;
    use clap::Parser;
    use export::Source;
    use std::path::Path;

    fn options(line: &str) -> ServeOptions {
        match Cli::try_parse_from(line.split_whitespace()).unwrap().command {
            Command::Serve(options) => *options,
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn a_directory_alone_is_enough() {
        let settings = resolve(options("bowline serve /srv/x")).unwrap();
        assert_eq!(settings.port, 2049);
        assert_eq!(settings.listen, ["127.0.0.1".parse::<std::net::IpAddr>().unwrap()]);
        assert!(settings.clients.is_empty() && !settings.read_only);
        assert_eq!(settings.portmap, PortmapMode::Auto);
    }

    #[test]
    fn nothing_to_serve_is_a_usage_error() {
        let error = resolve(options("bowline serve")).unwrap_err();
        assert!(error.is::<UsageError>(), "{error}");
    }

    #[test]
    fn addresses_must_not_overlap() {
        for (line, part) in [
            ("--listen 127.0.0.1 --listen 0.0.0.0", "0.0.0.0 has 127.0.0.1 in it"),
            ("--listen :: --listen ::1", ":: has ::1 in it"),
            ("--listen ::1 --listen ::1", "::1 is to be listened on twice"),
        ] {
            let error = resolve(options(&format!("bowline serve /a {line}"))).unwrap_err();
            assert!(error.is::<UsageError>() && error.to_string().contains(part), "{error}");
        }
        assert!(resolve(options("bowline serve /a --listen 0.0.0.0 --listen ::")).is_ok());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.toml");
        std::fs::write(&path, "dirs = '/a'\nlisten = ['0.0.0.0', '127.0.0.1']\n").unwrap();
        let line = format!("bowline serve --config {}", path.display());
        let error = resolve(options(&line)).unwrap_err().to_string();
        assert!(error.contains("b.toml: the key listen: 0.0.0.0 has 127.0.0.1"), "{error}");
    }

    #[test]
    fn clients_of_no_directory_are_an_error_of_who_names_them() {
        let error = resolve(options("bowline serve --exports e --client *")).unwrap_err();
        assert!(error.is::<UsageError>() && error.to_string().contains("--client"));
        assert!(resolve(options("bowline serve /a --exports e --client *")).is_ok());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.toml");
        std::fs::write(&path, "client = '*'\nexports = 'e'\n").unwrap();
        let line = format!("bowline serve --config {}", path.display());
        let error = resolve(options(&line)).unwrap_err();
        assert!(!error.is::<UsageError>(), "{error}");
        let told = error.to_string();
        assert!(told.contains("b.toml: the key client"), "{told}");
        assert!(resolve(options(&format!("{line} /a"))).is_ok());
    }

    #[test]
    fn the_command_line_goes_before_the_file() {
        let dir = std::env::temp_dir().join(format!("bowline-config-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("b.toml");
        let text = "dirs = ['data', 'm=mem:']\nlisten = '[::]'\nport = 3049\nread-only = true\n\
                    client = ['10.0.0.0/8', '*']\nportmap = 'off'\nstate-dir = 'state'\n\
                    control = '/c'\nexports = 'e'\nprove = true\n\
                    [set]\nmax-read = '64K'\nthreads = 4\n";
        std::fs::write(&path, text).unwrap();
        let line =
            format!("bowline serve --config {} --port 4049 --set threads=2..8", path.display());
        let settings = resolve(options(&line)).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(settings.port, 4049);
        assert_eq!(settings.values.threads.to_string(), "2..8");
        assert_eq!(settings.values.max_read.to_string(), "64K");
        assert_eq!(settings.dirs[0].source, Source::Directory(dir.join("data")));
        assert_eq!(settings.dirs[1].source, Source::Memory);
        assert_eq!(settings.state_dir, dir.join("state"));
        assert_eq!(settings.control, Path::new("/c"));
        assert_eq!(settings.clients.len(), 2);
        assert!(settings.read_only && settings.prove && settings.listen[0].is_ipv6());
    }

    #[test]
    fn names_and_directories_are_told_apart() {
        let parse = |text| Dir::parse(text, Path::new("")).map(|d| (d.name, d.source));
        let dir = |p: &str| Source::Directory(p.into());
        assert_eq!(parse("/a").unwrap(), (None, dir("/a")));
        assert_eq!(parse("x=/a").unwrap(), (Some("x".into()), dir("/a")));
        assert_eq!(parse("/a=b").unwrap(), (None, dir("/a=b")));
        assert_eq!(parse("m=mem:").unwrap(), (Some("m".into()), Source::Memory));
        for wrong in ["", "x=", "=/a", "..=/a", "mem:"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
