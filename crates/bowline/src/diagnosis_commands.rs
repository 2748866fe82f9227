//! `bowline explain` and `bowline why`.

use crate::cli::{ExplainOptions, TableTarget};
use crate::columns::{self, table};
use crate::control_commands::{ask, show_answer, watch_table};
use crate::host_names::beside;
use admin::api::{ExplainQuestion, Explanation, RefusalRow, Request};
use std::process::ExitCode;

/// `bowline explain`. The exit status is 1 if the answer is no.
pub fn explain(options: ExplainOptions) -> anyhow::Result<ExitCode> {
    let ExplainOptions {
        client,
        path,
        user,
        group,
        port,
        sec,
        principal,
        xprtsec,
        certificate,
        to,
    } = options;
    let (flavor, channel) = (sec.unwrap_or_default(), xprtsec.unwrap_or_default());
    let question = ExplainQuestion {
        client,
        path,
        uid: user,
        gids: group,
        port,
        flavor,
        principal,
        channel,
        certificate,
    };
    let answer: Explanation = ask(&to, &Request::Explain(question))?;
    let allowed = answer.allowed;
    show_answer(&to, &answer, |answer| {
        let mut table = table(&columns::EXPLAIN);
        for step in &answer.steps {
            table.row([&step.step, &step.result, &step.text]);
        }
        table.to_string()
    })?;
    Ok(if allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `bowline why`.
pub fn why(to: &TableTarget) -> anyhow::Result<ExitCode> {
    watch_table(to, "bowline why", &Request::Why, |rows: &Vec<RefusalRow>| {
        if rows.is_empty() {
            return "nothing was refused in the last hour".to_owned();
        }
        let mut table = table(&columns::WHY);
        for row in rows {
            table.row([
                beside(&row.client).as_str(),
                &row.path,
                &admin::count(row.count),
                &admin::duration_s(row.age_ms / 1000),
                &row.reason,
            ]);
        }
        format!("{table}`bowline explain CLIENT PATH` shows which rule decides, and the remedy\n")
    })
}
