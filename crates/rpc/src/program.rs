//! Programs as tables: a procedure is a row, and what is true of a procedure stands in its row.
//!
//! A program's crate writes `static` tables of [`Row`]s over its own state `S` and wraps them in
//! a [`Service`]; the dispatcher sees only [`Program`].

use crate::{BeginHandler, Begun, Call, Fault, Plan, Transport};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use xdr::{Reader, Writer};

/// Runs one procedure: reads the arguments, appends the result (from the first byte after
/// `accept_stat`). After an error, what was appended is thrown away.
pub type Handler<S> =
    fn(&S, &mut Call<'_>, &mut Reader<'_>, &mut Writer) -> std::result::Result<(), Fault>;

/// Plans a call from its undecoded arguments, which may be anything. Must not wait.
pub type Planner<S> = fn(&S, args: &[u8], Transport) -> Plan;

/// One procedure of one version.
pub struct Row<S: ?Sized + 'static> {
    /// Its name in the RFC.
    pub name: &'static str,
    /// How its calls are run.
    pub plan: Plan,
    /// Plans each of its calls instead of `plan`, which then holds where there are no arguments to
    /// look at.
    pub planner: Option<Planner<S>>,
    /// Its code.
    pub run: Handler<S>,
    /// How a call of it begins whose data is used as it arrives, if it can be.
    pub begin: Option<BeginHandler<S>>,
}

impl<S: ?Sized + 'static> Row<S> {
    /// A procedure all of whose calls have the same plan.
    pub const fn new(name: &'static str, plan: Plan, run: Handler<S>) -> Self {
        Self { name, plan, planner: None, run, begin: None }
    }

    /// The same procedure, its calls planned one by one.
    #[must_use]
    pub const fn planned_by(self, planner: Planner<S>) -> Self {
        Self { planner: Some(planner), ..self }
    }

    /// The same procedure, using the data of a large call as it arrives.
    #[must_use]
    pub const fn beginning_with(self, begin: BeginHandler<S>) -> Self {
        Self { begin: Some(begin), ..self }
    }
}

/// One version of a program; a procedure's number is its place in `rows`.
pub struct Version<S: ?Sized + 'static> {
    /// The version number.
    pub number: u32,
    /// The procedures, from 0.
    pub rows: &'static [Row<S>],
    /// The names of the operations inside its procedures that are counted by themselves
    /// ([`Call::count_operation`], [`Plan::counted_as`]); empty where a call is one operation.
    pub operations: &'static [&'static str],
}

impl<S: ?Sized + 'static> Version<S> {
    /// A version in which a call is one operation.
    pub const fn new(number: u32, rows: &'static [Row<S>]) -> Self {
        Self { number, rows, operations: &[] }
    }
}

/// Where a program finds a procedure again: its version's place in [`Program::versions`], and its
/// number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowId {
    /// The place of the version.
    pub version: u16,
    /// The procedure's number.
    pub procedure: u16,
}

/// A row without its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowInfo {
    /// Its name in the RFC.
    pub name: &'static str,
    /// How its calls are run; where `by_arguments`, if there are no arguments to look at.
    pub plan: Plan,
    /// Whether [`Program::plan`] has to be asked for each call.
    pub by_arguments: bool,
    /// What [`Program::run`] finds it by.
    pub id: RowId,
}

/// A program as the dispatcher sees it.
pub trait Program: Send + Sync {
    /// The program number.
    fn number(&self) -> u32;
    /// A short name for people: `nfs`, `mount`, `portmap`.
    fn name(&self) -> &'static str;
    /// The version numbers, rising.
    fn versions(&self) -> Vec<u32>;
    /// Which of them are served now; `None`: always all of them, over every transport.
    fn served_versions(&self) -> Option<Arc<ServedVersions>> {
        None
    }
    /// A procedure's row.
    fn row(&self, version: u32, procedure: u32) -> Option<RowInfo>;
    /// The names of the operations inside a version's procedures that are counted by themselves.
    fn operations(&self, version: u32) -> &'static [&'static str];
    /// Plans a call from its undecoded arguments.
    fn plan(&self, row: RowId, args: &[u8], transport: Transport) -> Plan;
    /// Runs a procedure that [`Program::row`] knows.
    ///
    /// # Errors
    /// [`Fault`]: what to answer instead of a result.
    fn run(
        &self,
        row: RowId,
        call: &mut Call<'_>,
        args: &mut Reader<'_>,
        reply: &mut Writer,
    ) -> std::result::Result<(), Fault>;
    /// Begins a call whose record is not whole; see [`BeginHandler`].
    fn begin(
        &self,
        row: RowId,
        call: &mut Call<'_>,
        args: &mut Reader<'_>,
        missing: usize,
    ) -> Begun;
}

/// Which versions of a program are served over which transport. Can be changed at any time, and counts from the next
/// call on.
#[derive(Debug)]
pub struct ServedVersions {
    /// A bit for each version.
    tcp: AtomicU32,
    udp: AtomicU32,
}

