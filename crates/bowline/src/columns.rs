//! The columns of the tables about a running server: the printed heading, and the description for the manual.

use crate::output;
use admin::Align::{self, Left, Right};
use admin::Table;

/// A column of a table, or a line of the status.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// How its cells are aligned.
    pub align: Align,
    /// Its description.
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
    Table::new(&columns).fitting(output::table_width(), &OPTIONAL)
}

/// The columns that a narrow terminal does not show, in any table, the first one first. What says who is busy, or what is
/// wrong, stays.
const OPTIONAL: [&str; 34] = [
    // of connections
    "LOCAL",
    "RCVBUF",
    "SNDBUF",
    "POOL",
    "SECURITY",
    "WINDOW",
    "RETRANS",
    "AGE",
    "IDLE",
    "RTT",
    "UNSENT",
    "OLDEST",
    // of pools
    "CPUS",
    "POLICY",
    "ARRIVED",
    "WOKEN",
    "TIMED OUT",
    "PROMOTED",
    "FAILED",
    "RESCUED",
    "PARKED",
    "MIN..MAX",
    // of sockets
    "NOTE",
    "FROM",
    "CPU",
    "INTERFACE",
    // of clients, exports and procedures
    "IDENTITY",
    "UDP",
    "OPENS",
    "SESSIONS",
    "DIRECTORY",
    "MAX",
    "OUT",
    "IN",
];

/// All tables, by the command that prints them.
pub const TABLES: [(&str, &[Column]); 15] = [
    ("status", &STATUS),
    ("exports", &EXPORTS),
    ("clients", &CLIENTS),
    ("conns", &CONNS),
    ("locks", &LOCKS),
    ("sessions", &SESSIONS),
    ("opens", &OPENS),
    ("delegations", &DELEGATIONS),
    ("sockets", &SOCKETS),
    ("pools", &POOLS),
    ("ops", &OPS),
    ("get", &SETTINGS),
    ("grace", &GRACE),
    ("explain", &EXPLAIN),
    ("why", &WHY),
];

/// The line of the status that is left out when it is empty.
pub const COUNTERS: &str = "counters";

/// The lines of `bowline status`, below the version.
pub const STATUS: [Column; 19] = [
    left(
        "process",
        "Process id, the user that it runs as, and whether calls run as each client's own user",
    ),
    left(
        "sandbox",
        "What the process has given up that serving does not need: the setting sandbox",
    ),
    left(
        "kernel TLS",
        "Cipher suites of the TLS connections that the kernel takes over, or why it takes none: the setting ktls",
    ),
    left(
        "directories",
        "Whether clients may have delegations of directories: whether the kernel can hold programs back from them",
    ),
    left("up", "Time since the start"),
    left("listens on", "Addresses and ports that it listens on"),
    left("portmapper", "How the server is registered with port mappers"),
    left("state", "The state directory"),
    left("exports", "Number of exports"),
    left("connections", "Number of open connections"),
    left(
        "calls",
        "Since the start; the recent rate covers the last ten seconds, or the time since an earlier bowline status",
    ),
    left(
        "errors",
        "Calls answered with a status other than success, and calls rejected before they reached a procedure",
    ),
    left("data", "Bytes of files and directory listings"),
    left("network", "All bytes of calls and replies"),
    left("threads", "Threads that process calls, and other threads of the process"),
    left(
        "memory",
        "Resident memory of the process, the limit of its control group or address space or the machine's memory, \
         and what calls under way and unread replies may take of it",
    ),
    left(
        "tcp buffers",
        "Total size of the buffers with a configured size, its limit, and what all TCP sockets of the \
         machine hold",
    ),
    left("open files", "Descriptors in use, and the limit"),
    left(COUNTERS, "With -v: counters that are not zero, see bowline-counters(7)"),
];

/// The first cell of each warning of `bowline status`.
pub const WARNING: Column = left("warning", "A warning for the operator; one line each");

/// The line about machines that do not answer.
pub const OUTBOUND: Column = left(
    "no answer",
    "Client hosts that did not answer the server's last call, such as a lock callback, \
     with the reason and how often in a row",
);

