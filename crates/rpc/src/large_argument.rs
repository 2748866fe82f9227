//! A large argument that is used as it arrives, before its record is whole.
//!
//! A WRITE of a megabyte arrives in many receives. Were all of it kept until the record is whole,
//! each connection would hold a megabyte, and what came first would have left the processor's
//! caches when it is written. So the transport shows the beginning of a large record to the
//! dispatcher ([`crate::Dispatcher::take_data`]). The call is authenticated and planned there, once,
//! and the procedure decodes the arguments that stand before the data ([`BeginHandler`]). If it can
//! use data as it comes it gives an [`ArgumentSink`], which owns all that it needs, and says how
//! long its data is. From then on the sink takes pieces of the data, and the transport forgets
//! them. When the record is whole, the sink gets what is left of the data, and a reader at the
//! arguments that follow it, as those of further operations of a COMPOUND do, and writes the reply
//! ([`crate::Dispatcher::finish`]); only then there is one.
//!
//! Once a sink has taken something, the transport may let the kernel move what comes next from the
//! socket into a pipe ([`Piped`]), and the sink from there to its place: the bytes are copied once
//! and never seen by the server.
//!
//! Invariants:
//! - No data of a call is taken early whose reply is kept in the reply cache: a retransmission would
//!   run beside it. None of a call whose flavour has to see the whole message
//!   ([`crate::auth::Flavor::accepts_twice`]).
//! - The data and its padding lie within the record: it is known before the first piece.
//! - Once the procedure has refused, or the sink takes no more, it is not asked again before the
//!   record is whole.
//! - What was taken of a record that never becomes whole stays: as if the call had been made
//!   and failed in the middle. Its client has had no reply, and sends it again.
//! - As a whole call on a connection that its client has given up may still run, after the one that the
//!   client sent again, so may a piece of one.

use crate::plan::CallOps;
use crate::{Blocking, Call, Fault};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use xdr::{Reader, Writer};

/// Data in a pipe, on its way from the socket to where it belongs.
#[derive(Debug, Clone, Copy)]
pub struct Piped<'a> {
    /// The end that it is taken from.
    pub pipe: BorrowedFd<'a>,
    /// How many bytes.
    pub len: usize,
}

/// Some of the data of a call.
#[derive(Debug, Clone, Copy)]
pub enum Piece<'a> {
    /// In memory.
    Bytes(&'a [u8]),
    /// In a pipe. Of what the sink says that it took, nothing needs to be left there, nor all be
    /// gone.
    Piped(Piped<'a>),
}

impl Piece<'_> {
    /// How many bytes.
    pub const fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Piped(piped) => piped.len,
        }
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// At most the first `most` bytes.
    fn up_to(self, most: usize) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(bytes.get(..most).unwrap_or(bytes)),
            Self::Piped(Piped { pipe, len }) => Self::Piped(Piped { pipe, len: len.min(most) }),
        }
    }
}

/// What a sink did with a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consumed {
    /// It took this many bytes from the front.
    Bytes(usize),
    /// Nothing yet: the piece is too small.
    TooFew,
    /// Nothing, and it takes no more before the record is whole.
    NoMore,
}

/// Takes the data of one call as it arrives, then answers the call.
pub trait ArgumentSink: Send {
    /// Takes from the front of what has arrived and was not taken. Called with the same bytes, and
    /// those behind them, until it takes some.
    fn take(&mut self, blocking: &dyn Blocking, piece: Piece<'_>) -> Consumed;

    /// Answers the call: `data` is the data that was not taken, `args` stands at what follows the
    /// data and its padding. Appends the result (from the first byte after `accept_stat`).
    ///
    /// # Errors
    /// [`Fault`]: what to answer instead of a result.
    fn finish(
        self: Box<Self>,
        call: &mut Call<'_>,
        data: &[u8],
        args: &mut Reader<'_>,
        reply: &mut Writer,
    ) -> Result<(), Fault>;
}

/// What a procedure says about the beginning of a call.
pub enum Begun {
    /// Nothing yet: the arguments before the data have not all come.
    TooFew,
    /// The record has to be whole.
    WholeRecord,
    /// The reader stands at data of `data_len` bytes, which the sink takes.
    Sink {
        /// Takes it.
        sink: Box<dyn ArgumentSink>,
        /// Bytes of the data, without its padding.
        data_len: usize,
    },
}

/// Reads the arguments of a call that stand before its data; `missing` bytes of the record are still
/// to come behind what the reader has. Makes all checks of the procedure that can be made now.
pub type BeginHandler<S> = fn(&Arc<S>, &mut Call<'_>, &mut Reader<'_>, missing: usize) -> Begun;

/// A record of which a part has arrived.
#[derive(Debug, Clone, Copy)]
pub struct PartialRecord<'a> {
    /// What has arrived and was not taken; up to the data, if that is in a pipe.
    pub so_far: &'a [u8],
    /// The data that has arrived and was not taken, if it is not in `so_far`.
    pub piped: Option<Piped<'a>>,
    /// How many bytes of the record are still to come.
    pub missing: usize,
}

