//! SHARE and UNSHARE: DOS share reservations, of versions 3 and 4.

use super::Nlm;
use super::request::{Sender, Wanted, arguments, finish};
use proto::nlm::{ShareAnswer, ShareArgs, Status};
use rpc::{Call, Fault};
use state::{ShareBits, ShareMode, ShareOwner, ShareRequest};
use xdr::{Reader, Writer};

pub(super) fn share<const VERSION: u32>(
    nlm: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let args: ShareArgs<'_> = arguments::<VERSION, _>(args)?;
    let status = nlm.share::<VERSION>(call, &args).unwrap_or_else(|status| status);
    finish::<VERSION>(call, reply, &answer(&args, status), status);
    Ok(())
}

pub(super) fn unshare<const VERSION: u32>(
    nlm: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let args: ShareArgs<'_> = arguments::<VERSION, _>(args)?;
    let status = nlm.unshare::<VERSION>(call, &args).unwrap_or_else(|status| status);
    finish::<VERSION>(call, reply, &answer(&args, status), status);
    Ok(())
}

const fn answer<'a>(args: &ShareArgs<'a>, status: Status) -> ShareAnswer<'a> {
    ShareAnswer { cookie: args.cookie, status, sequence: 0 }
}

fn share_mode(args: &ShareArgs<'_>) -> ShareMode {
    // both numbers were checked when they were decoded
    let bits = |number| ShareBits::from_number(number).unwrap_or(ShareBits::BOTH);
    ShareMode { access: bits(args.access.number()), deny: bits(args.deny.number()) }
}

impl Nlm {
    fn share<const VERSION: u32>(
        &self,
        call: &mut Call<'_>,
        args: &ShareArgs<'_>,
    ) -> Result<Status, Status> {
        // a reservation is not held in the file system: it is no change, also in a read-only export
        let file = self.file(call, args.handle, Wanted::Share)?;
        let sender = Sender { name: args.caller_name, version: VERSION, nsm_state: 0 };
        let host = self.host(call, sender)?;
        let request = ShareRequest {
            owner: ShareOwner { host, oh: args.oh },
            addr: call.peer.addr.ip(),
            mode: share_mode(args),
            reclaim: args.reclaim,
            monitored: true,
            kept: Some(file.for_core()),
        };
        let ask = || self.state().share(self.now(), &file.key, &request);
        Ok(self.decide(call.blocking, ask).status())
    }

    /// Gives a reservation back; answered with GRANTED also where there was none.
    fn unshare<const VERSION: u32>(
        &self,
        call: &Call<'_>,
        args: &ShareArgs<'_>,
    ) -> Result<Status, Status> {
        let key = self.file_key(args.handle)?;
        let sender = Sender { name: args.caller_name, version: VERSION, nsm_state: 0 };
        let owner = ShareOwner { host: self.host(call, sender)?, oh: args.oh };
        let effects = self.state().unshare(self.now(), &key, &owner, share_mode(args));
        self.run(call.blocking, effects);
        Ok(Status::Granted)
    }
}
