//! The state of a connection's service round, as its steps and the calls in it see it.

use crate::conn::connection::{Conn, Rx, Tail};
use crate::pipes::{OwnPipe, PipeState};
use crate::service::deferred::CallStart;
use crate::service::round::Round;
use rpc::record::Record;
use rpc::{LargeArgument, Peer};
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;
use xdr::Writer;

/// What one receive brought.
pub(crate) enum Received {
    /// So many bytes in the worker's buffer, of which the first `front` are a copy of what is kept of
    /// the record under way.
    Bytes { front: usize, len: usize },
    /// Bytes that went straight into the record under way.
    Placed,
    /// Data of the record under way, which is in a pipe.
    Piped(FilledPipe),
    /// Nothing.
    Nothing,
    /// The end of the stream.
    EndOfStream,
    /// The connection is broken.
    Broken,
}

/// What is to be done next.
pub(crate) enum Step<'b> {
    /// A call is to be answered: its record, without the data that was taken, and what was taken.
    Answer(Record<'b>, Option<LargeArgument>),
    /// Some of the record under way is there, and its data may be taken.
    TakeData(DataSource<'b>),
    /// Data of the record under way may be taken out of a pipe.
    TakePiped(FilledPipe),
}

/// Where the part of a record lies that has arrived and was not taken.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DataSource<'b> {
    /// In what was received; the first `front` bytes are a copy of what the connection keeps.
    Received { bytes: &'b [u8], front: usize },
    /// In the connection's memory.
    Kept,
}

/// Data of the record under way in a pipe.
#[derive(Debug)]
pub(crate) struct FilledPipe {
    pub own: OwnPipe,
    /// Bytes at its front that the connection keeps as well.
    pub front: usize,
    /// Bytes in all.
    pub len: usize,
}

/// How a round ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundEnd {
    /// Every whole record is answered.
    AllAnswered,
    /// The rest has to wait.
    Paused,
    /// The connection has to be closed.
    Broken,
    /// The worker finished its call alone; the connection was returned before.
    Detached,
    /// What follows on the connection is TLS.
    StartTls,
}

/// A round under way.
pub(crate) struct StreamRound<'b> {
    pub round: Round<'b>,
    pub peer: Peer,
    /// See [`crate::conn::byte_stream::ByteStream::range_min`].
    pub range_min: usize,
    /// The connection, until the worker is detached.
    pub rx: RefCell<Option<Box<Rx>>>,
    /// Replies that have not been sent.
    pub collected: RefCell<Writer>,
    /// What follows the record under way.
    pub rest: Cell<&'b [u8]>,
    /// The tail that `rest` is the end of, unless it is in the worker's own buffer.
    pub source: Option<&'b Tail>,
    /// The connection, once the worker is detached.
    pub detached: OnceCell<Arc<Conn>>,
    /// The call under way.
    pub call: Cell<CallStart>,
    /// The call under way cannot be run again: some of its data was taken, or its flavour forbids it.
    pub data_taken: Cell<bool>,
    /// The worker's pipe, while it is empty.
    pub pipe: Cell<PipeState>,
}
