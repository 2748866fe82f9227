//! What a client may do with an export, and whom its users are mapped to.

use crate::buffers::{BufferSize, BufferSizes};
use vfs::{Cred, Durability, NO_ID};

/// `nobody` and `nogroup` on Linux: whom squashed users act as unless told otherwise.
pub const ANONYMOUS_ID: u32 = 65534;

/// Which users are mapped to the anonymous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Squash {
    /// Nobody (`no_root_squash`).
    None,
    /// Root (`root_squash`, the default).
    Root,
    /// Everybody (`all_squash`).
    All,
}

/// The options of one client rule, with exports(5)'s defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    /// No changes (`ro`, the default).
    pub read_only: bool,
    /// Who is mapped to the anonymous user.
    pub squash: Squash,
    /// The anonymous user.
    pub anonuid: u32,
    /// The anonymous group.
    pub anongid: u32,
    /// Whether changes are on disk before they are answered (`sync`, the default).
    pub durability: Durability,
    /// Whether the client must use a port below 1024 (`secure`, the default of exports(5)).
    pub secure: bool,
    /// Whether the groups of a user are those that this machine knows, not those that the client
    /// sends (`manage-gids`).
    pub manage_gids: bool,
    /// Buffers of the connections that the client uses the export over (`tcp-rcvbuf=`,
    /// `tcp-sndbuf=`).
    pub buffers: BufferSizes,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            read_only: true,
            squash: Squash::Root,
            anonuid: ANONYMOUS_ID,
            anongid: ANONYMOUS_ID,
            durability: Durability::Sync,
            secure: true,
            manage_gids: false,
            buffers: BufferSizes::default(),
        }
    }
}

impl Options {
    /// The identity that a caller acts as. `auth` is what AUTH_SYS said (uid, gid, groups), `None`
    /// for AUTH_NONE. Groups that have to be changed are changed in `room`.
    ///
    /// [`NO_ID`], which means "leave it as it is" to the system calls, is taken for the anonymous id
    /// whatever the export says, as by the kernel's server.
    pub fn squash<'a>(
        &'a self,
        auth: Option<(u32, u32, &'a [u32])>,
        room: &'a mut [u32; 16],
    ) -> Cred<'a> {
        let anonymous = Cred { uid: self.anonuid, gid: self.anongid, groups: &[] };
        let Some((uid, gid, groups)) = auth else { return anonymous };
        if self.squash == Squash::All {
            return anonymous;
        }
        let uid = if self.is_anonymous(uid) { self.anonuid } else { uid };
        let gid = if self.is_anonymous(gid) { self.anongid } else { gid };
        if !groups.iter().any(|group| self.is_anonymous(*group)) {
            return Cred { uid, gid, groups };
        }
        for (own, group) in room.iter_mut().zip(groups) {
            *own = if self.is_anonymous(*group) { self.anongid } else { *group };
        }
        Cred { uid, gid, groups: room.get(..groups.len().min(16)).unwrap_or_default() }
    }

    /// Whether an id that a client sends is not believed.
    const fn is_anonymous(&self, id: u32) -> bool {
        match self.squash {
            Squash::Root => id == 0 || id == NO_ID,
            Squash::None => id == NO_ID,
            Squash::All => true,
        }
    }

    /// Whom root's group is mapped to in a list of groups.
    pub const fn map_group(&self, gid: u32) -> u32 {
        match self.squash {
            Squash::Root if gid == 0 => self.anongid,
            Squash::Root | Squash::None | Squash::All => gid,
        }
    }

    /// The options as exports(5) writes them, those that differ from nothing said included.
    pub fn text(&self) -> String {
        let mut words = vec![if self.read_only { "ro" } else { "rw" }.to_owned()];
        words.push(if self.durability == Durability::Sync { "sync" } else { "async" }.to_owned());
        words.push(if self.secure { "secure" } else { "insecure" }.to_owned());
        words.push(
            match self.squash {
                Squash::None => "no_root_squash",
                Squash::Root => "root_squash",
                Squash::All => "all_squash",
            }
            .to_owned(),
        );
        if self.manage_gids {
            words.push("manage-gids".to_owned());
        }
        if (self.anonuid, self.anongid) != (ANONYMOUS_ID, ANONYMOUS_ID) {
            words.push(format!("anonuid={},anongid={}", self.anonuid, self.anongid));
        }
        let BufferSizes { receive, send } = self.buffers;
        for (name, size) in [("tcp-rcvbuf", receive), ("tcp-sndbuf", send)] {
            if size != BufferSize::Unset {
                words.push(format!("{name}={size}"));
            }
        }
        words.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::{Options, Squash};
    use vfs::Cred;

    #[test]
    fn root_squash_maps_root_and_its_group_everywhere() {
        let options = Options::default();
        let mut room = [0; 16];
        let cred = options.squash(Some((0, 0, &[5, 0, 7])), &mut room);
        assert_eq!(cred, Cred { uid: 65534, gid: 65534, groups: &[5, 65534, 7] });
        let cred = options.squash(Some((7, 8, &[9])), &mut room);
        assert_eq!(cred, Cred { uid: 7, gid: 8, groups: &[9] });
    }

    #[test]
    fn an_id_that_nobody_has_is_nobodys_under_every_squash() {
        for squash in [Squash::None, Squash::Root, Squash::All] {
            let options = Options { squash, ..Options::default() };
            let mut room = [0; 16];
            let cred = options.squash(Some((u32::MAX, u32::MAX, &[u32::MAX, 5])), &mut room);
            assert_eq!((cred.uid, cred.gid), (65534, 65534));
            assert!(!cred.groups.contains(&u32::MAX));
        }
    }

    #[test]
    fn all_squash_and_auth_none_leave_nothing_of_the_caller() {
        let options = Options { squash: Squash::All, anonuid: 3, anongid: 4, ..Options::default() };
        let nobody = Cred { uid: 3, gid: 4, groups: &[] };
        assert_eq!(options.squash(Some((7, 8, &[9])), &mut [0; 16]), nobody);
        let options = Options { squash: Squash::None, anonuid: 3, anongid: 4, ..options };
        assert_eq!(options.squash(None, &mut [0; 16]), nobody);
        assert_eq!(options.squash(Some((0, 0, &[0])), &mut [0; 16]).uid, 0);
    }
}
