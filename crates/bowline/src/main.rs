//! The `bowline` binary: parses the command line, then builds and runs a server, asks a running server
//! over its control socket, or runs a benchmark.
//!
//! Exit status: see [`cli::EXIT_STATUSES`]. Every error is one line on standard error that says what to do.

mod backend_schemes;
mod bench;
mod check;
mod cli;
mod columns;
mod completion;
mod config;
mod control_commands;
mod default_paths;
mod diagnosis_commands;
mod doctor;
mod export_specs;
mod exportfs;
mod exports_files;
mod generate;
mod host_names;
mod local_addresses;
mod lock_commands;
mod logging;
mod manual;
mod memory_shares;
mod output;
mod serve;
mod serve_options;
mod session_commands;
mod settings;
mod tls_commands;
mod top;
mod watch;

use clap::Parser;
use cli::{Cli, Command, DoctorOf};
use output::USAGE_STATUS;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    generate::answer_completion();
    let args = expand_program_name(expand_help_command(std::env::args_os().collect()));
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return report_parse_result(&error, &args),
    };
    match run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            output::print_error(output::one_line(&output::error_text(&error)));
            output::status(&error)
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(options) => serve::serve(*options),
        Command::Check { files, for_host } => check::check(&files, for_host.as_deref()),
        Command::Doctor { of: Some(DoctorOf::Tls { host, port, ca, json }), .. } => {
            doctor::tls(&host, port, ca, json)
        }
        Command::Doctor {
            of: Some(DoctorOf::Krb5 { names, users, keytab, principals, json }),
            ..
        } => doctor::krb5(doctor::KerberosAsked { keytab, principals, names, users }, json),
        Command::Doctor { of: None, files, port, control, json } => {
            doctor::doctor(&files, port, control, json)
        }
        Command::Tls(command) => tls_commands::tls(command),
        Command::Bench(command) => bench::bench(command),
        Command::Man { dir } => generate::man(&dir),
        Command::Completions { shell } => generate::completions(shell),
        Command::Explain(options) => diagnosis_commands::explain(options),
        Command::Why(to) => diagnosis_commands::why(to.table()),
        Command::Status { verbose, to } => control_commands::status(&to, verbose),
        Command::Exports(to) => control_commands::exports(&to),
        Command::Clients(to) => control_commands::clients(to.table()),
        Command::Conns(to) => control_commands::conns(to.table()),
        Command::Locks(to) => lock_commands::locks(to.table()),
        Command::Sessions(to) => session_commands::sessions(to.table()),
        Command::Opens(to) => session_commands::opens(to.table()),
        Command::Delegations(to) => session_commands::delegations(to.table()),
        Command::Release { what, to } => lock_commands::release(&what, &to),
        Command::Sockets(to) => control_commands::sockets(&to),
        Command::Pools(to) => control_commands::pools(&to),
        Command::Ops(to) => control_commands::ops(&to),
        Command::Top(options) => top::top(&options),
        Command::Metrics { openmetrics, control } => {
            control_commands::metrics(control, openmetrics)
        }
        Command::Token { control } => control_commands::token(control),
        Command::Set { change, to } => control_commands::set(&change, &to),
        Command::Get { key, to } => control_commands::settings(key, &to),
        Command::Grace { action, to } => control_commands::grace(action.is_some(), &to),
        Command::Exportfs(options) => exportfs::exportfs(&options),
        Command::Reload { dry_run, to } => control_commands::reload(dry_run, &to),
    }
}

/// Turns `help COMMAND` into `COMMAND --help`. clap's own `help` command would list every command a
/// second time in the completions.
fn expand_help_command(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_some_and(|word| word == "help") {
        args.remove(1);
        args.push("--help".into());
    }
    args
}

/// As a program called `exportfs`, through a link, this is `bowline exportfs`.
fn expand_program_name(mut args: Vec<OsString>) -> Vec<OsString> {
    const EXPORTFS: &str = "exportfs";
    let name = args.first().map(Path::new).and_then(Path::file_name);
    if name.is_some_and(|name| name == EXPORTFS) {
        args.insert(1, EXPORTFS.into());
    }
    args
}

/// Prints what clap returned instead of a command: help and version unchanged, an error as one line.
fn report_parse_result(error: &clap::Error, args: &[OsString]) -> ExitCode {
    use clap::error::ErrorKind as Kind;
    match error.kind() {
        Kind::DisplayHelp | Kind::DisplayVersion => {
            let written = error.print().and_then(|()| std::io::stdout().flush());
            match output::check_written(written) {
                Ok(()) => return ExitCode::SUCCESS,
                Err(error) => {
                    output::print_error(output::error_text(&error));
                    return ExitCode::from(1);
                }
            }
        }
        _ => output::print_error(cli::errors::text(error, args)),
    }
    ExitCode::from(USAGE_STATUS)
}