/// The first cell of each line of `bowline status` about a file system that does not answer.
pub const BLOCKED: Column = left(
    "blocked",
    "An export in which a call has been blocked for two seconds or more: calls that are blocked and that wait, \
     the oldest call and its age, and calls that were answered with \"try again later\"",
);

/// The first cell of the line of `bowline status` about files that live on without a name.
pub const UNLINKED: Column = left(
    "unlinked files",
    "Files in the directories .bowline-open: clients have them open, and their last name was removed. See the setting \
     preserve-unlinked",
);

/// The first cell of each line of `bowline status` about an export that is configured and not served now.
pub const NOT_SERVED: Column = left(
    "not served",
    "An export that waits: its directory cannot be opened or its file system does not answer. It is tried again every \
     two seconds; its clients are told to try again later",
);

/// `bowline grace`.
pub const GRACE: [Column; 5] = [
    left("ADDRESS", "The client's address"),
    left("NAME", "The client's own name for itself"),
    left(
        "VERSION",
        "NLM for locks of versions 2 and 3, 4.0, or 4.1 for all versions with sessions",
    ),
    left("RECLAIMED", "Whether it has reclaimed a lock or an open since the restart"),
    left(
        "ANSWERED",
        "Whether it has acknowledged the restart; for NFSv4.1, whether it has completed reclaiming",
    ),
];

/// `bowline explain`.
pub const EXPLAIN: [Column; 3] = [
    left(
        "STEP",
        "The decision: the export of the path, the client's rule, its port, the security flavour, the user that calls act \
         as, each directory of the path, the object",
    ),
    left("RESULT", "ok, no, or note (no effect on the result); the list ends with the first no"),
    left("BECAUSE", "The reason, and the remedy for a no"),
];

/// `bowline why`.
pub const WHY: [Column; 5] = [
    left("CLIENT", "Address of the client"),
    left("PATH", "The path of the export, or the path that was to be mounted"),
    right("TIMES", "Number of times; counting restarts after an hour without one"),
    right("LAST", "Time since the last one"),
    left("REASON", "Why it was refused"),
];

/// `bowline exports`.
pub const EXPORTS: [Column; 10] = [
    left("PATH", "The path that clients mount"),
    left("DIRECTORY", "The directory with its files; mem: is in memory"),
    left("STATE", "served, or waiting: see not served in the status"),
    left("CLIENTS", "Clients that may mount it; one line for those with the same options"),
    left("OPTIONS", "Their options, see bowline-exports(5), and an fsid= from the exports file"),
    right("CALLS", "Calls for this export"),
    right("ERRORS", "Calls answered with a status other than success"),
    right("READ", "Bytes of files and directory listings"),
    right("WRITTEN", "Bytes of files"),
    left(
        "REFUSED",
        "Calls that it refused because of the client, its port or its security flavour, and the last reason",
    ),
];

/// `bowline clients`.
pub const CLIENTS: [Column; 12] = [
    left("CLIENT", "Address of the client"),
    right(
        "CONNS",
        "Open connections; displaced are those that were closed because others needed places and it had more",
    ),
    right("CALLS", "Calls since the start of the server, including closed connections and UDP"),
    right(
        "UDP",
        "How many of them came over UDP; each thread remembers 256 clients, the ones that called last",
    ),
    right("IN", "Bytes received"),
    right("OUT", "Bytes sent"),
    left("MOUNTS", "Paths that it has mounted; a client that disappears does not unmount them"),
    right(
        "SESSIONS",
        "Its sessions of version 4, which mounts no path; courtesy are its clients whose lease is over, and whose opens \
         and locks are kept until somebody else wants them; name also used by: another machine calls itself the same, and \
         each takes away what the other has",
    ),
    right("OPENS", "Files that it has open over version 4"),
    left(
        "CALLBACK",
        "Whether the address answers at which its client of version 4.0 wants to be called back: up, down, or untried; it \
         gets delegations when it is up",
    ),
    left(
        "IDENTITY",
        "Kerberos principals that have contexts from there, and names in the certificates of its connections",
    ),
    left(
        "REFUSED",
        "Calls that were refused because of the client, its port, its security flavour or the path, and the last one",
    ),
];

