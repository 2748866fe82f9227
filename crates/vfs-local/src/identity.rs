//! The identity of a call, and where permissions are checked.
//!
//! A server that may change identities lets the kernel check permissions and set owners: the thread
//! takes on the caller's ids, lazily, and keeps them until another identity is needed, beyond the
//! end of the call. So nothing may be assumed of the identity at the start of a call: every check
//! by the kernel comes after one of the `be_` functions. Operations on a descriptor (attributes,
//! reading, syncing) need none. A server that may not is its own user for every caller.

use std::io;
use sys::identity::{self, Capability, Own};
use vfs::Cred;

/// Who the server can be.
#[derive(Debug)]
pub struct FsIdentity {
    own: Own,
    switches: bool,
}

/// Whether this process can act as its callers: uid 0, with the capabilities to override
/// permissions and to change ids.
///
/// # Errors
/// The kernel's error.
pub fn acts_as_callers() -> io::Result<bool> {
    FsIdentity::new().map(|identity| identity.can_switch())
}

impl FsIdentity {
    /// Determines the capabilities of this process.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new() -> io::Result<Self> {
        let own = identity::own()?;
        // only when the file system uid leaves 0 does the kernel drop the capabilities of the
        // thread; any other user with capabilities would keep them under every identity
        let root = own.uid == 0 && identity::has(Capability::DacOverride);
        let switches = root && identity::can_become_others();
        Ok(Self { own, switches })
    }

    /// Whether calls act as their callers.
    pub const fn can_switch(&self) -> bool {
        self.switches
    }

    /// The server's own user.
    pub const fn own_uid(&self) -> u32 {
        self.own.uid
    }

    /// The user that a caller acts as.
    pub fn cred<'a>(&'a self, caller: &Cred<'a>) -> Cred<'a> {
        if self.switches {
            *caller
        } else {
            Cred { uid: self.own.uid, gid: self.own.gid, groups: &self.own.groups }
        }
    }

    /// Makes the thread act as the caller.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn act_as_caller(&self, caller: &Cred<'_>) -> io::Result<()> {
        if self.switches { identity::act_as(caller.uid, caller.gid, caller.groups) } else { Ok(()) }
    }

    /// Makes the thread act as the caller or as the server, whichever needs no system call: for
    /// operations for which the caller's permission was checked.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn act_as_caller_or_server(&self, caller: &Cred<'_>) -> io::Result<()> {
        if self.switches && !identity::acts_as(caller.uid, caller.gid, caller.groups) {
            return identity::act_as_self(&self.own);
        }
        Ok(())
    }

    /// Makes the thread act as the server.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn act_as_server(&self) -> io::Result<()> {
        if self.switches { identity::act_as_self(&self.own) } else { Ok(()) }
    }
}
