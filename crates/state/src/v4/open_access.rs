//! What a stateid gives the right to: the check that READ and WRITE make (RFC 8881 §8.2).

use super::open_entry::Open;
use super::server::Reading;
use super::stateid::{Stateid, StateidError, check_version};
use super::stateid_access::StateidAccess;
use crate::key::FileKey;
use crate::share::ShareBits;
use crate::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

/// An open that a stateid names, as long as the map is read.
#[derive(Clone, Copy)]
pub struct OpenRef<'r> {
    pub(super) open: &'r Arc<Open>,
}

impl OpenRef<'_> {
    /// What the file is open for.
    pub fn access(&self) -> ShareBits {
        self.open.mode().access
    }

    /// The file.
    pub fn file(&self) -> &FileKey {
        &self.open.file.file
    }

    /// The stateid as it is now.
    pub fn stateid(&self) -> Stateid {
        Stateid { seqid: self.open.seqid.load(Acquire), other: self.open.other }
    }

    /// What others may not open the file for.
    pub fn deny(&self) -> ShareBits {
        self.open.mode().deny
    }
}

/// An open that was found, if it is of this file.
pub(super) fn of_file<'r>(
    found: Result<OpenRef<'r>, StateidError>,
    file: &FileKey,
) -> Result<OpenRef<'r>, StateidError> {
    found.and_then(|open| if open.file() == file { Ok(open) } else { Err(StateidError::Bad) })
}

impl Reading<'_> {
    /// The open of a client's stateid.
    ///
    /// # Errors
    /// [`StateidError::Bad`], [`StateidError::Old`].
    #[inline(always)]
    pub fn find_open(&self, client_id: u64, stateid: Stateid) -> Result<OpenRef<'_>, StateidError> {
        let open =
            self.open(&stateid.other).ok_or_else(|| self.missing(client_id, &stateid.other))?;
        if open.client_id() != client_id || open.is_ended() {
            return Err(StateidError::Bad);
        }
        check_version(stateid.seqid, open.seqid.load(Acquire))?;
        Ok(OpenRef { open })
    }

    /// What a stateid lets a client do with a file: all that the file is open for, if that includes `access`; and for
    /// whom, as any user of the client may send it.
    ///
    /// # Errors
    /// [`StateidError`].
    #[inline(always)]
    pub fn check_access(
        &self,
        client_id: u64,
        stateid: Stateid,
        file: &FileKey,
        access: ShareBits,
    ) -> Result<StateidAccess, StateidError> {
        let open = match self.find_open(client_id, stateid) {
            Ok(open) if open.file() == file => open.open,
            Err(StateidError::Bad) => {
                let lock = self.find_lock(client_id, stateid)?;
                if lock.file() != file {
                    return Err(StateidError::Bad);
                }
                self.open_of_lock(lock)?
            }
            Ok(_) => return Err(StateidError::Bad),
            Err(error) => return Err(error),
        };
        let granted = open.mode().access;
        if granted.number() & access.number() == access.number() {
            Ok(StateidAccess { access: granted, user: open.sole_user() })
        } else {
            Err(StateidError::OpenMode)
        }
    }
}
