//! The groups of a user according to this machine's name services: for `manage-gids`, because
//! AUTH_SYS has at most sixteen groups.
//!
//! A call finds the list in a cache that is read without a lock. If it is missing or has expired,
//! the call queries the services itself after `will_block`; [`ASKING_MAX`] calls may do so at a
//! time, others get NFS3ERR_JUKEBOX. A user that the services do not know keeps the groups that the
//! client sent, as with the kernel's server. While the services do not answer, their last answer is
//! used for an hour ([`crate::answer_cache`]).

use crate::answer_cache::AnswerCache;
use crate::ask_limit::AskLimit;
use std::fmt;
use std::io;
use std::time::Instant;

/// The most users in the cache.
const USERS_MAX: usize = 4096;
/// The most groups of one user; Linux allows 65,536.
pub const GROUPS_MAX: usize = 1024;
/// The most calls that may wait for the name services at a time, so that other threads are left.
const ASKING_MAX: usize = 8;
/// Groups that a list stores inline, without an allocation.
const IN_PLACE_MAX: usize = 32;

/// A source of the groups of users.
pub trait GroupService: Send + Sync {
    /// The groups of a user, its primary one included; `None` if there is no such user.
    ///
    /// # Errors
    /// No answer.
    fn groups_of(&self, uid: u32) -> io::Result<Option<Vec<u32>>>;
}

/// The services of this machine, as `nsswitch.conf` orders them.
struct SystemGroupService;

impl GroupService for SystemGroupService {
    fn groups_of(&self, uid: u32) -> io::Result<Option<Vec<u32>>> {
        sys::name_service::groups_of(uid, GROUPS_MAX)
    }
}

/// The groups of one call: up to 32 inline, more in an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupList {
    in_place: [u32; IN_PLACE_MAX],
    /// All of them, if they are more; else empty, without an allocation.
    allocated: Vec<u32>,
    len: usize,
}

impl GroupList {
    /// These groups, each as `map` says.
    pub fn mapped(groups: &[u32], map: impl Fn(u32) -> u32) -> Self {
        let mut list =
            Self { in_place: [0; IN_PLACE_MAX], allocated: Vec::new(), len: groups.len() };
        if groups.len() > IN_PLACE_MAX {
            list.allocated = groups.iter().map(|gid| map(*gid)).collect();
        }
        for (place, gid) in list.in_place.iter_mut().zip(groups) {
            *place = map(*gid);
        }
        list
    }

    /// The groups.
    pub fn as_slice(&self) -> &[u32] {
        self.in_place.get(..self.len).unwrap_or(&self.allocated)
    }
}

/// The result of a look-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserLookup {
    /// The user's groups.
    Known(GroupList),
    /// The user is unknown to the services: the groups that the client sends apply.
    NoSuchUser,
    /// The services must be queried.
    Ask,
}

/// The cache.
pub struct UserGroups {
    service: Box<dyn GroupService>,
    known: AnswerCache<u32, Box<[u32]>>,
    /// Calls that wait for the services.
    asking: AskLimit,
}

impl Default for UserGroups {
    fn default() -> Self {
        Self::new(Box::new(SystemGroupService))
    }
}

impl UserGroups {
    /// With these services.
    pub fn new(service: Box<dyn GroupService>) -> Self {
        Self { service, known: AnswerCache::new(USERS_MAX), asking: AskLimit::new(ASKING_MAX) }
    }

    /// A user's groups, each mapped by `map`; does not block.
    pub fn find(&self, uid: u32, now: Instant, map: impl Fn(u32) -> u32) -> UserLookup {
        self.known.with(&uid, |known| match known {
            Some(known) if now < known.until => match &known.value {
                Some(groups) => UserLookup::Known(GroupList::mapped(groups, map)),
                None => UserLookup::NoSuchUser,
            },
            Some(_) | None => UserLookup::Ask,
        })
    }

    /// Queries the services and caches the answer; false if too many calls are querying. Blocks.
    pub fn ask(&self, uid: u32) -> bool {
        let Some(guard) = self.asking.enter() else { return false };
        let answer = self.service.groups_of(uid);
        drop(guard);
        let bounded = |mut groups: Vec<u32>| {
            groups.truncate(GROUPS_MAX);
            groups.into_boxed_slice()
        };
        self.known.store(uid, answer.map(|groups| groups.map(bounded)), Instant::now());
        true
    }
}

