//! The command line by itself: exit statuses, one-line errors, `check`, generated pages.

use crate::rig::{bowline, text, told};
use std::path::Path;
use std::process::{Output, Stdio};

/// Every command: what it is told, how it ends, and a part of its one line of error.
const ENDS: &[(&str, i32, &str)] = &[
    ("serve", 2, "nothing to serve"),
    ("serve /a --prot 1", 2, "--port"),
    ("serve none", 2, "none does not exist"),
    ("serve /srv:/none", 2, "write NAME=DIR, here srv=/none"),
    ("stauts", 2, "did you mean status?"),
    ("/usr", 2, "write `bowline serve /usr`"),
    ("set threads 4", 2, "here `bowline set threads=4`"),
    ("set threads", 2, "write threads=MIN..MAX"),
    ("serve --config port.toml", 2, "port.toml:2:8: a number is written without quotes: 2049"),
    ("check port.toml", 2, ""),
    ("check good.exports --for-host 192.0.2.7", 0, ""),
    ("check good.exports --for-host none.invalid", 2, "--for-host none.invalid: "),
    ("check good.exports --for-hst x", 2, "did you mean --for-host?"),
    ("serve good.exports", 2, "not a directory"),
    ("serve x=", 2, "is not a directory argument"),
    ("serve . --client 10.0.0.0/99", 2, "--client 10.0.0.0/99"),
    ("serve . --set max-reed=1", 2, "max-read"),
    ("serve . .", 2, "is exported twice"),
    ("serve --config none.toml", 2, "cannot read the configuration none.toml"),
    ("serve --config wrong.toml", 2, "wrong.toml:2:1: "),
    ("serve --config gone.toml", 2, "none does not exist"),
    ("serve --exports none", 2, "the exports: cannot read none"),
    ("serve . --listen 192.0.2.1", 1, "not an address of this machine"),
    ("serve . --state-dir good.exports/x", 1, "good.exports/x"),
    ("serve . --control good.exports", 1, "good.exports"),
    ("serve . --control nope/d/c.sock", 1, "nope/d/c.sock"),
    ("check", 2, "see `bowline check --help`"),
    ("check good.exports", 0, ""),
    ("check good.toml", 0, ""),
    ("check none", 2, "cannot read none"),
    ("check .", 2, ""),
    ("check good.exports other.exports", 0, ""),
    ("check good.exports good.toml", 2, "good.toml is a configuration file: check it alone"),
    ("check wrong.exports", 2, ""),
    ("check wrong.toml", 2, ""),
    ("check gone.exports", 2, "none does not exist"),
    ("check gone.toml", 2, "none does not exist"),
    ("check same.exports", 2, "same identity"),
    ("check unread.toml", 2, "the key exports: cannot read none"),
    ("status", 1, "bowline serve"),
    ("status extra", 2, "see `bowline status --help`"),
    ("exports --json", 1, "bowline serve"),
    ("exports --jsn", 2, "--json"),
    ("clients", 1, "bowline serve"),
    ("clients --control", 2, "--control"),
    ("conns", 1, "bowline serve"),
    ("conns extra", 2, "see `bowline conns --help`"),
    ("sessions", 1, "bowline serve"),
    ("sessions extra", 2, "see `bowline sessions --help`"),
    ("opens", 1, "bowline serve"),
    ("opens extra", 2, "see `bowline opens --help`"),
    ("delegations", 1, "bowline serve"),
    ("delegations extra", 2, "see `bowline delegations --help`"),
    ("sockets", 1, "bowline serve"),
    ("sockets extra", 2, "see `bowline sockets --help`"),
    ("pools", 1, "bowline serve"),
    ("pools extra", 2, "see `bowline pools --help`"),
    ("token", 1, "bowline serve"),
    ("token extra", 2, "see `bowline token --help`"),
    ("exportfs -v", 1, "start one"),
    ("exportfs -u", 2, "name CLIENT:/DIR"),
    ("explain 192.0.2.7 /srv", 1, "bowline serve"),
    ("explain 192.0.2.7", 2, "see `bowline explain --help`"),
    ("explain 192.0.2.7 /srv root", 2, "root"),
    ("why", 1, "bowline serve"),
    ("why extra", 2, "see `bowline why --help`"),
    ("grace", 1, "bowline serve"),
    ("grace end", 1, "bowline serve"),
    ("grace extra", 2, "see `bowline grace --help`"),
    ("ops", 1, "bowline serve"),
    ("locks", 1, "bowline serve"),
    ("locks extra", 2, "see `bowline locks --help`"),
    ("release 192.0.2.1", 1, "bowline serve"),
    ("release", 2, "see `bowline release --help`"),
    ("top --once", 1, "bowline serve"),
    ("metrics", 1, "bowline serve"),
    ("metrics extra", 2, "see `bowline metrics --help`"),
    ("serve /a --metrics 9049", 2, "127.0.0.1:9049"),
    ("top --json", 2, "--once"),
    ("top --interval 0", 2, "write a number of seconds"),
    ("ops extra", 2, "see `bowline ops --help`"),
    ("reload", 1, "bowline serve"),
    ("reload extra", 2, "see `bowline reload --help`"),
    ("set max-read=64K", 1, "bowline serve"),
    ("set max-reed=64K", 2, "max-read"),
    ("set max-read=fast", 2, "max-read"),
    ("get max-read", 1, "bowline serve"),
    ("get max-reed", 2, "max-read"),
    ("doctor gone.exports", 1, "problem"),
    ("doctor --port x", 2, "--port"),
    ("doctor --control none.sock", 1, "problem"),
    ("doctor tls none.invalid", 1, "problem"),
    ("doctor tls", 2, "HOST"),
    ("doctor krb5 --keytab /none.keytab", 1, "problem"),
    ("doctor krb5 x", 2, "see `bowline doctor krb5 --help`"),
    ("tls init --dir good.exports/x", 1, "good.exports/x"),
    ("tls init --dri x", 2, "--dir"),
    ("tls client a --dir .", 1, "bowline tls init"),
    ("tls client a/b --dir .", 2, "a/b"),
    ("completions bash", 0, ""),
    ("completions csh", 2, "bash"),
    ("bench", 2, "see `bowline bench --help`"),
    ("bench list", 0, ""),
    ("bench list extra", 2, "see `bowline bench list --help`"),
    ("bench run none", 2, "no such experiment"),
    ("bench run align --out good.exports", 1, "--out good.exports"),
    ("bench report none", 2, "cannot read none"),
    ("bench report .", 2, "machine.json is missing"),
    ("bench mktree t --scale 0", 2, "a scale of 0"),
    ("bench mktree .", 2, "is not empty"),
];

