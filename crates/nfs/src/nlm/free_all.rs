//! FREE_ALL: a host gives up everything that it holds. It is believed for the caller's own address only.

use super::Nlm;
use super::request::{Sender, arguments};
use proto::nlm::FreeAllArgs;
use rpc::{Call, Fault};
use state::HostRemoval;
use xdr::{Reader, Writer};

pub(super) fn free_all<const VERSION: u32>(
    nlm: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    _: &mut Writer,
) -> Result<(), Fault> {
    let args: FreeAllArgs<'_> = arguments::<VERSION, _>(args)?;
    let sender = Sender { name: args.name, version: VERSION, nsm_state: 0 };
    // it has no result: what cannot be done is not said
    if let Ok(host) = nlm.host(call, sender)
        && let HostRemoval::Gone(_, effects) = nlm.state().free_all(nlm.now(), host)
    {
        nlm.run(call.blocking, effects);
    }
    Ok(())
}
