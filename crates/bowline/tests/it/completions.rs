//! Completions as shells have them: of bash, its function is called as for a tab; fish is asked what it would offer; zsh gets
//! the line and a tab on a terminal.

use crate::rig::{BOWLINE, text};
use std::path::Path;
use std::process::Command;
use testing::{Missing, skip};

/// What bash offers for a line.
fn offered(line: &str) -> Vec<String> {
    let bin = Path::new(BOWLINE).parent().unwrap();
    let script = r#"
        PATH="$1:$PATH"; eval "$(bowline completions bash)"
        COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'; COMP_LINE=$2; COMP_POINT=${#2}
        _bowline; printf '%s\n' "${COMPREPLY[@]}""#;
    let output =
        Command::new("bash").args(["-c", script, "bash"]).arg(bin).arg(line).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_settings_values_and_experiments() {
    for (line, expected) in [
        ("bowline cli", &["clients"][..]),
        ("bowline set thr", &["threads="]),
        ("bowline set zero-copy=", &["on", "off", "auto"]),
        ("bowline set log-level=d", &["debug"]),
        ("bowline bench run rs", &["rsync-walk"]),
        ("bowline clients --wi", &["--wide"]),
    ] {
        assert_eq!(offered(line), expected, "{line}");
    }
    assert!(offered("bowline bench run ").len() > 5);
}

/// What a shell says that has our program in its path, and `line`; none if the shell is not there.
fn told(shell: &[&str], script: &str, line: &str) -> Option<String> {
    let bin = Path::new(BOWLINE).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new("timeout");
    command.arg("60").args(shell).args(["-c", script]).env("PATH", path).env("LINE", line);
    let output = command.env("HOME", home.path()).env("TERM", "dumb").output().unwrap();
    if output.status.code() == Some(127) {
        skip(Missing::Program, shell.join(" "));
        return None;
    }
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    Some(text(&output.stdout))
}

const LINES: [(&str, &str); 4] = [
    ("bowline cli", "clients"),
    ("bowline set thr", "threads="),
    ("bowline bench run rs", "rsync-walk"),
    ("bowline clients --wi", "--wide"),
];

#[test]
fn fish_completes_commands_settings_and_experiments() {
    let script = "bowline completions fish | source; complete -C $LINE";
    for (line, expected) in LINES {
        let Some(told) = told(&["fish", "--no-config"], script, line) else { return };
        let words: Vec<_> = told.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(words, [expected], "{line}");
    }
}

#[test]
fn zsh_completes_commands_settings_and_experiments() {
    // a shell on a terminal of its own; it prints its line as the tab has left it
    let script = r#"
        zmodload zsh/zpty; zpty shell zsh -f -i
        zpty -w shell 'PS1=; autoload -Uz compinit; compinit -u -D; eval "$(bowline completions zsh)"; print rea""dy'
        zpty -r shell said '*ready*'
        zpty -w -n shell "$LINE"$'\t'
        zpty -w shell $'\x01print -r -- \'<<\x05>>\''
        zpty -r shell said $'*\n<<*>>*'; print -r -- $said"#;
    for (line, expected) in LINES {
        let Some(told) = told(&["zsh", "-f"], script, line) else { return };
        let (_, left) = told.rsplit_once("\n<<").unwrap();
        let (left, _) = left.split_once(">>").unwrap();
        let before = line.rsplit_once(' ').unwrap().0;
        assert_eq!(left.trim_end(), format!("{before} {expected}"), "{line}");
    }
}

#[test]
fn the_scripts_of_zsh_and_fish_ask_the_program() {
    for (shell, asks) in [("zsh", "COMPLETE=\"zsh\""), ("fish", "COMPLETE=fish")] {
        let script =
            text(&Command::new(BOWLINE).args(["completions", shell]).output().unwrap().stdout);
        assert!(script.contains(asks), "{script}");
        assert!(!script.contains("/target/"), "it names the program as it is installed: {script}");
    }
}
