//! Who is calling: what an authentication flavour makes of a call's credential.

use proto::rpc::{AuthSysParms, GROUPS_MAX, Groups, flavor};

/// `authsys_parms` (RFC 5531, appendix A) without the stamp, which means nothing to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthSys<'a> {
    /// The client's own name for itself; never trusted.
    pub machinename: &'a [u8],
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    groups: Groups,
}

impl<'a> AuthSys<'a> {
    /// The most groups that the flavour carries (RFC 5531, appendix A).
    pub const GROUPS_MAX: usize = GROUPS_MAX;

    /// A credential; `None` if there are more than sixteen groups.
    pub fn new(machinename: &'a [u8], uid: u32, gid: u32, groups: &[u32]) -> Option<Self> {
        Some(Self { machinename, uid, gid, groups: Groups::new(groups)? })
    }

    /// Supplementary groups.
    pub fn groups(&self) -> &[u32] {
        self.groups.as_slice()
    }

    /// As it goes over the wire.
    pub const fn parms(&self, stamp: u32) -> AuthSysParms<'a> {
        AuthSysParms {
            stamp,
            machine_name: self.machinename,
            uid: self.uid,
            gid: self.gid,
            groups: self.groups,
        }
    }
}

impl<'a> From<AuthSysParms<'a>> for AuthSys<'a> {
    fn from(parms: AuthSysParms<'a>) -> Self {
        Self {
            machinename: parms.machine_name,
            uid: parms.uid,
            gid: parms.gid,
            groups: parms.groups,
        }
    }
}

/// An authenticated caller, as by Kerberos (RFC 2203).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The pseudo-flavour that MNT and SECINFO use for the mechanism and service (RFC 2623 §2.1).
    pub flavor: u32,
    /// The principal name, as the mechanism writes it.
    pub name: Box<[u8]>,
    /// The local user that it is mapped to; `None`: the caller acts as the anonymous user.
    pub user: Option<PrincipalUser>,
}

/// The local user that a principal is mapped to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PrincipalUser {
    /// User id.
    pub uid: u32,
    /// Id of the primary group.
    pub gid: u32,
    /// All groups, as many as the server's user database gives.
    pub groups: Box<[u32]>,
}

/// Who is calling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential<'a> {
    /// AUTH_NONE: an anonymous caller.
    Anonymous,
    /// AUTH_SYS: the client's word for its user and groups.
    Sys(AuthSys<'a>),
    /// An authenticated principal.
    Principal(&'a Principal),
}

impl Credential<'_> {
    /// The flavour or pseudo-flavour of the caller, as in `sec=`, MNT and SECINFO.
    pub const fn flavor(&self) -> u32 {
        match self {
            Self::Anonymous => flavor::AUTH_NONE,
            Self::Sys(_) => flavor::AUTH_SYS,
            Self::Principal(principal) => principal.flavor,
        }
    }
}
