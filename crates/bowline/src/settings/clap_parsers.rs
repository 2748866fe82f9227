//! Settings as arguments of the command line: parsed with the rows, and completed by the shell from them.

use super::row::Assignment;
use super::table::ROWS;
use clap::builder::{PossibleValue, TypedValueParser};
use std::ffi::OsStr;

/// Parses `KEY=VALUE` with the table of settings; offers the keys for completion.
#[derive(Debug, Clone)]
pub struct AssignmentParser;

impl TypedValueParser for AssignmentParser {
    type Value = Assignment;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Assignment, clap::Error> {
        let parser = |text: &str| text.parse::<Assignment>();
        parser.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(ROWS.iter().map(|row| PossibleValue::new(row.key_equals).help(row.help))))
    }
}

/// Parses the key of a setting; offers the keys for completion.
#[derive(Debug, Clone)]
pub struct KeyParser;

impl TypedValueParser for KeyParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        let parser = |text: &str| super::row(text).map(|_| text.to_owned());
        parser.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(ROWS.iter().map(|row| PossibleValue::new(row.key).help(row.help))))
    }
}
