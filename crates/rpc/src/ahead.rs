//! Data that goes to its place ahead of its call.
//!
//! A WRITE of a megabyte arrives in many receives. Were all of it kept until the record is whole,
//! each connection would hold a megabyte, and what came first would have left the processor's
//! caches when it is written. So the transport asks the dispatcher with the beginning of a large
//! record whether some of its data can go now ([`crate::Dispatcher::ahead`]). The row's
//! [`AheadHandler`] reads the arguments that stand before the data, makes all the checks of the
//! procedure, puts as much of the data where it belongs as is worth it, and says how much. The
//! transport forgets those bytes and goes on receiving. When the record is whole, what is left of
//! it (the arguments, and the data that has not gone) is dispatched as any other call, with the
//! [`Ahead`] that says what is missing between the two ([`Arrived`]); only then there is a reply.
//!
//! Once some has gone, and it is known where the data begins, the transport may let the kernel move what comes next from
//! the socket into a pipe ([`Piped`]), and the procedure from there to its place: the bytes are copied once and never
//! seen by the server.
//!
//! Invariants:
//! - Nothing goes ahead of a call that the reply cache keeps: a retransmission would run beside it.
//! - The arguments are known to fill the record exactly before the first byte goes.
//! - Once the procedure has refused to take more it is not asked again before the record is whole: the dispatcher
//!   notes it, whatever the transport does.
//! - What has gone ahead of a record that never becomes whole stays: as if the call had been made
//!   and failed in the middle. Its client has had no reply, and sends it again.
//! - As a whole call on a connection that its client has given up may still run, after the one that the
//!   client sent again, so may a piece of one.

use crate::Call;
use std::any::Any;
use std::os::fd::BorrowedFd;
use xdr::Reader;

/// What went ahead of one call. Kept with the connection between two receives.
#[derive(Debug, Default)]
pub struct Ahead {
    len: usize,
    piped: usize,
    data_at: usize,
    over: bool,
    memo: Option<Box<dyn Any + Send>>,
}

impl Ahead {
    /// How many bytes of the data are gone from the record.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// How many of them went through a pipe.
    pub const fn piped(&self) -> usize {
        self.piped
    }

    /// Where in the record its data begins; known once some has gone.
    pub const fn data_at(&self) -> usize {
        self.data_at
    }

    /// Whether nothing has gone.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether no more will go before the record is whole.
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// Lets no more go: for the dispatcher when the procedure refuses, and for a transport that gathers no more.
    pub const fn end(&mut self) {
        self.over = true;
    }

    /// What the procedure remembers of what it has done, if it is of this type.
    pub fn memo<T: Any>(&self) -> Option<&T> {
        self.memo.as_ref()?.downcast_ref()
    }

    /// Remembers `memo` until the call is answered.
    pub fn remember<T: Any + Send>(&mut self, memo: T) {
        match self.memo.as_mut().and_then(|memo| memo.downcast_mut()) {
            Some(place) => *place = memo,
            None => self.memo = Some(Box::new(memo)),
        }
    }

    /// So many more bytes of the data, which begins at `data_at`, have gone, from the record or through a pipe.
    pub(crate) const fn went(&mut self, data_at: usize, bytes: usize, piped: bool) {
        self.data_at = data_at;
        if piped {
            self.piped = self.piped.saturating_add(bytes);
        }
        self.len = self.len.saturating_add(bytes);
    }
}

/// What a procedure did with the beginning of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Nothing, and nothing more ever will go: the record has to be whole.
    Never,
    /// Nothing: too little of it is there.
    NotYet,
    /// So many bytes from the front of the data are where they belong.
    Bytes(usize),
}

/// Data of a call that lies in a pipe, on its way from the socket to where it belongs.
#[derive(Debug, Clone, Copy)]
pub struct Piped<'a> {
    /// The end that it is taken from.
    pub pipe: BorrowedFd<'a>,
    /// How many bytes.
    pub len: usize,
}

/// The beginning of a record.
#[derive(Debug, Clone, Copy)]
pub struct Beginning<'a> {
    /// What of it has arrived and has not gone; up to the data, if that is in a pipe.
    pub so_far: &'a [u8],
    /// The data that has arrived and has not gone, if it is not in `so_far`.
    pub piped: Option<Piped<'a>>,
    /// How many bytes of the record are still to come.
    pub missing: usize,
}

/// Puts data of a call where it belongs whose record is not whole yet: reads the arguments before
/// the data and leaves the reader where the data begins. `missing` bytes of the record are still to
/// come. Called again with the same arguments, and the data behind what it took, as more arrives.
/// The data may be in a pipe ([`Call::piped`]) instead of behind the arguments; of what the procedure says that
/// it took, nothing needs to be left there, nor all be gone.
pub type AheadHandler<S> =
    fn(&S, &mut Call<'_>, &mut Reader<'_>, missing: usize, ahead: &mut Ahead) -> Taken;

/// A whole record, or what is left of one of which data went ahead.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'a> {
    /// The record, without its mark and without what went ahead.
    pub record: &'a [u8],
    /// What went ahead.
    pub ahead: Option<&'a Ahead>,
}

impl<'a> From<&'a [u8]> for Arrived<'a> {
    fn from(record: &'a [u8]) -> Self {
        Self { record, ahead: None }
    }
}
