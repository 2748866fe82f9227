//! Completions as bash has them: its own script is sourced, and its function called as for a tab.

use crate::rig::{BOWLINE, text};
use std::path::Path;
use std::process::Command;

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

#[test]
fn the_scripts_of_zsh_and_fish_ask_the_program() {
    for (shell, asks) in [("zsh", "COMPLETE=\"zsh\""), ("fish", "COMPLETE=fish")] {
        let script =
            text(&Command::new(BOWLINE).args(["completions", shell]).output().unwrap().stdout);
        assert!(script.contains(asks), "{script}");
        assert!(!script.contains("/target/"), "it names the program as it is installed: {script}");
    }
}
