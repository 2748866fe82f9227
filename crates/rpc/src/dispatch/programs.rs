//! Which programs, versions and procedures there are, laid out for the look-up that every call
//! makes: a scan over a handful of programs, then over two or three versions, no allocation.
//!
//! Invariant: all operations are numbered without a gap, in the order of [`Programs::ops`]: of each
//! version its procedures, then the operations inside them.

use crate::plan::CallOps;
use crate::{OpIndex, OpName, Plan, Program, RowId, ServedVersions, Transport};
use std::sync::Arc;

/// All programs of a server.
pub(super) struct Programs {
    programs: Vec<Entry>,
    ops: Vec<OpName>,
}

/// One program.
struct Entry {
    number: u32,
    program: Box<dyn Program>,
    versions: Vec<Version>,
    /// Which of them are served now, if that can change.
    served: Option<Arc<ServedVersions>>,
}

impl Entry {
    /// Whether a version is served over a transport.
    #[inline]
    fn serves(&self, version: u32, transport: Transport) -> bool {
        self.served.as_ref().is_none_or(|served| served.has(version, transport))
    }

    /// What to answer to a version that is not served.
    #[cold]
    fn mismatch(&self, transport: Transport) -> Missing {
        let numbers = self.versions.iter().map(|v| v.number);
        let served = || numbers.clone().filter(|version| self.serves(*version, transport));
        match (served().min(), served().max()) {
            (Some(low), Some(high)) => Missing::Version { low, high },
            _ => Missing::Program,
        }
    }
}

/// One version of a program.
struct Version {
    number: u32,
    rows: Vec<Row>,
    /// The first of the operations inside its procedures.
    operations: OpIndex,
}

/// One procedure.
#[derive(Clone, Copy)]
struct Row {
    id: RowId,
    op: OpIndex,
    plan: Plan,
    by_arguments: bool,
}

/// A procedure that is served.
#[derive(Clone, Copy)]
pub(super) struct Found<'p> {
    /// The program.
    pub program: &'p dyn Program,
    /// What the program finds the procedure by.
    pub row: RowId,
    /// How this call is run.
    pub plan: Plan,
    /// What this call is counted as.
    pub ops: CallOps,
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
    /// Numbers all operations. A second program of the same number, and one without versions,
    /// are left out.
    pub fn new(programs: Vec<Box<dyn Program>>) -> Self {
        let mut all = Self { programs: Vec::with_capacity(programs.len()), ops: Vec::new() };
        for program in programs {
            let number = program.number();
            let numbers = program.versions();
            if numbers.is_empty() || all.programs.iter().any(|p| p.number == number) {
                continue;
            }
            let versions = numbers.iter().map(|v| all.version(program.as_ref(), *v)).collect();
            let served = program.served_versions();
            all.programs.push(Entry { number, program, versions, served });
        }
        all
    }

    /// Numbers the procedures and operations of one version.
    fn version(&mut self, program: &dyn Program, number: u32) -> Version {
        let mut rows = Vec::new();
        while let Some(row) =
            u32::try_from(rows.len()).ok().and_then(|procedure| program.row(number, procedure))
        {
            let op = self.number(program, number, row.name);
            rows.push(Row { id: row.id, op, plan: row.plan, by_arguments: row.by_arguments });
        }
        let operations = self.next();
        for name in program.operations(number) {
            self.number(program, number, name);
        }
        Version { number, rows, operations }
    }

    fn number(&mut self, program: &dyn Program, version: u32, procedure: &'static str) -> OpIndex {
        let op = self.next();
        self.ops.push(OpName { program: program.name(), version, procedure });
        op
    }

    /// Tables are static and have a few hundred rows; were there more than 65536, the last ones
    /// would share their statistics.
    fn next(&self) -> OpIndex {
        OpIndex(u16::try_from(self.ops.len()).unwrap_or(u16::MAX))
    }

    /// All operations, in the order of their [`OpIndex`].
    pub fn ops(&self) -> &[OpName] {
        &self.ops
    }

    /// The programs and their versions, in the order in which they are looked through.
    pub fn served(&self) -> impl Iterator<Item = (u32, u32)> {
        self.programs.iter().flat_map(|p| p.versions.iter().map(|v| (p.number, v.number)))
    }

    /// Plans a call of these numbers and undecoded arguments.
    pub fn plan(
        &self,
        program: u32,
        version: u32,
        procedure: u32,
        args: &[u8],
        transport: Transport,
    ) -> Result<Found<'_>, Missing> {
        let entry = self.programs.iter().find(|p| p.number == program).ok_or(Missing::Program)?;
        let found = entry.versions.iter().find(|v| v.number == version);
        let found = found.filter(|_| entry.serves(version, transport));
        let found = found.ok_or_else(|| entry.mismatch(transport))?;
        let row = usize::try_from(procedure).ok().and_then(|p| found.rows.get(p));
        let Row { id, op, mut plan, by_arguments } = *row.ok_or(Missing::Procedure)?;
        let mut ops = CallOps { call: op, first: found.operations };
        let program = entry.program.as_ref();
        if by_arguments {
            plan = program.plan(id, args, transport);
            if let Some(operation) = plan.operation() {
                ops.call = ops.inside(operation);
            }
        }
        Ok(Found { program, row: id, plan, ops })
    }
}
