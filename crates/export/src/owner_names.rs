//! Owners of files by name in version 4 (RFC 8881 §5.9): `name@domain` for the users and groups that this machine knows,
//! if the setting `idmap-domain` names a domain.
//!
//! Names and ids are found in caches that are read without a lock. What is missing or has expired is asked of the name
//! services by the call that needs it, after it has said that it blocks; [`ASKING_MAX`] calls may do so at a time. While
//! the services do not answer, their last answer is used for an hour ([`crate::answer_cache`]). A user without a name is written as a number, as if there were no
//! domain: clients take numbers in any case.
//!
//! `domain` is locked while a name is stored, and while it is changed, which empties the cache of names: so no name of the
//! domain before is left. Nothing is asked under that lock.

use crate::answer_cache::AnswerCache;
use crate::ask_limit::AskLimit;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

/// The most names, and the most ids, in the caches.
const KNOWN_MAX: usize = 4096;
/// The longest name that is asked for.
const NAME_MAX: usize = 255;
/// The longest domain (RFC 1035 §2.3.4).
const DOMAIN_MAX: usize = 253;
/// The most calls that may wait for the name services at a time, so that other threads are left.
const ASKING_MAX: usize = 8;

/// What an owner is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnerKind {
    /// A user.
    User,
    /// A group.
    Group,
}

/// A source of names.
pub trait OwnerService: Send + Sync {
    /// The name of a user or group; `None` if it has none.
    ///
    /// # Errors
    /// No answer.
    fn name_of(&self, kind: OwnerKind, id: u32) -> io::Result<Option<String>>;

    /// The id of a user or group of this name; `None` if there is none.
    ///
    /// # Errors
    /// No answer.
    fn id_of(&self, kind: OwnerKind, name: &str) -> io::Result<Option<u32>>;
}

/// The services of this machine, as `nsswitch.conf` orders them.
struct SystemOwnerService;

impl OwnerService for SystemOwnerService {
    fn name_of(&self, kind: OwnerKind, id: u32) -> io::Result<Option<String>> {
        match kind {
            OwnerKind::User => sys::name_service::user_name(id),
            OwnerKind::Group => sys::name_service::group_name(id),
        }
    }

    fn id_of(&self, kind: OwnerKind, name: &str) -> io::Result<Option<u32>> {
        match kind {
            OwnerKind::User => sys::name_service::user_id(name),
            OwnerKind::Group => sys::name_service::group_id(name),
        }
    }
}

/// The domain of the names of owners (`idmap-domain`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum IdmapDomain {
    /// There are no names: owners are numbers.
    #[default]
    Off,
    /// This one, in lower case.
    Domain(String),
}

/// A text that is no domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdmapDomainError;

impl fmt::Display for IdmapDomainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "write off, or a domain of letters, digits, dots and hyphens, as in example.org",
        )
    }
}

impl std::error::Error for IdmapDomainError {}

impl FromStr for IdmapDomain {
    type Err = IdmapDomainError;

    fn from_str(text: &str) -> Result<Self, IdmapDomainError> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_domain = (1..=DOMAIN_MAX).contains(&text.len()) && text.bytes().all(is_letter);
        if is_domain { Ok(Self::Domain(text.to_ascii_lowercase())) } else { Err(IdmapDomainError) }
    }
}

impl fmt::Display for IdmapDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Domain(domain) => f.write_str(domain),
        }
    }
}

/// The owner of a name that a client has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerLookup {
    /// Its id.
    Id(u32),
    /// There is none: not of this domain, or not known on this machine.
    NoSuchOwner,
    /// Too many calls ask already, or the services do not answer.
    NoAnswer,
}

/// The caches.
pub struct OwnerNames {
    service: Box<dyn OwnerService>,
    is_on: AtomicBool,
    domain: RwLock<IdmapDomain>,
    /// `name@domain`.
    names: AnswerCache<(OwnerKind, u32), Box<[u8]>>,
    ids: AnswerCache<(OwnerKind, Box<str>), u32>,
    /// Calls that wait for the services.
    asking: AskLimit,
}

impl Default for OwnerNames {
    fn default() -> Self {
        Self::new(Box::new(SystemOwnerService))
    }
}

impl OwnerNames {
    /// With these services and no domain.
    pub fn new(service: Box<dyn OwnerService>) -> Self {
        Self {
            service,
            is_on: AtomicBool::new(false),
            domain: RwLock::default(),
            names: AnswerCache::new(KNOWN_MAX),
            ids: AnswerCache::new(KNOWN_MAX),
            asking: AskLimit::new(ASKING_MAX),
        }
    }

    /// Whether owners have names.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Changes the domain; counts from the next call on.
    pub fn set_domain(&self, domain: &IdmapDomain) {
        let mut current = self.domain.write().unwrap_or_else(PoisonError::into_inner);
        self.is_on.store(*domain != IdmapDomain::Off, Ordering::Relaxed);
        current.clone_from(domain);
        self.names.clear();
    }