impl fmt::Debug for UserGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserGroups").field("users", &self.known.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{ASKING_MAX, GroupService, USERS_MAX, UserGroups, UserLookup};
    use crate::answer_cache::TTL;
    use std::io;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};
    use std::time::{Duration, Instant};

    /// User n is in groups 1 to n; user 0 is unknown.
    #[derive(Default)]
    struct GroupsUpToUid {
        asked: Arc<AtomicUsize>,
        silent: Arc<AtomicBool>,
    }

    impl GroupService for GroupsUpToUid {
        fn groups_of(&self, uid: u32) -> io::Result<Option<Vec<u32>>> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            if self.silent.load(Ordering::SeqCst) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Ok((uid > 0).then(|| (1..=uid).collect()))
        }
    }

    fn found(users: &UserGroups, uid: u32, now: Instant) -> UserLookup {
        users.find(uid, now, |gid| if gid == 1 { 99 } else { gid })
    }

    #[test]
    fn group_lists_of_any_length_are_fetched_once_and_mapped() {
        let service = GroupsUpToUid::default();
        let asked = service.asked.clone();
        let users = UserGroups::new(Box::new(service));
        let now = Instant::now();
        for uid in [2, 16, 17, 32, 33, 900] {
            assert_eq!(found(&users, uid, now), UserLookup::Ask);
            assert!(users.ask(uid));
            for _ in 0..3 {
                let UserLookup::Known(groups) = found(&users, uid, now) else { panic!("{uid}") };
                assert_eq!(groups.as_slice().len(), uid as usize);
                assert_eq!(groups.as_slice()[..2], [99, 2]);
            }
        }
        assert_eq!(asked.load(Ordering::SeqCst), 6);
        assert!(users.ask(0));
        assert_eq!(found(&users, 0, now), UserLookup::NoSuchUser);
        assert_eq!(found(&users, 2, now + TTL + Duration::from_secs(1)), UserLookup::Ask);
    }

    #[test]
    fn the_last_answer_is_used_while_name_services_fail() {
        let service = GroupsUpToUid::default();
        let silent = service.silent.clone();
        let users = UserGroups::new(Box::new(service));
        assert!(users.ask(3));
        silent.store(true, Ordering::SeqCst);
        assert!(users.ask(3) && users.ask(4));
        let UserLookup::Known(groups) = found(&users, 3, Instant::now()) else { panic!("user 3") };
        assert_eq!(groups.as_slice(), [99, 2, 3]);
        assert_eq!(found(&users, 4, Instant::now()), UserLookup::NoSuchUser);
    }

    #[test]
    fn the_number_of_users_is_bounded() {
        let users = UserGroups::new(Box::new(GroupsUpToUid::default()));
        for uid in 0..USERS_MAX as u32 + 100 {
            users.known.store(uid, Ok(Some([uid].into())), Instant::now());
        }
        assert!(users.known.len() <= USERS_MAX);
    }

    /// Answers once the maximum number of callers query.
    struct BlockedService(Arc<Barrier>, Arc<AtomicUsize>);

    impl GroupService for BlockedService {
        fn groups_of(&self, _: u32) -> io::Result<Option<Vec<u32>>> {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.wait();
            Ok(None)
        }
    }

    #[test]
    fn the_number_of_calls_that_wait_is_bounded() {
        let (all, inside) = (Arc::new(Barrier::new(ASKING_MAX + 1)), Arc::new(AtomicUsize::new(0)));
        let users = UserGroups::new(Box::new(BlockedService(all.clone(), inside.clone())));
        std::thread::scope(|scope| {
            for uid in 0..ASKING_MAX as u32 {
                let users = &users;
                scope.spawn(move || assert!(users.ask(uid)));
            }
            while inside.load(Ordering::SeqCst) < ASKING_MAX {
                std::thread::yield_now();
            }
            assert!(!users.ask(100), "one too many");
            all.wait();
        });
        assert_eq!(users.asking.asking(), 0);
    }
}
