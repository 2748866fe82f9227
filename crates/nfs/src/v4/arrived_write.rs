//! A WRITE of which data is in its file before its COMPOUND runs ([`write_ahead`](super::write_ahead)): what was written, and
//! what is left.

use crate::object::Object;
use crate::verbs::{self, Written};
use state::v4::ArrivingRequest;
use vfs::{Stability, Status, Verifier, WriteDone};

/// What was written before the record was whole.
#[derive(Default)]
pub(super) struct WrittenAhead {
    pub bytes: usize,
    /// From before the first piece.
    pub verifier: Option<Verifier>,
    /// Nothing more is written.
    pub is_over: bool,
}

/// The WRITE of a COMPOUND all of which has come.
pub(super) struct ArrivedWrite<'r> {
    /// What has the slot; none in version 4.0.
    pub arriving: Option<ArrivingRequest>,
    pub done: WrittenAhead,
    /// The data that was not taken.
    pub data: &'r [u8],
    /// What follows the data.
    pub behind: &'r [u8],
}

impl ArrivedWrite<'_> {
    /// Writes what was not taken of the data, which begins at `offset`, and makes all of it as safe as it was asked for.
    ///
    /// # Errors
    /// Those of a WRITE. That the rest does not fit is none.
    pub fn write_rest(
        &self,
        file: &Object<'_>,
        offset: u64,
        stable: Stability,
    ) -> vfs::Result<Written> {
        let Some(verifier) = self.done.verifier else {
            return verbs::write(file, offset, self.data, stable);
        };
        let mut count = self.done.bytes;
        let at = |bytes: usize| offset.saturating_add(bytes as u64);
        // unstable: what is to be synced is what fits, and a sync that fails fails the call
        let rest = || verbs::write(file, at(self.done.bytes), self.data, Stability::Unstable).ok();
        let last = if self.done.is_over { None } else { rest() };
        if let Some(Written { done, .. }) = last {
            count = count.saturating_add(done.count);
            if stable == Stability::Unstable {
                return Ok(Written { done: WriteDone { count, ..done }, verifier });
            }
        }
        let end = verbs::write(file, at(count), &[], stable)?;
        if stable != Stability::Unstable && end.verifier != verifier {
            return Err(Status::Io);
        }
        Ok(Written { done: WriteDone { count, ..end.done }, verifier })
    }
}
