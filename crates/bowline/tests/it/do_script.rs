//! `./do serve`: its arguments are checked before anything is built, and it says when it serves the demo.

use crate::rig::text;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// What the cargo of these tests ends with.
const CARGO_STATUS: i32 = 77;

/// Runs `./do serve` in a directory, with a cargo that only says that it was called.
fn serve(here: &Path, args: &[&str]) -> Output {
    let bin = here.join(".cargo/bin");
    std::fs::create_dir_all(&bin).unwrap();
    let cargo = bin.join("cargo");
    if !cargo.exists() {
        let script =
            format!("[ \"$1\" = --version ] || {{ echo building >&2; exit {CARGO_STATUS}; }}\n");
        std::fs::write(&cargo, format!("#!/bin/sh\n{script}")).unwrap();
        std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../do");
    Command::new(script)
        .arg("serve")
        .args(args)
        .current_dir(here)
        .env("HOME", here)
        .output()
        .unwrap()
}

#[test]
fn wrong_arguments_end_it_before_the_build() {
    let dir = tempfile::tempdir().unwrap();
    for (args, part) in [
        (&["--prot", "1"][..], "no option --prot; it has --listen --port"),
        (&["--prot=1"], "no option --prot"),
        (&["-p", "1"], "no option -p"),
        (&["--port"], "--port needs a value"),
        (&["--port", "nfs"], "--port nfs: write a number from 1 to 65535"),
        (&["--port=70000"], "--port 70000"),
        (&["--port", "0"], "--port 0"),
        (&["none"], "none is not a directory: write DIR or NAME=DIR"),
        (&["/srv:/none"], "/srv:/none is not a directory"),
        (&["x=none"], "x=none: none is not a directory"),
        (&["--exports", "none"], "--exports none: there is no such file"),
        (&["--port", "3049", "--", "--none"], "--none is not a directory"),
    ] {
        let output = serve(dir.path(), args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(part) && !error.contains("building"), "{args:?}: {error}");
    }
    let help = serve(dir.path(), &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stderr).contains("--state-dir"));
}

#[test]
fn the_demo_is_announced_and_only_served_when_nothing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("data")).unwrap();
    std::fs::write(dir.path().join("e"), "").unwrap();
    for (args, demo) in [
        (&[][..], true),
        (&["--port", "3049"], true),
        (&["--read-only", "--set", "threads=4"], true),
        (&["data"], false),
        (&["--port=3049", "x=data"], false),
        (&["m=mem:"], false),
        (&["--exports", "e"], false),
    ] {
        let output = serve(dir.path(), args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(CARGO_STATUS), "{args:?}: {error}");
        let said = "no directory is named: serving the demo directory";
        assert_eq!(error.contains(said), demo, "{args:?}: {error}");
        assert!(error.contains("building"), "{args:?}: {error}");
    }
}

#[test]
fn it_knows_the_options_of_the_program() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../do");
    let script = std::fs::read_to_string(script).unwrap();
    let listed = |name: &str| -> Vec<String> {
        let line = script.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_matches(['=', '\'']).split(' ').map(str::to_owned).collect()
    };
    let mut known = [listed("serve_values"), listed("serve_switches")].concat();
    let help = text(&crate::rig::bowline(&["serve", "--help"]).stdout);
    let options = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let words = options.map(|line| line.split([' ', '=']).next().unwrap_or(line));
    let mut options: Vec<String> = words.map(|word| format!("--{word}")).collect();
    known.sort();
    options.sort();
    assert_eq!(known, options, "the lists in ./do, and bowline serve --help");
    for option in listed("serve_values") {
        assert!(help.contains(&format!("{option} <")), "{option} has a value");
    }
}