    /// Sees to it that [`OwnerNames::with_name`] has the name of an owner, if it has one: asks the services after
    /// `will_block`, unless too many calls do.
    pub fn prepare(&self, kind: OwnerKind, id: u32, will_block: impl FnOnce()) {
        let (key, now) = ((kind, id), Instant::now());
        if self.names.with(&key, |known| known.is_some_and(|known| now < known.until)) {
            return;
        }
        if let Some(answer) = self.ask(will_block, |service| service.name_of(kind, id)) {
            let domain = self.domain.read().unwrap_or_else(PoisonError::into_inner);
            if let IdmapDomain::Domain(domain) = &*domain {
                let full =
                    |name: String| format!("{name}@{domain}").into_bytes().into_boxed_slice();
                let fits = |name: &String| name.len() <= NAME_MAX;
                self.names.store(key, answer.map(|name| name.filter(fits).map(full)), now);
            }
        }
    }

    /// Passes the name of an owner on, as `name@domain`; `None` if it has none.
    pub fn with_name<T>(
        &self,
        kind: OwnerKind,
        id: u32,
        work: impl FnOnce(Option<&[u8]>) -> T,
    ) -> T {
        self.names.with(&(kind, id), |known| work(known.and_then(|known| known.value.as_deref())))
    }

    /// The owner that a client calls `name@domain`. Asks the services, after `will_block`, if that is not known.
    pub fn find(&self, kind: OwnerKind, text: &[u8], will_block: impl FnOnce()) -> OwnerLookup {
        let Some(name) = self.name_in_domain(text) else { return OwnerLookup::NoSuchOwner };
        let (key, now) = ((kind, Box::from(name)), Instant::now());
        let known = || {
            self.ids.with(&key, |known| {
                let known = known?;
                let result = match known.value {
                    Some(id) => OwnerLookup::Id(id),
                    None if known.is_answer() => OwnerLookup::NoSuchOwner,
                    None => OwnerLookup::NoAnswer,
                };
                Some((now < known.until, result))
            })
        };
        if let Some((true, result)) = known() {
            return result;
        }
        let Some(answer) = self.ask(will_block, |service| service.id_of(kind, name)) else {
            return OwnerLookup::NoAnswer;
        };
        self.ids.store(key.clone(), answer, now);
        known().map_or(OwnerLookup::NoAnswer, |(_, result)| result)
    }

    /// The name without the domain, which must be this one.
    fn name_in_domain<'t>(&self, text: &'t [u8]) -> Option<&'t str> {
        let text = std::str::from_utf8(text).ok()?;
        let (name, domain) = text.rsplit_once('@')?;
        let current = self.domain.read().unwrap_or_else(PoisonError::into_inner);
        let is_ours =
            matches!(&*current, IdmapDomain::Domain(ours) if ours.eq_ignore_ascii_case(domain));
        (is_ours && (1..=NAME_MAX).contains(&name.len())).then_some(name)
    }

    /// The answer of the services; `None` if too many calls are asking. Blocks.
    fn ask<T>(
        &self,
        will_block: impl FnOnce(),
        question: impl FnOnce(&dyn OwnerService) -> T,
    ) -> Option<T> {
        let guard = self.asking.enter()?;
        will_block();
        let answer = question(&*self.service);
        drop(guard);
        Some(answer)
    }
}

