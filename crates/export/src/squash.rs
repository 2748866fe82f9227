//! Squashing: derives the user and groups of a call from its credential.
//!
//! The only place where a credential becomes user and group ids. A principal acts as the user of this machine that it is
//! mapped to; a caller without a user (AUTH_NONE, a principal without a mapping) acts as the anonymous user.

use crate::groups::GroupList;
use crate::options::{Options, Squash};
use rpc::{Credential, Principal};
use vfs::{Cred, NO_ID};

/// The effective user and groups of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SquashedCred<'c> {
    uid: u32,
    gid: u32,
    groups: Groups<'c>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Groups<'c> {
    /// Those of the credential: unchanged.
    Sent(&'c [u32]),
    /// From the server's own list, or changed.
    Listed(GroupList),
}

impl SquashedCred<'_> {
    /// The server's own identity.
    pub const ROOT: Self = Self::without_groups(0, 0);

    const fn without_groups(uid: u32, gid: u32) -> Self {
        Self { uid, gid, groups: Groups::Sent(&[]) }
    }

    /// For a backend.
    pub fn cred(&self) -> Cred<'_> {
        let groups = match &self.groups {
            Groups::Sent(groups) => groups,
            Groups::Listed(list) => list.as_slice(),
        };
        Cred { uid: self.uid, gid: self.gid, groups }
    }

    /// The same, without a copy of the groups.
    pub fn borrow(&self) -> SquashedCred<'_> {
        let Cred { uid, gid, groups } = self.cred();
        SquashedCred { uid, gid, groups: Groups::Sent(groups) }
    }

    /// The same with a copy of the groups.
    pub fn into_owned(self) -> SquashedCred<'static> {
        let list = match self.groups {
            Groups::Sent(groups) => GroupList::mapped(groups, |gid| gid),
            Groups::Listed(list) => list,
        };
        SquashedCred { uid: self.uid, gid: self.gid, groups: Groups::Listed(list) }
    }
}

