//! The manual pages about settings, the configuration file, exports, counters and tables.
//!
//! Each is generated from the table that the program itself uses, so that they cannot disagree.

use crate::cli::EXIT_STATUSES;
use crate::cli::examples::{EXAMPLES, Example};
use crate::columns::{BLOCKED, COPIES, OUTBOUND, TABLES, UNLINKED, WARNING};
use crate::settings::{ROWS, Values};
use anyhow::Context;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use export::exports_file::EXPORT_OPTIONS;
use std::path::Path;
use telemetry::Counter;

/// The example of a configuration file.
const EXAMPLE: &str = include_str!("../../../packaging/bowline.toml");
/// The example of an exports file.
const EXPORTS: &str = include_str!("../../../exports.example");

/// Differences from exportfs(8).
const DIFFERENCES: [(&str, &str); 6] = [
    (
        "Which files",
        "Only the files that are named. exportfs reads /etc/exports and /etc/exports.d/*.exports: name \
         both, --exports /etc/exports --exports /etc/exports.d, or in the configuration exports = \
         [\"/etc/exports\", \"/etc/exports.d\"]. A note names a directory FILE.d beside a named file if it is \
         not read.",
    ),
    ("A file with an error", "No file is applied, and the exports in force stay unchanged."),
    ("One client twice for one export", "An error, in one file or across files."),
    (
        "exportfs -ra",
        "bowline reload, or bowline exportfs -ra. What bowline exportfs -o has added is gone then; the directories on the \
         command line of bowline serve stay.",
    ),
    (
        "manage-gids, tcp-rcvbuf=, tcp-sndbuf=",
        "Options of an export. In nfs-utils, the first is an option of rpc.mountd, and the others do not exist.",
    ),
    (
        "Mounts below an export",
        "With crossmnt they are part of it, in all versions, as in nfs-utils; as soon as they are mounted, without \
         exportfs. At most 1,024 of them. An ordinary user's server crosses as well, and without crossmnt denies access \
         to the directories below mounts instead of showing them.",
    ),
];

/// A page: its name, its section, and its subject.
struct Page {
    name: &'static str,
    section: &'static str,
    about: &'static str,
    body: fn(&mut Roff),
}

const PAGES: [Page; 5] = [
    Page {
        name: "bowline-settings",
        section: "7",
        about: "run-time settings of bowline",
        body: settings,
    },
    Page {
        name: "bowline.toml",
        section: "5",
        about: "configuration file of bowline serve",
        body: file,
    },
    Page {
        name: "bowline-exports",
        section: "5",
        about: "exports files of bowline",
        body: exports,
    },
    Page {
        name: "bowline-counters",
        section: "7",
        about: "counters of a bowline server",
        body: counters,
    },
    Page {
        name: "bowline-tables",
        section: "7",
        about: "columns of the tables that bowline prints",
        body: tables,
    },
];

/// Writes the pages into `dir`; adds examples to those of the commands, and exit statuses, files and references to the page
/// of the program.
pub fn write(dir: &Path) -> anyhow::Result<()> {
    for (command, examples) in EXAMPLES {
        append(&dir.join(page_of(command)), &examples_section(examples))?;
    }
    append(&dir.join("bowline.1"), &ending())?;
    for page in &PAGES {
        let path = dir.join(format!("{}.{}", page.name, page.section));
        let text = render(page);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The file of a command's page: `bowline-doctor-tls.1` of `doctor tls`.
fn page_of(command: &str) -> String {
    let words = std::iter::once("bowline").chain(command.split_whitespace());
    format!("{}.1", words.collect::<Vec<_>>().join("-"))
}

fn append(page: &Path, section: &str) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", page.display());
    let text = std::fs::read_to_string(page).with_context(failed)?;
    std::fs::write(page, text + section).with_context(failed)
}

fn examples_section(examples: &[Example]) -> String {
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    for (line, about) in examples {
        entry(&mut roff, vec![bold(*line)], about);
    }
    roff.to_roff()
}

/// The end of the program's own page.
fn ending() -> String {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (status, about) in EXIT_STATUSES {
        entry(&mut roff, vec![bold(status.to_string())], about);
    }
    roff.control("PP", []);
    roff.text([roman(
        "These apply to every command. bowline check ends as bowline serve would: with 2 if a file is wrong. \
         A missing server and output that cannot be written are 1, as are wrong exports at \
         bowline reload, because the server refuses the request. A second Ctrl-C ends a server or a \
         measurement with 130.",
    )]);
    roff.control("SH", ["FILES"]);
    let files = [
        (
            "/var/lib/bowline",
            "The key of file handles, ids of exports, name tables; must not be lost",
        ),
        (
            "/run/bowline/control.sock",
            "The control socket of a server that runs as root; only root can use it",
        ),
        (
            "/etc/exports",
            "Exports, if --exports or the configuration names the file; /etc/exports.d likewise",
        ),
    ];
    for (path, about) in files {
        entry(&mut roff, vec![bold(path)], about);
    }
    also(&mut roff, PAGES.iter());
    roff.to_roff()
}

fn also<'p>(roff: &mut Roff, pages: impl Iterator<Item = &'p Page>) {
    roff.control("SH", ["SEE ALSO"]);
    let name = |page: &Page| vec![bold(page.name), roman(format!("({})", page.section))];
    let names: Vec<Vec<Inline>> = pages.map(name).collect();
    roff.text(names.join(&roman(", ")));
}

