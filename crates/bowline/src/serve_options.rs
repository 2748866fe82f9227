//! The options of `bowline serve`: one definition for the command line and for the configuration file.
//!
//! Every option is a TOML key of the same name; `dirs` is the key for the directories that the command line
//! names without an option. `config` exists on the command line only.

mod names;
mod parse;

pub use names::NAMES;

use crate::serve::portmap::PortmapMode;
use crate::settings::{Assignment, AssignmentParser};
use clap::{Args, ValueHint};
use parse::{
    assignments, listen_addr, listen_addresses, metrics_addr, metrics_address, one_or_many, port,
};
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The options of `bowline serve`, on the command line or in the configuration file.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServeOptions {
    /// Directories to serve: DIR is mounted as SERVER:/the/full/path, NAME=DIR as SERVER:/NAME.
    /// NAME=mem: is an empty file system in memory; for measurements, NAME=mem:delay=5%:5..20ms delays
    /// 5 % of its calls by 5 to 20 ms
    #[arg(value_name = "DIR|NAME=DIR", value_hint = ValueHint::DirPath)]
    #[serde(deserialize_with = "one_or_many")]
    pub dirs: Vec<String>,
    /// Listen on this IPv4 or IPv6 address; 0.0.0.0 or :: means all; may be repeated [default:
    /// 127.0.0.1]
    #[arg(long, value_name = "ADDR", value_parser = listen_addr)]
    #[serde(deserialize_with = "listen_addresses")]
    pub listen: Vec<IpAddr>,
    /// Port for NFS and MOUNT over TCP and UDP [default: 2049]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    #[serde(deserialize_with = "port")]
    pub port: Option<u16>,
    /// Make all exports read-only, whatever the exports file says
    #[arg(long)]
    pub read_only: bool,
    /// Who may mount the directories named on the command line: an address, a network (10.0.0.0/8), a
    /// host name with wildcards, @netgroup, or * for everybody; may be repeated. An exports file names
    /// its own clients [default: this machine only]
    #[arg(long, value_name = "CIDR|HOST|*")]
    #[serde(deserialize_with = "one_or_many")]
    pub client: Vec<String>,
    /// Also export what this exports(5) file names. A directory, for example /etc/exports.d, stands for
    /// its files whose names end in .exports and do not begin with a dot, sorted by name; may be repeated
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    #[serde(deserialize_with = "one_or_many")]
    pub exports: Vec<PathBuf>,
    /// Read options from this TOML file; the command line takes precedence
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// How clients that ask a portmapper find the server [default: auto]
    #[arg(long, value_enum, value_name = "HOW")]
    pub portmap: Option<PortmapMode>,
    /// Keep the file handle key, export ids and name tables here; must survive restarts [default:
    /// /var/lib/bowline, for an ordinary user $XDG_STATE_HOME/bowline or ~/.local/state/bowline]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state_dir: Option<PathBuf>,
    /// Path of the control socket [default: /run/bowline/control.sock, for an ordinary user
    /// $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
    /// Serve metrics in Prometheus' and OpenMetrics' format at http://ADDR/metrics, and a web page with live
    /// figures at http://ADDR/, for example 127.0.0.1:9049; with --tls-cert both at https://ADDR/ too. Whoever
    /// reaches the address can read them: paths of exports and files, clients, load; settings can be changed
    /// there with `bowline token`, over https or from this machine
    #[arg(long, value_name = "ADDR:PORT", value_parser = metrics_addr)]
    #[serde(deserialize_with = "metrics_address")]
    pub metrics: Option<SocketAddr>,
    /// Show the reports in this directory on the web page: the results of `bowline bench run`, each in a directory or in a
    /// compact file
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub reports: Option<PathBuf>,
    /// The server's certificate, for RPC with TLS and the web page, and behind it those up to its authority, in PEM;
    /// `bowline tls init` makes one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tls_cert: Option<PathBuf>,
    /// Its private key, in PEM, which nobody but its owner may read
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tls_key: Option<PathBuf>,
    /// Authorities whose certificates make clients known (xprtsec=mtls): a file in PEM, or a directory of such
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub tls_client_ca: Option<PathBuf>,
    /// Certificates of clients that were revoked: a list (CRL) in PEM, or a directory of such
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub tls_crl: Option<PathBuf>,
    /// Start with this run-time setting, see bowline-settings(7); may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = AssignmentParser)]
    #[arg(hide_possible_values = true)]
    #[serde(deserialize_with = "assignments")]
    pub set: Vec<Assignment>,
    /// After the start, mount the first export over the network, list it, read one file and compare it
    /// with the disk, and print the result
    #[arg(long)]
    pub prove: bool,
}

#[cfg(test)]
mod tests {
    use super::{NAMES, ServeOptions};
    use clap::Args;

    #[test]
    fn the_names_are_those_of_the_command_line() {
        let serve = ServeOptions::augment_args(clap::Command::new("serve"));
        let options = serve.get_arguments().filter_map(|option| option.get_long());
        assert_eq!(options.collect::<Vec<_>>(), NAMES);
    }
}
