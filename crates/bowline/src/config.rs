//! Combines the command line, the configuration file and the defaults into one [`ServeConfig`].
//!
//! The command line takes precedence over the file, and the file over the defaults; a list replaces the
//! whole list of the next level. Paths in the file are relative to the file's directory.

mod file;
mod file_error;

pub use file::read;
pub use file_error::FileError;

use crate::backend_schemes;
use crate::default_paths;
use crate::output::UsageError;
use crate::serve::portmap::PortmapMode;
use crate::serve_options::ServeOptions;
use crate::settings::Values;
use anyhow::bail;
use export::Source;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tls::ServerFiles;

/// The registered port of NFS.
const PORT: u16 = 2049;

/// The configuration of `bowline serve`.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// Directories of the command line or the configuration file.
    pub dirs: Vec<Dir>,
    /// Exports files, and directories of them.
    pub exports: Vec<PathBuf>,
    /// Addresses to listen on.
    pub listen: Vec<IpAddr>,
    /// The port.
    pub port: u16,
    /// Whether all exports are read-only, whatever an exports file says.
    pub read_only: bool,
    /// Clients that may mount `dirs`; empty: this machine.
    pub clients: Vec<String>,
    /// How portmappers learn of the server.
    pub portmap: PortmapMode,
    /// The state directory.
    pub state_dir: PathBuf,
    /// The control socket.
    pub control: PathBuf,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// The directory whose reports the web page shows.
    pub reports: Option<PathBuf>,
    /// Certificates, if RPC with TLS is served.
    pub tls: Option<ServerFiles>,
    /// Initial values of the run-time settings.
    pub values: Values,
    /// Whether to test the service over the network after the start.
    pub prove: bool,
}

impl ServeConfig {
    /// Notes about differences in `now` that a running server cannot apply.
    pub fn restart_notes(&self, now: &Self) -> Vec<String> {
        let kept = [
            ("listen", self.listen == now.listen),
            ("port", self.port == now.port),
            ("portmap", self.portmap == now.portmap),
            ("state-dir", self.state_dir == now.state_dir),
            ("control", self.control == now.control),
            ("metrics", self.metrics == now.metrics),
            ("reports", self.reports == now.reports),
            ("tls-cert, tls-key, tls-client-ca or tls-crl", self.tls == now.tls),
        ];
        let changed: Vec<&str> =
            kept.iter().filter(|(_, same)| !same).map(|(key, _)| *key).collect();
        let mut notes = Vec::new();
        if !changed.is_empty() {
            let keys = changed.join(", ");
            notes.push(format!(
                "the configuration file has a new value of {keys}: restart the server to apply it"
            ));
        }
        if self.values != now.values {
            let what = "the configuration file has new run-time settings: apply them with `bowline set`, or restart \
                        the server";
            notes.push(what.to_owned());
        }
        notes
    }
}

/// A directory of the command line or the configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dir {
    /// The name that clients mount as `/NAME`; none: the directory's full path.
    pub name: Option<String>,
    /// Where the files are.
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
                    "{text:?} is not a directory argument: write DIR or NAME=DIR"
                )));
            }
            dir => scheme(dir)?.unwrap_or_else(|| Source::Directory(base.join(dir))),
        };
        if !matches!(source, Source::Directory(_)) && name.is_none() {
            return Err(UsageError(format!("{source} needs a name: write NAME={source}")));
        }
        Ok(Self { name, source })
    }
}

/// The back end of another kind than a directory that is asked for, if it is one.
fn scheme(text: &str) -> Result<Option<Source>, UsageError> {
    let Some((scheme, rest)) = text.split_once(':') else { return Ok(None) };
    let Some(factory) = backend_schemes::find(scheme) else { return Ok(None) };
    factory.check(rest).map_err(UsageError)?;
    Ok(Some(Source::scheme(scheme, rest)))
}

fn checked_name(name: &str) -> Result<String, UsageError> {
    if name.is_empty() || name == "." || name == ".." || name.chars().any(char::is_control) {
        return Err(UsageError(format!("{name:?} cannot be an export's name: write NAME=DIR")));
    }
    Ok(name.to_owned())
}

/// Combines command line, configuration file and defaults.
///
/// # Errors
/// A [`UsageError`] for a wrong command line; for the configuration file, what is wrong and where.
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
        let what = "nothing to serve: name a directory, for example `bowline serve /some/dir`, or an exports file \
                    with --exports";
        return Err(UsageError(what.into()).into());
    }
    if dirs.is_empty() {
        check_client_option(&options.client, options.config.as_deref(), &file.client)?;
    }
    if let Some(what) = overlapping_addresses(&options.listen) {
        return Err(UsageError(what).into());
    }
    let mut listen = first(options.listen, file.listen);
    if let (Some(what), Some(path)) = (overlapping_addresses(&listen), &options.config) {
        bail!("{}: the key listen: {what}", path.display());
    }
    if listen.is_empty() {
        listen.push(Ipv4Addr::LOCALHOST.into());
    }
    let tls = tls_files([
        options.tls_cert.or(file.tls_cert.map(within)),
        options.tls_key.or(file.tls_key.map(within)),
        options.tls_client_ca.or(file.tls_client_ca.map(within)),
        options.tls_crl.or(file.tls_crl.map(within)),
    ])?;
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
        metrics: options.metrics.or(file.metrics),
        reports: options.reports.or(file.reports.map(within)),
        tls,
        values,
        prove: options.prove || file.prove,
    })
}

