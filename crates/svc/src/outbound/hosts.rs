//! Which call to which machine may go next.
//!
//! A machine that has answered its last call may have several under way. One that has not answered yet has one, and
//! after a failure it has none for a while, which doubles with each failure. Pure: the time comes as an argument.

use crate::outbound::OutboundLimits;
use crate::outbound::info::UnansweringHost;
use rpc::CallFailure;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// A machine: its address, with the interface of a link-local one, and port 0; or a port of it that has answered, whose calls
/// are not held up by what is not answered elsewhere.
pub(super) type HostKey = SocketAddr;

/// One machine.
#[derive(Debug, Default)]
struct Host {
    waiting: VecDeque<u64>,
    under_way: usize,
    /// It answered the last time that it was asked.
    answers: bool,
    failures: u32,
    last_failure: Option<CallFailure>,
    not_before_ms: u64,
}

/// What may go to a machine next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// This call, which counts as under way from here on.
    Call(u64),
    /// Nothing before this time.
    At(u64),
    /// Nothing until a call ends or another comes.
    Nothing,
}

/// All machines that are called, or did not answer recently.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    hosts: HashMap<HostKey, Host>,
    waiting: usize,
    under_way: usize,
}

impl Hosts {
    /// Adds a call to those that wait for a machine; the oldest of them, if there are too many then.
    pub fn wait(&mut self, key: HostKey, call: u64, limits: &OutboundLimits) -> Option<u64> {
        if !self.hosts.contains_key(&key) && self.hosts.len() >= limits.silent_hosts {
            self.forget_one();
        }
        let host = self.hosts.entry(key).or_default();
        host.waiting.push_back(call);
        if host.waiting.len() > limits.waiting_per_host {
            return host.waiting.pop_front();
        }
        self.waiting = self.waiting.saturating_add(1);
        None
    }