/// The same of loads and comparisons; the port is one that nobody answers on.
const BENCH_ENDS: &[(&str, i32, &str)] = &[
    ("bench load --server 127.0.0.1:1 --export /x", 1, "refuses"),
    ("bench load --server none.invalid --export /x", 2, "none.invalid"),
    ("bench load --server 127.0.0.1:1 --export /x --workload fly", 2, "fly"),
    ("bench load --server 127.0.0.1:1 --export /x --calls c", 2, "--workload replay"),
    ("bench mktree good.exports/x", 1, "good.exports/x"),
    ("bench report results.json", 0, ""),
    ("bench compare --peer none", 2, "nor a command with {PORT}"),
    ("bench compare --peer none{PORT} --quick --only NULL", 1, "did not start"),
    ("bench compare --peer x --only nothing", 2, "no load has that in its name"),
    ("bench compare --peer none{PORT} --export-options attr-cash=1", 2, "attr-cache"),
    ("bench compare --peer none{PORT} --export-options attr-cache=1000)", 2, "with commas"),
];

/// Files of all kinds of wrong.
const FILES: [(&str, &str); 10] = [
    ("port.toml", "dirs = '/tmp'\nport = \"2049\"\n"),
    ("other.exports", "/usr *(ro)\n"),
    ("good.exports", "/var *(ro)\n"),
    ("wrong.exports", "/opt *(rw)\n/usr *(rw,fast)\n"),
    ("gone.exports", "/none *(ro)\n"),
    ("same.exports", "/ *(rw,fsid=1)\n/tmp *(rw,fsid=1)\n"),
    ("good.toml", "dirs = '/tmp'\n"),
    ("wrong.toml", "dirs = '.'\nprot = 1\n"),
    ("gone.toml", "dirs = 'none'\n"),
    ("unread.toml", "exports = 'none'\n"),
];

