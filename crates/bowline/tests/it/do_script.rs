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
fn invalid_arguments_are_refused_before_the_build() {
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
fn the_demo_directory_is_served_only_without_arguments() {
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
fn the_script_lists_all_options_of_bowline_serve() {
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

/// A copy of what `./do install` needs, with a cargo that gives the program under test.
fn tree_to_install(dir: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = [
        "do",
        "docs",
        "packaging",
        "README.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "LICENSE-APACHE",
        "LICENSE-MIT",
    ];
    let mut copy = Command::new("cp");
    copy.arg("-r")
        .args(files.map(|file| root.join(file)))
        .arg(root.join("exports.example"))
        .arg(dir);
    assert!(copy.status().unwrap().success());
    let bin = dir.join(".cargo/bin");
    std::fs::create_dir_all(&bin).unwrap();
    let program = crate::rig::BOWLINE;
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] || {{ mkdir -p target/package/release; cp {program} target/package/release; }}\n"
    );
    std::fs::write(bin.join("cargo"), script).unwrap();
    std::fs::set_permissions(bin.join("cargo"), std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn files_below(dir: &Path) -> Vec<String> {
    let output = Command::new("find").args([".", "-type", "f"]).current_dir(dir).output().unwrap();
    let mut files: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    files.sort();
    files
}

#[test]
fn install_and_uninstall_use_the_same_files() {
    let dir = tempfile::tempdir().unwrap();
    tree_to_install(dir.path());
    let dest = dir.path().join("dest");
    std::fs::create_dir(&dest).unwrap();
    let run = |what: &str, prefix: &str| {
        let mut command = Command::new(dir.path().join("do"));
        command.arg(what).env("HOME", dir.path()).env("DESTDIR", &dest).env("PREFIX", prefix);
        command.current_dir(dir.path()).output().unwrap()
    };
    let output = run("install", "/opt/b");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let files = files_below(&dest);
    for wanted in [
        "./opt/b/bin/bowline",
        "./opt/b/share/man/man1/bowline.1",
        "./opt/b/share/man/man5/bowline-exports.5",
        "./opt/b/share/man/man7/bowline-settings.7",
        "./opt/b/share/bash-completion/completions/bowline",
        "./opt/b/share/zsh/site-functions/_bowline",
        "./opt/b/share/fish/vendor_completions.d/bowline.fish",
        "./opt/b/share/doc/bowline/exports.example",
        "./opt/b/share/doc/bowline/docs/clients.md",
        "./opt/b/lib/systemd/system/bowline.socket",
        "./etc/bowline/bowline.toml",
    ] {
        assert!(files.iter().any(|file| file == wanted), "{wanted}: {files:?}");
    }
    let unit =
        std::fs::read_to_string(dest.join("opt/b/lib/systemd/system/bowline.service")).unwrap();
    assert!(
        unit.contains("ExecStart=/opt/b/bin/bowline serve") && !unit.contains("/usr/bin/bowline"),
        "{unit}"
    );
    let version = Command::new(dest.join("opt/b/bin/bowline")).arg("--version").output().unwrap();
    assert!(version.status.success());
    // an edited configuration stays
    let config = dest.join("etc/bowline/bowline.toml");
    std::fs::write(&config, "port = 3049\n").unwrap();
    assert!(run("install", "/opt/b").status.success());
    assert!(run("uninstall", "/opt/b").status.success());
    assert_eq!(files_below(&dest), ["./etc/bowline/bowline.toml"]);
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "port = 3049\n");
    let relative = run("install", "opt");
    assert_eq!(relative.status.code(), Some(2), "{}", text(&relative.stderr));
    assert!(text(&relative.stderr).contains("write a full path"));
}
