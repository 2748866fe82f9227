//! The pages of the manual that are about no command: settings, the configuration file, exports, counters, tables. Each is
//! made from the table that the program itself goes by, so that none says what the program does not do.

use crate::cli::EXIT_STATUSES;
use crate::columns::{TABLES, WARNING};
use crate::settings::{ROWS, Values};
use anyhow::Context;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use export::exports_file::EXPORT_OPTIONS;
use std::path::Path;
use telemetry::Counter;

/// The configuration file that is shipped.
const EXAMPLE: &str = include_str!("../../../packaging/bowline.toml");
/// The exports file that is shipped.
const EXPORTS: &str = include_str!("../../../exports.example");

/// What somebody who knows exportfs(8) would expect otherwise.
const DIFFERENCES: [(&str, &str); 6] = [
    (
        "Which files",
        "Only those that are named. exportfs reads /etc/exports and /etc/exports.d/*.exports: name \
         both, --exports /etc/exports --exports /etc/exports.d, or in the configuration exports = \
         [\"/etc/exports\", \"/etc/exports.d\"]. A directory beside a named file that is not read is \
         pointed out.",
    ),
    ("A file with an error", "Nothing of any file is applied, and what was in force stays so."),
    ("One client twice for one export", "An error, in one file or in two."),
    (
        "exportfs -ra",
        "bowline reload. Nothing is exported with a command, but for the directories that bowline \
         serve is given.",
    ),
    (
        "manage-gids, tcp-rcvbuf=, tcp-sndbuf=",
        "Options of an export. The first is one of the daemon rpc.mountd, the others are not in nfs-utils.",
    ),
    (
        "Mounts below an export",
        "Not crossed, whatever crossmnt and nohide say: each needs a line of its own.",
    ),
];

/// A page: its name, its section, and what it is about.
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
        about: "what can be set on a running server",
        body: settings,
    },
    Page { name: "bowline.toml", section: "5", about: "the configuration file", body: file },
    Page {
        name: "bowline-exports",
        section: "5",
        about: "exports(5) as bowline reads it",
        body: exports,
    },
    Page { name: "bowline-counters", section: "7", about: "what a server counts", body: counters },
    Page {
        name: "bowline-tables",
        section: "7",
        about: "what stands in the tables of a running server",
        body: tables,
    },
];

/// Writes the pages into `dir`, and ends the program's own with what it keeps and what else there is to read.
pub fn write(dir: &Path) -> anyhow::Result<()> {
    let main = dir.join("bowline.1");
    let failed = || format!("cannot write {}", main.display());
    let text = std::fs::read_to_string(&main).with_context(failed)?;
    std::fs::write(&main, text + &ending()).with_context(failed)?;
    for page in &PAGES {
        let path = dir.join(format!("{}.{}", page.name, page.section));
        let text = render(page);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
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
        "This holds for every command. bowline check ends as bowline serve would: with 2 if the file is \
         wrong. A server that is not there, a port that is taken and output that cannot be written are \
         1, as are exports that bowline reload finds wrong: the server was asked, and refused. A \
         second Ctrl-C ends a server or a measurement with 130.",
    )]);
    roff.control("SH", ["FILES"]);
    let files = [
        (
            "/var/lib/bowline",
            "The key of all handles, identities of exports, tables of names; keep it",
        ),
        ("/run/bowline/control.sock", "The control socket of a server of root, for its owner"),
        (
            "/etc/exports",
            "What is exported to whom, if --exports or the configuration names it; so is /etc/exports.d",
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
            " is a key of the same name; the directories that the command line names without an \
             option are ",
        ),
        bold("dirs"),
        roman(
            ". A key that takes several values takes one as well. A key that there is not is an \
             error, with its place.",
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
            " or SIGHUP: all of them are applied, or nothing. What is named several times counts \
             together, as if it were one file. A directory stands for its files whose names end in ",
        ),
        bold(".exports"),
        roman(" and do not begin with a dot, in the order of their names."),
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
        roman("Counted since the start of the server. "),
        bold("bowline status"),
        roman(" shows those that are not zero, "),
        bold("bowline status --json"),
        roman(" as numbers."),
    ]);
    roff.control("SH", ["COUNTERS"]);
    for (name, about) in Counter::ABOUT {
        entry(roff, vec![bold(*name)], about.trim());
    }
    roff.control("PP", []);
    roff.text([bold("bowline ops"), roman(" shows what is counted for each procedure.")]);
}

fn tables(roff: &mut Roff) {
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([
        roman(
            "Calls, bytes and events count since the start of the server, those of a connection since it \
             was accepted; all else is as it is now. With ",
        ),
        bold("--json"),
        roman(
            " each command prints the same and more, unrounded, for programs: sizes in bytes, times in \
             the unit that the name ends in.",
        ),
    ]);
    for (command, columns) in TABLES {
        roff.control("SH", [format!("BOWLINE {}", command.to_uppercase()).as_str()]);
        let more = (command == "status").then_some(&WARNING);
        for column in columns.iter().chain(more) {
            entry(roff, vec![bold(column.name)], column.about);
        }
    }
}