/// `bowline conns`.
pub const CONNS: [Column; 19] = [
    left("PEER", "The client's end"),
    left("LOCAL", "The server's end"),
    left(
        "SECURITY",
        "none, tls, or mtls with the name in the client's certificate; kernel if that encrypts and decrypts the records",
    ),
    right("POOL", "The pool of threads that serves it"),
    right("AGE", "Time since it was accepted"),
    right("IDLE", "Time since the client last sent data"),
    right("CALLS", "Calls received"),
    right("RUNNING", "Calls that are blocked now, for example waiting for a disk"),
    right("OLDEST", "Age of the oldest call that sleeps in a file system now"),
    right("IN", "Bytes received"),
    right("OUT", "Bytes sent"),
    right("UNSENT", "Bytes of replies that the client has not taken"),
    right("RTT", "Smoothed round-trip time"),
    right("WINDOW", "Receive window that the server offers"),
    right(
        "RCVBUF",
        "Configured size of the receive buffer (! if the actual one is smaller), and the actual size with the kernel's overhead",
    ),
    right("SNDBUF", "The same for the send buffer"),
    right("RETRANS", "Segments that the server retransmitted"),
    right("NOW", "Bytes per second, in the busier direction"),
    left(
        "LIMIT",
        "What limits the connection now, and a setting that would raise the limit; disk: a call sleeps in the file \
         system",
    ),
];

/// `bowline sockets`.
pub const SOCKETS: [Column; 11] = [
    left("KIND", "tcp for a listening socket, udp for datagrams"),
    left("LOCAL", "Address and port"),
    left(
        "INTERFACE",
        "The interface whose datagrams it receives; any: all interfaces, or those without a socket",
    ),
    right("CPU", "Index of the socket, where datagrams are distributed by CPU"),
    left("FROM", "Whether bowline or systemd opened it"),
    right("RECEIVED", "Connections accepted, or datagrams received"),
    right("SENT", "Datagrams sent"),
    right("IN", "Bytes of the datagrams received"),
    right("OUT", "Bytes of the datagrams sent"),
    right(
        "DROPS",
        "Datagrams dropped because the kernel's buffer was full: see the setting udp-buffer",
    ),
    left("NOTE", "A note for the operator"),
];

/// `bowline pools`.
pub const POOLS: [Column; 19] = [
    right("POOL", "Number of the pool"),
    left("CPUS", "CPUs that its threads serve"),
    right("THREADS", "Number of threads"),
    right("PARKED", "Idle threads"),
    right("BLOCKED", "Threads blocked in a call, under a policy with a queue"),
    right("MIN..MAX", "Fewest and most threads: see the setting threads"),
    right("CONNS", "Connections of the pool"),
    right("CALLS", "Calls answered"),
    left("POLICY", "Which threads are woken for a call: see the setting wake-policy"),
    right("ARRIVED", "Times that a connection or socket became ready"),
    right("QUEUED", "Items put into the queue for which no thread was woken"),
    right("WOKEN", "Threads woken"),
    right("TIMED OUT", "Threads ended after some seconds without work"),
    right("PROMOTED", "Times that a follower was promoted because a call was about to block"),
    right("FAILED", "Times that a follower was needed and none was idle"),
    right(
        "RESCUED",
        "Times that the watchdog promoted a follower because a call blocked unexpectedly",
    ),
    right("QUEUE p99", "99th percentile of the time in the queue"),
    right("WAKE p99", "99th percentile of the time from waking a thread until it ran"),
    left(
        "LEADER",
        "What the leader does: waiting, queueing, serving; vacant: there is no leader; retired: the \
         pool is being removed",
    ),
];

/// `bowline ops`.
pub const OPS: [Column; 10] = [
    left("PROGRAM", "The program and its version"),
    left("PROCEDURE", "Its name in the RFC"),
    right("CALLS", "Calls answered"),
    right("P50", "Median latency"),
    right("P99", "99th percentile of the latency"),
    right("MAX", "Latency of the slowest call"),
    right("IN", "Bytes of the calls"),
    right("OUT", "Bytes of the replies"),
    right(
        "INSIDE",
        "Of operations of version 4: how often it ran in a COMPOUND that is counted as another operation, and \
         after a slash how often it failed there",
    ),
    left("ERRORS", "Calls answered with a status other than success, by status"),
];

