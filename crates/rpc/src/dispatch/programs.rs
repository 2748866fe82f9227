//! Which programs, versions and procedures there are, laid out for the look-up that every call
//! makes: a scan over a handful of programs, then over two or three versions, no allocation.
//!
//! Invariant: all procedures of all versions are numbered without a gap, in the order of
//! [`Programs::ops`].

use crate::{OpIndex, OpName, Program, RowFlags};

/// All programs of a server.
pub(super) struct Programs {
    programs: Vec<Entry>,
    ops: Vec<OpName>,
}

/// One program.
struct Entry {
    number: u32,
    program: Box<dyn Program>,
    low: u32,
    high: u32,
    versions: Vec<Version>,
}

/// One version of a program.
struct Version {
    number: u32,
    /// Flags and place of each procedure.
    rows: Vec<(RowFlags, OpIndex)>,
}

/// A procedure that is served.
pub(super) struct Found<'p> {
    /// Whose it is.
    pub program: &'p dyn Program,
    /// Its place among all procedures.
    pub op: OpIndex,
    /// What it is like.
    pub flags: RowFlags,
}

/// What is not served (RFC 5531 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// PROG_UNAVAIL.
    Program,
    /// PROG_MISMATCH.
    Version {
        /// The lowest version served.
        low: u32,
        /// The highest version served.
        high: u32,
    },
    /// PROC_UNAVAIL.
    Procedure,
}

impl Programs {
    /// Numbers all procedures. A second program of the same number, and one without versions,
    /// are left out.
    pub fn new(programs: Vec<Box<dyn Program>>) -> Self {
        let mut all = Self { programs: Vec::with_capacity(programs.len()), ops: Vec::new() };
        for program in programs {
            let number = program.number();
            let numbers = program.versions();
            let (low, high) = (numbers.iter().min().copied(), numbers.iter().max().copied());
            let (Some(low), Some(high)) = (low, high) else { continue };
            if all.programs.iter().any(|p| p.number == number) {
                continue;
            }
            let versions = numbers.iter().map(|v| all.version(program.as_ref(), *v)).collect();
            all.programs.push(Entry { number, program, low, high, versions });
        }
        all
    }

    /// Numbers the procedures of one version.
    fn version(&mut self, program: &dyn Program, number: u32) -> Version {
        let mut rows = Vec::new();
        while let Some(row) =
            u32::try_from(rows.len()).ok().and_then(|procedure| program.row(number, procedure))
        {
            // Tables are static and have a few hundred rows; were there more than 65536, the
            // last ones would share their statistics.
            rows.push((row.flags, OpIndex(u16::try_from(self.ops.len()).unwrap_or(u16::MAX))));
            self.ops.push(OpName { program: program.name(), version: number, procedure: row.name });
        }
        Version { number, rows }
    }

    /// All procedures, in the order of their [`OpIndex`].
    pub fn ops(&self) -> &[OpName] {
        &self.ops
    }

    /// The procedure of these numbers.
    pub fn find(&self, program: u32, version: u32, procedure: u32) -> Result<Found<'_>, Missing> {
        let entry = self.programs.iter().find(|p| p.number == program).ok_or(Missing::Program)?;
        let found = entry.versions.iter().find(|v| v.number == version);
        let found = found.ok_or(Missing::Version { low: entry.low, high: entry.high })?;
        let row = usize::try_from(procedure).ok().and_then(|p| found.rows.get(p));
        let (flags, op) = *row.ok_or(Missing::Procedure)?;
        Ok(Found { program: entry.program.as_ref(), op, flags })
    }
}
