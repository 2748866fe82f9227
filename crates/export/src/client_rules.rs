//! The client rules of one export, and a cache of which rule each client matches.
//!
//! Rules by address are compared directly. Matches that depend on a host name or netgroup come from
//! a cache that [`crate::resolver`] fills; it is read without a lock, and a reader writes to it
//! only when it is the first to use an entry after a check.

use crate::answer_cache::DROPPED_ONE_IN;
use crate::clients::Client;
use crate::flavors::FlavorList;
use crate::options::{Options, Squash};
use crate::resolver::NameService;
use crate::xprtsec::CertificatePattern;
use papaya::HashMap;
use rpc::{Certificate, CertificateId, Certificates, Credential};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The most clients in the cache of one export: half a megabyte.
const CLIENTS_MAX: usize = 4096;
/// Up to this number of rules, comparing addresses is faster than reading the cache.
const UNCACHED_RULES_MAX: usize = 16;
/// How long an allowed client stays in the cache before it is checked again.
const ALLOWED_TTL: Duration = Duration::from_secs(300);
/// The same for a client that was denied, or whose check failed.
const DENIED_TTL: Duration = Duration::from_secs(30);
/// How long an allowed client stays allowed while the name services do not answer.
const STALE_MAX: Duration = Duration::from_secs(3600);
/// A client without a call for this number of checks (an hour) is removed from the cache.
const IDLE_CHECKS_MAX: u32 = 12;

/// Clients and their options.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The clients.
    pub client: Client,
    /// Their options, for calls with the first flavours of `sec=`.
    pub options: Options,
    /// The options for calls with flavours after these to which other `ro`, `rw` or squash options apply; the others are
    /// the same.
    pub other_flavors: Vec<Options>,
    /// If not empty, the rule applies only to clients with such a certificate.
    pub certificate: CertificatePattern,
}

impl Rule {
    /// A rule with the same options for all flavours, whatever certificate the clients have.
    pub fn new(client: Client, options: Options) -> Self {
        Self {
            client,
            options,
            other_flavors: Vec::new(),
            certificate: CertificatePattern::default(),
        }
    }

    /// Its options for the flavour of a call; `None` if the flavour is not accepted.
    pub fn options_for(&self, credential: &Credential<'_>) -> Option<&Options> {
        self.all_options().find(|options| options.flavors.accepts(credential))
    }

    /// Its options for each group of flavours.
    pub fn all_options(&self) -> impl Iterator<Item = &Options> {
        std::iter::once(&self.options).chain(&self.other_flavors)
    }

    /// The same, to be changed.
    pub fn all_options_mut(&mut self) -> impl Iterator<Item = &mut Options> {
        std::iter::once(&mut self.options).chain(&mut self.other_flavors)
    }

    /// The flavours that it accepts, in order of preference.
    pub fn flavors(&self) -> FlavorList {
        self.options.rule_flavors.unwrap_or(self.options.flavors)
    }

    /// Its options as exports(5) writes them.
    pub fn options_text(&self) -> String {
        let mut text = self.options.text();
        if !self.other_flavors.is_empty() {
            let any_all = self.all_options().any(|options| options.squash == Squash::All);
            for options in self.all_options() {
                let (access, squash) = (options.access_word(), options.squash.word());
                text += &format!(",sec={},{access},{squash}", options.flavors);
                if any_all && options.squash != Squash::All {
                    text += ",no_all_squash";
                }
            }
        }
        match self.certificate.is_empty() {
            true => text,
            false => format!("{text},{}", self.certificate),
        }
    }
}

/// Whether a client matches a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientMatch<'r> {
    /// It matches this rule.
    Allowed(&'r Rule),
    /// It matches no rule.
    Denied,
    /// A name service must be queried.
    Unknown,
}

/// The rule that a client matches, according to the name services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResolvedRule {
    /// Its index; `None` if there is none.
    pub rule: Option<usize>,
    /// Whether a service whose answer could have changed the result did not answer.
    pub failed: bool,
}

#[derive(Debug)]
struct CachedClient {
    resolved: ResolvedRule,
    checked: Instant,
    /// When the services last answered.
    last_answer: Instant,
    idle_checks: u32,
    used: AtomicBool,
}

