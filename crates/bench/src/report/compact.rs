//! Results of a whole run as one compact JSON file, for results that are kept in a repository.
//!
//! The file is an object of `machine` (one [`Machine`]) and `experiments` (a list of [`Findings`]). Only the trials are
//! written differently: as a table, `{"measures": [NAME…], "rows": [[VARIANT, AT, ROUND, SEQUENCE, VALUE…]…]}`, with
//! `null` where a trial lacks a measure, instead of an object with the names of all measures for each trial. Numbers that
//! are not whole are rounded to [`DIGITS`] significant digits.

use super::read::Results;
use crate::result::{Findings, Machine, Trial};
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Significant digits of a number; rounds of the same variant differ by more than 1 %.
const DIGITS: usize = 5;

/// The file.
#[derive(Serialize, Deserialize)]
struct File {
    machine: Machine,
    experiments: Vec<Map<String, Value>>,
}

/// The trials of one experiment.
#[derive(Serialize, Deserialize)]
struct TrialTable {
    measures: Vec<String>,
    rows: Vec<Row>,
}

/// Variant, position on the x axis, round, sequence; then a value for each measure.
#[derive(Serialize, Deserialize)]
struct Row(String, Option<f64>, u32, u32, Vec<Option<f64>>);

/// Parses a compact file.
///
/// # Errors
/// It is not JSON, or not of this form.
pub(super) fn parse(text: &[u8]) -> serde_json::Result<Results> {
    let file: File = serde_json::from_slice(text)?;
    let experiments = file.experiments.into_iter().map(|mut fields| {
        let table =
            fields.remove("trials").ok_or_else(|| serde_json::Error::missing_field("trials"))?;
        let table: TrialTable = serde_json::from_value(table)?;
        fields.insert("trials".to_owned(), Value::Array(Vec::new()));
        let mut findings: Findings = serde_json::from_value(Value::Object(fields))?;
        findings.trials = table.into_trials();
        Ok(findings)
    });
    Ok(Results { machine: file.machine, findings: experiments.collect::<serde_json::Result<_>>()? })
}

/// Writes results as a compact file: one line for each trial and for each other field of an experiment.
///
/// # Errors
/// A value that JSON cannot hold.
pub(super) fn text(results: &Results) -> serde_json::Result<String> {
    let mut out =
        format!("{{\"machine\":{},\n\"experiments\":[", serde_json::to_string(&results.machine)?);
    for (index, findings) in results.findings.iter().enumerate() {
        let table = TrialTable::new(&findings.trials);
        let mut rest = findings.clone();
        rest.trials.clear();
        let mut rest = serde_json::to_value(&rest)?;
        round(&mut rest);
        let Value::Object(mut fields) = rest else { continue };
        fields.remove("trials");
        out.push_str(if index == 0 { "\n{" } else { ",\n{" });
        for (name, value) in &fields {
            out.push_str(&format!("\"{name}\":{},\n", serde_json::to_string(value)?));
        }
        out.push_str(&format!(
            "\"trials\":{{\"measures\":{},\"rows\":[",
            serde_json::to_string(&table.measures)?
        ));
        for (index, row) in table.rows.iter().enumerate() {
            let mut row = serde_json::to_value(row)?;
            round(&mut row);
            out.push_str(if index == 0 { "\n" } else { ",\n" });
            out.push_str(&serde_json::to_string(&row)?);
        }
        out.push_str("]}}");
    }
    out.push_str("]}\n");
    Ok(out)
}

impl TrialTable {
    fn new(trials: &[Trial]) -> Self {
        let names: BTreeSet<&String> =
            trials.iter().flat_map(|trial| trial.measures.keys()).collect();
        let row = |trial: &Trial| {
            let values = names.iter().map(|name| trial.measures.get(*name).copied());
            Row(trial.variant.clone(), trial.at, trial.round, trial.sequence, values.collect())
        };
        Self {
            rows: trials.iter().map(row).collect(),
            measures: names.into_iter().cloned().collect(),
        }
    }

    fn into_trials(self) -> Vec<Trial> {
        let names = &self.measures;
        let trial = |Row(variant, at, round, sequence, values): Row| {
            let pairs = names.iter().zip(values);
            let measures: BTreeMap<String, f64> =
                pairs.filter_map(|(name, value)| Some((name.clone(), value?))).collect();
            Trial { variant, at, round, sequence, measures }
        };
        self.rows.into_iter().map(trial).collect()
    }
}

/// Rounds all numbers that are not whole.
fn round(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(round),
        Value::Object(fields) => fields.values_mut().for_each(round),
        Value::Number(number) if number.is_f64() => {
            let Some(exact) = number.as_f64() else { return };
            // counts and sizes stay exact; the written form has no ".0"
            let rounded = match exact.fract() == 0.0 {
                true => exact,
                false => format!("{exact:.*e}", DIGITS - 1).parse().unwrap_or(exact),
            };
            #[expect(clippy::cast_possible_truncation, reason = "checked: below 10^15 and whole")]
            let whole = (rounded.fract() == 0.0 && rounded.abs() < 1e15).then_some(rounded as i64);
            *value = whole.map_or_else(|| Value::from(rounded), Value::from);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