/// The files of RPC with TLS: certificate, key, authorities of clients, revoked certificates.
fn tls_files(paths: [Option<PathBuf>; 4]) -> Result<Option<ServerFiles>, UsageError> {
    let [cert, key, client_ca, crl] = paths;
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some(ServerFiles { cert, key, client_ca, crl })),
        (None, None) if client_ca.is_none() && crl.is_none() => Ok(None),
        (Some(_), None) => Err(UsageError("tls-cert needs tls-key: name the private key".into())),
        (None, _) => Err(UsageError(
            "tls-key, tls-client-ca and tls-crl need tls-cert: name the server's certificate; `bowline tls init` \
             makes one"
                .into(),
        )),
    }
}

/// Rejects a list of clients without directories: it does not apply to exports files.
fn check_client_option(
    clients: &[String],
    file: Option<&Path>,
    in_file: &[String],
) -> anyhow::Result<()> {
    let why = "applies to directories of the command line or the configuration, and there are none; an \
               exports file names its own clients: name a directory, or remove";
    if !clients.is_empty() {
        return Err(UsageError(format!("--client {why} --client")).into());
    }
    match file {
        Some(path) if !in_file.is_empty() => {
            bail!("{}: the key client {why} the key", path.display())
        }
        Some(_) | None => Ok(()),
    }
}

/// Describes two addresses that cannot both be bound: equal ones, or one that includes the other.
fn overlapping_addresses(listen: &[IpAddr]) -> Option<String> {
    let others = |index: usize| listen.iter().enumerate().filter(move |(other, _)| *other != index);
    listen.iter().enumerate().find_map(|(index, all)| {
        let within =
            |ip: &IpAddr| ip == all || all.is_unspecified() && ip.is_ipv4() == all.is_ipv4();
        let (_, ip) = others(index).find(|(_, ip)| within(ip))?;
        Some(match ip == all {
            true => format!("{ip} is given twice: give it once"),
            false => format!("{all} includes {ip}: listen on one of them"),
        })
    })
}

/// The first of two lists that is not empty.
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
    fn a_directory_is_the_only_required_argument() {
        let settings = resolve(options("bowline serve /srv/x")).unwrap();
        assert_eq!(settings.port, 2049);
        assert_eq!(settings.listen, ["127.0.0.1".parse::<std::net::IpAddr>().unwrap()]);
        assert!(settings.clients.is_empty() && !settings.read_only);
        assert_eq!(settings.portmap, PortmapMode::Auto);
    }

    #[test]
    fn a_missing_directory_is_a_usage_error() {
        let error = resolve(options("bowline serve")).unwrap_err();
        assert!(error.is::<UsageError>(), "{error}");
    }

    #[test]
    fn addresses_must_not_overlap() {
        for (line, part) in [
            ("--listen 127.0.0.1 --listen 0.0.0.0", "0.0.0.0 includes 127.0.0.1"),
            ("--listen :: --listen ::1", ":: includes ::1"),
            ("--listen ::1 --listen ::1", "::1 is given twice"),
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
        assert!(error.contains("b.toml: the key listen: 0.0.0.0 includes 127.0.0.1"), "{error}");
    }

    #[test]
    fn clients_without_directories_are_rejected() {
        let error = resolve(options("bowline serve --exports e --client *")).unwrap_err();
        assert!(error.is::<UsageError>() && error.to_string().contains("--client"));
        assert!(resolve(options("bowline serve /a --exports e --client *")).is_ok());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.toml");
        std::fs::write(&path, "client = '*'\nexports = 'e'\n").unwrap();
        let line = format!("bowline serve --config {}", path.display());
        let error = resolve(options(&line)).unwrap_err();
        assert!(!error.is::<UsageError>(), "{error}");
        let error = error.to_string();
        assert!(error.contains("b.toml: the key client"), "{error}");
        assert!(resolve(options(&format!("{line} /a"))).is_ok());
    }

    #[test]
    fn the_command_line_takes_precedence_over_the_file() {
        let dir = std::env::temp_dir().join(format!("bowline-config-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("b.toml");
        let text = "dirs = ['data', 'm=mem:']\nlisten = '[::]'\nport = 3049\nread-only = true\n\
                    client = ['10.0.0.0/8', '*']\nportmap = 'off'\nstate-dir = 'state'\n\
                    control = '/c'\nmetrics = '[::1]:9049'\nexports = 'e'\nprove = true\n\
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
        assert_eq!(settings.dirs[1].source, Source::scheme("mem", ""));
        assert_eq!(settings.state_dir, dir.join("state"));
        assert_eq!(settings.control, Path::new("/c"));
        assert_eq!(settings.metrics, Some("[::1]:9049".parse().unwrap()));
        assert_eq!(settings.clients.len(), 2);
        assert!(settings.read_only && settings.prove && settings.listen[0].is_ipv6());
    }

    #[test]
    fn names_and_directories_are_distinguished() {
        let parse = |text| Dir::parse(text, Path::new("")).map(|d| (d.name, d.source));
        let dir = |p: &str| Source::Directory(p.into());
        assert_eq!(parse("/a").unwrap(), (None, dir("/a")));
        assert_eq!(parse("x=/a").unwrap(), (Some("x".into()), dir("/a")));
        assert_eq!(parse("/a=b").unwrap(), (None, dir("/a=b")));
        assert_eq!(parse("m=mem:").unwrap(), (Some("m".into()), Source::scheme("mem", "")));
        for wrong in ["", "x=", "=/a", "..=/a", "mem:"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
