//! What the records say of a client of version 4: who it is, so that it is known again after a restart.

use crate::principal::Principal;
use std::net::IpAddr;

/// A client of version 4 as it is known across restarts. Another user who calls himself the same is another client.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientName {
    /// 0 for version 4.0, 1 for all versions with sessions.
    pub minor: u8,
    /// Who makes the client known.
    pub principal: Principal,
    /// What the client calls itself: `co_ownerid`, in version 4.0 the `id` of `nfs_client_id4`.
    pub owner: Box<[u8]>,
}

/// A client that may reclaim after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordedClient {
    /// Who it is.
    pub name: ClientName,
    /// The number of this life of the client: rises with each life, over all instances of the server.
    pub life: u64,
    /// The address that it made itself known from, for the operator.
    pub address: IpAddr,
}
