//! What is known of a call before it runs: whether its reply is kept for retransmissions, whether it
//! will block, whether it goes before others, and under which operation the statistics count it.
//!
//! A plan is made once for each call. For nearly all procedures it is a constant in the row of the
//! program's table ([`crate::Row::new`]). Where it depends on the arguments, as for a COMPOUND
//! (RFC 8881 §2.3), the row has a function that looks at the undecoded arguments
//! ([`crate::Row::planned_by`]).

use crate::Transport;

/// Whether the reply of a call is kept in the reply cache ([`crate::reply_cache`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeepReply {
    /// Never: running the call twice does no harm.
    Never,
    /// Where calls come as datagrams: these are sent again after a moment and arrive in any order.
    OverUdp,
    /// Whatever the transport is.
    Always,
}

/// How a call is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Plan {
    keep: KeepReply,
    blocks: bool,
    urgent: bool,
    restartable: bool,
    operation: Option<u16>,
}

impl Plan {
    /// Safe to run again at any time.
    pub const IDEMPOTENT: Self = Self {
        keep: KeepReply::Never,
        blocks: false,
        urgent: false,
        restartable: false,
        operation: None,
    };
    /// A second run gives another result (REMOVE, RENAME, CREATE …): its reply is kept.
    pub const NON_IDEMPOTENT: Self = Self { keep: KeepReply::Always, ..Self::IDEMPOTENT };
    /// May run twice, but not after a later call, whose effect it would undo (WRITE): its reply is
    /// kept where calls come as datagrams.
    pub const REPLAY_UNSAFE: Self = Self { keep: KeepReply::OverUdp, ..Self::IDEMPOTENT };

    /// The same for a call that nearly always blocks: the worker lets others go on before it runs.
    /// What blocks seldom says so when it is about to ([`crate::Blocking::will_block`]).
    #[must_use]
    pub const fn blocking(self) -> Self {
        Self { blocks: true, ..self }
    }

    /// The same for a call that must be answered under overload: it is short, and clients find out
    /// with it where things are and whether the server is alive.
    #[must_use]
    pub const fn urgent(self) -> Self {
        Self { urgent: true, ..self }
    }

    /// The same for a procedure that has changed nothing when it first announces that it will block: a call
    /// that is refused then may be run again from its beginning ([`crate::CallHost::is_postponed`]).
    #[must_use]
    pub const fn restartable(self) -> Self {
        Self { restartable: true, ..self }
    }

    /// The same, counted with its latency as the operation of this place in
    /// [`crate::Version::operations`] instead of as its procedure.
    #[must_use]
    pub const fn counted_as(self, operation: u16) -> Self {
        Self { operation: Some(operation), ..self }
    }

    /// Whether the reply of a call that came this way is kept.
    pub fn keeps_reply(self, transport: Transport) -> bool {
        match self.keep {
            KeepReply::Never => false,
            KeepReply::OverUdp => transport == Transport::Udp,
            KeepReply::Always => true,
        }
    }

    /// On which transports its reply is kept.
    pub const fn keep(self) -> KeepReply {
        self.keep
    }

    /// Whether it nearly always blocks.
    pub const fn blocks(self) -> bool {
        self.blocks
    }

    /// Whether it goes before others.
    pub const fn is_urgent(self) -> bool {
        self.urgent
    }

    /// Whether a call that was refused when it was about to block may be run again.
    pub const fn is_restartable(self) -> bool {
        self.restartable
    }

    /// The operation that it is counted as, if not as its procedure.
    pub const fn operation(self) -> Option<u16> {
        self.operation
    }
}

/// The place of an operation in the list of all that a server counts; the statistics are arrays over
/// it. An operation is a procedure, or one of those inside a procedure (of a COMPOUND).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OpIndex(pub u16);

/// What a call is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CallOps {
    /// The call itself.
    pub call: OpIndex,
    /// The first of the operations inside its version's procedures.
    pub first: OpIndex,
}

impl CallOps {
    /// The index of an operation inside the version's procedures.
    pub const fn inside(self, operation: u16) -> OpIndex {
        OpIndex(self.first.0.saturating_add(operation))
    }
}

/// What an [`OpIndex`] stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpName {
    /// The program's short name.
    pub program: &'static str,
    /// The version number.
    pub version: u32,
    /// The name of the procedure or operation in the RFC.
    pub procedure: &'static str,
}