impl fmt::Debug for OwnerNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerNames").field("names", &self.names.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ASKING_MAX, IdmapDomain, KNOWN_MAX, OwnerKind, OwnerLookup, OwnerNames, OwnerService,
    };
    use std::io;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};

    /// User n is `user<n>`, group n `group<n>`; number 0 has no name.
    #[derive(Default)]
    struct Numbered {
        asked: Arc<AtomicUsize>,
        silent: Arc<AtomicBool>,
    }

    impl Numbered {
        fn answer<T>(&self, answer: Option<T>) -> io::Result<Option<T>> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            if self.silent.load(Ordering::SeqCst) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Ok(answer)
        }
    }

    const fn prefix(kind: OwnerKind) -> &'static str {
        match kind {
            OwnerKind::User => "user",
            OwnerKind::Group => "group",
        }
    }

    impl OwnerService for Numbered {
        fn name_of(&self, kind: OwnerKind, id: u32) -> io::Result<Option<String>> {
            self.answer((id > 0).then(|| format!("{}{id}", prefix(kind))))
        }

        fn id_of(&self, kind: OwnerKind, name: &str) -> io::Result<Option<u32>> {
            self.answer(name.strip_prefix(prefix(kind)).and_then(|id| id.parse().ok()))
        }
    }

    fn names(service: Numbered) -> OwnerNames {
        let names = OwnerNames::new(Box::new(service));
        names.set_domain(&"Example.org".parse().unwrap());
        names
    }

    fn name(names: &OwnerNames, kind: OwnerKind, id: u32) -> Option<String> {
        names.prepare(kind, id, || {});
        names.with_name(kind, id, |name| Some(String::from_utf8(name?.to_vec()).unwrap()))
    }

    fn id(names: &OwnerNames, text: &str) -> OwnerLookup {
        names.find(OwnerKind::User, text.as_bytes(), || {})
    }

    #[test]
    fn names_and_ids_are_asked_for_once() {
        let service = Numbered::default();
        let asked = service.asked.clone();
        let names = names(service);
        for _ in 0..3 {
            assert_eq!(name(&names, OwnerKind::User, 7).as_deref(), Some("user7@example.org"));
            assert_eq!(name(&names, OwnerKind::Group, 7).as_deref(), Some("group7@example.org"));
            assert_eq!(name(&names, OwnerKind::User, 0), None);
            assert_eq!(id(&names, "user9@EXAMPLE.org"), OwnerLookup::Id(9));
            assert_eq!(id(&names, "nobody@example.org"), OwnerLookup::NoSuchOwner);
        }
        assert_eq!(asked.load(Ordering::SeqCst), 5);
        for foreign in ["user9", "user9@", "@example.org", "user9@example.com", "\u{e9}@x"] {
            assert_eq!(id(&names, foreign), OwnerLookup::NoSuchOwner, "{foreign}");
        }
        assert_eq!(asked.load(Ordering::SeqCst), 5, "nothing is asked of what cannot be known");
    }

    #[test]
    fn a_new_domain_counts_at_once() {
        let names = names(Numbered::default());
        assert_eq!(name(&names, OwnerKind::User, 7).as_deref(), Some("user7@example.org"));
        names.set_domain(&"lab".parse().unwrap());
        assert!(names.is_on());
        assert_eq!(name(&names, OwnerKind::User, 7).as_deref(), Some("user7@lab"));
        assert_eq!(id(&names, "user7@example.org"), OwnerLookup::NoSuchOwner);
        names.set_domain(&IdmapDomain::Off);
        assert!(!names.is_on());
        assert_eq!(name(&names, OwnerKind::User, 7), None);
    }

    #[test]
    fn the_last_answer_counts_while_name_services_fail() {
        let service = Numbered::default();
        let silent = service.silent.clone();
        let names = names(service);
        silent.store(true, Ordering::SeqCst);
        assert_eq!(id(&names, "user3@example.org"), OwnerLookup::NoAnswer);
        assert_eq!(id(&names, "user3@example.org"), OwnerLookup::NoAnswer, "not: no such user");
        assert_eq!(name(&names, OwnerKind::User, 3), None);
        silent.store(false, Ordering::SeqCst);
        assert_eq!(id(&names, "user4@example.org"), OwnerLookup::Id(4));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let names = names(Numbered::default());
        for number in 0..KNOWN_MAX + 50 {
            id(&names, &format!("user{number}@example.org"));
            name(&names, OwnerKind::Group, number as u32);
        }
        assert!(names.names.len() <= KNOWN_MAX && names.ids.len() <= KNOWN_MAX);
    }

    /// Answers once the maximum number of callers ask.
    struct Blocked(Arc<Barrier>, Arc<AtomicUsize>);

    impl OwnerService for Blocked {
        fn name_of(&self, _: OwnerKind, _: u32) -> io::Result<Option<String>> {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.wait();
            Ok(None)
        }

        fn id_of(&self, _: OwnerKind, _: &str) -> io::Result<Option<u32>> {
            Ok(Some(1))
        }
    }

    #[test]
    fn the_number_of_calls_that_wait_is_bounded() {
        let (all, inside) = (Arc::new(Barrier::new(ASKING_MAX + 1)), Arc::new(AtomicUsize::new(0)));
        let names = OwnerNames::new(Box::new(Blocked(all.clone(), inside.clone())));
        names.set_domain(&"lab".parse().unwrap());
        std::thread::scope(|scope| {
            for uid in 0..ASKING_MAX as u32 {
                let names = &names;
                scope.spawn(move || names.prepare(OwnerKind::User, uid, || {}));
            }
            while inside.load(Ordering::SeqCst) < ASKING_MAX {
                std::thread::yield_now();
            }
            assert_eq!(id(&names, "a@lab"), OwnerLookup::NoAnswer, "one too many");
            all.wait();
        });
        assert_eq!(id(&names, "a@lab"), OwnerLookup::Id(1));
    }

    #[test]
    fn domains_are_read_and_printed() {
        for (text, printed) in [("off", "off"), ("Example.ORG", "example.org"), ("lab", "lab")] {
            assert_eq!(text.parse::<IdmapDomain>().unwrap().to_string(), printed);
        }
        for text in ["", "a b", "@x", "x@y", &"a".repeat(254)] {
            assert!(text.parse::<IdmapDomain>().is_err(), "{text}");
        }
    }
}
