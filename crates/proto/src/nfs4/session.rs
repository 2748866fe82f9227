//! Arguments of the operations on client ids and sessions (RFC 8881 §18.33 to §18.51).

use super::{Bitmap4, Nfstime4, OPAQUE_LIMIT, SESSIONID_SIZE, Verifier4};
use crate::layout::Bytes;
use xdr::{Decode, Encode, Error, Reader, Writer};

/// `sessionid4`.
pub type SessionId = [u8; SESSIONID_SIZE];

/// The longest body of a credential in callback parameters.
const CREDENTIAL_MAX: usize = 400;
/// The most callback credentials of one call.
const SEC_PARMS_MAX: usize = 16;
/// The most groups of a callback credential besides the first.
const CALLBACK_GROUPS_MAX: usize = 16;
/// The most algorithms of state protection.
const ALGORITHMS_MAX: usize = 64;

crate::layout::fields! {
    /// `SEQUENCE4args`.
    SequenceArgs {
        /// The session.
        sessionid: SessionId,
        /// The number of this request on its slot.
        sequenceid: u32,
        /// The slot.
        slotid: u32,
        /// The highest slot that the client uses.
        highest_slotid: u32,
        /// Whether the reply must be kept.
        cachethis: bool,
    }
}

crate::layout::fields! {
    /// `BIND_CONN_TO_SESSION4args`.
    BindConnArgs {
        /// The session.
        sessionid: SessionId,
        /// `channel_dir_from_client4`: 1 fore, 2 back, 3 fore or both, 7 back or both.
        dir: u32,
        /// Whether the connection is to change to RDMA.
        use_rdma: bool,
    }
}

crate::layout::fields! {
    /// `RECLAIM_COMPLETE4args`.
    ReclaimCompleteArgs {
        /// Whether it is about the current file system only.
        one_fs: bool,
    }
}

/// `channel_attrs4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelAttrs {
    /// Bytes of padding before data; only for RDMA.
    pub headerpadsize: u32,
    /// The longest request, with its RPC header.
    pub maxrequestsize: u32,
    /// The longest reply.
    pub maxresponsesize: u32,
    /// The longest reply that is kept.
    pub maxresponsesize_cached: u32,
    /// The most operations of a COMPOUND.
    pub maxoperations: u32,
    /// The number of slots.
    pub maxrequests: u32,
}

impl<'a> Decode<'a> for ChannelAttrs {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let [pad, request, response, cached, operations, requests, rdma] = r.words()?;
        match rdma {
            0 => {}
            1 => drop(r.u32()?),
            len => return Err(Error::TooLong { len: len as usize, limit: 1 }),
        }
        Ok(Self {
            headerpadsize: pad,
            maxrequestsize: request,
            maxresponsesize: response,
            maxresponsesize_cached: cached,
            maxoperations: operations,
            maxrequests: requests,
        })
    }
}

impl Encode for ChannelAttrs {
    fn encode(&self, w: &mut Writer) {
        w.words([
            self.headerpadsize,
            self.maxrequestsize,
            self.maxresponsesize,
            self.maxresponsesize_cached,
            self.maxoperations,
            self.maxrequests,
            0,
        ]);
    }
}

/// The user of AUTH_SYS that callbacks carry (`cbsp_sys_cred`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallbackUser<'a> {
    /// The name of the machine.
    pub machine: &'a [u8],
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    groups: [u32; CALLBACK_GROUPS_MAX],
    group_count: usize,
}

impl CallbackUser<'_> {
    /// The other groups.
    pub fn groups(&self) -> &[u32] {
        self.groups.get(..self.group_count).unwrap_or_default()
    }
}

impl<'a> Decode<'a> for CallbackUser<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let _stamp = r.u32()?;
        let machine = r.opaque(255)?;
        let [uid, gid] = r.words()?;
        let (mut groups, group_count) = ([0; CALLBACK_GROUPS_MAX], r.count(CALLBACK_GROUPS_MAX)?);
        for group in groups.iter_mut().take(group_count) {
            *group = r.u32()?;
        }
        Ok(Self { machine, uid, gid, groups, group_count })
    }
}

/// `callback_sec_parms4<>`: what callbacks may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallbackSecParms<'a> {
    /// How many there are.
    pub count: usize,
    /// Whether AUTH_NONE is one of them.
    pub none: bool,
    /// The first user of AUTH_SYS.
    pub sys: Option<CallbackUser<'a>>,
}

impl<'a> Decode<'a> for CallbackSecParms<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let (mut none, mut sys) = (false, None);
        let count = r.count(SEC_PARMS_MAX)?;
        for _ in 0..count {
            match r.u32()? {
                0 => none = true,
                1 => {
                    let user = r.get()?;
                    sys = sys.or(Some(user));
                }
                6 => {
                    let _service = r.u32()?;
                    let _from_server = r.opaque(CREDENTIAL_MAX)?;
                    let _from_client = r.opaque(CREDENTIAL_MAX)?;
                }
                value => return Err(Error::NotMember { what: "callback_sec_parms4", value }),
            }
        }
        Ok(Self { count, none, sys })
    }
}

/// Flags of CREATE_SESSION.
pub mod create_session {
    /// The reply cache of the session is to be persistent.
    pub const PERSIST: u32 = 1;
    /// The connection is to be used for callbacks as well.
    pub const CONN_BACK_CHAN: u32 = 2;
    /// The connection is to change to RDMA.
    pub const CONN_RDMA: u32 = 4;
}

