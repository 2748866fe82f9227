//! A lock state, and what is noted when one ends.

use super::client::Client;
use super::minor0::Owner;
use super::stateid::Stateid;
use crate::holder::Who;
use crate::key::{FileKey, HostId};
use crate::sync::{Arc, AtomicUsize};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A lock state.
pub(super) struct LockState {
    pub(super) other: [u8; 12],
    pub(super) seqid: AtomicU32,
    /// The open that it belongs to.
    pub(super) open: [u8; 12],
    pub(super) file: FileKey,
    pub(super) client: Arc<Client>,
    pub(super) host: HostId,
    pub(super) owner: Box<[u8]>,
    /// The owner with the numbers of its requests; of a client of version 4.0 only.
    pub(super) locker: Option<Arc<Owner>>,
    /// Not 0 once it is no more.
    pub(super) ended: AtomicUsize,
}

impl LockState {
    pub(super) fn is_ended(&self) -> bool {
        self.ended.load(Acquire) != 0
    }

    /// The next version of the stateid; never 0.
    pub(super) fn bump(&self) -> Stateid {
        let next = |seqid: u32| Some(seqid.wrapping_add(1).max(1));
        let before = self.seqid.fetch_update(Release, Relaxed, next).unwrap_or_else(|same| same);
        Stateid { seqid: before.wrapping_add(1).max(1), other: self.other }
    }

    pub(super) fn who(&self) -> Who<'_> {
        Who::V4 { host: self.host, client: self.client.id, owner: &self.owner }
    }
}

/// What has ended and may have locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// A client, with all that it holds.
    Client(HostId),
    /// A lock owner's part in a file.
    Owner {
        /// The file.
        file: FileKey,
        /// The client, as a host.
        host: HostId,
        /// Its client id.
        client: u64,
        /// The owner.
        owner: Box<[u8]>,
    },
}