/// The client rules of an export, with its cache.
#[derive(Debug)]
pub struct ClientRules {
    rules: Vec<Rule>,
    /// Indices in `rules`, more specific kinds first, otherwise as written: the rules without a certificate pattern.
    order: Vec<usize>,
    /// The same for rules with a certificate pattern. These clients are matched by address only.
    certified_order: Vec<usize>,
    cached: HashMap<IpAddr, CachedClient>,
    /// Which rule with a certificate pattern a client with a certificate matches.
    certified: HashMap<(IpAddr, CertificateId), Option<usize>>,
}

impl ClientRules {
    /// These rules, with an empty cache.
    pub fn new(rules: Vec<Rule>) -> Self {
        let mut order: Vec<(u8, usize)> =
            rules.iter().enumerate().map(|(index, rule)| (rule.client.rank(), index)).collect();
        order.sort_unstable();
        let is_certified = |index: &usize| {
            rules.get(*index).is_some_and(|rule: &Rule| !rule.certificate.is_empty())
        };
        let (certified_order, order) =
            order.into_iter().map(|(_, index)| index).partition(is_certified);
        let (cached, certified) = (HashMap::new(), HashMap::new());
        Self { rules, order, certified_order, cached, certified }
    }

    /// The rules, as written.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The match of a client, by its canonical address. Does not block.
    pub fn find(&self, client: IpAddr) -> ClientMatch<'_> {
        if self.order.len() <= UNCACHED_RULES_MAX {
            return match self.by_address(client) {
                Some(rule) => self.rule_match(rule),
                None => self.cached_match(client).unwrap_or(ClientMatch::Unknown),
            };
        }
        if let Some(matched) = self.cached_match(client) {
            return matched;
        }
        let Some(rule) = self.by_address(client) else { return ClientMatch::Unknown };
        if self.cached.len() < CLIENTS_MAX {
            self.store(client, ResolvedRule { rule, failed: false }, Instant::now());
        }
        self.rule_match(rule)
    }

    /// The match of a client with a certificate: the rules with a matching pattern come first. Does not block.
    #[cold]
    pub fn find_certified(
        &self,
        client: IpAddr,
        id: CertificateId,
        certificates: &Certificates,
    ) -> ClientMatch<'_> {
        if self.certified_order.is_empty() {
            return self.find(client);
        }
        let known = self.certified.pin().get(&(client, id)).copied();
        let rule = known.unwrap_or_else(|| {
            let certificate = certificates.find(id);
            let found =
                certificate.and_then(|certificate| self.resolve_certified(client, &certificate));
            if self.certified.len() >= CLIENTS_MAX {
                self.certified.pin().clear();
            }
            self.certified.pin().insert((client, id), found);
            found
        });
        if rule.is_some() { self.rule_match(rule) } else { self.find(client) }
    }

    /// The match of a client that mounts: certificate patterns are not checked, as MNT is sent without TLS.
    pub fn find_for_mount(&self, client: IpAddr) -> ClientMatch<'_> {
        match self.find(client) {
            ClientMatch::Denied => self.rule_match(self.for_address(client).next()),
            found => found,
        }
    }

    /// The rules with a certificate pattern that match this address.
    fn for_address(&self, client: IpAddr) -> impl Iterator<Item = usize> {
        self.certified_order.iter().copied().filter(move |index| {
            let rule = self.rules.get(*index);
            rule.is_some_and(|rule| rule.client.matches_address(client) == Some(true))
        })
    }

    /// The rule by the address alone; `None` if a rule by name must be decided first.
    fn by_address(&self, client: IpAddr) -> Option<Option<usize>> {
        for index in &self.order {
            if self.rules.get(*index)?.client.matches_address(client)? {
                return Some(Some(*index));
            }
        }
        Some(None)
    }

    fn rule_match(&self, rule: Option<usize>) -> ClientMatch<'_> {
        let rule = rule.and_then(|index| self.rules.get(index));
        rule.map_or(ClientMatch::Denied, ClientMatch::Allowed)
    }

    fn cached_match(&self, client: IpAddr) -> Option<ClientMatch<'_>> {
        let guard = self.cached.guard();
        let cached = self.cached.get(&client, &guard)?;
        if !cached.used.load(Relaxed) {
            cached.used.store(true, Relaxed);
        }
        Some(self.rule_match(cached.resolved.rule))
    }

    /// Finds the rule, querying the name services if needed. Blocks.
    pub fn resolve(&self, service: &dyn NameService, client: IpAddr) -> ResolvedRule {
        let mut lookup = NameLookup { service, client, names: None, failed: false };
        for index in &self.order {
            if self.rules.get(*index).is_some_and(|rule| lookup.matches(&rule.client)) {
                return ResolvedRule { rule: Some(*index), failed: lookup.failed };
            }
        }
        ResolvedRule { rule: None, failed: lookup.failed }
    }

    /// The rule with a certificate pattern for a client with this certificate. Does not block.
    pub fn resolve_certified(&self, client: IpAddr, certificate: &Certificate) -> Option<usize> {
        self.for_address(client).find(|index| {
            let rule = self.rules.get(*index);
            rule.is_some_and(|rule| rule.certificate.describes(certificate))
        })
    }

    /// Stores the result of a check in the cache. While the services do not answer, a client that was
    /// allowed remains allowed for an hour.
    pub fn store(&self, client: IpAddr, resolved: ResolvedRule, now: Instant) {
        let guard = self.cached.guard();
        let before = self.cached.get(&client, &guard);
        let mut cached = CachedClient {
            resolved,
            checked: now,
            last_answer: now,
            idle_checks: 0,
            used: AtomicBool::new(before.is_none()),
        };
        if let Some(before) = before {
            cached.idle_checks =
                if before.used.load(Relaxed) { 0 } else { before.idle_checks.saturating_add(1) };
            if resolved.failed {
                cached.last_answer = before.last_answer;
                if now.saturating_duration_since(before.last_answer) < STALE_MAX {
                    cached.resolved.rule = before.resolved.rule;
                }
            }
        } else if self.cached.len() >= CLIENTS_MAX {
            // whichever: a client that is still active is resolved again
            for (other, _) in self.cached.iter(&guard).step_by(DROPPED_ONE_IN) {
                self.cached.remove(other, &guard);
            }
        }
        self.cached.insert(client, cached, &guard);
    }

    /// The clients that must be checked again; removes those without recent calls.
    pub fn expired(&self, now: Instant) -> Vec<IpAddr> {
        let guard = self.cached.guard();
        let mut expired = Vec::new();
        for (client, cached) in self.cached.iter(&guard) {
            let confirmed = cached.resolved.rule.is_some() && !cached.resolved.failed;
            let ttl = if confirmed { ALLOWED_TTL } else { DENIED_TTL };
            if now.saturating_duration_since(cached.checked) < ttl {
                continue;
            }
            if cached.idle_checks >= IDLE_CHECKS_MAX && !cached.used.load(Relaxed) {
                self.cached.remove(client, &guard);
            } else {
                expired.push(*client);
            }
        }
        expired
    }
}