    /// Puts a call back in front that [`Hosts::next`] has given and that cannot go yet.
    pub fn put_back(&mut self, key: HostKey, call: u64) {
        let Some(host) = self.hosts.get_mut(&key) else { return };
        host.waiting.push_front(call);
        host.under_way = host.under_way.saturating_sub(1);
        self.waiting = self.waiting.saturating_add(1);
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// What may go now.
    pub fn next(&mut self, key: HostKey, now_ms: u64, limits: &OutboundLimits) -> Next {
        let Some(host) = self.hosts.get_mut(&key) else { return Next::Nothing };
        let most = if host.answers { limits.under_way_per_host } else { 1 };
        if host.waiting.is_empty() || host.under_way >= most {
            return Next::Nothing;
        }
        if now_ms < host.not_before_ms {
            return Next::At(host.not_before_ms);
        }
        let Some(call) = host.waiting.pop_front() else { return Next::Nothing };
        host.under_way = host.under_way.saturating_add(1);
        self.waiting = self.waiting.saturating_sub(1);
        self.under_way = self.under_way.saturating_add(1);
        Next::Call(call)
    }

    /// Takes a call back that waits.
    pub fn give_up(&mut self, key: HostKey, call: u64) {
        let Some(host) = self.hosts.get_mut(&key) else { return };
        let before = host.waiting.len();
        host.waiting.retain(|waiting| *waiting != call);
        self.waiting = self.waiting.saturating_sub(before.saturating_sub(host.waiting.len()));
        self.forget_if_idle(key);
    }

    /// A call that was under way is over.
    pub fn ended(&mut self, key: HostKey) {
        let Some(host) = self.hosts.get_mut(&key) else { return };
        host.under_way = host.under_way.saturating_sub(1);
        self.under_way = self.under_way.saturating_sub(1);
        self.forget_if_idle(key);
    }

    /// The machine has answered something.
    pub fn answered(&mut self, key: HostKey) {
        if let Some(host) = self.hosts.get_mut(&key) {
            (host.answers, host.failures, host.not_before_ms) = (true, 0, 0);
            host.last_failure = None;
        }
    }

    /// The machine has not answered, or there is no way to it. Failures at the same time count once.
    pub fn failed(&mut self, key: HostKey, why: CallFailure, now_ms: u64, limits: &OutboundLimits) {
        let Some(host) = self.hosts.get_mut(&key) else { return };
        host.answers = false;
        host.last_failure = Some(why);
        if now_ms >= host.not_before_ms {
            let doublings = host.failures.min(16);
            host.failures = host.failures.saturating_add(1);
            let pause = limits.backoff_min_ms.saturating_mul(1 << doublings);
            host.not_before_ms = now_ms.saturating_add(pause.min(limits.backoff_max_ms));
        }
    }

    /// How many calls wait, and how many are under way.
    pub const fn totals(&self) -> (usize, usize) {
        (self.waiting, self.under_way)
    }

    /// The machines that do not answer, at most `most`, and how many there are.
    pub fn unanswering(&self, now_ms: u64, most: usize) -> (Vec<UnansweringHost>, usize) {
        let row = |(key, host): (&HostKey, &Host)| {
            Some(UnansweringHost {
                addr: key.ip(),
                failures: host.failures,
                last: host.last_failure.filter(|_| host.failures > 0)?,
                waiting: host.waiting.len(),
                next_in_ms: host.not_before_ms.saturating_sub(now_ms),
            })
        };
        let mut rows: Vec<UnansweringHost> = self.hosts.iter().filter_map(row).collect();
        let all = rows.len();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.failures), row.addr));
        rows.truncate(most);
        (rows, all)
    }

    /// A machine without calls that answers is not remembered.
    fn forget_if_idle(&mut self, key: HostKey) {
        let idle = |host: &Host| host.waiting.is_empty() && host.under_way == 0;
        if self.hosts.get(&key).is_some_and(|host| idle(host) && host.failures == 0) {
            self.hosts.remove(&key);
        }
    }

    /// Makes room: of the machines without calls, the one whose pause ends first.
    fn forget_one(&mut self) {
        let idle = self.hosts.iter().filter(|(_, h)| h.waiting.is_empty() && h.under_way == 0);
        let first = idle.min_by_key(|(_, host)| host.not_before_ms).map(|(key, _)| *key);
        if let Some(first) = first {
            self.hosts.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Hosts, Next};
    use crate::outbound::OutboundLimits;
    use rpc::CallFailure;

    fn limits() -> OutboundLimits {
        OutboundLimits {
            waiting_per_host: 4,
            under_way_per_host: 3,
            silent_hosts: 2,
            ..OutboundLimits::default()
        }
    }

    #[test]
    fn only_one_call_is_sent_until_the_host_has_answered() {
        let (mut hosts, limits) = (Hosts::default(), limits());
        let key = "10.0.0.1:0".parse().unwrap();
        (1..=4).for_each(|call| assert_eq!(hosts.wait(key, call, &limits), None));
        assert_eq!(hosts.next(key, 0, &limits), Next::Call(1));
        assert_eq!(hosts.next(key, 0, &limits), Next::Nothing);
        hosts.answered(key);
        assert_eq!(hosts.next(key, 0, &limits), Next::Call(2));
        assert_eq!(hosts.next(key, 0, &limits), Next::Call(3));
        assert_eq!(hosts.next(key, 0, &limits), Next::Nothing, "three are under way");
        hosts.ended(key);
        assert_eq!(hosts.next(key, 0, &limits), Next::Call(4));
        (0..3).for_each(|_| hosts.ended(key));
        assert_eq!((hosts.totals(), hosts.hosts.len()), ((0, 0), 0), "nothing is left of it");
    }

    #[test]
    fn the_pause_after_a_failure_doubles_up_to_a_minute() {
        let (mut hosts, limits) = (Hosts::default(), limits());
        let key = "10.0.0.1:0".parse().unwrap();
        let (mut now, mut pauses) = (5, Vec::new());
        for call in 0..9 {
            hosts.wait(key, call, &limits);
            assert_eq!(hosts.next(key, now, &limits), Next::Call(call));
            hosts.failed(key, CallFailure::NoAnswer, now, &limits);
            hosts.failed(key, CallFailure::NoAnswer, now, &limits);
            hosts.ended(key);
            hosts.wait(key, 100, &limits);
            let Next::At(at) = hosts.next(key, now, &limits) else { panic!("no pause") };
            hosts.give_up(key, 100);
            pauses.push(at - now);
            now = at;
        }
        assert_eq!(pauses, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]);
        let (rows, all) = hosts.unanswering(now, 10);
        assert_eq!((all, rows[0].failures, rows[0].waiting), (1, 9, 0));
        hosts.wait(key, 1, &limits);
        assert_eq!(hosts.next(key, now, &limits), Next::Call(1));
        hosts.answered(key);
        hosts.ended(key);
        assert!(hosts.hosts.is_empty());
    }

    #[test]
    fn the_oldest_waiting_call_is_dropped_at_the_limit() {
        let (mut hosts, limits) = (Hosts::default(), limits());
        let key = "[fe80::1%3]:0".parse().unwrap();
        (1..=4).for_each(|call| assert_eq!(hosts.wait(key, call, &limits), None));
        assert_eq!(hosts.wait(key, 5, &limits), Some(1));
        assert_eq!(hosts.totals(), (4, 0));
    }

    #[test]
    fn a_port_that_has_answered_is_not_held_up_by_the_others() {
        let (mut hosts, limits) = (Hosts::default(), limits());
        let (host, port) = ("10.0.0.1:0".parse().unwrap(), "10.0.0.1:700".parse().unwrap());
        hosts.wait(host, 1, &limits);
        assert_eq!(hosts.next(host, 0, &limits), Next::Call(1));
        hosts.failed(host, CallFailure::ConnectionRefused, 0, &limits);
        hosts.ended(host);
        hosts.wait(host, 2, &limits);
        hosts.wait(port, 3, &limits);
        assert_eq!(hosts.next(host, 0, &limits), Next::At(1000));
        assert_eq!(hosts.next(port, 0, &limits), Next::Call(3));
    }

    #[test]
    fn the_number_of_unanswering_hosts_is_bounded() {
        let (mut hosts, limits) = (Hosts::default(), limits());
        for n in 1..=9_u8 {
            let key = ([10, 0, 0, n], 0).into();
            hosts.wait(key, n.into(), &limits);
            assert_eq!(hosts.next(key, n.into(), &limits), Next::Call(n.into()));
            hosts.failed(key, CallFailure::ConnectionRefused, n.into(), &limits);
            hosts.ended(key);
        }
        assert_eq!(hosts.hosts.len(), 2);
        assert!(hosts.hosts.contains_key(&([10, 0, 0, 9], 0).into()));
    }
}
