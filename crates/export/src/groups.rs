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
/// Groups that need no memory of their own in a call.
const FEW: usize = 32;

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

/// Room for the groups of one call.
#[derive(Debug)]
pub struct GroupRoom {
    few: [u32; FEW],
    /// For who is in more; empty, and without memory, for everybody else.
    many: Vec<u32>,
    len: usize,
}

impl Default for GroupRoom {
    fn default() -> Self {
        Self { few: [0; FEW], many: Vec::new(), len: 0 }
    }
}

impl GroupRoom {
    fn fill(&mut self, groups: &[u32], map: impl Fn(u32) -> u32) {
        self.len = groups.len();
        if groups.len() > FEW {
            self.many = groups.iter().map(|gid| map(*gid)).collect();
            return;
        }
        for (place, gid) in self.few.iter_mut().zip(groups) {
            *place = map(*gid);
        }
    }

    /// The groups that were put there.
    pub fn groups(&self) -> &[u32] {
        if self.len > FEW { &self.many } else { self.few.get(..self.len).unwrap_or_default() }
    }
}

/// What is known of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The groups are in the room.
    Known,
    /// Nobody knows the user: what the client says counts.
    Stranger,
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

    /// Puts a user's groups into `room`, each as `map` says; does not wait.
    pub fn find(
        &self,
        uid: u32,
        now: Instant,
        room: &mut GroupRoom,
        map: impl Fn(u32) -> u32,
    ) -> Found {
        let guard = self.known.guard();
        match self.known.get(&uid, &guard) {
            Some(known) if now < known.until => match &known.groups {
                Some(groups) => {
                    room.fill(groups, map);
                    Found::Known
                }
                None => Found::Stranger,
            },
            Some(_) | None => Found::Ask,
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
    use super::{ASKING_MAX, Found, GroupRoom, GroupService, TTL, USERS_MAX, UserGroups};
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

    fn found(users: &UserGroups, uid: u32, now: Instant) -> (Found, Vec<u32>) {
        let mut room = GroupRoom::default();
        let found = users.find(uid, now, &mut room, |gid| if gid == 1 { 99 } else { gid });
        (found, room.groups().to_vec())
    }

    #[test]
    fn lists_of_any_length_are_asked_for_once_and_mapped() {
        let book = Book::default();
        let asked = book.asked.clone();
        let users = UserGroups::new(Box::new(book));
        let now = Instant::now();
        for uid in [2, 16, 17, 32, 33, 900] {
            assert_eq!(found(&users, uid, now).0, Found::Ask);
            assert!(users.ask(uid));
            for _ in 0..3 {
                let (found, groups) = found(&users, uid, now);
                assert_eq!((found, groups.len()), (Found::Known, uid as usize));
                assert_eq!((groups[0], groups[1]), (99, 2));
            }
        }
        assert_eq!(asked.load(Ordering::SeqCst), 6);
        assert!(users.ask(0));
        assert_eq!(found(&users, 0, now), (Found::Stranger, vec![]));
        assert_eq!(found(&users, 2, now + TTL + Duration::from_secs(1)).0, Found::Ask);
    }

    #[test]
    fn what_was_known_counts_while_nobody_answers() {
        let book = Book::default();
        let silent = book.silent.clone();
        let users = UserGroups::new(Box::new(book));
        assert!(users.ask(3));
        silent.store(true, Ordering::SeqCst);
        assert!(users.ask(3) && users.ask(4));
        assert_eq!(found(&users, 3, Instant::now()), (Found::Known, vec![99, 2, 3]));
        assert_eq!(found(&users, 4, Instant::now()).0, Found::Stranger);
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
