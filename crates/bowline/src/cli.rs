//! The command line: one definition for parsing, help, man pages and completions.

pub mod bench;
pub mod errors;
pub mod examples;

use crate::completion;
use crate::exportfs::ExportfsOptions;
use crate::host_names;
use crate::serve_options::ServeOptions;
use crate::settings::{Assignment, AssignmentParser, KeyParser};
use crate::top::view::View;
use crate::watch;
use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use std::path::PathBuf;
use std::time::Duration;

/// The exit statuses of all commands.
pub const EXIT_STATUSES: [(u8, &str); 4] = [
    (0, "success"),
    (1, "the command failed, or the server refused the request"),
    (2, "the command line, or a file or directory that it names, is wrong; nothing was done"),
    (3, "bowline serve: another program, perhaps another NFS server, has the address"),
];

/// Serves directories over NFS from user space: versions 4.2, 4.1, 4.0, 3 and 2.
#[derive(Debug, Parser)]
#[command(
    name = "bowline",
    version,
    about,
    disable_help_subcommand = true,
    after_help = "Example: bowline serve /some/dir     (prints the mount command)\n\
                  Exit status: 0 success; 1 failure; 2 wrong command line, or a wrong file that it names;\n\
                  3 the address to serve is in use."
)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve directories until SIGTERM or Ctrl-C
    ///
    /// With a directory as the only argument, serves it on 127.0.0.1:2049 over TCP and UDP to this machine
    /// only, and prints the mount command. NFS and MOUNT share the port, so clients need no portmapper.
    /// SIGHUP reloads the exports, SIGUSR1 logs one line of status (at log-level=info), SIGUSR2 is ignored.
    /// After SIGTERM or Ctrl-C, calls in progress have ten seconds to finish; a second Ctrl-C ends the
    /// server at once.
    Serve(Box<ServeOptions>),
    /// Show the state of the server
    Status {
        /// Also print the counters for developers, see bowline-counters(7)
        #[arg(long, short)]
        verbose: bool,
        /// The server.
        #[command(flatten)]
        to: TableTarget,
    },
    /// Show the exports and their clients
    Exports(TableTarget),
    /// Show current and recent clients
    ///
    /// Calls and bytes are counted since the start of the server: over TCP, including closed connections, and over UDP.
    /// The last 4,096 clients without an open connection are remembered, and the last 256 over UDP for each thread.
    Clients(NamesTable),
    /// Show the connections
    Conns(NamesTable),
    /// Show the locks that clients hold or wait for, and share reservations
    Locks(NamesTable),
    /// Show the sessions of NFSv4.1 clients
    Sessions(NamesTable),
    /// Show the files that NFSv4 clients have open
    Opens(NamesTable),
    /// Show the delegations of NFSv4.1 clients
    ///
    /// See the setting delegations in bowline-settings(7).
    Delegations(NamesTable),
    /// Take all locks from a client, or of a file
    ///
    /// For a client that holds locks and will not return. A client that is still running is not notified: its programs
    /// continue as if they held their locks.
    Release {
        /// The client's address or name as `bowline locks` shows it, or the path of the file on this machine
        #[arg(value_name = "HOST|FILE", add = ArgValueCompleter::new(completion::clients))]
        what: String,
        /// The server.
        #[command(flatten)]
        to: ControlTarget,
    },
    /// Show the listening and UDP sockets
    Sockets(TableTarget),
    /// Show the thread pools
    Pools(TableTarget),
    /// Show calls, errors and latencies of each procedure
    Ops(TableTarget),
    /// Show current activity: calls and bytes per second, latencies, by client, export or procedure
    ///
    /// The first view shows who calls most, and what limits each client. Tab switches to exports, operations, connections,
    /// pools and the slowest calls; F1 shows all keys. Each view has the 500 busiest rows; --once has all.
    Top(TopOptions),
    /// Print the metrics of the running server in Prometheus text format
    ///
    /// `bowline serve --metrics ADDR:PORT` serves the same over HTTP.
    Metrics {
        /// Print them in OpenMetrics format
        #[arg(long)]
        openmetrics: bool,
        /// Control socket of the server [default: /run/bowline/control.sock, for an ordinary user
        /// $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]
        #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
        control: Option<PathBuf>,
    },
    /// Change a setting of the running server
    Set {
        /// The setting and its new value, for example max-read=64K; `bowline get` lists the settings
        #[arg(value_name = "KEY=VALUE", value_parser = AssignmentParser, hide_possible_values = true,
            add = ArgValueCompleter::new(completion::assignments))]
        change: Assignment,
        /// The server.
        #[command(flatten)]
        to: ControlTarget,
    },
    /// Print the token that lets the web page of the running server change settings
    ///
    /// The page is at the address of `bowline serve --metrics`. It takes the token over https, for which the server needs a
    /// certificate (--tls-cert), and from the server's own machine. The token changes with each start of the server, and
    /// when it was sent unencrypted from another machine.
    Token {
        /// Control socket of the server [default: /run/bowline/control.sock, for an ordinary user
        /// $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]
        #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
        control: Option<PathBuf>,
    },
    /// Show settings of the running server
    Get {
        /// The setting; all if omitted
        #[arg(value_parser = KeyParser, hide_possible_values = true)]
        key: Option<String>,
        /// The server.
        #[command(flatten)]
        to: ControlTarget,
    },
    /// Show the grace period after a restart, or end it
    ///
    /// After a restart, clients that held locks can reclaim them, and no new locks are granted. The grace period ends by
    /// itself when all have done so; if it is ended earlier, the others lose their locks.
    Grace {
        /// End it now
        #[arg(value_name = "end", value_parser = ["end"], hide_possible_values = true)]
        action: Option<String>,
        /// The server.
        #[command(flatten)]
        to: ControlTarget,
    },
    /// Read the exports again and apply all of them, or none if there is an error
    ///
    /// Reads the exports files, and the keys dirs, client, exports and read-only of the configuration file;
    /// other changes there need a restart, and a note says so. The command line that the server was started
    /// with still takes precedence over the file. An export whose file system does not answer delays no other:
    /// it is served as before, or as soon as it answers.
    Reload {
        /// Only print what would change
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        to: ControlTarget,
    },
    /// Change and list exports like exportfs(8), for scripts that call it
    ///
    /// A link named exportfs to this program, such as /usr/lib/bowline/exportfs of the Debian package, is the same
    /// command. Changes made with -o and -u last until the next reload or restart and are stored in no file. Without a server,
    /// -a, -r and -ua succeed: a server reads the files when it starts.
    Exportfs(ExportfsOptions),
    /// Check exports(5) files or a configuration file, without a server
    ///
    /// Prints the exports with their clients, notes, and everything that `serve` would refuse, for example a
    /// directory that this user cannot read. A file whose name ends in .toml is a configuration; others are
    /// recognised by their content.
    Check {
        /// A file, or a directory of exports files as for --exports; several are checked together
        #[arg(required = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
        files: Vec<PathBuf>,
        /// Also print the access of this host to each export: the rule that applies and its options, and the
        /// name by which rules know it
        #[arg(long, value_name = "ADDRESS|NAME", value_hint = ValueHint::Hostname)]
        for_host: Option<String>,
    },
    /// Check whether this machine is set up to serve NFS, and suggest remedies
    ///
    /// Checks privileges, seccomp filters, limits, the clock, the port, the kernel's NFS server, rpcbind and other
    /// lock managers, the firewall (nftables), TCP memory, exports files and their directories, and asks a running server
    /// what it does not serve and warns of. Each line is ok, a note, or a problem with its remedy. Changes nothing. The
    /// exit status is 1 if there is a problem.
    #[command(args_conflicts_with_subcommands = true)]
    Doctor {
        /// The subject, if it is not this machine.
        #[command(subcommand)]
        of: Option<DoctorOf>,
        /// Exports files, or directories of such [default: /etc/exports and /etc/exports.d]
        #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
        files: Vec<PathBuf>,
        /// The port to be served [default: that of the running server, otherwise 2049]
        #[arg(long, value_name = "PORT")]
        port: Option<u16>,
        /// Control socket of the server, which must run then [default: /run/bowline/control.sock, for an ordinary user
        /// $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock, where none need run]
        #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
        control: Option<PathBuf>,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Make certificates for RPC with TLS
    #[command(subcommand)]
    Tls(TlsCommand),
    /// Explain which export, rule and permission decide whether a client and a user may use a path
    ///
    /// Asks the running server. Prints the decisions in the order in which the server makes them, up to the
    /// first that refuses; the exit status is then 1. USER without --group has the groups that this machine
    /// knows.
    Explain(ExplainOptions),
    /// Show the calls and mounts refused in the last hour, with the reason
    Why(NamesTable),
    /// Measure NFS servers: loads, experiments, reports
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Write the man pages into a directory
    #[command(hide = true)]
    Man {
        /// The directory
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
    /// Print the completion script for a shell
    ///
    /// For bash: bowline completions bash > /etc/bash_completion.d/bowline
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// The commands of `bowline tls`.
#[derive(Debug, Subcommand)]
pub enum TlsCommand {
    /// Create a private certificate authority, if there is none, and the server's certificate
    ///
    /// Writes ca.pem, ca.key, server.pem and server.key; only this user can read the keys. The certificate is valid for 398 days
    /// and has the names of this machine and all its addresses: clients check the name that they mount. The same
    /// command creates a new one later; a running server reads it automatically.
    Init {
        /// Further names or addresses by which clients mount
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// The directory of the files [default: tls in the state directory]
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
    /// Create a client certificate, for exports with xprtsec=mtls
    ///
    /// Writes NAME.pem and NAME.key, and prints what to do on the client.
    Client {
        /// The client's name, which tls-name= in an exports file can name
        name: String,
        /// The directory of the authority [default: tls in the state directory]
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
}

/// What else `bowline doctor` looks at.
#[derive(Debug, Subcommand)]
pub enum DoctorOf {
    /// Test RPC-with-TLS of a server as a client: the probe, the handshake, the certificate
    Tls {
        /// The server's name or address, as clients mount it
        #[arg(value_hint = ValueHint::Hostname)]
        host: String,
        /// The port
        #[arg(long, value_name = "PORT", default_value_t = 2049)]
        port: u16,
        /// Authorities that the client trusts [default: ca.pem of `bowline tls init`, if there is one here]
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        ca: Option<PathBuf>,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Check Kerberos on this machine: keytab, names, encryption types, clock, KDC, users
    ///
    /// Gets a ticket for this server with its own keytab, and accepts it like the server. Changes nothing.
    Krb5 {
        /// A name by which clients mount this server; may be repeated [default: the name of this machine]
        #[arg(long = "name", value_name = "NAME", value_hint = ValueHint::Hostname)]
        names: Vec<String>,
        /// Show the user and groups of this principal, such as alice@EXAMPLE.ORG; may be repeated
        #[arg(long = "user", value_name = "PRINCIPAL")]
        users: Vec<String>,
        /// The keytab, like the setting keytab
        #[arg(long, value_name = "FILE", default_value = "auto")]
        keytab: gss::krb5::Keytab,
        /// The table of principals, like the setting principals
        #[arg(long, value_name = "FILE", default_value = "off")]
        principals: gss::krb5::PrincipalsFile,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
}

/// A command that prints a table about a server.
#[derive(Debug, Args)]
pub struct TableTarget {
    /// Print it again every N seconds, until Ctrl-C
    #[arg(long, value_name = "N", value_parser = watch::interval)]
    pub watch: Option<Duration>,
    /// Print all columns; by default, a narrow terminal gets only those that fit
    #[arg(long)]
    pub wide: bool,
    /// The server.
    #[command(flatten)]
    pub server: ControlTarget,
}

/// A command that prints a table with addresses of clients.
#[derive(Debug, Args)]
pub struct NamesTable {
    /// Show the names of hosts beside their addresses
    ///
    /// They come from the name services of the machine that this runs on (/etc/hosts, DNS), are not confirmed, and are never
    /// waited for longer than 0.3 s: those that come later are in the next table of --watch.
    #[arg(long, conflicts_with = "json")]
    pub names: bool,
    /// The table.
    #[command(flatten)]
    pub table: TableTarget,
}

impl NamesTable {
    /// The table, with names if they are asked for.
    pub fn table(&self) -> &TableTarget {
        if self.names {
            host_names::start();
        }
        &self.table
    }
}

/// The options of `bowline explain`.
#[derive(Debug, Args)]
pub struct ExplainOptions {
    /// The client's address, or a host name
    #[arg(value_hint = ValueHint::Hostname, add = ArgValueCompleter::new(completion::clients))]
    pub client: String,
    /// The path that the client mounts, with or without a path below it, or a path of the server's machine
    #[arg(value_hint = ValueHint::AnyPath, add = ArgValueCompleter::new(completion::exports))]
    pub path: String,
    /// The user on the client, by number; without one only the mount is explained
    #[arg(value_name = "USER")]
    pub user: Option<u32>,
    /// A group of the user, by number, the primary one first; may be repeated
    #[arg(long, value_name = "GID", requires = "user")]
    pub group: Vec<u32>,
    /// The port that the client sends from
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// The flavour that the client mounts with (sec=) [default: sys; with --principal the first of Kerberos]
    #[arg(long, value_name = "FLAVOUR", value_parser = ["none", "sys", "krb5", "krb5i", "krb5p"])]
    pub sec: Option<String>,
    /// The Kerberos principal of the user, in place of the number
    #[arg(long, value_name = "PRINCIPAL", conflicts_with = "user")]
    pub principal: Option<String>,
    /// The transport that the client mounts with (xprtsec=)
    #[arg(long, value_name = "TRANSPORT", value_parser = ["none", "tls", "mtls"])]
    pub xprtsec: Option<String>,
    /// A name in the client's certificate
    #[arg(long, value_name = "NAME")]
    pub certificate: Option<String>,
    /// The server.
    #[command(flatten)]
    pub to: ControlTarget,
}

/// The options of `bowline top`.
#[derive(Debug, Args)]
pub struct TopOptions {
    /// Print the figures of one interval as text and end
    #[arg(long)]
    pub once: bool,
    /// With --once: print JSON, for programs
    #[arg(long, requires = "once")]
    pub json: bool,
    /// Begin with this view
    #[arg(long, value_enum, value_name = "VIEW", default_value_t = View::Clients)]
    pub view: View,
    /// The time between two updates, in seconds
    #[arg(long, value_name = "N", value_parser = watch::interval, default_value = "1")]
    pub interval: Duration,
    /// Show the names of hosts beside their addresses, as the name services of this machine have them; key N
    #[arg(long, conflicts_with = "json")]
    pub names: bool,
    /// Control socket of the server [default: /run/bowline/control.sock, for an ordinary user
    /// $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
}

/// The server to ask, and the output format.
#[derive(Debug, Args)]
pub struct ControlTarget {
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
    /// Control socket of the server [default: /run/bowline/control.sock, for an ordinary user
    /// $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::{Cli, Command};
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_command_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn serve_has_every_documented_option() {
        let line = "bowline serve /a x=/b --listen 0.0.0.0 --listen [::] --port 20049 --read-only \
                    --client * --client 10.0.0.0/8 --exports e --config c --portmap off \
                    --state-dir s --control k --set max-read=64K --prove";
        let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
        let Command::Serve(options) = cli.command else { unreachable!() };
        assert_eq!(options.dirs, ["/a", "x=/b"]);
        assert_eq!(options.listen.len(), 2);
        assert_eq!(options.port, Some(20049));
        assert_eq!(options.client, ["*", "10.0.0.0/8"]);
        assert!(options.read_only && options.prove);
    }

    #[test]
    fn wrong_values_are_rejected() {
        for line in [
            "bowline serve /a --listen localhost",
            "bowline serve /a --listen 1.2.3.4:5",
            "bowline serve /a --port 0",
            "bowline serve /a --port 65536",
            "bowline serve /a --set max-read",
            "bowline serve /a --set max-reed=64K",
            "bowline serve /a --set max-read=fast",
            "bowline serve /a --portmap maybe",
            "bowline fly",
        ] {
            assert!(Cli::try_parse_from(line.split_whitespace()).is_err(), "{line}");
        }
    }
}
