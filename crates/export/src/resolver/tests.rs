//! Waiting for name services that are slow, fail or panic.

use super::{NameService, QUEUE_MAX, Resolver, THREADS_MAX};
use crate::client_rules::Rule;
use crate::client_rules::{ClientMatch, ClientRules};
use crate::clients::Client;
use crate::options::Options;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};

/// Name services that answer with what a function of the test returns.
struct FunctionService {
    answer: Box<dyn Fn() -> Vec<IpAddr> + Send + Sync>,
}

impl NameService for FunctionService {
    fn names_of(&self, _: IpAddr) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn addresses_of(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok((self.answer)())
    }

    fn in_netgroup(&self, _: &str, _: &str) -> bool {
        false
    }
}

fn resolver(answer: impl Fn() -> Vec<IpAddr> + Send + Sync + 'static) -> Arc<Resolver> {
    Resolver::new(Box::new(FunctionService { answer: Box::new(answer) }))
}

fn for_host() -> Arc<ClientRules> {
    let client = Client::Host("h".into());
    Arc::new(ClientRules::new(vec![Rule::new(client, Options::default())]))
}

fn ip(n: u32) -> IpAddr {
    IpAddr::from(n.to_be_bytes())
}

#[test]
fn concurrent_waiters_share_one_lookup() {
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, gate) = (Arc::clone(&asked), Arc::new(Barrier::new(2)));
    let inside = Arc::clone(&gate);
    let resolver = resolver(move || {
        count.fetch_add(1, Ordering::SeqCst);
        inside.wait();
        vec![ip(7)]
    });
    let rules = for_host();
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| assert!(resolver.wait_for(&rules, ip(7))));
        }
        assert_eq!(rules.find(ip(7)), ClientMatch::Unknown);
        gate.wait();
    });
    assert!(matches!(rules.find(ip(7)), ClientMatch::Allowed(_)));
    assert!(resolver.wait_for(&rules, ip(7)));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn slow_lookups_do_not_block_others_and_the_queue_is_bounded() {
    let (release, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let resolver = resolver(move || {
        let _ = held.lock().unwrap().recv();
        Vec::new()
    });
    let rules = for_host();
    let limit = u32::try_from(QUEUE_MAX + THREADS_MAX).unwrap();
    let taken = (0..2 * limit).filter(|n| resolver.start_lookup(&rules, ip(*n))).count();
    assert!((QUEUE_MAX..=QUEUE_MAX + THREADS_MAX).contains(&taken), "{taken}");
    assert!(!resolver.wait_for(&rules, ip(3 * limit)), "at once, not after ten seconds");
    assert!(resolver.0.lock().threads <= THREADS_MAX);
    drop(release);
    assert!(resolver.wait_for(&rules, ip(0)));
}

#[test]
fn a_panic_in_a_lookup_ends_the_wait_but_not_the_resolver() {
    let first = AtomicUsize::new(0);
    let resolver = resolver(move || {
        assert!(first.fetch_add(1, Ordering::SeqCst) > 0, "this panic is part of the test");
        vec![ip(1)]
    });
    let rules = for_host();
    assert!(!resolver.wait_for(&rules, ip(1)));
    assert!(resolver.wait_for(&rules, ip(1)));
}

#[test]
fn this_machine_is_localhost() {
    let local = Rule::new(Client::Host("localhost".into()), Options::default());
    let rules = Arc::new(ClientRules::new(vec![local]));
    let resolver = Resolver::system();
    assert!(resolver.wait_for(&rules, [127, 0, 0, 1].into()));
    assert!(matches!(rules.find([127, 0, 0, 1].into()), ClientMatch::Allowed(_)));
}
