//! `delegations`: what read delegations save, in calls and in seconds, for programs that read the same files again and again.
//!
//! Where a guest with a Linux kernel can be booted (in the repository, by root), its NFS client runs the programs
//! themselves ([`guest`]). Elsewhere a client of the bench makes the calls that Linux makes for them ([`client`]).

mod client;
mod guest;

use super::{Experiment, Rounds, RunContext, RunError, fact, measures, median, spread};
use crate::result::{Findings, Table, Target, Trial};
use crate::servers::ScratchDir;
use crate::servers::bowline::{self, Options};
use client::{Program, ReadingClient};
use std::time::Instant;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "delegations",
    title: "Read delegations",
    question: "How many calls does a client of version 4 make, and how many seconds does it take, for programs that read the \
               same files again, with read delegations and without?",
    run,
};

const CALLS: &str = "calls";
const SECONDS: &str = "seconds";
/// The values of the setting that are compared.
const SETTINGS: [&str; 2] = ["off", "read"];

/// What a program took under a setting.
#[derive(Debug, Clone, serde::Deserialize)]
struct Measured {
    program: String,
    delegations: String,
    round: u32,
    calls: f64,
    seconds: f64,
}

fn name(program: &str, setting: &str) -> String {
    format!("{program}: {setting}")
}

fn run(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
    let rounds = ctx.quick_or_full(1, 5);
    let programs = match guest::measure(ctx, rounds)? {
        Ok(all) => {
            findings.setup.push(fact("client", &"Linux in a guest, version 4.2"));
            of_guest(findings, all)
        }
        Err(why) => {
            findings.setup.push(fact("client", &"of the bench, version 4.1, one call at a time"));
            findings.notes.push(format!(
                "No kernel's client: {why}. The calls are those that Linux makes for such a program whose files were read \
                 before, and whose attributes are older than its cache trusts."
            ));
            of_own_client(ctx, findings, ctx.quick_or_full(5, 21))?
        }
    };
    evaluate(&programs, findings);
    table(&programs, findings);
    Ok(())
}

/// Stores what a guest has measured; the programs, in their order.
fn of_guest(findings: &mut Findings, all: Vec<Measured>) -> Vec<String> {
    let mut programs: Vec<String> = Vec::new();
    for (sequence, one) in (0..).zip(all) {
        let variant = name(&one.program, &one.delegations);
        let measures = measures([(CALLS, one.calls), (SECONDS, one.seconds)]);
        let trial = Trial { variant, at: None, round: one.round, sequence, measures };
        findings.trials.push(trial);
        if !programs.contains(&one.program) {
            programs.push(one.program);
        }
    }
    programs
}

fn of_own_client(
    ctx: &RunContext<'_>,
    findings: &mut Findings,
    rounds: u32,
) -> Result<Vec<String>, RunError> {
    let scratch = ScratchDir::in_memory()?;
    let dir = scratch.dir("tree")?;
    client::make_tree(&dir)?;
    let server = bowline::start(&Options::of_dir(&dir))?;
    findings.commands.push(server.command().to_owned());
    let variants: Vec<(Program, &str)> = Program::ALL
        .iter()
        .flat_map(|program| SETTINGS.iter().map(|setting| (*program, *setting)))
        .collect();
    let names: Vec<String> =
        variants.iter().map(|(program, setting)| name(program.name(), setting)).collect();
    Rounds::new(findings, ctx, rounds).interleave(&names, None, |wanted| {
        let found = names.iter().zip(&variants).find(|(name, _)| *name == wanted);
        let Some((_, (program, setting))) = found else {
            return Err(RunError::Failed(format!("no variant {wanted}")));
        };
        server.set("delegations", setting)?;
        let mut client = ReadingClient::new(server.nfs(), server.export(), wanted)?;
        client.read_everything()?;
        let (before, began) = (client.calls(), Instant::now());
        client.run(*program)?;
        let (seconds, calls) = (began.elapsed().as_secs_f64(), client.calls() - before);
        client.end()?;
        Ok(measures([(CALLS, f64::from(calls)), (SECONDS, seconds)]))
    })?;
    Ok(Program::ALL.iter().map(|program| program.name().to_owned()).collect())
}

fn evaluate(programs: &[String], findings: &mut Findings) {
    let [off, read] = SETTINGS;
    for program in programs {
        for measure in [CALLS, SECONDS] {
            findings.ratio(measure, &name(program, read), &name(program, off), None);
        }
        let median = |setting| findings.median(&name(program, setting), None, CALLS);
        let (without, with) = (median(off), median(read));
        findings.targets.push(Target {
            condition: format!("{program}: at most 1.02 times the calls"),
            found: format!("{with:.0} calls instead of {without:.0}"),
            held: with <= without * 1.02,
        });
    }
}

fn table(programs: &[String], findings: &mut Findings) {
    let [off, read] = SETTINGS;
    let cell = |program: &str, setting, measure, digits: usize| {
        let values = findings.values(&name(program, setting), None, measure);
        let all: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        let (low, high) = spread(&all);
        format!("{:.digits$} [{low:.digits$}-{high:.digits$}]", median(&all))
    };
    let rows = programs.iter().map(|program| {
        vec![
            program.clone(),
            cell(program, off, CALLS, 0),
            cell(program, read, CALLS, 0),
            cell(program, off, SECONDS, 4),
            cell(program, read, SECONDS, 4),
        ]
    });
    let rows = rows.collect();
    findings.tables.push(Table {
        title: "Calls and seconds of a program, median [smallest-largest]".into(),
        columns: ["", "calls, off", "calls, read", "seconds, off", "seconds, read"]
            .map(str::to_owned)
            .to_vec(),
        rows,
    });
}
