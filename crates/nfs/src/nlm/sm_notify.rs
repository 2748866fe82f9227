//! SM_NOTIFY, Linux's procedure 16: the status monitor of this machine says that a client has rebooted which it was
//! asked to watch (`nsm=statd`). Whoever else calls it is not believed, and answered in the same way.

use super::Nlm;
use super::request::arguments;
use proto::nlm::SmNotifyArgs;
use rpc::{Call, Fault};
use std::net::IpAddr;
use xdr::{Reader, Writer};

pub(super) fn sm_notify<const VERSION: u32>(
    nlm: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    _: &mut Writer,
) -> Result<(), Fault> {
    let SmNotifyArgs { name, state, private } = arguments::<VERSION, _>(args)?;
    let address = nlm.machine_monitor.rebooted_address(call.peer.addr, name, &private);
    let dropped = address.and_then(|address| {
        // the kernel's locks are released, and a record is stored
        call.blocking.will_block();
        nlm.address_rebooted(address, state)
    });
    nlm.machine_monitor.note_reboot(dropped);
    Ok(())
}

impl Nlm {
    /// The machine at this address has rebooted. How many locks its host held; `None` if that is known, or if several
    /// hosts at the address hold something, of which nobody can say which one it was: those keep it, because to take
    /// the locks of a host that lives would corrupt its data.
    fn address_rebooted(&self, address: IpAddr, nsm_state: i32) -> Option<usize> {
        let holders = self.state().holders_at(address);
        let [host] = holders.as_slice() else { return None };
        self.client_rebooted(host.addr, &host.name, nsm_state)
    }
}
