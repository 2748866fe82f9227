//! Which rule a client falls under, and how long that is believed.

use super::{COMPARED_MAX, IDLE_CHECKS_MAX, Verdict, Verdicts};
use crate::clients::Client;
use crate::export::Rule;
use crate::options::Options;
use crate::resolver::NameService;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A name service in a table; empty answers for all others, and none at all if `dead`.
pub struct Book {
    pub names: &'static [(&'static str, &'static str)],
    pub dead: bool,
}

const BOOK: Book =
    Book { names: &[("10.0.0.1", "build.lan"), ("10.0.0.2", "lap.lan")], dead: false };

impl NameService for Book {
    fn names_of(&self, client: IpAddr) -> io::Result<Vec<String>> {
        if self.dead {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let own = self.names.iter().filter(|(ip, _)| ip.parse() == Ok(client));
        Ok(own.map(|(_, name)| (*name).to_owned()).collect())
    }

    fn addresses_of(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if self.dead {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let own = self.names.iter().filter(|(_, name)| *name == host);
        Ok(own.map(|(ip, _)| ip.parse().unwrap()).collect())
    }

    fn in_netgroup(&self, group: &str, host: &str) -> bool {
        group == "staff" && (host == "lap" || host == "10.0.0.9")
    }
}

fn verdicts(clients: &[&str]) -> Verdicts {
    let rule = |(n, text): (usize, &&str)| Rule {
        client: Client::parse(text).unwrap(),
        options: Options { anonuid: u32::try_from(n).unwrap(), ..Options::default() },
    };
    Verdicts::new(clients.iter().enumerate().map(rule).collect())
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The place of the rule in force: by address, or after asking.
fn rule(verdicts: &Verdicts, client: &str) -> Option<u32> {
    let client = ip(client);
    if verdicts.find(client) == Verdict::Unknown {
        verdicts.keep(client, verdicts.judge(&BOOK, client), Instant::now());
    }
    match verdicts.find(client) {
        Verdict::Allowed(options) => Some(options.anonuid),
        Verdict::Denied => None,
        Verdict::Unknown => panic!("it was asked"),
    }
}

#[test]
fn the_more_specific_kind_wins_and_among_equals_the_first() {
    let all = verdicts(&["*", "@staff", "*.lan", "10.0.0.0/8", "10.0.0.0/24", "10.0.0.1"]);
    assert_eq!(rule(&all, "10.0.0.1"), Some(5));
    assert_eq!(rule(&all, "10.0.0.2"), Some(3));
    assert_eq!(rule(&all, "192.0.2.1"), Some(0));
    let by_name = verdicts(&["*", "@staff", "*.lan", "build.lan"]);
    assert_eq!(rule(&by_name, "10.0.0.1"), Some(3));
    assert_eq!(rule(&by_name, "10.0.0.2"), Some(2));
    assert_eq!(rule(&by_name, "10.0.0.3"), Some(0));
    let group = verdicts(&["@staff", "@other"]);
    assert_eq!(rule(&group, "10.0.0.2"), Some(0), "by the short name");
    assert_eq!(rule(&group, "10.0.0.9"), Some(0), "by the address");
    assert_eq!(rule(&group, "10.0.0.1"), None);
}

#[test]
fn addresses_ask_nobody_unless_a_name_comes_first() {
    let mixed = verdicts(&["10.0.0.1", "build.lan", "192.0.2.0/24", "*"]);
    assert!(matches!(mixed.find(ip("10.0.0.1")), Verdict::Allowed(_)));
    assert_eq!(mixed.find(ip("192.0.2.1")), Verdict::Unknown);
    let plain = verdicts(&["10.0.0.1", "192.0.2.0/24"]);
    assert_eq!(plain.find(ip("10.0.0.2")), Verdict::Denied);
    assert_eq!(plain.known.len(), 0);
}

#[test]
fn long_lists_of_addresses_are_remembered() {
    let many: Vec<String> = (0..=COMPARED_MAX).map(|n| format!("10.0.1.{n}")).collect();
    let many = verdicts(&many.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(rule(&many, "10.0.1.16"), Some(16));
    assert_eq!(rule(&many, "10.0.2.1"), None);
    assert_eq!(many.known.len(), 2);
    assert_eq!(rule(&many, "10.0.1.16"), Some(16));
}

#[test]
fn a_dead_service_lets_nobody_in_but_throws_nobody_out_for_an_hour() {
    let dead = Book { names: &[], dead: true };
    let lan = verdicts(&["*.lan"]);
    let (client, start) = (ip("10.0.0.1"), Instant::now());
    lan.keep(client, lan.judge(&dead, client), start);
    assert_eq!(lan.find(client), Verdict::Denied);
    lan.keep(client, lan.judge(&BOOK, client), start);
    assert!(matches!(lan.find(client), Verdict::Allowed(_)));
    for minutes in [10, 59] {
        let now = start + Duration::from_secs(60 * minutes);
        lan.keep(client, lan.judge(&dead, client), now);
        assert!(matches!(lan.find(client), Verdict::Allowed(_)), "{minutes}");
    }
    lan.keep(client, lan.judge(&dead, client), start + Duration::from_secs(3600));
    assert_eq!(lan.find(client), Verdict::Denied);
}

#[test]
fn an_answer_takes_a_right_away_at_once() {
    let lan = verdicts(&["*.lan"]);
    let (client, gone) = (ip("10.0.0.1"), Book { names: &[], dead: false });
    lan.keep(client, lan.judge(&BOOK, client), Instant::now());
    lan.keep(client, lan.judge(&gone, client), Instant::now());
    assert_eq!(lan.find(client), Verdict::Denied);
}

#[test]
fn checks_come_due_and_the_silent_are_forgotten() {
    let lan = verdicts(&["*.lan"]);
    let start = Instant::now();
    let [good, bad] = ["10.0.0.1", "10.0.0.7"].map(ip);
    for client in [good, bad] {
        lan.keep(client, lan.judge(&BOOK, client), start);
    }
    let after = |s| start + Duration::from_secs(s);
    assert!(lan.due(after(29)).is_empty());
    assert_eq!(lan.due(after(31)), [bad]);
    let mut both = lan.due(after(301));
    both.sort_unstable();
    assert_eq!(both, [good, bad]);
    let mut now = start;
    // the first check still counts the call that it was made for
    for _ in 0..=IDLE_CHECKS_MAX {
        now += Duration::from_secs(301);
        for client in lan.due(now) {
            lan.keep(client, lan.judge(&BOOK, client), now);
        }
    }
    assert_eq!(lan.known.len(), 2);
    assert!(lan.due(now + Duration::from_secs(301)).is_empty());
    assert_eq!(lan.known.len(), 0);
}

#[test]
fn the_cache_is_bounded() {
    let lan = verdicts(&["*.lan"]);
    for n in 0..5000u32 {
        let client = IpAddr::from(n.to_be_bytes());
        lan.keep(client, lan.judge(&BOOK, client), Instant::now());
    }
    assert_eq!(lan.known.len(), super::CLIENTS_MAX);
}
