//! Calls whose argument is used before their record is whole; see [`crate::large_argument`].

use super::answer::{accept, deny};
use super::programs::Found;
use super::{Dispatcher, header, run_with};
use crate::auth::CallMessage;
use crate::large_argument::{Begun, LargeArgument, PartialRecord};
use crate::{
    Blocking, Call, CallHost, Credential, Done, Peer, Reject, Transport, TransportSecurity, Verdict,
};
use proto::rpc::{Accepted, AuthStat, CallHeader};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use xdr::{Reader, Writer};

impl Dispatcher {
    /// Shows a record of which a part has arrived. The range of `so_far` that was taken; of data in a
    /// pipe, which would be behind it, only its length counts. It is empty if more of the record has
    /// to be there first, and if nothing more of it ever will be taken: then `large` is over
    /// ([`LargeArgument::is_over`]).
    pub fn take_data(
        &self,
        partial: PartialRecord<'_>,
        peer: &Peer,
        blocking: &dyn Blocking,
        large: &mut LargeArgument,
    ) -> Range<usize> {
        if large.is_over() {
            return 0..0;
        }
        if large.sink.is_none() {
            self.begin(partial, peer, blocking, large);
        }
        let piece = large.piece(partial);
        if large.sink.is_some() && large.left() == 0 {
            large.end();
        }
        if piece.is_empty() {
            return 0..0;
        }
        let Some(sink) = &mut large.sink else { return 0..0 };
        let Ok(consumed) = catch_unwind(AssertUnwindSafe(|| sink.take(blocking, piece))) else {
            // Nobody knows what a sink has done that panicked: the call is answered SYSTEM_ERR, or,
            // if nothing was taken before, dispatched whole.
            large.sink = None;
            large.end();
            return 0..0;
        };
        let at = large.data_at();
        at..at.saturating_add(large.count(consumed, piece))
    }

    /// Asks the procedure for a sink, once the arguments before its data have come.
    fn begin(
        &self,
        partial: PartialRecord<'_>,
        peer: &Peer,
        blocking: &dyn Blocking,
        large: &mut LargeArgument,
    ) {
        let PartialRecord { so_far, missing, .. } = partial;
        let Some((message, credential, found)) = self.may_begin(so_far, peer.security) else {
            return large.end();
        };
        let mut args = message.args;
        let mut call = Call::new(message.header.xid, peer, credential, blocking);
        // After a panic the call is dispatched whole, and panics again.
        let begun = catch_unwind(AssertUnwindSafe(|| {
            found.program.begin(found.row, &mut call, &mut args, missing)
        }));
        match begun {
            Ok(Begun::TooFew) => {}
            Ok(Begun::Sink { sink, data_len })
                if xdr::padded(data_len) <= args.remaining().saturating_add(missing) =>
            {
                let data_at = so_far.len().saturating_sub(args.remaining());
                large.begin(sink, found.ops, data_at, data_len);
            }
            Ok(Begun::Sink { .. } | Begun::WholeRecord) | Err(_) => large.end(),
        }
    }

    /// The call that a record begins with, if data of such a one may be taken.
    fn may_begin<'r>(
        &self,
        so_far: &'r [u8],
        security: TransportSecurity,
    ) -> Option<(CallMessage<'r>, Credential<'r>, Found<'_>)> {
        let message = header::read(so_far, Transport::Tcp, security).ok()?;
        let credential = self.auth.accept_beginning(&message)?;
        let CallHeader { program, version, procedure, .. } = message.header;
        let args = message.args.rest();
        let found = self.programs.plan(program, version, procedure, args, Transport::Tcp).ok()?;
        (!found.plan.keeps_reply(Transport::Tcp)).then_some((message, credential, found))
    }

    /// Answers a call some of whose data was taken: `record` is what is left of it. As
    /// [`Dispatcher::dispatch`], which answers one of whose data nothing was taken.
    pub fn finish(
        &self,
        record: &[u8],
        mut large: LargeArgument,
        peer: &Peer,
        host: &dyn CallHost,
        reply: &mut Writer,
    ) -> Done {
        let Ok(message) = header::read(record, peer.transport, peer.security) else {
            return Done::new(Verdict::Silence, None, Some(Reject::Malformed));
        };
        let xid = message.header.xid;
        // Asked again for the words of the credential only.
        let Some(credential) = self.auth.accept_beginning(&message) else {
            return deny(reply, xid, None, AuthStat::RejectedCred);
        };
        let op = large.ops.map(|ops| ops.call);
        let (Some(ops), Some(sink), Some((data, behind))) =
            (large.ops, large.sink.take(), large.split(record))
        else {
            let (status, reject) = (Accepted::SystemErr, Reject::Panicked);
            return accept(reply, xid, op, None, status, reject);
        };
        let mut call = Call::pending(xid, peer, credential, host, None);
        call.outcome.bytes_piped = u32::try_from(large.piped()).unwrap_or(u32::MAX);
        if let Some(pending) = &mut call.pending {
            pending.ops = ops;
        }
        let mut args = Reader::new(behind);
        run_with(&mut call, ops.call, reply, |call, reply| {
            sink.finish(call, data, &mut args, reply)
        })
    }
}