/// The names of one client, looked up when first needed.
struct NameLookup<'a> {
    service: &'a dyn NameService,
    client: IpAddr,
    names: Option<Vec<String>>,
    failed: bool,
}

impl NameLookup<'_> {
    fn matches(&mut self, client: &Client) -> bool {
        match client {
            Client::Address(_) | Client::Network(_) | Client::Anyone => {
                client.matches_address(self.client) == Some(true)
            }
            Client::Host(name) => match self.service.addresses_of(name) {
                Ok(addresses) => addresses.iter().any(|a| a.to_canonical() == self.client),
                Err(_) => self.fail(),
            },
            Client::Wildcard(pattern) => self.names().iter().any(|name| pattern.matches(name)),
            Client::Netgroup(group) => self.in_netgroup(group),
        }
    }

    /// By full name, first label, or address: netgroups are written in all three ways.
    fn in_netgroup(&mut self, group: &str) -> bool {
        let (service, address) = (self.service, self.client.to_string());
        let names = self.names();
        let short = names.iter().filter_map(|name| Some(name.split_once('.')?.0));
        let mut all = names.iter().map(String::as_str).chain(short).chain([address.as_str()]);
        all.any(|name| service.in_netgroup(group, name))
    }

    fn fail(&mut self) -> bool {
        self.failed = true;
        false
    }

    fn names(&mut self) -> &[String] {
        if self.names.is_none() {
            let names = self.service.names_of(self.client).unwrap_or_else(|_| {
                self.failed = true;
                Vec::new()
            });
            self.names = Some(names);
        }
        self.names.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