impl Options {
    /// The effective user and groups of a caller. `listed` are the groups that replace those in the
    /// credential (`manage-gids`), squashed already ([`Options::squash_group`]).
    ///
    /// [`NO_ID`], which system calls interpret as "leave unchanged", is mapped to the anonymous id
    /// whatever the export's options are, as in the kernel's server.
    pub fn squash<'c>(
        &self,
        credential: &'c Credential<'c>,
        listed: Option<GroupList>,
    ) -> SquashedCred<'c> {
        let anonymous = SquashedCred::without_groups(self.anonuid, self.anongid);
        if self.squash == Squash::All {
            return anonymous;
        }
        let (uid, gid, sent) = match credential {
            Credential::Sys(sys) => (sys.uid, sys.gid, sys.groups()),
            Credential::Principal(Principal { user: Some(user), .. }) => {
                (user.uid, user.gid, &*user.groups)
            }
            Credential::Anonymous | Credential::Principal(_) => return anonymous,
        };
        let uid = if self.is_squashed(uid) { self.anonuid } else { uid };
        let gid = self.squash_group(gid);
        // constructed in each arm: most calls need no list, and do not copy the space for one
        match listed {
            Some(list) => SquashedCred { uid, gid, groups: Groups::Listed(list) },
            None if sent.iter().any(|gid| self.is_squashed(*gid)) => {
                let list = GroupList::mapped(sent, |gid| self.squash_group(gid));
                SquashedCred { uid, gid, groups: Groups::Listed(list) }
            }
            None => SquashedCred { uid, gid, groups: Groups::Sent(sent) },
        }
    }

    /// The group that a group of a caller is mapped to.
    pub const fn squash_group(&self, gid: u32) -> u32 {
        if self.is_squashed(gid) { self.anongid } else { gid }
    }

    /// Whether an id sent by a client is mapped to the anonymous one.
    const fn is_squashed(&self, id: u32) -> bool {
        match self.squash {
            Squash::Root => id == 0 || id == NO_ID,
            Squash::None => id == NO_ID,
            Squash::All => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GroupList, Options, Squash};
    use rpc::{AuthSys, Credential, Principal, PrincipalUser};
    use vfs::Cred;

    fn sys(uid: u32, gid: u32, groups: &[u32]) -> Credential<'static> {
        Credential::Sys(AuthSys::new(b"", uid, gid, groups).unwrap())
    }

    #[test]
    fn root_squash_maps_root_and_its_group_everywhere() {
        let options = Options::default();
        let credential = sys(0, 0, &[5, 0, 7]);
        let squashed = options.squash(&credential, None);
        assert_eq!(squashed.cred(), Cred { uid: 65534, gid: 65534, groups: &[5, 65534, 7] });
        let credential = sys(7, 8, &[9]);
        let squashed = options.squash(&credential, None);
        assert_eq!(squashed.cred(), Cred { uid: 7, gid: 8, groups: &[9] });
    }

    #[test]
    fn no_id_is_mapped_to_anonymous_under_every_squash() {
        for squash in [Squash::None, Squash::Root, Squash::All] {
            let options = Options { squash, ..Options::default() };
            let credential = sys(u32::MAX, u32::MAX, &[u32::MAX, 5]);
            let squashed = options.squash(&credential, None);
            assert_eq!((squashed.cred().uid, squashed.cred().gid), (65534, 65534));
            assert!(!squashed.cred().groups.contains(&u32::MAX));
        }
    }

    #[test]
    fn all_squash_and_auth_none_act_as_anonymous_without_groups() {
        let options = Options { squash: Squash::All, anonuid: 3, anongid: 4, ..Options::default() };
        let nobody = Cred { uid: 3, gid: 4, groups: &[] };
        assert_eq!(options.squash(&sys(7, 8, &[9]), None).cred(), nobody);
        let options = Options { squash: Squash::None, anonuid: 3, anongid: 4, ..options };
        assert_eq!(options.squash(&Credential::Anonymous, None).cred(), nobody);
        assert_eq!(options.squash(&sys(0, 0, &[0]), None).cred().uid, 0);
    }

    #[test]
    fn a_principal_acts_as_its_user_and_without_one_as_anonymous() {
        let user = |uid| PrincipalUser { uid, gid: 8, groups: (0..40).collect() };
        let principal =
            |user| Principal { flavor: 390_003, name: (*b"alice@LAB.TEST").into(), user };
        let options = Options::default();
        let alice = principal(Some(user(7)));
        let credential = Credential::Principal(&alice);
        let squashed = options.squash(&credential, None);
        assert_eq!((squashed.cred().uid, squashed.cred().gid), (7, 8));
        assert_eq!((squashed.cred().groups.len(), squashed.cred().groups[0]), (40, 65534));
        for (who, squash) in [
            (principal(None), Squash::None),
            (principal(Some(user(0))), Squash::Root),
            (principal(Some(user(7))), Squash::All),
        ] {
            let options = Options { squash, ..Options::default() };
            let credential = Credential::Principal(&who);
            assert_eq!(options.squash(&credential, None).cred().uid, 65534);
        }
    }

    #[test]
    fn all_listed_groups_are_kept_under_root_squash() {
        let all: Vec<u32> = (0..40).collect();
        for anongid in [0, 777] {
            let options = Options { anongid, ..Options::default() };
            let list = GroupList::mapped(&all, |gid| options.squash_group(gid));
            let credential = sys(1000, 1000, &[]);
            let squashed = options.squash(&credential, Some(list));
            assert_eq!(squashed.cred().groups.len(), 40);
            assert_eq!(squashed.cred().groups[0], anongid);
        }
    }

    #[test]
    fn owned_and_borrowed_credentials_are_equal() {
        let options = Options::default();
        let credential = sys(7, 0, &[5, 0, 9]);
        let squashed = options.squash(&credential, None);
        assert_eq!(squashed.borrow().cred(), squashed.cred());
        let owned = squashed.clone().into_owned();
        assert_eq!(owned.cred(), squashed.cred());
    }
}
