//! The columns of the tables that a running server is asked for: their names as they are printed, and
//! what they say as the manual has it. One cannot be without the other.

use admin::Align::{self, Left, Right};
use admin::Table;

/// A column, or a line of the status.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// Where its cells stand.
    pub align: Align,
    /// What is in it.
    pub about: &'static str,
}

const fn left(name: &'static str, about: &'static str) -> Column {
    Column { name, align: Left, about }
}

const fn right(name: &'static str, about: &'static str) -> Column {
    Column { name, align: Right, about }
}

/// An empty table with these columns.
pub fn table(columns: &[Column]) -> Table {
    let columns: Vec<_> = columns.iter().map(|column| (column.name, column.align)).collect();
    Table::new(&columns)
}

/// All tables, by the command that prints them.
pub const TABLES: [(&str, &[Column]); 8] = [
    ("status", &STATUS),
    ("exports", &EXPORTS),
    ("clients", &CLIENTS),
    ("conns", &CONNS),
    ("sockets", &SOCKETS),
    ("pools", &POOLS),
    ("ops", &OPS),
    ("get", &SETTINGS),
];

/// The line of the status that is left out when there is nothing in it.
pub const COUNTERS: &str = "counters";

/// The lines of `bowline status`, below the version.
pub const STATUS: [Column; 16] = [
    left(
        "process",
        "Its number, the user that it runs as, and whether it acts as each client's user",
    ),
    left("up", "How long it has served"),
    left("listens on", "Addresses and ports"),
    left("portmapper", "How clients that ask a portmapper find it"),
    left("state", "The state directory"),
    left("exports", "How many there are"),
    left("connections", "Those that are open"),
    left("calls", "Since the start; of late is since the status was last asked for"),
    left("errors", "Answers whose status was not success, and calls that reached no procedure"),
    left("data", "Bytes of files and directory listings, for all clients together"),
    left("network", "All bytes of calls and replies"),
    left("threads", "Those of the process"),
    left(
        "memory",
        "What is resident of the process, and what the machine or its control group has in all",
    ),
    left(
        "tcp buffers",
        "What connections may fill of buffers with a set size, the most that is promised, and what \
         the machine's TCP holds",
    ),
    left("open files", "Descriptors in use, and how many there may be"),
    left(COUNTERS, "Those that are not zero: see bowline-counters(7)"),
];

/// What each warning of `bowline status` begins with.
pub const WARNING: Column = left("warning", "What the operator should know; a line for each");

/// `bowline exports`.
pub const EXPORTS: [Column; 8] = [
    left("PATH", "What clients mount"),
    left("DIRECTORY", "Where its files are; mem: is in memory"),
    left("CLIENTS", "Who may mount it; a line for all that have the same options"),
    left("OPTIONS", "What they get: see bowline-exports(5); an fsid= that was written as well"),
    right("CALLS", "Calls for the export"),
    right("ERRORS", "Those that were answered with another status than success"),
    right("READ", "Bytes of files and directory listings"),
    right("WRITTEN", "Bytes of files"),
];

/// `bowline clients`.
pub const CLIENTS: [Column; 6] = [
    left("CLIENT", "Its address"),
    right("CONNS", "Connections that are open"),
    right("CALLS", "Calls over TCP since the server started, on closed connections as well"),
    right("IN", "Bytes received on them"),
    right("OUT", "Bytes sent on them"),
    left("MOUNTS", "What it has mounted as far as it told: a client may go without a word"),
];

/// `bowline conns`.
pub const CONNS: [Column; 17] = [
    left("PEER", "The client's end"),
    left("LOCAL", "The server's end"),
    right("POOL", "The pool that serves it"),
    right("AGE", "Since it was accepted"),
    right("IDLE", "Since the client last sent something"),
    right("CALLS", "Calls that came"),
    right("RUNNING", "Calls that sleep now, over a disk for example"),
    right("IN", "Bytes received"),
    right("OUT", "Bytes sent"),
    right("UNSENT", "Bytes of replies that the client has not taken"),
    right("RTT", "The round trip, smoothed"),
    right("WINDOW", "How many bytes the server lets the client send unread"),
    right(
        "RCVBUF",
        "What is set for the receive buffer (! if it is less) and what it is, with the kernel's overhead",
    ),
    right("SNDBUF", "The same of the send buffer"),
    right("RETRANS", "Segments that the server sent again"),
    right("NOW", "Bytes per second, in the busier direction"),
    left("LIMIT", "What limits it now, and a setting that would lift that"),
];

