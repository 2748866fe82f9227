//! Whom a call acts as, and who checks.
//!
//! A server that may change identities lets the kernel check and own what callers make: the thread
//! takes on the caller's ids, lazily, and keeps them until another identity is needed, over the end
//! of the call. So nothing may be assumed of the identity at the start of a call: whatever the
//! kernel checks comes after one of the `be_` functions. What needs a descriptor only (attributes,
//! reading, syncing) needs none. A server that may not is its own user for everybody.

use std::io;
use sys::identity::{self, Capability, Own};
use vfs::Cred;

/// Who the server can be.
#[derive(Debug)]
pub struct FsIdentity {
    own: Own,
    switches: bool,
}

/// Whether this process can act as its callers: root's user, with the right to override permissions
/// and to become others.
///
/// # Errors
/// What the kernel says.
pub fn acts_as_callers() -> io::Result<bool> {
    FsIdentity::new().map(|identity| identity.can_switch())
}

impl FsIdentity {
    /// Finds out what this process may do.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new() -> io::Result<Self> {
        let own = identity::own()?;
        // only when the file system user leaves 0 does the kernel take the capabilities from the
        // thread; any other user with capabilities would keep them as whomever it acts
        let root = own.uid == 0 && identity::has(Capability::DacOverride);
        let switches = root && identity::can_become_others();
        Ok(Self { own, switches })
    }

    /// Whether calls act as their callers.
    pub const fn can_switch(&self) -> bool {
        self.switches
    }

    /// Whom a caller is taken for.
    pub fn cred<'a>(&'a self, caller: &Cred<'a>) -> Cred<'a> {
        if self.switches {
            *caller
        } else {
            Cred { uid: self.own.uid, gid: self.own.gid, groups: &self.own.groups }
        }
    }

    /// From here on the thread acts as the caller.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn act_as_caller(&self, caller: &Cred<'_>) -> io::Result<()> {
        if self.switches { identity::act_as(caller.uid, caller.gid, caller.groups) } else { Ok(()) }
    }

    /// From here on the thread acts as the caller or as the server, whichever costs nothing: for
    /// what the caller has been found to have the right to.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn act_as_caller_or_server(&self, caller: &Cred<'_>) -> io::Result<()> {
        if self.switches && !identity::acts_as(caller.uid, caller.gid, caller.groups) {
            return identity::act_as_self(&self.own);
        }
        Ok(())
    }

    /// From here on the thread acts as the server.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn act_as_server(&self) -> io::Result<()> {
        if self.switches { identity::act_as_self(&self.own) } else { Ok(()) }
    }
}
