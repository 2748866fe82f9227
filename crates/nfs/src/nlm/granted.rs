//! GRANTED: to a client whose request waited; and from a server that takes us for a client, which we never are.

use super::Nlm;
use super::request::{arguments, finish};
use proto::nlm::{Answer, Status, TestArgs};
use rpc::{Call, Fault};
use state::Granted;
use xdr::{Reader, Writer};

/// GRANTED from elsewhere: nothing here waits for a lock.
pub(super) fn granted<const VERSION: u32>(
    _: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let args: TestArgs<'_> = arguments::<VERSION, _>(args)?;
    let status = Status::Denied;
    finish::<VERSION>(call, reply, &Answer { cookie: args.cookie, status }, status);
    Ok(())
}

impl Nlm {
    /// Tells a client that its request was granted.
    pub(super) fn tell(&self, _granted: &Granted) {}
}