/// `bowline sockets`.
pub const SOCKETS: [Column; 11] = [
    left("KIND", "tcp listens for connections, udp is for datagrams"),
    left("LOCAL", "Where it is bound"),
    left(
        "INTERFACE",
        "Whose datagrams it takes; any: all, or those of interfaces without a socket",
    ),
    right("CPU", "Which of the sockets it is that datagrams are shared out to by CPU"),
    left("FROM", "Who made it: bowline, or systemd"),
    right("RECEIVED", "Connections accepted, or datagrams received"),
    right("SENT", "Datagrams sent"),
    right("IN", "Bytes of the datagrams received"),
    right("OUT", "Bytes of the datagrams sent"),
    right(
        "DROPS",
        "Datagrams that found no room in the kernel's buffer: see the setting udp-buffer",
    ),
    left("NOTE", "What the operator should know"),
];

/// `bowline pools`.
pub const POOLS: [Column; 19] = [
    right("POOL", "Its number"),
    left("CPUS", "Those that its threads are for"),
    right("THREADS", "Those that there are"),
    right("PARKED", "Threads with nothing to do"),
    right("BLOCKED", "Threads that sleep over a call, under a policy with a queue"),
    right("MIN..MAX", "Fewest and most threads: see the setting threads"),
    right("CONNS", "Its connections"),
    right("CALLS", "Calls that it answered"),
    left("POLICY", "Who is woken for a call: see the setting wake-policy"),
    right("ARRIVED", "Times that a connection or socket became ready"),
    right("QUEUED", "Those that were put into the queue and no thread was woken for"),
    right("WOKEN", "Threads woken"),
    right("TIMED OUT", "Threads that left after some seconds without work"),
    right("PROMOTED", "Times that a follower took over because a call was about to sleep"),
    right("FAILED", "Times that one was needed and none was free"),
    right("RESCUED", "Times that the watchdog found a call asleep that had not said so"),
    right("QUEUE p99", "What 99 of 100 did not wait longer in the queue"),
    right("WAKE p99", "What it took at most from waking a thread until it ran, 99 times of 100"),
    left(
        "LEADER",
        "What the thread that receives does: waiting, queueing, serving; vacant: there is none; \
         retired: the pool is at its end",
    ),
];

/// `bowline ops`.
pub const OPS: [Column; 9] = [
    left("PROGRAM", "The program and its version"),
    left("PROCEDURE", "Its name in the RFC"),
    right("CALLS", "Calls answered"),
    right("P50", "Half of the calls took at most so long"),
    right("P99", "99 of 100 calls took at most so long"),
    right("MAX", "The slowest call"),
    right("IN", "Bytes of the calls"),
    right("OUT", "Bytes of the replies"),
    left("ERRORS", "Answers whose status was not success, by the status"),
];

/// `bowline get`.
pub const SETTINGS: [Column; 4] = [
    left("KEY", "The setting"),
    left("VALUE", "What is in force"),
    left("CHANGES", "When it can be changed; live: while the server runs"),
    left("WHAT", "What it does, and which values it takes"),
];

#[cfg(test)]
mod tests {
    use super::{TABLES, WARNING};
    use crate::cli::Cli;
    use clap::CommandFactory;

    #[test]
    fn every_column_says_what_is_in_it_and_is_there_once() {
        for (command, columns) in TABLES {
            let mut names: Vec<_> = columns.iter().map(|column| column.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), columns.len(), "{command}");
            for column in columns.iter().chain([&WARNING]) {
                let about = column.about;
                assert!(about.len() > 7 && !about.ends_with('.'), "{command} {}", column.name);
            }
        }
    }

    #[test]
    fn every_command_that_prints_a_table_has_its_columns() {
        let cli = Cli::command();
        let asks = |command: &&clap::Command| {
            command.get_arguments().any(|argument| argument.get_id() == "json")
        };
        let mut commands: Vec<_> =
            cli.get_subcommands().filter(asks).map(|c| c.get_name()).collect();
        // these two answer with what they have done
        commands.retain(|name| !["set", "reload"].contains(name));
        commands.sort_unstable();
        let mut described = TABLES.map(|(command, _)| command);
        described.sort_unstable();
        assert_eq!(commands, described);
    }
}
