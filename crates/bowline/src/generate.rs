//! Generates man pages and the scripts of completions from the definition of the command line, and answers shells.
//!
//! A shell starts this program with `COMPLETE` set, by the script that `bowline completions` prints.

use crate::cli::Cli;
use crate::{manual, output};
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::env::{CompleteEnv, EnvCompleter, Fish, Zsh};
use std::path::Path;
use std::process::ExitCode;

/// The variable by which the shell says that it wants completions.
const VARIABLE: &str = "COMPLETE";
/// bash cuts words at `=` and `:`, so that the words of a setting or a path of an export are joined again, and what the
/// shell has of the last one is taken off what is offered.
const BASH: &str = r#"_bowline() {
    local line="${COMP_LINE:0:COMP_POINT}" words before
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    local current="${words[${#words[@]}-1]}"
    local IFS=$'\n'
    COMPREPLY=($(COMPLETE=bash _CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$((${#words[@]} - 1)) \
        "${words[0]}" -- "${words[@]}" 2>/dev/null))
    for before in "${current%"${current##*=}"}" "${current%"${current##*:}"}"; do
        [[ -n $before && $COMP_WORDBREAKS == *"${before: -1}"* ]] && COMPREPLY=("${COMPREPLY[@]#"$before"}")
    done
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -F _bowline bowline
"#;

/// Writes `bowline.1`, a page for each command, and the other pages into `dir`.
pub fn man(dir: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    // the manual has its own sections for the text at the end of the help
    clap_mangen::generate_to(Cli::command().after_help(None::<&str>), dir)
        .with_context(|| format!("cannot write man pages into {}", dir.display()))?;
    manual::write(dir)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the completion script for `shell`.
pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    output::print(script(shell)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Answers a shell that asks for completions, and ends the process; returns if none does.
pub fn answer_completion() {
    CompleteEnv::with_factory(Cli::command).var(VARIABLE).complete();
}

/// The script of a shell that has this program complete.
///
/// # Errors
/// None: it is written to memory.
fn script(shell: clap_complete::Shell) -> std::io::Result<Vec<u8>> {
    let (name, mut script) = ("bowline", Vec::new());
    let shell: &dyn EnvCompleter = match shell {
        clap_complete::Shell::Bash => return Ok(BASH.into()),
        clap_complete::Shell::Zsh => &Zsh,
        clap_complete::Shell::Fish => &Fish,
        _ => {
            clap_complete::generate(shell, &mut Cli::command(), name, &mut script);
            return Ok(script);
        }
    };
    shell.write_registration(VARIABLE, name, name, name, &mut script)?;
    Ok(script)
}
