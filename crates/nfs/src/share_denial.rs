//! Applies what others deny, by NLM's SHARE or an OPEN of version 4, to calls without an open: those of versions 2 and 3, and
//! those of version 4 with a special stateid.
//!
//! Denied calls of versions 2 and 3 get NFS3ERR_ACCES: after JUKEBOX clients would wait for as long as the file is open
//! elsewhere. What a client has reserved by SHARE never denies its own calls of these versions, because they do not say on whose
//! behalf it reads or writes. Its opens of version 4 do: whoever has one reads and writes by its stateid.
//!
//! Invariant: while nobody denies anything, a call pays one relaxed load.

use crate::Nfs;
use crate::file_key::file_key;
use crate::object::Object;
use crate::v4::Ended;
use rpc::{Blocking, Call, Peer};
use state::v4::OpenError;
use state::{FileKey, HostId, ShareBits};
use std::net::IpAddr;
use vfs::{Component, Create, Name, SetAttr, Status};

/// How often an access is tried that only those deny who have not been heard of for long.
const ATTEMPTS: u32 = 4;

/// Why an access without an open is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessDenied {
    /// Somebody denies it.
    Reserved,
    /// Those who do are not heard of any more, and cannot be ended now: it is to be tried again later.
    Later,
}

impl Nfs {
    /// Refuses an access without an open that others deny: by versions 2 and 3 of a client at this address, if there is one.
    ///
    /// # Errors
    /// [`AccessDenied`].
    #[cold]
    pub(crate) fn check_denied(
        &self,
        blocking: &dyn Blocking,
        (file, access): (&FileKey, ShareBits),
        addr: Option<IpAddr>,
    ) -> Result<(), AccessDenied> {
        for _ in 0..ATTEMPTS {
            match self.v4.state.check_denied(self.clock.now(), file, access, addr) {
                Ok(()) => return Ok(()),
                Err(OpenError::Expired(clients)) => {
                    if self.end_expired(blocking, &clients) == Ended::NotStored {
                        break;
                    }
                }
                Err(OpenError::Silent(host)) => self.release_silent(blocking, host),
                Err(_) => return Err(AccessDenied::Reserved),
            }
        }
        Err(AccessDenied::Later)
    }

    /// Takes everything from an NLM host that has sent no call for so long that others may have it.
    pub(crate) fn release_silent(&self, blocking: &dyn Blocking, host: HostId) {
        if let Some(manager) = self.lock_manager() {
            manager.release_silent(blocking, host);
        }
    }
}

/// Whether denials have to be looked at for a call of version 2 or 3, and if so, for which client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShareDenial<'p>(Option<&'p Peer>);

impl<'p> ShareDenial<'p> {
    /// For a call.
    #[inline]
    pub fn of(nfs: &Nfs, call: &Call<'p>) -> Self {
        Self::for_client(nfs, call.peer)
    }

    /// For calls of a client.
    #[inline]
    pub fn for_client(nfs: &Nfs, peer: &'p Peer) -> Self {
        Self(nfs.state.has_denials().then_some(peer))
    }

    /// Refuses an access to a file that somebody else denies.
    ///
    /// # Errors
    /// [`Status::Acces`]; [`Status::Jukebox`] if those who deny it are about to be ended.
    #[inline]
    pub fn check(self, nfs: &Nfs, file: &Object<'_>, access: ShareBits) -> vfs::Result<()> {
        match self.0 {
            None => Ok(()),
            Some(peer) => look(nfs, peer, file, &file.fid, access),
        }
    }

    /// Refuses a change of a file's size.
    ///
    /// # Errors
    /// As [`ShareDenial::check`].
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
    /// As [`ShareDenial::check`].
    pub fn check_create(
        self,
        nfs: &Nfs,
        dir: &Object<'_>,
        name: &[u8],
        how: &vfs::Result<Create>,
    ) -> vfs::Result<()> {
        let (Some(peer), Ok(Create::Unchecked(SetAttr { size: Some(_), .. }))) = (self.0, how)
        else {
            return Ok(());
        };
        let Ok(name) = Name::new(name) else { return Ok(()) };
        match dir.backend().lookup(&dir.cx(), &dir.fid, Component::Name(name)) {
            Ok(found) => look(nfs, peer, dir, &found.node.fid, ShareBits::WRITE),
            // there is none; or CREATE itself fails so
            Err(_) => Ok(()),
        }
    }
}

/// Looks into the shares of a file in the export of `object`.
#[cold]
fn look(
    nfs: &Nfs,
    peer: &Peer,
    object: &Object<'_>,
    fid: &vfs::Fid,
    access: ShareBits,
) -> vfs::Result<()> {
    let Some(key) = file_key(object.export_id(), fid) else { return Ok(()) };
    let checked = nfs.check_denied(object.blocking(), (&key, access), Some(peer.addr.ip()));
    checked.map_err(|denied| match denied {
        AccessDenied::Reserved => Status::Acces,
        AccessDenied::Later => Status::Jukebox,
    })
}
