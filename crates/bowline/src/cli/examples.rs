//! Examples of each command, for its manual page. A test has the command line parse each of them, and finds commands that
//! have none.

/// A command as one types it, and what it does.
pub type Example = (&'static str, &'static str);

/// The examples of each page, by the words of the command; none for the program itself.
pub const EXAMPLES: [(&str, &[Example]); 39] = [
    (
        "",
        &[
            (
                "bowline serve /srv/data",
                "Serve a directory to this machine, and print the mount command",
            ),
            ("bowline top", "See what the running server does, and for whom"),
            ("bowline doctor", "See what of this machine stands in the way of serving"),
        ],
    ),
    (
        "serve",
        &[
            ("bowline serve /srv/data", "Serve one directory to this machine only"),
            (
                "bowline serve /srv/data --listen 0.0.0.0 --client 192.0.2.0/24",
                "Serve it to a network",
            ),
            (
                "bowline serve --exports /etc/exports --exports /etc/exports.d --listen 0.0.0.0",
                "Serve what the files of exportfs(8) name, to the clients that they name",
            ),
            (
                "bowline serve ~/data --port 20049",
                "As an ordinary user, without root: everybody acts as that user",
            ),
            (
                "bowline serve /srv/data --metrics 127.0.0.1:9049 --set threads=4..64",
                "With the web page and metrics for Prometheus, and a setting",
            ),
        ],
    ),
    (
        "status",
        &[
            ("bowline status", "The whole server in one page, with its warnings"),
            ("bowline status --json", "The same for a script: the key state is ok or degraded"),
        ],
    ),
    ("exports", &[("bowline exports --wide", "All columns, also on a narrow terminal")]),
    (
        "clients",
        &[
            ("bowline clients --names", "Who calls, with the names of the hosts"),
            ("bowline clients --watch 2", "The same every two seconds"),
        ],
    ),
    (
        "conns",
        &[(
            "bowline conns",
            "What limits each connection, and the setting that would raise the limit",
        )],
    ),
    ("locks", &[("bowline locks --names", "Who holds and who waits for locks")]),
    (
        "sessions",
        &[(
            "bowline sessions",
            "The sessions of version 4, and how long each client has been silent",
        )],
    ),
    ("opens", &[("bowline opens", "The files that clients of version 4 have open")]),
    ("delegations", &[("bowline delegations", "The files that clients may take for unchanged")]),
    (
        "release",
        &[
            ("bowline release 192.0.2.7", "Take all locks from a client that is gone for good"),
            ("bowline release /srv/data/mail/inbox", "Take all locks of a file"),
        ],
    ),
    (
        "sockets",
        &[("bowline sockets", "Where the server listens, and datagrams that were dropped")],
    ),
    ("pools", &[("bowline pools --watch 1", "Threads and queues, each second")]),
    (
        "ops",
        &[("bowline ops", "How often each procedure was called, how long it took, how it failed")],
    ),
    (
        "top",
        &[
            (
                "bowline top",
                "Clients, the busiest first; Tab goes on to exports, operations and so on",
            ),
            ("bowline top --once --view calls", "The slowest calls of the last seconds, as text"),
            ("bowline top --once --json --interval 10", "All figures of ten seconds, for a script"),
        ],
    ),
    (
        "metrics",
        &[("bowline metrics", "The metrics of the running server, without an HTTP address")],
    ),
    (
        "set",
        &[
            ("bowline set threads=4..128", "Change a setting of the running server at once"),
            ("bowline set tcp-rcvbuf@10.0.0.0/8=16M", "A setting for the clients of a network"),
        ],
    ),
    ("token", &[("bowline token", "What to paste into the web page, under Settings")]),
    (
        "get",
        &[
            ("bowline get", "All settings, with the values in force"),
            ("bowline get max-read", "One value alone, for a script"),
        ],
    ),
    (
        "grace",
        &[
            ("bowline grace", "Who has claimed locks again since the restart, and who has not"),
            ("bowline grace end", "End the wait for those that have not"),
        ],
    ),
    (
        "reload",
        &[
            ("bowline reload --dry-run", "What a changed exports file would change"),
            ("bowline reload", "Apply it: all of it, or nothing"),
        ],
    ),
    (
        "exportfs",
        &[
            ("bowline exportfs -ra", "Read the exports files again"),
            (
                "bowline exportfs -o rw,no_root_squash 192.0.2.7:/srv/data",
                "Export a directory until the next reload",
            ),
            ("bowline exportfs -u 192.0.2.7:/srv/data", "End that"),
        ],
    ),
    (
        "check",
        &[
            (
                "bowline check /etc/exports /etc/exports.d",
                "Exports and clients of the files, or errors with their position",
            ),
            (
                "bowline check /etc/exports --for-host 192.0.2.7",
                "What this client gets of each export",
            ),
        ],
    ),
    (
        "doctor",
        &[
            ("bowline doctor", "Look at this machine, /etc/exports and port 2049"),
            ("bowline doctor --port 20049 --json", "For another port, as JSON"),
            (
                "bowline doctor --control /run/nas.sock",
                "And at the server of another control socket",
            ),
        ],
    ),
    (
        "doctor tls",
        &[(
            "bowline doctor tls nas.example.org",
            "Make the handshake that a client would make, and look at the certificate",
        )],
    ),
    (
        "doctor krb5",
        &[(
            "bowline doctor krb5 --name nas.example.org --user alice@EXAMPLE.ORG",
            "Look at the keytab for a name that clients mount, and at a user's principal",
        )],
    ),
    ("tls", &[("bowline tls init", "Make an authority and the server's certificate")]),
    (
        "tls init",
        &[(
            "bowline tls init nas.example.org",
            "Make an authority and a certificate that has this name as well",
        )],
    ),
    ("tls client", &[("bowline tls client build7", "Make the certificate of a client")]),
    (
        "explain",
        &[
            (
                "bowline explain 192.0.2.7 /srv/data",
                "Would this client be let in, and by which line of which file",
            ),
            (
                "bowline explain 192.0.2.7 /srv/data/reports/q3.ods 1000",
                "What this user may do with a file from there",
            ),
        ],
    ),
    ("why", &[("bowline why", "What was refused in the last hour, to whom, and why")]),
    (
        "bench",
        &[
            (
                "bowline bench run all --quick --out results",
                "Run all experiments, in minutes instead of an hour",
            ),
            ("bowline bench report results", "Make a page of their results"),
        ],
    ),
    ("bench list", &[("bowline bench list", "The experiments, and the question of each")]),
    (
        "bench run",
        &[(
            "bowline bench run zc-read pools --quick --out results",
            "Two experiments, and results/report.html",
        )],
    ),
    (
        "bench load",
        &[(
            "bowline bench load --server nas:2049 --export /vol --workload mixed --clients 100",
            "A mixed load of a hundred clients on any server of NFS",
        )],
    ),
    (
        "bench compare",
        &[
            (
                "bowline bench compare --peer ganesha --only getattr",
                "The server's processor time of one load, beside NFS-Ganesha",
            ),
            (
                "bowline bench compare --peer ganesha --only readdirplus --export-options attr-cache=1000",
                "The same of a listing, with an option of Bowline's export",
            ),
        ],
    ),
    (
        "bench report",
        &[(
            "bowline bench report results --compact results.json",
            "All trials of a run in one small file",
        )],
    ),
    (
        "bench mktree",
        &[(
            "bowline bench mktree /srv/tree --scale 0.1",
            "A tenth of the tree of the experiment rsync-walk",
        )],
    ),
    (
        "completions",
        &[("bowline completions fish", "The script for a shell; bash and zsh likewise")],
    ),
];

#[cfg(test)]
mod tests {
    use super::EXAMPLES;
    use crate::cli::Cli;
    use clap::{Command, CommandFactory, Parser};

    #[test]
    fn examples_are_commands_of_their_page() {
        for (page, examples) in EXAMPLES {
            for (line, about) in examples {
                let parsed = Cli::try_parse_from(line.split_whitespace());
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
                assert!(page.is_empty() || line.starts_with(&format!("bowline {page}")), "{line}");
                assert!(!about.is_empty() && !about.ends_with('.'), "{line}: {about}");
            }
        }
    }

    fn pages(command: &Command, path: &str, found: &mut Vec<String>) {
        found.push(path.to_owned());
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            pages(sub, format!("{path} {}", sub.get_name()).trim_start(), found);
        }
    }

    #[test]
    fn every_page_has_examples() {
        let mut all = Vec::new();
        pages(&Cli::command(), "", &mut all);
        for page in all {
            let own = EXAMPLES.iter().find(|(name, _)| *name == page);
            assert!(own.is_some_and(|(_, examples)| !examples.is_empty()), "no example: {page}");
        }
    }
}
