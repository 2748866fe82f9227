//! Which rule a client matches, and how long the cache keeps it.

use super::{ClientMatch, ClientRules, IDLE_CHECKS_MAX, Rule, UNCACHED_RULES_MAX};
use crate::clients::Client;
use crate::options::Options;
use crate::resolver::NameService;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Name services with fixed answers: empty for all other names, and errors if `failing`.
pub struct FixedNames {
    pub names: &'static [(&'static str, &'static str)],
    pub failing: bool,
}

const NAMES: FixedNames =
    FixedNames { names: &[("10.0.0.1", "build.lan"), ("10.0.0.2", "lap.lan")], failing: false };

impl NameService for FixedNames {
    fn names_of(&self, client: IpAddr) -> io::Result<Vec<String>> {
        if self.failing {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let own = self.names.iter().filter(|(ip, _)| ip.parse() == Ok(client));
        Ok(own.map(|(_, name)| (*name).to_owned()).collect())
    }

    fn addresses_of(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if self.failing {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let own = self.names.iter().filter(|(_, name)| *name == host);
        Ok(own.map(|(ip, _)| ip.parse().unwrap()).collect())
    }

    fn in_netgroup(&self, group: &str, host: &str) -> bool {
        group == "staff" && (host == "lap" || host == "10.0.0.9")
    }
}

fn rules(clients: &[&str]) -> ClientRules {
    let rule = |(n, text): (usize, &&str)| {
        let options = Options { anonuid: u32::try_from(n).unwrap(), ..Options::default() };
        Rule::new(Client::parse(text).unwrap(), options)
    };
    ClientRules::new(clients.iter().enumerate().map(rule).collect())
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The index of the matching rule: by address, or after a query.
fn rule(rules: &ClientRules, client: &str) -> Option<u32> {
    let client = ip(client);
    if rules.find(client) == ClientMatch::Unknown {
        rules.store(client, rules.resolve(&NAMES, client), Instant::now());
    }
    match rules.find(client) {
        ClientMatch::Allowed(rule) => Some(rule.options.anonuid),
        ClientMatch::Denied => None,
        ClientMatch::Unknown => panic!("it was resolved"),
    }
}

#[test]
fn the_most_specific_kind_of_rule_wins_then_the_first_written() {
    let all = rules(&["*", "@staff", "*.lan", "10.0.0.0/8", "10.0.0.0/24", "10.0.0.1"]);
    assert_eq!(rule(&all, "10.0.0.1"), Some(5));
    assert_eq!(rule(&all, "10.0.0.2"), Some(3));
    assert_eq!(rule(&all, "192.0.2.1"), Some(0));
    let by_name = rules(&["*", "@staff", "*.lan", "build.lan"]);
    assert_eq!(rule(&by_name, "10.0.0.1"), Some(3));
    assert_eq!(rule(&by_name, "10.0.0.2"), Some(2));
    assert_eq!(rule(&by_name, "10.0.0.3"), Some(0));
    let group = rules(&["@staff", "@other"]);
    assert_eq!(rule(&group, "10.0.0.2"), Some(0), "by the short name");
    assert_eq!(rule(&group, "10.0.0.9"), Some(0), "by the address");
    assert_eq!(rule(&group, "10.0.0.1"), None);
}

#[test]
fn a_name_service_is_queried_only_if_a_rule_by_name_comes_first() {
    let mixed = rules(&["10.0.0.1", "build.lan", "192.0.2.0/24", "*"]);
    assert!(matches!(mixed.find(ip("10.0.0.1")), ClientMatch::Allowed(_)));
    assert_eq!(mixed.find(ip("192.0.2.1")), ClientMatch::Unknown);
    let plain = rules(&["10.0.0.1", "192.0.2.0/24"]);
    assert_eq!(plain.find(ip("10.0.0.2")), ClientMatch::Denied);
    assert_eq!(plain.cached.len(), 0);
}

#[test]
fn long_lists_of_addresses_are_cached() {
    let many: Vec<String> = (0..=UNCACHED_RULES_MAX).map(|n| format!("10.0.1.{n}")).collect();
    let many = rules(&many.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(rule(&many, "10.0.1.16"), Some(16));
    assert_eq!(rule(&many, "10.0.2.1"), None);
    assert_eq!(many.cached.len(), 2);
    assert_eq!(rule(&many, "10.0.1.16"), Some(16));
}

#[test]
fn during_name_service_failure_known_clients_stay_allowed_for_an_hour() {
    let failing = FixedNames { names: &[], failing: true };
    let lan = rules(&["*.lan"]);
    let (client, start) = (ip("10.0.0.1"), Instant::now());
    lan.store(client, lan.resolve(&failing, client), start);
    assert_eq!(lan.find(client), ClientMatch::Denied);
    lan.store(client, lan.resolve(&NAMES, client), start);
    assert!(matches!(lan.find(client), ClientMatch::Allowed(_)));
    for minutes in [10, 59] {
        let now = start + Duration::from_secs(60 * minutes);
        lan.store(client, lan.resolve(&failing, client), now);
        assert!(matches!(lan.find(client), ClientMatch::Allowed(_)), "{minutes}");
    }
    lan.store(client, lan.resolve(&failing, client), start + Duration::from_secs(3600));
    assert_eq!(lan.find(client), ClientMatch::Denied);
}

#[test]
fn a_negative_answer_takes_effect_at_once() {
    let lan = rules(&["*.lan"]);
    let (client, gone) = (ip("10.0.0.1"), FixedNames { names: &[], failing: false });
    lan.store(client, lan.resolve(&NAMES, client), Instant::now());
    lan.store(client, lan.resolve(&gone, client), Instant::now());
    assert_eq!(lan.find(client), ClientMatch::Denied);
}

#[test]
fn entries_expire_and_idle_clients_are_removed() {
    let lan = rules(&["*.lan"]);
    let start = Instant::now();
    let [good, bad] = ["10.0.0.1", "10.0.0.7"].map(ip);
    for client in [good, bad] {
        lan.store(client, lan.resolve(&NAMES, client), start);
    }
    let after = |s| start + Duration::from_secs(s);
    assert!(lan.expired(after(29)).is_empty());
    assert_eq!(lan.expired(after(31)), [bad]);
    let mut both = lan.expired(after(301));
    both.sort_unstable();
    assert_eq!(both, [good, bad]);
    let mut now = start;
    // the call that caused the first check is still counted
    for _ in 0..=IDLE_CHECKS_MAX {
        now += Duration::from_secs(301);
        for client in lan.expired(now) {
            lan.store(client, lan.resolve(&NAMES, client), now);
        }
    }
    assert_eq!(lan.cached.len(), 2);
    assert!(lan.expired(now + Duration::from_secs(301)).is_empty());
    assert_eq!(lan.cached.len(), 0);
}

#[test]
fn the_cache_is_bounded() {
    let lan = rules(&["*.lan"]);
    for n in 0..20_000u32 {
        let client = IpAddr::from(n.to_be_bytes());
        lan.store(client, lan.resolve(&NAMES, client), Instant::now());
        assert!(lan.cached.len() <= super::CLIENTS_MAX);
    }
    assert!(lan.cached.len() > super::CLIENTS_MAX / 8 * 7);
}
