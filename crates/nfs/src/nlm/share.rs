//! SHARE and UNSHARE: DOS share reservations, of versions 3 and 4. They exclude each other and opens of NFS version 4, whose
//! delegations are recalled where these would allow a client what SHARE denies, or deny what it wants.

use super::Nlm;
use super::request::{Sender, Wanted, arguments, finish};
use super::status;
use crate::v4::Ended;
use proto::nlm::{ShareAnswer, ShareArgs, Status};
use rpc::{Blocking, Call, Fault};
use state::v4::OpenError;
use state::{Conflict, Effects, FileKey, Plan, ShareBits, ShareMode, ShareOwner, ShareRequest};
use xdr::{Reader, Writer};

/// How often a reservation is tried that only opens of clients are in the way of whose lease is over.
const ATTEMPTS: u32 = 4;

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
        let mode = share_mode(args);
        let file = self.file(call, args.handle, Wanted::Share(mode))?;
        let sender = Sender { name: args.caller_name, version: VERSION, nsm_state: 0 };
        let host = self.host(call, sender)?;
        let request = ShareRequest {
            owner: ShareOwner { host, oh: args.oh },
            addr: call.peer.addr.ip(),
            mode,
            reclaim: args.reclaim,
            monitored: true,
            kept: Some(file.for_core()),
        };
        Ok(self.reserve(call.blocking, &file.key, &request))
    }

    /// Reserves, after opens of clients whose lease is over are gone.
    fn reserve(
        &self,
        blocking: &dyn Blocking,
        file: &FileKey,
        request: &ShareRequest<'_>,
    ) -> Status {
        for _ in 0..ATTEMPTS {
            let mut refused = None;
            let answer = self.decide(blocking, || {
                let asked = self.nfs.v4.state.share(self.now(), file, request);
                asked.unwrap_or_else(|why| {
                    refused = Some(why);
                    (Plan::Denied(Conflict::Open), Effects::default())
                })
            });
            match refused {
                None => return answer.status(),
                Some(OpenError::Expired(clients)) => {
                    if self.nfs.end_expired(blocking, &clients) == Ended::NotStored {
                        break;
                    }
                }
                Some(_) => return Status::Denied,
            }
        }
        status::LATER
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
