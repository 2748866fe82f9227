//! Which groups a user is in, as this machine's name services say: for `manage-gids`, because
//! AUTH_SYS carries no more than sixteen.
//!
//! A call finds the list in a cache that is read without a lock. What is not there, or is old, is
//! asked for by the call itself after it has let others go on; a bounded number of calls may ask at
//! a time, others are told to try again. A user that the services do not know keeps the groups that
//! the client sent, as with the kernel's server. While the services do not answer, what they said
//! last counts for an hour.

use papaya::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Users that are remembered.
const USERS_MAX: usize = 4096;
/// Groups that one user may be in; Linux takes 65,536, nobody has a thousand.
pub const GROUPS_MAX: usize = 1024;
/// Calls that may wait for the name services at a time: the other threads serve.
const ASKING_MAX: usize = 8;
/// How long an answer counts.
const TTL: Duration = Duration::from_secs(300);
/// The same of an answer that there is no such user, and of none at all.
const TTL_UNKNOWN: Duration = Duration::from_secs(30);
/// How long the last answer counts while there are no new ones.
const STALE_MAX: Duration = Duration::from_secs(3600);
/// Groups that a list holds in place, without memory of its own.
const IN_PLACE_MAX: usize = 32;

/// Who knows the groups of users.
pub trait GroupService: Send + Sync {
    /// The groups of a user, its primary one included; `None` if there is no such user.
    ///
    /// # Errors
    /// No answer.
    fn groups_of(&self, uid: u32) -> io::Result<Option<Vec<u32>>>;
}

/// The services of this machine, as `nsswitch.conf` orders them.
struct System;

impl GroupService for System {
    fn groups_of(&self, uid: u32) -> io::Result<Option<Vec<u32>>> {
        sys::name_service::groups_of(uid, GROUPS_MAX)
    }
}

#[derive(Debug)]
struct Known {
    /// `None`: nobody knows the user.
    groups: Option<Box<[u32]>>,
    /// When to ask again.
    until: Instant,
    /// When the services last answered.
    sure: Instant,
}

/// The groups of one call: up to 32 in place, more in memory of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupList {
    in_place: [u32; IN_PLACE_MAX],
    /// All of them, if they are more; empty, and without memory, if not.
    allocated: Vec<u32>,
    len: usize,
}

impl GroupList {
    /// These groups, each as `map` says.
    pub(crate) fn mapped(groups: &[u32], map: impl Fn(u32) -> u32) -> Self {
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

/// What is known of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserLookup {
    /// The user's groups.
    Known(GroupList),
    /// The services know no such user: what the client says counts.
    NoSuchUser,
    /// The services have to be asked.
    Ask,
}

/// The cache.
pub struct UserGroups {
    service: Box<dyn GroupService>,
    known: HashMap<u32, Known>,
    /// Calls that wait for the services.
    asking: AtomicUsize,
}

impl Default for UserGroups {
    fn default() -> Self {
        Self::new(Box::new(System))
    }
}

impl UserGroups {
    /// Over some services.
    pub fn new(service: Box<dyn GroupService>) -> Self {
        Self { service, known: HashMap::new(), asking: AtomicUsize::new(0) }
    }

    /// A user's groups, each as `map` says; does not wait.
    pub fn find(&self, uid: u32, now: Instant, map: impl Fn(u32) -> u32) -> UserLookup {
        let guard = self.known.guard();
        match self.known.get(&uid, &guard) {
            Some(known) if now < known.until => match &known.groups {
                Some(groups) => UserLookup::Known(GroupList::mapped(groups, map)),
                None => UserLookup::NoSuchUser,
            },
            Some(_) | None => UserLookup::Ask,
        }
    }

    /// Asks the services and remembers the answer; false if too many calls are asking. Slow.
    pub fn ask(&self, uid: u32) -> bool {
        let turn = Turn(&self.asking);
        if self.asking.fetch_add(1, Ordering::AcqRel) >= ASKING_MAX {
            return false;
        }
        let answer = self.service.groups_of(uid);
        drop(turn);
        self.keep(uid, answer, Instant::now());
        true
    }

    fn keep(&self, uid: u32, answer: io::Result<Option<Vec<u32>>>, now: Instant) {
        let guard = self.known.guard();
        let before = self.known.get(&uid, &guard);
        let (groups, ttl, sure) = match answer {
            Ok(Some(mut groups)) => {
                groups.truncate(GROUPS_MAX);
                (Some(groups.into_boxed_slice()), TTL, now)
            }
            Ok(None) => (None, TTL_UNKNOWN, now),
            Err(_) => match before {
                Some(known) if now.saturating_duration_since(known.sure) < STALE_MAX => {
                    (known.groups.clone(), TTL_UNKNOWN, known.sure)
                }
                Some(_) | None => (None, TTL_UNKNOWN, now),
            },
        };
        if before.is_none()
            && self.known.len() >= USERS_MAX
            && let Some((other, _)) = self.known.iter(&guard).next()
        {
            // any other: who is still there is asked about again
            self.known.remove(other, &guard);
        }
        self.known.insert(uid, Known { groups, until: now + ttl, sure }, &guard);
    }
}

impl fmt::Debug for UserGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserGroups").field("users", &self.known.len()).finish_non_exhaustive()
    }
}

/// One call's turn to ask; given back also by a panic.
struct Turn<'a>(&'a AtomicUsize);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::{ASKING_MAX, GroupService, TTL, USERS_MAX, UserGroups, UserLookup};
    use std::io;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};
    use std::time::{Duration, Instant};

    /// User n is in groups 1 to n; user 0 is unknown.
    #[derive(Default)]
    struct Book {
        asked: Arc<AtomicUsize>,
        silent: Arc<AtomicBool>,
    }

    impl GroupService for Book {
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
    fn lists_of_any_length_are_asked_for_once_and_mapped() {
        let book = Book::default();
        let asked = book.asked.clone();
        let users = UserGroups::new(Box::new(book));
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
    fn what_was_known_counts_while_nobody_answers() {
        let book = Book::default();
        let silent = book.silent.clone();
        let users = UserGroups::new(Box::new(book));
        assert!(users.ask(3));
        silent.store(true, Ordering::SeqCst);
        assert!(users.ask(3) && users.ask(4));
        let UserLookup::Known(groups) = found(&users, 3, Instant::now()) else { panic!("user 3") };
        assert_eq!(groups.as_slice(), [99, 2, 3]);
        assert_eq!(found(&users, 4, Instant::now()), UserLookup::NoSuchUser);
    }

    #[test]
    fn the_number_of_users_is_bounded() {
        let users = UserGroups::new(Box::new(Book::default()));
        for uid in 0..USERS_MAX as u32 + 100 {
            users.keep(uid, Ok(Some(vec![uid])), Instant::now());
        }
        assert!(users.known.len() <= USERS_MAX);
    }

    /// Answers when all that may ask do.
    struct Slow(Arc<Barrier>, Arc<AtomicUsize>);

    impl GroupService for Slow {
        fn groups_of(&self, _: u32) -> io::Result<Option<Vec<u32>>> {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.wait();
            Ok(None)
        }
    }

    #[test]
    fn only_so_many_calls_wait() {
        let (all, inside) = (Arc::new(Barrier::new(ASKING_MAX + 1)), Arc::new(AtomicUsize::new(0)));
        let users = UserGroups::new(Box::new(Slow(all.clone(), inside.clone())));
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
        assert_eq!(users.asking.load(Ordering::SeqCst), 0);
    }
}
