//! The binary: reads the command line, builds the server's parts or asks a running one.
//!
//! Exit status: 0 done, 1 tried and failed, 2 a wrong command line or a wrong file that it names
//! ([`cli::STATUSES`]). Every error is one line on standard error that says what to do.

mod ask;
mod bench;
mod buffers;
mod check;
mod cli;
mod columns;
mod config;
mod exporting;
mod exports_files;
mod generate;
mod logging;
mod manual;
mod out;
mod own_addresses;
mod places;
mod serve;
mod settings;
mod shares;
mod values;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command, USAGE};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = help_asked(std::env::args_os().collect());
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &args),
    };
    match run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            out::tell(one_line(&told(&error)));
            ExitCode::from(if error.is::<cli::Usage>() { USAGE } else { 1 })
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(options) => serve::serve(*options),
        Command::Check { files } => check::check(&files),
        Command::Bench(what) => bench::bench(what),
        Command::Man { dir } => generate::man(&dir),
        Command::Completions { shell } => generate::completions(shell),
        Command::Status(to) => ask::status(&to),
        Command::Exports(to) => ask::exports(&to),
        Command::Clients(to) => ask::clients(&to),
        Command::Conns(to) => ask::conns(&to),
        Command::Sockets(to) => ask::sockets(&to),
        Command::Pools(to) => ask::pools(&to),
        Command::Ops(to) => ask::ops(&to),
        Command::Set { change, to } => ask::set(change, &to),
        Command::Get { key, to } => ask::settings(key, &to),
        Command::Reload(to) => ask::reload(&to),
    }
}

/// `help COMMAND` is `COMMAND --help`. clap's own command would double the completions.
fn help_asked(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_some_and(|word| word == "help") {
        args.remove(1);
        args.push("--help".into());
    }
    args
}

/// The command whose help says what is right: `bowline` with the subcommands that these words name.
fn command_of(args: &[OsString]) -> String {
    let mut name = "bowline".to_owned();
    let mut command = Cli::command();
    for word in args.iter().skip(1) {
        let Some(found) = command.find_subcommand(word).cloned() else { break };
        name = format!("{name} {}", found.get_name());
        command = found;
    }
    name
}

/// Help and version go out as they are; an error becomes one line.
fn usage(error: &clap::Error, args: &[OsString]) -> ExitCode {
    use clap::error::ErrorKind as Kind;
    match error.kind() {
        Kind::DisplayHelp | Kind::DisplayVersion => {
            match out::written(error.print().and_then(|()| std::io::stdout().flush())) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    out::tell(told(&error));
                    ExitCode::from(1)
                }
            }
        }
        Kind::DisplayHelpOnMissingArgumentOrSubcommand | Kind::MissingSubcommand => {
            let command = command_of(args);
            out::tell(format!(
                "no command: see `{command} --help`; `bowline serve DIR` serves DIR"
            ));
            ExitCode::from(USAGE)
        }
        _ => {
            let text = error.to_string();
            // clap's first paragraph is the fault, the second a hint, then the usage
            let told = text.split("\n\nUsage:").next().unwrap_or(&text);
            let told = told.split("\n\nFor more information").next().unwrap_or(told);
            let told = told.strip_prefix("error: ").unwrap_or(told);
            let told = one_line(&told.replace("\n\n", "; "));
            if told.contains(": see `") {
                out::tell(told);
            } else {
                out::tell(format!("{told}: see `{} --help`", command_of(args)));
            }
            ExitCode::from(USAGE)
        }
    }
}

/// An error with its causes, but for those that are already in the text above them.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    text
}

/// Line ends and runs of blanks become one blank.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow::anyhow!("deep").context("middle: deep").context("top");
        assert_eq!(super::told(&error), "top: middle: deep");
    }

    #[test]
    fn errors_are_one_line() {
        assert_eq!(super::one_line("a\n   b\n\n c"), "a b c");
    }
}