impl ServedVersions {
    /// These versions, each below 32.
    pub const fn new(tcp: &[u32], udp: &[u32]) -> Self {
        Self { tcp: AtomicU32::new(bits(tcp)), udp: AtomicU32::new(bits(udp)) }
    }

    /// Changes which versions are served.
    pub fn set(&self, tcp: &[u32], udp: &[u32]) {
        self.tcp.store(bits(tcp), Relaxed);
        self.udp.store(bits(udp), Relaxed);
    }

    /// Whether a version is served over a transport.
    #[inline]
    pub fn has(&self, version: u32, transport: Transport) -> bool {
        let served = match transport {
            Transport::Tcp => &self.tcp,
            Transport::Udp => &self.udp,
        };
        version < 32 && served.load(Relaxed) >> version & 1 != 0
    }
}

const fn bits(versions: &[u32]) -> u32 {
    let (mut bits, mut rest) = (0, versions);
    while let [version, tail @ ..] = rest {
        if *version < 32 {
            bits |= 1 << *version;
        }
        rest = tail;
    }
    bits
}

/// Serves only some versions of a program; which ones can change at any time.
pub struct VersionFilter<P> {
    /// The program.
    pub program: P,
    /// What is served of it.
    pub served: Arc<ServedVersions>,
}

impl<P: Program> Program for VersionFilter<P> {
    fn number(&self) -> u32 {
        self.program.number()
    }

    fn name(&self) -> &'static str {
        self.program.name()
    }

    fn versions(&self) -> Vec<u32> {
        self.program.versions()
    }

    fn served_versions(&self) -> Option<Arc<ServedVersions>> {
        Some(Arc::clone(&self.served))
    }

    fn row(&self, version: u32, procedure: u32) -> Option<RowInfo> {
        self.program.row(version, procedure)
    }

    fn operations(&self, version: u32) -> &'static [&'static str] {
        self.program.operations(version)
    }

    fn plan(&self, row: RowId, args: &[u8], transport: Transport) -> Plan {
        self.program.plan(row, args, transport)
    }

    fn run(
        &self,
        row: RowId,
        call: &mut Call<'_>,
        args: &mut Reader<'_>,
        reply: &mut Writer,
    ) -> std::result::Result<(), Fault> {
        self.program.run(row, call, args, reply)
    }

    fn begin(
        &self,
        row: RowId,
        call: &mut Call<'_>,
        args: &mut Reader<'_>,
        missing: usize,
    ) -> Begun {
        self.program.begin(row, call, args, missing)
    }
}

/// A program made of tables over shared state.
pub struct Service<S: ?Sized + 'static> {
    /// The program number.
    pub number: u32,
    /// A short name for people.
    pub name: &'static str,
    /// The versions, rising.
    pub versions: &'static [Version<S>],
    /// What the procedures work on.
    pub state: Arc<S>,
}

impl<S: ?Sized + 'static> Service<S> {
    fn find(&self, row: RowId) -> Option<&'static Row<S>> {
        self.versions.get(usize::from(row.version))?.rows.get(usize::from(row.procedure))
    }
}

impl<S: ?Sized + Send + Sync + 'static> Program for Service<S> {
    fn number(&self) -> u32 {
        self.number
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn versions(&self) -> Vec<u32> {
        self.versions.iter().map(|v| v.number).collect()
    }

    fn row(&self, version: u32, procedure: u32) -> Option<RowInfo> {
        let at = self.versions.iter().position(|v| v.number == version)?;
        let id =
            RowId { version: u16::try_from(at).ok()?, procedure: u16::try_from(procedure).ok()? };
        let Row { name, plan, planner, .. } = self.find(id)?;
        Some(RowInfo { name, plan: *plan, by_arguments: planner.is_some(), id })
    }

    fn operations(&self, version: u32) -> &'static [&'static str] {
        let version = self.versions.iter().find(|v| v.number == version);
        version.map_or(&[], |version| version.operations)
    }

    fn plan(&self, row: RowId, args: &[u8], transport: Transport) -> Plan {
        match self.find(row) {
            Some(Row { planner: Some(planner), .. }) => planner(&self.state, args, transport),
            Some(row) => row.plan,
            None => Plan::IDEMPOTENT,
        }
    }

    fn run(
        &self,
        row: RowId,
        call: &mut Call<'_>,
        args: &mut Reader<'_>,
        reply: &mut Writer,
    ) -> std::result::Result<(), Fault> {
        let row = self.find(row).ok_or(Fault::SystemErr)?;
        (row.run)(&self.state, call, args, reply)
    }

    fn begin(
        &self,
        row: RowId,
        call: &mut Call<'_>,
        args: &mut Reader<'_>,
        missing: usize,
    ) -> Begun {
        match self.find(row).and_then(|row| row.begin) {
            Some(begin) => begin(&self.state, call, args, missing),
            None => Begun::WholeRecord,
        }
    }
}
