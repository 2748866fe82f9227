//! Errors about the command line: one line that names the wrong word and the correction.

use super::Cli;
use crate::output;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use export::exports_file::nearest_name;
use std::ffi::OsString;

/// The one line about an error that clap found in `args`, the first of which is the program.
pub fn text(error: &clap::Error, args: &[OsString]) -> String {
    let (command, name) = named_command(args);
    let said = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            format!("no command: `bowline serve DIR` serves DIR; see `{name} --help`")
        }
        ErrorKind::InvalidSubcommand => {
            unknown_command(&word(error, ContextKind::InvalidSubcommand), &command)
        }
        ErrorKind::UnknownArgument => {
            unknown_argument(&word(error, ContextKind::InvalidArg), &command, args)
        }
        _ => without_hints(&error.to_string()),
    };
    if said.contains("see `") { said } else { format!("{said}; see `{name} --help`") }
}

fn word(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(word)) => word.clone(),
        _ => String::new(),
    }
}

/// The command whose `--help` applies to these arguments, and its full name.
fn named_command(args: &[OsString]) -> (Command, String) {
    let mut command = Cli::command();
    let mut name = "bowline".to_owned();
    for word in args.iter().skip(1) {
        let Some(found) = command.find_subcommand(word).cloned() else { break };
        name = format!("{name} {}", found.get_name());
        command = found;
    }
    (command, name)
}

fn unknown_command(word: &str, of: &Command) -> String {
    if word.contains('/') || std::path::Path::new(word).is_dir() {
        return format!(
            "{word} is not a command: to serve a directory, write `bowline serve {word}`"
        );
    }
    let names: Vec<&str> =
        of.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name).collect();
    let hint = match nearest_name(word.as_bytes(), names.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("the commands are {}", names.join(", ")),
    };
    format!("{word} is not a command: {hint}")
}

fn unknown_argument(word: &str, command: &Command, args: &[OsString]) -> String {
    let name = command.get_name();
    if !word.starts_with('-') {
        return match assignment(name, args) {
            Some(written) => {
                format!("{word} has no value: write KEY=VALUE, here `bowline set {written}`")
            }
            None => format!("{name} takes no argument {word}"),
        };
    }
    let options: Vec<String> = command
        .get_arguments()
        .filter_map(|a| a.get_long())
        .map(|long| format!("--{long}"))
        .collect();
    match nearest_name(word.as_bytes(), options.iter().map(String::as_str)) {
        Some(near) => format!("{name} has no option {word}: did you mean {near}?"),
        None if options.is_empty() => format!("{name} has no option {word}"),
        None => format!("{name} has no option {word}; it has {}", options.join(", ")),
    }
}

/// `bowline set KEY VALUE` as it should have been written.
fn assignment(command: &str, args: &[OsString]) -> Option<String> {
    let mut words = Vec::new();
    let mut rest = args.iter().skip(2).map(|word| word.to_string_lossy());
    while let Some(word) = rest.next() {
        if word == "--control" {
            rest.next();
        } else if word != "=" && !word.starts_with('-') {
            words.push(word);
        }
    }
    match words.as_slice() {
        [key, value] if command == "set" && !key.trim_end_matches('=').contains('=') => {
            Some(format!("{}={}", key.trim_end_matches('='), value.trim_start_matches('=')))
        }
        _ => None,
    }
}

/// clap's text without its usage and its hint at the help: the first paragraph is the error, the second a tip.
fn without_hints(text: &str) -> String {
    let error = text.split("\n\nUsage:").next().unwrap_or(text);
    let error = error.split("\n\nFor more information").next().unwrap_or(error);
    let error = error.strip_prefix("error: ").unwrap_or(error);
    output::one_line(&error.replace("\n\n", "; "))
}

#[cfg(test)]
mod tests {
    use super::{Cli, text};
    use clap::Parser;
    use std::ffi::OsString;

    fn said(line: &str) -> String {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        text(&Cli::try_parse_from(&args).unwrap_err(), &args)
    }

    #[test]
    fn misspelled_words_get_a_hint() {
        for (line, hint) in [
            ("bowline stauts", "stauts is not a command: did you mean status?"),
            ("bowline bench rnu", "did you mean run?"),
            ("bowline fly", "the commands are serve, status, exports"),
            ("bowline /srv/x", "write `bowline serve /srv/x`"),
            ("bowline serve /a --prot 1", "serve has no option --prot: did you mean --port?"),
            ("bowline exports --jsn", "did you mean --json?"),
            ("bowline bench load --sever x", "did you mean --server?"),
            (
                "bowline status --fast",
                "status has no option --fast; it has --verbose, --watch, --wide, --json",
            ),
            ("bowline status extra", "status takes no argument extra; see `bowline status --help`"),
            ("bowline set threads 4", "here `bowline set threads=4`"),
            ("bowline set --json threads= 4 --control c", "here `bowline set threads=4`"),
            ("bowline set threads = 4", "here `bowline set threads=4`"),
            ("bowline set threads=4 max-read=1M", "set takes no argument max-read=1M"),
            ("bowline set threds=4", "did you mean threads?"),
            ("bowline get thread", "did you mean threads?"),
            ("bowline serve /a --set threds=4", "did you mean threads?"),
        ] {
            let said = said(line);
            assert!(said.contains(hint) && !said.contains('\n'), "{line}: {said}");
            assert!(said.contains("see `bowline"), "{line}: {said}");
        }
    }

    #[test]
    fn every_option_is_recognised_with_two_letters_swapped() {
        use clap::CommandFactory;
        for command in Cli::command().get_subcommands() {
            for long in command.get_arguments().filter_map(|a| a.get_long()) {
                let mut letters: Vec<char> = long.chars().collect();
                letters.swap(1, 2);
                let wrong: String = letters.into_iter().collect();
                if wrong == long || command.is_hide_set() {
                    continue;
                }
                let said = said(&format!("bowline {} --{wrong}", command.get_name()));
                assert!(said.contains(&format!("did you mean --{long}?")), "{said}");
            }
        }
    }
}