/// `CREATE_SESSION4args`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateSessionArgs<'a> {
    /// The client.
    pub clientid: u64,
    /// The number of this request of the client.
    pub sequence: u32,
    /// [`create_session`].
    pub flags: u32,
    /// What the client wants of requests.
    pub fore: ChannelAttrs,
    /// What the client offers to callbacks.
    pub back: ChannelAttrs,
    /// The program number of callbacks.
    pub cb_program: u32,
    /// What callbacks carry.
    pub sec_parms: CallbackSecParms<'a>,
}

impl<'a> Decode<'a> for CreateSessionArgs<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            clientid: r.get()?,
            sequence: r.get()?,
            flags: r.get()?,
            fore: r.get()?,
            back: r.get()?,
            cb_program: r.get()?,
            sec_parms: r.get()?,
        })
    }
}

/// `BACKCHANNEL_CTL4args`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackchannelCtlArgs<'a> {
    /// The program number of callbacks.
    pub cb_program: u32,
    /// What callbacks carry.
    pub sec_parms: CallbackSecParms<'a>,
}

impl<'a> Decode<'a> for BackchannelCtlArgs<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { cb_program: r.get()?, sec_parms: r.get()? })
    }
}

/// Flags of EXCHANGE_ID.
pub mod exchange_id {
    /// The server may refer the client elsewhere.
    pub const SUPP_MOVED_REFER: u32 = 1;
    /// The client copes with migration.
    pub const SUPP_MOVED_MIGR: u32 = 2;
    /// Stateids are bound to principals.
    pub const BIND_PRINC_STATEID: u32 = 0x100;
    /// Not a server of pNFS.
    pub const USE_NON_PNFS: u32 = 0x1_0000;
    /// A metadata server of pNFS.
    pub const USE_PNFS_MDS: u32 = 0x2_0000;
    /// A data server of pNFS.
    pub const USE_PNFS_DS: u32 = 0x4_0000;
    /// The bits that say which role of pNFS.
    pub const MASK_PNFS: u32 = 0x7_0000;
    /// The properties of a confirmed client are to be updated.
    pub const UPD_CONFIRMED_REC_A: u32 = 0x4000_0000;
    /// The client is confirmed already; only from server to client.
    pub const CONFIRMED_R: u32 = 0x8000_0000;
    /// The bits that a client may send.
    pub const MASK_A: u32 = 0x4007_0103;
}

/// How a client's state is to be protected (`state_protect_how4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateProtectHow {
    /// Not at all.
    None,
    /// By the machine's credential: operations that are to need it, and those that it may be used for.
    MachCred {
        /// `spo_must_enforce`.
        enforce: Bitmap4,
        /// `spo_must_allow`.
        allow: Bitmap4,
    },
    /// By a shared secret.
    Ssv,
}

crate::layout::fields! {
    /// `nfs_impl_id4`: who made the implementation.
    ImplId<'a> {
        /// A domain name.
        domain: Bytes<'a, OPAQUE_LIMIT>,
        /// The product.
        name: Bytes<'a, OPAQUE_LIMIT>,
        /// When it was made.
        date: Nfstime4,
    }
}

/// `EXCHANGE_ID4args`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeIdArgs<'a> {
    /// Changes when the client restarts.
    pub verifier: Verifier4,
    /// The client's name for itself.
    pub ownerid: &'a [u8],
    /// [`exchange_id`].
    pub flags: u32,
    /// How its state is to be protected.
    pub state_protect: StateProtectHow,
    /// Who made the client.
    pub impl_id: Option<ImplId<'a>>,
}

/// `opaque<>` elements in a list, looked through.
fn skip_opaques(r: &mut Reader<'_>) -> Result<(), Error> {
    for _ in 0..r.count(ALGORITHMS_MAX)? {
        r.opaque(OPAQUE_LIMIT)?;
    }
    Ok(())
}

impl<'a> Decode<'a> for ExchangeIdArgs<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let verifier = r.get()?;
        let ownerid = r.opaque(OPAQUE_LIMIT)?;
        let flags = r.u32()?;
        let state_protect = match r.u32()? {
            0 => StateProtectHow::None,
            how @ 1..=2 => {
                // operations that must and may use the protection
                let (enforce, allow): (Bitmap4, Bitmap4) = (r.get()?, r.get()?);
                if how == 2 {
                    skip_opaques(r)?;
                    skip_opaques(r)?;
                    let [_window, _handles] = r.words()?;
                    StateProtectHow::Ssv
                } else {
                    StateProtectHow::MachCred { enforce, allow }
                }
            }
            value => return Err(Error::NotMember { what: "state_protect_how4", value }),
        };
        let impl_id = match r.count(1)? {
            0 => None,
            _ => Some(r.get()?),
        };
        Ok(Self { verifier, ownerid, flags, state_protect, impl_id })
    }
}

impl Encode for ExchangeIdArgs<'_> {
    /// Without state protection, which only a server reads.
    fn encode(&self, w: &mut Writer) {
        w.put(&self.verifier);
        w.opaque(self.ownerid);
        w.words([self.flags, 0]);
        w.option(self.impl_id.as_ref());
    }
}
