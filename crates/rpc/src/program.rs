//! Programs as tables: a procedure is a row, and what is true of a procedure stands in its row.
//!
//! A program's crate writes `static` tables of [`Row`]s over its own state `S` and wraps them in
//! a [`Service`]; the dispatcher sees only [`Program`].

use crate::{Ahead, AheadHandler, Call, Fault, Taken};
use std::sync::Arc;
use xdr::{Reader, Writer};

/// What a procedure is like; the reply cache, the pool and read-only exports go by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowFlags(u8);

impl RowFlags {
    /// Safe to run twice, never waits for a disk unless it says so itself.
    pub const PLAIN: Self = Self(0);
    /// Not idempotent: its replies are kept for retransmissions.
    pub const CACHED: Self = Self(1);
    /// Changes the file system: refused on a read-only export.
    pub const MUTATES: Self = Self(2);
    /// Nearly always waits for a disk: the worker makes room for others before it runs.
    pub const SLEEPS: Self = Self(4);

    /// May be run twice at once, but not later: it would undo what has been done since. Its replies are kept
    /// where calls come as datagrams, which are sent again after a moment and may arrive in any order.
    pub const UNDOES: Self = Self(8);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Runs one procedure: reads the arguments, appends the result (from the first byte after
/// `accept_stat`). After an error, what was appended is thrown away.
pub type Handler<S> =
    fn(&S, &mut Call<'_>, &mut Reader<'_>, &mut Writer) -> std::result::Result<(), Fault>;

/// One procedure of one version.
pub struct Row<S: ?Sized + 'static> {
    /// Its name in the RFC.
    pub name: &'static str,
    /// What it is like.
    pub flags: RowFlags,
    /// Its code.
    pub run: Handler<S>,
    /// What it does with data that comes before the rest of its record, if anything.
    pub ahead: Option<AheadHandler<S>>,
}

impl<S: ?Sized + 'static> Row<S> {
    /// A procedure that wants its record whole.
    pub const fn new(name: &'static str, flags: RowFlags, run: Handler<S>) -> Self {
        Self { name, flags, run, ahead: None }
    }

    /// The same procedure, taking data as it comes.
    #[must_use]
    pub const fn taking(self, ahead: AheadHandler<S>) -> Self {
        Self { ahead: Some(ahead), ..self }
    }
}

/// One version of a program; a procedure's number is its place in `rows`.
pub struct Version<S: ?Sized + 'static> {
    /// The version number.
    pub number: u32,
    /// The procedures, from 0.
    pub rows: &'static [Row<S>],
}

/// A row without its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowInfo {
    /// Its name in the RFC.
    pub name: &'static str,
    /// What it is like.
    pub flags: RowFlags,
}

/// A program as the dispatcher sees it.
pub trait Program: Send + Sync {
    /// The program number.
    fn number(&self) -> u32;
    /// A short name for people: `nfs`, `mount`, `portmap`.
    fn name(&self) -> &'static str;
    /// The version numbers, rising.
    fn versions(&self) -> Vec<u32>;
    /// How many procedures a version has; `None` if there is no such version.
    fn procedures(&self, version: u32) -> Option<u32>;
    /// A procedure's row.
    fn row(&self, version: u32, procedure: u32) -> Option<RowInfo>;
    /// Runs a procedure that [`Program::row`] knows.
    ///
    /// # Errors
    /// [`Fault`]: what to answer instead of a result.
    fn run(
        &self,
        version: u32,
        procedure: u32,
        call: &mut Call<'_>,
        args: &mut Reader<'_>,
        reply: &mut Writer,
    ) -> std::result::Result<(), Fault>;
    /// Lets a procedure take data of a call whose record is not whole; see [`AheadHandler`].
    fn ahead(
        &self,
        version: u32,
        procedure: u32,
        call: &mut Call<'_>,
        args: &mut Reader<'_>,
        missing: usize,
        ahead: &mut Ahead,
    ) -> Taken;
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
    fn find(&self, version: u32, procedure: u32) -> Option<&'static Row<S>> {
        let version = self.versions.iter().find(|v| v.number == version)?;
        version.rows.get(usize::try_from(procedure).ok()?)
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

    fn procedures(&self, version: u32) -> Option<u32> {
        let version = self.versions.iter().find(|v| v.number == version)?;
        u32::try_from(version.rows.len()).ok()
    }

    fn row(&self, version: u32, procedure: u32) -> Option<RowInfo> {
        self.find(version, procedure).map(|row| RowInfo { name: row.name, flags: row.flags })
    }

    fn run(
        &self,
        version: u32,
        procedure: u32,
        call: &mut Call<'_>,
        args: &mut Reader<'_>,
        reply: &mut Writer,
    ) -> std::result::Result<(), Fault> {
        let row = self.find(version, procedure).ok_or(Fault::SystemErr)?;
        (row.run)(&self.state, call, args, reply)
    }

    fn ahead(
        &self,
        version: u32,
        procedure: u32,
        call: &mut Call<'_>,
        args: &mut Reader<'_>,
        missing: usize,
        ahead: &mut Ahead,
    ) -> Taken {
        match self.find(version, procedure).and_then(|row| row.ahead) {
            Some(take) => take(&self.state, call, args, missing, ahead),
            None => Taken::Never,
        }
    }
}

/// A procedure's place in the list of all procedures that a server offers; the statistics are
/// arrays over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpIndex(pub u16);

/// What an [`OpIndex`] stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpName {
    /// The program's short name.
    pub program: &'static str,
    /// The version number.
    pub version: u32,
    /// The procedure's name in the RFC.
    pub procedure: &'static str,
}