/// What was taken of the data of one call. Kept with the connection while its record arrives.
#[derive(Default)]
pub struct LargeArgument {
    pub(crate) sink: Option<Box<dyn ArgumentSink>>,
    /// What the call is counted as, once there was a sink.
    pub(crate) ops: Option<CallOps>,
    data_at: usize,
    data_len: usize,
    taken: usize,
    piped: usize,
    over: bool,
}

impl fmt::Debug for LargeArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sink, ops, data_at, data_len, taken, piped, over } = self;
        f.debug_struct("LargeArgument")
            .field("sink", &sink.is_some())
            .field("ops", ops)
            .field("data_at", data_at)
            .field("data_len", data_len)
            .field("taken", taken)
            .field("piped", piped)
            .field("over", over)
            .finish()
    }
}

impl LargeArgument {
    /// How many bytes of the data were taken from the record.
    pub const fn taken(&self) -> usize {
        self.taken
    }

    /// How many of them came through a pipe.
    pub const fn piped(&self) -> usize {
        self.piped
    }

    /// Bytes of the data that were not taken; 0 before it is known how many there are.
    pub const fn left(&self) -> usize {
        self.data_len.saturating_sub(self.taken)
    }

    /// Where in the record its data begins; known once some was taken.
    pub const fn data_at(&self) -> usize {
        self.data_at
    }

    /// Whether nothing was taken.
    pub const fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Whether no more will be taken before the record is whole.
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// Lets no more be taken: for the dispatcher when the procedure refuses, and for a transport that
    /// gathers no more.
    pub const fn end(&mut self) {
        self.over = true;
    }

    /// A procedure has begun with data that lies at `data_at`.
    pub(crate) fn begin(
        &mut self,
        sink: Box<dyn ArgumentSink>,
        ops: CallOps,
        data_at: usize,
        data_len: usize,
    ) {
        *self = Self { sink: Some(sink), ops: Some(ops), data_at, data_len, ..Self::default() };
    }

    /// The data in what has arrived.
    pub(crate) fn piece<'a>(&self, partial: PartialRecord<'a>) -> Piece<'a> {
        let bytes = partial.so_far.get(self.data_at..).unwrap_or_default();
        let piece = partial.piped.map_or(Piece::Bytes(bytes), Piece::Piped);
        piece.up_to(self.left())
    }

    /// A sink took some of a piece; how many bytes.
    pub(crate) fn count(&mut self, consumed: Consumed, piece: Piece<'_>) -> usize {
        let bytes = match consumed {
            Consumed::Bytes(bytes) => {
                debug_assert!(bytes <= piece.len(), "took more than there was");
                bytes.min(piece.len())
            }
            Consumed::TooFew => 0,
            Consumed::NoMore => {
                self.over = true;
                0
            }
        };
        if let Piece::Piped(_) = piece {
            self.piped = self.piped.saturating_add(bytes);
        }
        self.taken = self.taken.saturating_add(bytes);
        bytes
    }

    /// Splits what is left of a whole record behind its header: the data, and what follows its
    /// padding.
    pub(crate) fn split<'r>(&self, record: &'r [u8]) -> Option<(&'r [u8], &'r [u8])> {
        let (data, behind) = record.get(self.data_at..)?.split_at_checked(self.left())?;
        Some((data, behind.get(xdr::padding(self.data_len)..)?))
    }
}
