//! The rules of one export, and what is known about its clients.
//!
//! Rules by address are compared in place. What depends on a name comes from a cache that
//! [`crate::resolver`] fills; it is read without a lock, and a reader writes to it only when it is
//! the first to use an entry after a check.

use crate::clients::Client;
use crate::export::Rule;
use crate::options::Options;
use crate::resolver::NameService;
use papaya::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Clients remembered for one export: many more than mount one, and half a megabyte at most.
const CLIENTS_MAX: usize = 4096;
/// Up to so many rules by address are compared faster than the cache is read.
const COMPARED_MAX: usize = 16;
/// How long an allowed client's name is believed before it is checked again.
const ALLOWED_TTL: Duration = Duration::from_secs(300);
/// The same for a client that was denied, or whose check failed.
const DENIED_TTL: Duration = Duration::from_secs(30);
/// How long an allowed client stays so while the name services do not answer.
const STALE_MAX: Duration = Duration::from_secs(3600);
/// Checks without a call in between after which a client is forgotten: an hour.
const IDLE_CHECKS_MAX: u32 = 12;

/// What the rules say about a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'r> {
    /// It may do this.
    Allowed(&'r Options),
    /// The export is not for it.
    Denied,
    /// A name service has to be asked.
    Unknown,
}

/// What the name services led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    /// The rule that the client falls under.
    pub rule: Option<usize>,
    /// Whether a service that might have said otherwise did not answer.
    pub failed: bool,
}

#[derive(Debug)]
struct Known {
    judged: Judged,
    checked: Instant,
    /// The last check that did not fail.
    sure: Instant,
    idle_checks: u32,
    used: AtomicBool,
}

/// The rules of an export with its cache.
#[derive(Debug)]
pub struct Verdicts {
    rules: Vec<Rule>,
    /// Places in `rules`, the more specific first, else as written.
    order: Vec<usize>,
    known: HashMap<IpAddr, Known>,
}

impl Verdicts {
    /// Over these rules; nothing is known yet.
    pub fn new(rules: Vec<Rule>) -> Self {
        let mut order: Vec<(u8, usize)> =
            rules.iter().enumerate().map(|(place, rule)| (rule.client.rank(), place)).collect();
        order.sort_unstable();
        let order = order.into_iter().map(|(_, place)| place).collect();
        Self { rules, order, known: HashMap::new() }
    }

    /// The rules, as written.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// What is known about a client, by its canonical address. Does not wait.
    pub fn find(&self, client: IpAddr) -> Verdict<'_> {
        if self.order.len() <= COMPARED_MAX {
            return match self.by_address(client) {
                Some(rule) => self.verdict(rule),
                None => self.remembered(client).unwrap_or(Verdict::Unknown),
            };
        }
        if let Some(verdict) = self.remembered(client) {
            return verdict;
        }
        let Some(rule) = self.by_address(client) else { return Verdict::Unknown };
        if self.known.len() < CLIENTS_MAX {
            self.keep(client, Judged { rule, failed: false }, Instant::now());
        }
        self.verdict(rule)
    }

    /// The rule by the address alone; `None` if a name comes first.
    fn by_address(&self, client: IpAddr) -> Option<Option<usize>> {
        for place in &self.order {
            if self.rules.get(*place)?.client.matches_address(client)? {
                return Some(Some(*place));
            }
        }
        Some(None)
    }

    fn verdict(&self, rule: Option<usize>) -> Verdict<'_> {
        let rule = rule.and_then(|place| self.rules.get(place));
        rule.map_or(Verdict::Denied, |rule| Verdict::Allowed(&rule.options))
    }

    fn remembered(&self, client: IpAddr) -> Option<Verdict<'_>> {
        let guard = self.known.guard();
        let known = self.known.get(&client, &guard)?;
        if !known.used.load(Relaxed) {
            known.used.store(true, Relaxed);
        }
        Some(self.verdict(known.judged.rule))
    }

    /// Asks the name services as far as needed. Slow.
    pub fn judge(&self, service: &dyn NameService, client: IpAddr) -> Judged {
        let mut asked = Asked { service, client, names: None, failed: false };
        for place in &self.order {
            if self.rules.get(*place).is_some_and(|rule| asked.is(&rule.client)) {
                return Judged { rule: Some(*place), failed: asked.failed };
            }
        }
        Judged { rule: None, failed: asked.failed }
    }

    /// Remembers what a check led to. While the services do not answer, a client that was allowed
    /// stays so for an hour.
    pub fn keep(&self, client: IpAddr, judged: Judged, now: Instant) {
        let guard = self.known.guard();
        let before = self.known.get(&client, &guard);
        let mut known = Known {
            judged,
            checked: now,
            sure: now,
            idle_checks: 0,
            used: AtomicBool::new(before.is_none()),
        };
        if let Some(before) = before {
            known.idle_checks =
                if before.used.load(Relaxed) { 0 } else { before.idle_checks.saturating_add(1) };
            if judged.failed {
                known.sure = before.sure;
                if now.saturating_duration_since(before.sure) < STALE_MAX {
                    known.judged.rule = before.judged.rule;
                }
            }
        } else if self.known.len() >= CLIENTS_MAX {
            // any other: who is still there is resolved again
            if let Some((other, _)) = self.known.iter(&guard).next() {
                self.known.remove(other, &guard);
            }
        }
        self.known.insert(client, known, &guard);
    }

    /// The clients that are to be checked again; forgets those that have been silent for long.
    pub fn due(&self, now: Instant) -> Vec<IpAddr> {
        let guard = self.known.guard();
        let mut due = Vec::new();
        for (client, known) in self.known.iter(&guard) {
            let sure = known.judged.rule.is_some() && !known.judged.failed;
            let ttl = if sure { ALLOWED_TTL } else { DENIED_TTL };
            if now.saturating_duration_since(known.checked) < ttl {
                continue;
            }
            if known.idle_checks >= IDLE_CHECKS_MAX && !known.used.load(Relaxed) {
                self.known.remove(client, &guard);
            } else {
                due.push(*client);
            }
        }
        due
    }
}

/// One client's names, looked up when first needed.
struct Asked<'a> {
    service: &'a dyn NameService,
    client: IpAddr,
    names: Option<Vec<String>>,
    failed: bool,
}

impl Asked<'_> {
    fn is(&mut self, client: &Client) -> bool {
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

    /// By a name, its first label, or the address: netgroups are written in all three ways.
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