#[test]
fn exit_statuses_match_the_manual() {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in FILES {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bench/2026-11-21.json");
    std::fs::copy(run, dir.path().join("results.json")).unwrap();
    let mut wrong = Vec::new();
    for (line, status, part) in ENDS.iter().chain(BENCH_ENDS) {
        let mut command = std::process::Command::new(crate::rig::BOWLINE);
        command.args(line.split(' ')).current_dir(dir.path());
        let asks = !["serve", "check", "bench", "completions", "doctor", "tls"]
            .iter()
            .any(|c| line.starts_with(c));
        let given = |option: &str| line.contains(option);
        if asks && !given("--control") {
            command.args(["--control", "none.sock"]);
        }
        if line.starts_with("serve") {
            let own =
                [("--port", "1"), ("--portmap", "off"), ("--state-dir", "s"), ("--control", "c")];
            let own = own.iter().filter(|(option, _)| !given(option));
            command.args(own.flat_map(|(option, value)| [option, value]));
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        let told = text(&output.stderr);
        let said = if *status == 0 { told.is_empty() } else { told.starts_with("bowline: ") };
        let one_line = part.is_empty() || told.contains(part) && told.lines().count() == 1;
        if output.status.code() != Some(*status) || !said || !one_line {
            wrong.push(format!("{line}: {:?} {told}", output.status.code()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_command_has_an_exit_status_test() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/generated");
    for page in std::fs::read_dir(pages).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        let Some(words) = name.strip_prefix("bowline-").and_then(|n| n.strip_suffix(".1")) else {
            continue;
        };
        let words = words.replace('-', " ");
        for wanted in [true, false] {
            let mut rows =
                ENDS.iter().chain(BENCH_ENDS).filter(|(line, ..)| line.starts_with(&words));
            assert!(rows.any(|(_, status, _)| (*status == 2) == wanted), "{words}: {wanted}");
        }
    }
}

#[test]
fn doctor_asks_the_server_and_looks_at_its_port() {
    let server = crate::rig::Server::start(&[]);
    let found = server.json("doctor");
    let about = |about: &str| {
        let found = found.as_array().unwrap().iter();
        found.filter(|row| row["about"] == about).cloned().collect::<Vec<_>>()
    };
    let of_server = about("server");
    let first = of_server[0]["text"].as_str().unwrap();
    let wanted = format!(
        "(process {}) serves 1 exports on tcp 127.0.0.1:{}",
        server.child.id(),
        server.port
    );
    assert!(first.contains(&wanted), "{first}");
    assert!(about("port")[0]["text"].as_str().unwrap().starts_with(&server.port.to_string()));
    std::fs::remove_file(server.control()).unwrap();
    let gone = server.ask(&["doctor"]);
    assert!(gone.status.code() == Some(1) && text(&gone.stdout).contains("none answers on"));
}

#[test]
fn control_commands_exit_0_when_accepted_and_1_when_refused() {
    let server = crate::rig::Server::start(&[]);
    for line in [
        "status",
        "exports",
        "clients",
        "conns",
        "sockets",
        "pools",
        "ops",
        "get",
        "reload",
        "set max-read=64K",
        "get max-read",
    ] {
        let asked = server.ask(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((asked.status.code(), text(&asked.stderr)), (Some(0), String::new()), "{line}");
    }
    let refused = told(&server.ask(&["set", "tcp-congestion=none-such"]), 1);
    assert!(refused.contains("none-such"), "{refused}");
    std::fs::remove_dir_all(server.served()).unwrap();
    let refused = told(&server.ask(&["reload"]), 1);
    assert!(refused.contains("does not exist"), "{refused}");
}

#[test]
fn an_invalid_command_line_exits_2_with_one_line() {
    for (args, part) in [
        (&[][..], "bowline serve DIR"),
        (&["fly"], "fly"),
        (&["serve"], "nothing to serve"),
        (&["serve", "/a", "--prot", "1"], "--port"),
        (&["serve", "/a", "--port", "70000"], "65535"),
        (&["serve", "/a", "--listen", "here"], "IP address"),
        (&["serve", "/a", "--set", "max-reed=1"], "max-read"),
        (&["serve", "/a", "--portmap", "perhaps"], "register"),
        (&["set", "zero-copy=perhaps"], "on|off|auto"),
        (&["status", "extra"], "see `bowline status --help`"),
        (&["bench", "load", "--fast"], "see `bowline bench load --help`"),
        (&["bench"], "see `bowline bench --help`"),
        (&["help", "fly"], "fly"),
    ] {
        let error = told(&bowline(args), 2);
        assert!(error.contains(part), "{args:?}: {error}");
    }
}

#[test]
fn help_and_version_exit_0() {
    for args in
        [&["--help"][..], &["serve", "--help"], &["--version"], &["completions", "bash"], &["help"]]
    {
        let output = bowline(args);
        assert_eq!(output.status.code(), Some(0));
        assert!(!output.stdout.is_empty() && output.stderr.is_empty());
    }
    let (help, asked) =
        (bowline(&["bench", "load", "--help"]), bowline(&["help", "bench", "load"]));
    assert_eq!(text(&help.stdout), text(&asked.stdout));
}

#[test]
fn control_commands_without_a_server_exit_1_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    let control = dir.path().join("none.sock");
    let control = control.to_str().unwrap();
    for command in ["status", "exports", "clients", "conns", "sockets", "pools", "ops", "reload"] {
        let error = told(&bowline(&[command, "--control", control]), 1);
        assert!(error.contains("bowline serve"), "{error}");
    }
}

#[test]
fn an_export_that_cannot_be_served_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (file, state) = (dir.path().join("file"), dir.path().join("state"));
    std::fs::write(&file, "").unwrap();
    let serve = |what: &str| {
        let state = state.to_str().unwrap();
        bowline(&["serve", what, "--state-dir", state, "--port", "1", "--portmap", "off"])
    };
    let missing = told(&serve("/no/such/directory"), 2);
    assert!(missing.contains("/no/such/directory"), "{missing}");
    let error = told(&serve(file.to_str().unwrap()), 2);
    assert!(error.contains("not a directory"), "{error}");
}

#[test]
fn an_unknown_configuration_key_is_reported_with_line_and_column() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("b.toml");
    std::fs::write(&path, "dirs = '.'\nprot = 1\n").unwrap();
    let path = path.to_str().unwrap();
    let error = told(&bowline(&["serve", "--config", path]), 2);
    assert!(error.contains("b.toml:2:1: ") && error.contains("prot"), "{error}");
}

fn check(name: &str, content: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    bowline(&["check", path.to_str().unwrap()])
}

#[test]
fn check_prints_the_exports_of_a_valid_file() {
    let output = check("exports", "/tmp 10.0.0.0/8(rw,subtree_check) *.example.org(ro)\n");
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
    for part in
        ["/tmp", "10.0.0.0/8", "*.example.org", "ro", "subtree_check", "exports: OK, 1 export\n"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let output = check("b.toml", "dirs = '/tmp'\nport = 3049\nclient = '10.0.0.0/8'\n");
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
    for part in ["/tmp", "10.0.0.0/8", "3049"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn check_prints_the_rights_of_a_host() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("exports");
    std::fs::write(
        &path,
        "/tmp 192.0.2.0/24(rw)\n/usr 192.0.2.7(ro,insecure) *(ro)\n/var 10.0.0.1(ro)\n",
    )
    .unwrap();
    let output = bowline(&["check", path.to_str().unwrap(), "--for-host", "192.0.2.7"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
    for part in [
        "a client with the address 192.0.2.7, ",
        "  /tmp: by the rule for 192.0.2.0/24 (rw,",
        "only from ports below 1024\n",
        "  /usr: by the rule for 192.0.2.7 (ro,",
        "  /var: nothing, no rule is for it\n",
        "exports: OK, 3 exports\n",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let output = bowline(&["check", path.to_str().unwrap(), "--for-host", "localhost"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("127.0.0.1, named localhost"), "{shown}");
}

#[test]
fn check_merges_several_files() {
    let dir = tempfile::tempdir().unwrap();
    let (file, more) = (dir.path().join("exports"), dir.path().join("exports.d"));
    std::fs::create_dir(&more).unwrap();
    std::fs::write(&file, "/tmp 10.0.0.1(ro,fsid=7)\n").unwrap();
    std::fs::write(more.join("a.exports"), "/tmp 10.0.0.2(rw)\n").unwrap();
    std::fs::write(more.join("b.exports"), "/usr *(ro)\n").unwrap();
    std::fs::write(more.join("c.txt"), "nothing of this\n").unwrap();
    let (file, more) = (file.to_str().unwrap(), more.to_str().unwrap());
    let alone = text(&bowline(&["check", file]).stdout);
    assert!(alone.contains("exports.d is not read (it contains a.exports)"), "{alone}");
    let both = bowline(&["check", file, more]);
    let shown = text(&both.stdout);
    assert_eq!(both.status.code(), Some(0), "{shown}{}", text(&both.stderr));
    assert_eq!(shown.matches("/tmp\n").count(), 1, "one export for both clients: {shown}");
    for part in ["to 10.0.0.1 (ro", "to 10.0.0.2 (rw", "/usr\n"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("note:"), "{shown}");
    let again = Path::new(more).join("d.exports");
    std::fs::write(again, "# twice\n/tmp 10.0.0.1(rw) 10.0.0.3(ro,fsid=8)\n").unwrap();
    let error = text(&bowline(&["check", file, more]).stderr);
    assert!(error.contains("d.exports:2:6: 10.0.0.1 is listed twice"), "{error}");
    assert!(error.contains("d.exports:2:19: fsid=8: this export has fsid=7"), "{error}");
}

#[test]
fn check_shows_line_and_column_of_an_error() {
    let output = check("exports", "/tmp *(rw)\n/usr *(rw,fast)\n");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("exports:2:") && error.contains("fast"), "{error}");
    assert!(error.lines().any(|line| line.trim() == "^"), "a caret: {error}");
    let output = check("b.toml", "port = 3049\nportt = 1\n");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("b.toml:2:1: ") && error.contains("portt"), "{error}");
}

#[test]
fn check_and_serve_refuse_the_same_files() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().to_str().unwrap();
    let (state, control) = (dir.path().join("state"), dir.path().join("c.sock"));
    let exports = |text: &str| std::fs::write(dir.path().join("exports"), text).unwrap();
    let both = |args: [&str; 2], part: &str| {
        let checked = bowline(&["check", args[1]]);
        let told = text(&checked.stderr);
        assert_eq!(checked.status.code(), Some(2), "{told}{}", text(&checked.stdout));
        assert!(told.contains(part) && told.lines().count() == 1, "{told}");
        let mut serve = std::process::Command::new(crate::rig::BOWLINE);
        serve.arg("serve").args(args).arg("--state-dir").arg(&state).arg("--control").arg(&control);
        let served = serve.args(["--port", "1", "--portmap", "off"]).output().unwrap();
        let told = text(&served.stderr);
        assert_eq!(served.status.code(), Some(2), "{told}");
        assert!(told.contains(part), "{told}");
    };
    let (file, config) = (format!("{here}/exports"), format!("{here}/b.toml"));
    // what is wrong together with what is good stops a check only
    exports(&format!("{here} *(rw)\n{here}/none *(rw)\n"));
    assert_eq!(bowline(&["check", &file]).status.code(), Some(2));
    std::fs::write(&config, "dirs = 'none'\n").unwrap();
    both(["--config", &config], "none does not exist");
}

#[test]
fn check_notes_a_file_without_exports() {
    let output = check("exports", "# later\n");
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert!(shown.contains("exports names no export"), "{shown}");
}

#[test]
fn check_notes_clients_without_an_address() {
    let output = check("exports", "/tmp no-such-host.invalid(ro) localhost(ro) 10.0.0.1(ro)\n");
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    let notes: Vec<&str> = shown.lines().filter(|line| line.starts_with("note: ")).collect();
    assert!(notes.len() == 1 && notes[0].contains("client no-such-host.invalid"), "{shown}");
}

#[test]
fn a_full_stdout_is_an_error_and_a_closed_pipe_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("exports");
    std::fs::write(&path, format!("{} *(ro)\n/no/such *(ro)\n", dir.path().display())).unwrap();
    let check = ["check", path.to_str().unwrap()];
    let good = ["completions", "bash"];
    let run = |args: &[&str], out: Stdio, error: Stdio| {
        std::process::Command::new(crate::rig::BOWLINE)
            .args(args)
            .stdout(out)
            .stderr(error)
            .output()
    };
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let closed = || Stdio::from(std::io::pipe().unwrap().1);
    for args in [&good[..], &["--help"], &["serve", "--help"], &["bench", "list"]] {
        let lost = run(args, full(), Stdio::piped()).unwrap();
        assert!(told(&lost, 1).contains("standard output: No space left"), "{args:?}");
        let closed = run(args, closed(), Stdio::piped()).unwrap();
        assert_eq!((closed.status.code(), text(&closed.stderr)), (Some(0), String::new()));
    }
    let lost = text(&run(&check, full(), Stdio::piped()).unwrap().stderr);
    assert!(lost.contains("standard output: No space left") && lost.lines().count() == 2, "{lost}");
    for (out, error, status) in [(closed(), closed(), 2), (full(), full(), 1)] {
        assert_eq!(run(&check, out, error).unwrap().status.code(), Some(status));
    }
}

#[test]
fn generated_pages_and_completions_are_current() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/generated");
    let dir = tempfile::tempdir().unwrap();
    assert!(bowline(&["man", dir.path().to_str().unwrap()]).status.success());
    for (shell, file) in [("bash", "bowline.bash"), ("zsh", "_bowline"), ("fish", "bowline.fish")] {
        std::fs::write(dir.path().join(file), bowline(&["completions", shell]).stdout).unwrap();
    }
    let names = |dir: &Path| {
        let mut names: Vec<_> =
            std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&kept), names(dir.path()), "run packaging/generate");
    for name in names(&kept) {
        let (old, new) = (std::fs::read(kept.join(&name)), std::fs::read(dir.path().join(&name)));
        assert!(old.unwrap() == new.unwrap(), "{name:?} is old: run packaging/generate");
    }
}
