//! The command line, in one definition: parsing, help, man pages and completions come from here.

pub mod bench;

use crate::serve_options::ServeOptions;
use crate::settings::{Assignment, AssignmentParser, KeyParser};
use clap::{Args, Parser, Subcommand, ValueHint};
use std::path::PathBuf;

/// What each exit status means, whatever the command.
pub const EXIT_STATUSES: [(u8, &str); 3] = [
    (0, "done"),
    (1, "tried, and failed or refused by the server"),
    (2, "the command line is wrong, or what it names to be read or served; nothing was tried"),
];

/// Serves directories over NFS from user space: NFSv3 and NFSv2, TCP and UDP.
#[derive(Debug, Parser)]
#[command(
    name = "bowline",
    version,
    about,
    disable_help_subcommand = true,
    after_help = "Try it:  bowline serve /some/dir     (prints the mount command)\n\
                  Exit status: 0 done; 1 tried and failed; 2 wrong command line, or wrong file that it names."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve directories until told to stop (SIGTERM, Ctrl-C)
    ///
    /// With nothing but a directory, serves it on 127.0.0.1:2049, TCP and UDP, to this machine
    /// only, and prints the mount command. NFS and MOUNT share the port, so clients need no
    /// portmapper. SIGHUP reads the exports again, SIGUSR1 logs a
    /// line of status (at log-level=info), SIGUSR2 is ignored. SIGTERM and Ctrl-C let calls that run finish, for
    /// ten seconds at most; a second Ctrl-C does not.
    Serve(Box<ServeOptions>),
    /// Show the server in one page
    Status(ControlTarget),
    /// Show what is exported to whom
    Exports(ControlTarget),
    /// Show who uses the server, or did
    ///
    /// Calls and bytes are those over TCP since the server started, on connections that have closed as
    /// well. Of clients that have none open, those that left last are remembered, 4,096 at most.
    Clients(ControlTarget),
    /// Show the connections
    Conns(ControlTarget),
    /// Show the sockets that the server listens on
    Sockets(ControlTarget),
    /// Show the thread pools
    Pools(ControlTarget),
    /// Show calls, errors and times per procedure
    Ops(ControlTarget),
    /// Change a run-time setting of the running server
    Set {
        /// The setting and its new value, as in max-read=64K; `bowline get` lists them
        #[arg(value_name = "KEY=VALUE", value_parser = AssignmentParser, hide_possible_values = true)]
        change: Assignment,
        /// Which server.
        #[command(flatten)]
        to: ControlTarget,
    },
    /// Show run-time settings of the running server
    Get {
        /// One setting; all if left out
        #[arg(value_parser = KeyParser, hide_possible_values = true)]
        key: Option<String>,
        /// Which server.
        #[command(flatten)]
        to: ControlTarget,
    },
    /// Read the exports again: all of them are applied, or nothing is
    ///
    /// Reads the exports files, and of the configuration file the keys dirs, client, exports and
    /// read-only; what else has changed there takes a restart, which is pointed out. The command
    /// line that the server was started with still goes before the file.
    Reload(ControlTarget),
    /// Check exports(5) files or a configuration file, without a server
    ///
    /// Prints what would be exported to whom, notes, and what `serve` would refuse, as a directory
    /// that this user cannot read. A file whose name ends in .toml is a
    /// configuration; another one is recognised by its content.
    Check {
        /// A file, or a directory of exports files, as for --exports; several are checked together
        #[arg(required = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
        files: Vec<PathBuf>,
    },
    /// Measure NFS servers: loads, experiments, reports
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Write the man pages into a directory
    #[command(hide = true)]
    Man {
        /// Where to
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

/// Which running server, and how to print its answer.
#[derive(Debug, Args)]
pub struct ControlTarget {
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
    /// The server's control socket [default: /run/bowline/control.sock, for an ordinary user
    /// $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::{Cli, Command};
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn serve_takes_what_the_contract_names() {
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
    fn wrong_values_are_refused() {
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