fn render(page: &Page) -> String {
    let mut roff = Roff::new();
    roff.control("TH", [page.name, page.section]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{} - {}", page.name, page.about))]);
    (page.body)(&mut roff);
    let program = Page { name: "bowline", section: "1", about: "", body: |_| () };
    let others = PAGES.iter().filter(|other| other.name != page.name);
    also(&mut roff, std::iter::once(&program).chain(others));
    roff.to_roff()
}

fn entry(roff: &mut Roff, head: Vec<Inline>, about: &str) {
    roff.control("TP", []);
    roff.text(head);
    roff.text([roman(about)]);
}

fn example(roff: &mut Roff, text: &str) {
    roff.control("PP", []);
    roff.control("nf", []);
    for line in text.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
}

fn settings(roff: &mut Roff) {
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([
        roman("Initial values come from "),
        bold("bowline serve --set "),
        italic("KEY=VALUE"),
        roman(" or the table "),
        bold("[set]"),
        roman(" of the configuration file. "),
        bold("bowline set "),
        italic("KEY=VALUE"),
        roman(
            " changes a setting of a running server immediately, without losing a call; the value is in \
             force until the server ends. ",
        ),
        bold("bowline get"),
        roman(" prints the values in force."),
    ]);
    roff.control("SH", ["SETTINGS"]);
    let defaults = Values::default();
    for row in &ROWS {
        let default = row.default_text.map_or_else(
            || row.list(&defaults).into_iter().map(|(_, value)| value).collect(),
            ToOwned::to_owned,
        );
        let when = if row.is_live() { "" } else { " Takes effect at the next start." };
        let about = format!("{}. {} Default: {default}.{when}", upper_first(row.help), row.manual);
        entry(roff, vec![bold(row.key), roman("="), italic(row.values)], &about);
    }
    roff.control("SH", ["NETWORKS AND EXPORTS"]);
    roff.text([
        bold("tcp-rcvbuf"),
        roman(" and "),
        bold("tcp-sndbuf"),
        roman(" can be set for the clients of a network ("),
        bold("tcp-rcvbuf@10.0.0.0/8=16M"),
        roman(") and for an export ("),
        bold("tcp-sndbuf@/srv/public=4M"),
        roman(
            "). The value in an exports file takes precedence over the export's, that over the \
             network's with the longest prefix, and that over the server-wide value.",
        ),
    ]);
}

fn upper_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn file(roff: &mut Roff) {
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([
        roman("TOML, read by "),
        bold("bowline serve --config "),
        italic("FILE"),
        roman(" and checked by "),
        bold("bowline check "),
        italic("FILE"),
        roman(". Each option of "),
        bold("bowline serve"),
        roman(
            " is a key of the same name; directories, which the command line names without an option, \
             are the key ",
        ),
        bold("dirs"),
        roman(
            ". Where a list is possible, a single value is accepted. An unknown key is an error, which \
             is reported with its position.",
        ),
    ]);
    roff.control("SH", ["EXAMPLE"]);
    example(roff, EXAMPLE);
}

fn exports(roff: &mut Roff) {
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([
        roman("Exports files are read by "),
        bold("bowline serve --exports "),
        italic("FILE|DIR"),
        roman(", checked by "),
        bold("bowline check "),
        italic("FILE|DIR"),
        roman(", and read again by "),
        bold("bowline reload"),
        roman(
            " or SIGHUP: all of them are applied, or none. Several files are read as if they were one. A \
             directory stands for its files whose names end in ",
        ),
        bold(".exports"),
        roman(" and do not begin with a dot, sorted by name."),
    ]);
    roff.control("SH", ["OPTIONS"]);
    for option in &EXPORT_OPTIONS {
        let mut head = vec![bold(option.name)];
        if let Some(value) = option.value {
            head.extend([roman("="), italic(value)]);
        }
        let without = if option.has_effect() { "" } else { "No effect: " };
        entry(roff, head, &format!("{without}{}", option.about));
    }
    roff.control("SH", ["DIFFERENCES FROM NFS-UTILS"]);
    for (what, about) in DIFFERENCES {
        entry(roff, vec![roman(what)], about);
    }
    roff.control("SH", ["EXAMPLE"]);
    example(roff, EXPORTS);
}

fn counters(roff: &mut Roff) {
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([
        roman("All values are counted since the start of the server. "),
        bold("bowline status"),
        roman(" prints those that are not zero, "),
        bold("bowline status --json"),
        roman(" as numbers."),
    ]);
    roff.control("SH", ["COUNTERS"]);
    for (name, about) in Counter::ABOUT {
        entry(roff, vec![bold(*name)], about.trim());
    }
    roff.control("PP", []);
    roff.text([bold("bowline ops"), roman(" prints the counters of each procedure.")]);
}

fn tables(roff: &mut Roff) {
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([
        roman(
            "Calls, bytes and events are counted since the start of the server, or for a connection since \
             it was accepted; other values are current. With ",
        ),
        bold("--json"),
        roman(
            " each command prints the same values and more, not rounded: sizes in bytes, times in the \
             unit at the end of the name.",
        ),
    ]);
    for (command, columns) in TABLES {
        roff.control("SH", [format!("BOWLINE {}", command.to_uppercase()).as_str()]);
        let more: &[_] = match command {
            "status" => &[UNLINKED, BLOCKED, OUTBOUND, WARNING],
            "ops" => &COPIES,
            _ => &[],
        };
        for column in columns.iter().chain(more) {
            entry(roff, vec![bold(column.name)], column.about);
        }
    }
}
