//! Applies DOS share reservations of other clients to calls of versions 2 and 3, which have no open.
//!
//! Denied calls get NFS3ERR_ACCES: after JUKEBOX clients would wait for as long as the file is open elsewhere. A client's own
//! reservations never deny its calls, because these versions do not say on whose behalf it reads or writes.
//!
//! Invariant: while nobody denies anything, a call pays one relaxed load.

use crate::Nfs;
use crate::file_key::file_key;
use crate::object::Object;
use rpc::Call;
use state::ShareBits;
use std::net::IpAddr;
use vfs::{Component, Create, Name, SetAttr, Status};

/// Whether denials have to be looked at for a call, and if so, for a client at which address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShareDenial(Option<IpAddr>);

impl ShareDenial {
    /// For a call.
    #[inline]
    pub fn of(nfs: &Nfs, call: &Call<'_>) -> Self {
        Self::for_client(nfs, call.peer.addr.ip())
    }

    /// For calls of a client.
    #[inline]
    pub fn for_client(nfs: &Nfs, addr: IpAddr) -> Self {
        Self(nfs.state.has_denials().then_some(addr))
    }

    /// Refuses an access to a file that somebody else denies.
    ///
    /// # Errors
    /// [`Status::Acces`].
    #[inline]
    pub fn check(self, nfs: &Nfs, file: &Object<'_>, access: ShareBits) -> vfs::Result<()> {
        match self.0 {
            None => Ok(()),
            Some(addr) => look(nfs, addr, file, &file.fid, access),
        }
    }

    /// Refuses a change of a file's size.
    ///
    /// # Errors
    /// [`Status::Acces`].
    pub fn check_set(
        self,
        nfs: &Nfs,
        file: &Object<'_>,
        set: &vfs::Result<SetAttr>,
    ) -> vfs::Result<()> {
        match set {
            Ok(SetAttr { size: Some(_), .. }) => self.check(nfs, file, ShareBits::WRITE),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Refuses to cut off a file that is there already.
    ///
    /// # Errors
    /// [`Status::Acces`].
    pub fn check_create(
        self,
        nfs: &Nfs,
        dir: &Object<'_>,
        name: &[u8],
        how: &vfs::Result<Create>,
    ) -> vfs::Result<()> {
        let (Some(addr), Ok(Create::Unchecked(SetAttr { size: Some(_), .. }))) = (self.0, how)
        else {
            return Ok(());
        };
        let Ok(name) = Name::new(name) else { return Ok(()) };
        match dir.backend().lookup(&dir.cx(), &dir.fid, Component::Name(name)) {
            Ok(found) => look(nfs, addr, dir, &found.node.fid, ShareBits::WRITE),
            // there is none; or CREATE itself fails so
            Err(_) => Ok(()),
        }
    }
}

/// Looks into the shares of a file in the export of `object`.
#[cold]
fn look(
    nfs: &Nfs,
    addr: IpAddr,
    object: &Object<'_>,
    fid: &vfs::Fid,
    access: ShareBits,
) -> vfs::Result<()> {
    let key = file_key(object.export_id(), fid);
    let denied = key.is_some_and(|key| nfs.state.share_denies(&key, addr, access));
    if denied { Err(Status::Acces) } else { Ok(()) }
}