/// What `bowline ops` says of each COPY that was answered and is under way, below the table.
pub const COPIES: [Column; 7] = [
    left(
        "CLIENT",
        "Of a COPY that goes on after it was answered (see the setting copy), below the table: the client, by its \
         address and what it calls itself",
    ),
    left("SOURCE", "The file that is copied, on this machine; - if its path is not known"),
    left("TARGET", "The file that it is copied to"),
    right("COPIED", "Bytes copied"),
    right("TOTAL", "Bytes to copy"),
    right("DONE", "The share that is copied"),
    right("SINCE", "Time since it was begun"),
];

/// `bowline get`.
pub const SETTINGS: [Column; 4] = [
    left("KEY", "The setting"),
    left("VALUE", "The value in force"),
    left("CHANGES", "When a change takes effect; live: at once, in the running server"),
    left("WHAT", "Values and purpose"),
];

/// `bowline locks`.
pub const LOCKS: [Column; 7] = [
    left("client", "The client: its address, and what it calls itself"),
    left(
        "owner",
        "The process on the client, and the owner handle by which its lock manager knows it",
    ),
    left("file", "The file on this machine, or its number in hexadecimal if its path is not known"),
    left("kind", "lock, waiting (for one), or share (a DOS share reservation)"),
    left("mode", "read or write; of a share what the client wants, and what it denies others"),
    left("range", "The first and the last byte; the whole file is all"),
    right(
        "waiting",
        "How long the request has been waiting; local if a program on this machine is in the way",
    ),
];

/// `bowline sessions`.
pub const SESSIONS: [Column; 12] = [
    left(
        "CLIENT",
        "The client: the address that it made itself known from, and what it calls itself",
    ),
    left("SESSION", "The session's name, in hexadecimal; a client of version 4.0 has none"),
    left(
        "STATE",
        "active, or courtesy: the client's lease is over, and what it has open is kept until somebody else wants it",
    ),
    right("SILENT", "Time since the client last renewed its lease"),
    right("SLOTS", "Requests that the client may have in flight"),
    right("USED", "Slots that it ever used"),
    right("RUNNING", "Slots whose request runs now"),
    right("REQUEST", "The longest request"),
    right("REPLY", "The longest reply"),
    right("OPENS", "Files that the client has open, over all its sessions"),
    right(
        "OWNERS",
        "Open owners and lock owners of a client of version 4.0, each of which has one request in flight at most",
    ),
    left(
        "CALLBACK",
        "Whether callbacks reach the client, over its sessions or, in version 4.0, at its address: up, down, or untried; it \
         gets delegations when it is up",
    ),
];

/// `bowline opens`.
pub const OPENS: [Column; 5] = [
    left(
        "CLIENT",
        "The client: the address that it made itself known from, and what it calls itself",
    ),
    left("FILE", "The file on this machine, or its number in hexadecimal if its path is not known"),
    left("ACCESS", "The access it is open for"),
    left("DENIES", "The access denied to others"),
    left("OWNER", "The open-owner on the client"),
];

/// `bowline delegations`.
pub const DELEGATIONS: [Column; 5] = [
    left(
        "CLIENT",
        "The client: the address that it made itself known from, and what it calls itself",
    ),
    left("FILE", "The file on this machine, or its number in hexadecimal if its path is not known"),
    left("KIND", "Kind of the delegation: read, write, or directory"),
    right("AGE", "Time since it was granted"),
    right("RECALLED", "Time since it was recalled; - if it was not"),
];

#[cfg(test)]
mod tests {
    use super::{BLOCKED, COPIES, OUTBOUND, TABLES, UNLINKED, WARNING};
    use crate::cli::Cli;
    use clap::CommandFactory;

    #[test]
    fn every_column_has_a_description_and_a_unique_name() {
        for (command, columns) in TABLES {
            let mut names: Vec<_> = columns.iter().map(|column| column.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), columns.len(), "{command}");
            for column in
                columns.iter().chain([&WARNING, &BLOCKED, &OUTBOUND, &UNLINKED]).chain(&COPIES)
            {
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
        // these print what they changed, or no table
        commands
            .retain(|name| !["set", "release", "reload", "top", "doctor", "tls"].contains(name));
        commands.sort_unstable();
        let mut described = TABLES.map(|(command, _)| command);
        described.sort_unstable();
        assert_eq!(commands, described);
    }
}
