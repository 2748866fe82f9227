//! The recorded identity of a version 4 client, by which it is recognised after a restart.

use crate::principal::Principal;
use std::net::IpAddr;

/// A client of version 4 across restarts. The same name with another principal is another client.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientName {
    /// 0 for version 4.0, 1 for all versions with sessions.
    pub minor: u8,
    /// The principal of the client's EXCHANGE_ID or SETCLIENTID.
    pub principal: Principal,
    /// The client's own identifier: `co_ownerid`, in version 4.0 the `id` of `nfs_client_id4`.
    pub owner: Box<[u8]>,
}

/// A client that may reclaim after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordedClient {
    /// Who it is.
    pub name: ClientName,
    /// The number of this incarnation of the client: rises over all instances of the server.
    pub life: u64,
    /// The address of its EXCHANGE_ID or SETCLIENTID, for the operator.
    pub address: IpAddr,
}
