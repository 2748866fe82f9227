//! What rpc.statd is asked, and when.

use super::{MachineMonitor, PAUSE_MS, TIMEOUT_MS, UNDER_WAY_MAX};
use proto::nsm::{Mon, MonId, MyId, Outcome, Stat, StatResult, procedure as p};
use rpc::{CallFailure, CallId, CallTarget, Outbound, OutboundCall};
use state::{HostName, MonitoredHost, Record};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use xdr::{Reader, Writer};

/// Calls that were made, to be answered by the test.
#[derive(Default)]
struct Asked(Mutex<Vec<OutboundCall>>);

impl Outbound for Asked {
    fn call(&self, call: OutboundCall) -> CallId {
        self.0.lock().unwrap().push(call);
        CallId(0)
    }

    fn cancel(&self, _: CallId) {}
}

/// The private bytes and the address of SM_MON, the address of SM_UNMON.
fn question(call: &OutboundCall) -> (u32, String) {
    let CallTarget::Machine { to, .. } = &call.target else { panic!("no machine") };
    assert!(to.addr().is_loopback() && to.local().is_loopback());
    assert!(call.timeout_ms <= TIMEOUT_MS, "bounded");
    let mut args = Reader::new(&call.args);
    let (my_id, name) = match call.procedure {
        p::UNMON_ALL => (args.get::<MyId<'_>>().unwrap(), &b"all"[..]),
        p::MON => {
            let mon: Mon<'_> = args.get().unwrap();
            (mon.mon_id.my_id, mon.mon_id.name.0)
        }
        p::UNMON => {
            let of: MonId<'_> = args.get().unwrap();
            (of.my_id, of.name.0)
        }
        other => panic!("procedure {other}"),
    };
    assert_eq!((my_id.program, my_id.version, my_id.procedure), (100_021, 4, 16));
    (call.procedure, String::from_utf8(name.to_vec()).unwrap())
}

impl Asked {
    fn seen(&self) -> Vec<(u32, String)> {
        self.0.lock().unwrap().iter().map(question).collect()
    }

    fn answer(&self, answer: Result<Outcome, CallFailure>) {
        let calls = std::mem::take(&mut *self.0.lock().unwrap());
        for call in calls {
            let mut w = Writer::new();
            match (answer, call.procedure) {
                (Ok(outcome), p::MON) => w.put(&StatResult { outcome, stat: Stat { state: 5 } }),
                (Ok(_), _) => w.put(&Stat { state: 5 }),
                (Err(_), _) => {}
            }
            (call.done)(answer.map(|_| w.bytes()));
        }
    }
}

fn address(number: u8) -> IpAddr {
    [10, 0, 0, number].into()
}

fn recorded(number: u8, name: &str) -> Record {
    Record::NsmHost(MonitoredHost {
        addr: address(number),
        name: name.as_bytes().into(),
        local: address(250),
        nlm_version: 4,
        transport: state::Transport::Tcp,
        nsm_state: 1,
    })
}

fn gone(number: u8, name: &str) -> Record {
    Record::NsmGone(HostName { addr: address(number), name: name.as_bytes().into() })
}

fn watch(number: u8) -> (u32, String) {
    (p::MON, address(number).to_string())
}

/// One that is on and has had what was watched before forgotten.
fn monitor() -> (Arc<Asked>, Arc<MachineMonitor>) {
    let asked = Arc::new(Asked::default());
    let outbound = Arc::clone(&asked) as Arc<dyn Outbound>;
    let monitor = Arc::new(MachineMonitor::new(outbound, Box::new(|| ())));
    assert_eq!(monitor.tick(0), None);
    monitor.note(&recorded(9, "before"));
    assert_eq!((monitor.tick(0), asked.seen()), (None, vec![]), "it is off");
    monitor.set_on(true, Vec::new);
    monitor.tick(0);
    assert_eq!(asked.seen(), [(p::UNMON_ALL, "all".to_owned())]);
    asked.answer(Ok(Outcome::Success));
    (asked, monitor)
}

#[test]
fn an_address_is_watched_from_its_first_recorded_host_to_its_last() {
    let (asked, monitor) = monitor();
    monitor.note(&recorded(1, "one"));
    monitor.note(&recorded(1, "other"));
    monitor.tick(1);
    assert_eq!(asked.seen(), [watch(1)], "once");
    assert_eq!((monitor.progress().watched, monitor.progress().unwatched), (0, 1));
    asked.answer(Ok(Outcome::Success));
    assert_eq!((monitor.progress().watched, monitor.progress().unwatched), (1, 0));
    monitor.note(&recorded(1, "one"));
    monitor.note(&gone(1, "one"));
    monitor.tick(2);
    assert_eq!(asked.seen(), [], "the other host is there");
    monitor.note(&gone(1, "other"));
    monitor.tick(3);
    assert_eq!(asked.seen(), [(p::UNMON, address(1).to_string())]);
    // it comes back before the answer
    monitor.note(&recorded(1, "one"));
    asked.answer(Ok(Outcome::Success));
    monitor.tick(4);
    assert_eq!(asked.seen(), [watch(1)]);
    asked.answer(Ok(Outcome::Success));
    monitor.set_on(false, Vec::new);
    monitor.tick(5);
    assert_eq!(asked.seen(), [(p::UNMON_ALL, "all".to_owned())]);
    asked.answer(Err(CallFailure::NoAnswer));
    monitor.note(&recorded(2, "two"));
    assert_eq!(
        (monitor.tick(99_999), asked.seen()),
        (None, vec![]),
        "asked once, and nothing more"
    );
    assert_eq!(monitor.progress().failure, None, "who is off has nothing to say");
}

#[test]
fn a_failure_is_said_and_tried_again_after_a_pause() {
    let (asked, monitor) = monitor();
    for (now, failure, why) in [
        (1, Err(CallFailure::NotRegistered), "is not registered with its port mapper"),
        (1_000_000, Err(CallFailure::NoAnswer), "no reply"),
        (2_000_000, Ok(Outcome::Fail), "refuses to watch 10.0.0.1"),
    ] {
        monitor.note(&recorded(1, "one"));
        monitor.tick(now);
        assert_eq!(asked.seen(), [watch(1)]);
        asked.answer(failure);
        let progress = monitor.progress();
        assert_eq!((progress.watched, progress.unwatched), (0, 1));
        assert!(progress.failure.unwrap().contains(why));
        let again = now + TIMEOUT_MS + PAUSE_MS;
        assert_eq!((monitor.tick(again - 1), asked.seen()), (Some(again), vec![]));
        monitor.tick(again);
        assert_eq!(asked.seen(), [watch(1)]);
        asked.answer(Ok(Outcome::Success));
        assert_eq!((monitor.progress().watched, monitor.progress().failure), (1, None));
        monitor.note(&gone(1, "one"));
        monitor.tick(again + 1);
        asked.answer(Ok(Outcome::Success));
    }
}

#[test]
fn thousands_of_addresses_are_asked_for_a_few_at_a_time_also_when_switched_on_late() {
    let (asked, monitor) = monitor();
    monitor.set_on(false, Vec::new);
    monitor.tick(1);
    // the answer to a question of before it was switched means nothing
    let hosts = (0..4000_u16).map(|n| {
        let [a, b] = n.to_be_bytes();
        HostName { addr: IpAddr::from([10, 1, a, b]), name: b"host".as_slice().into() }
    });
    monitor.set_on(true, || hosts.collect());
    asked.answer(Ok(Outcome::Success));
    monitor.tick(2);
    assert_eq!(asked.seen(), [(p::UNMON_ALL, "all".to_owned())]);
    asked.answer(Ok(Outcome::Success));
    let mut told = 0;
    while monitor.progress().unwatched > 0 {
        monitor.tick(3);
        let seen = asked.seen();
        assert!(seen.len() <= UNDER_WAY_MAX && seen.iter().all(|(number, _)| *number == p::MON));
        assert!(!seen.is_empty(), "it goes on");
        told += seen.len();
        asked.answer(Ok(Outcome::Success));
    }
    assert_eq!((told, monitor.progress().watched), (4000, 4000));
}

#[test]
fn only_who_was_asked_and_calls_from_a_reserved_loopback_port_is_believed() {
    let (asked, monitor) = monitor();
    monitor.note(&recorded(1, "one"));
    monitor.tick(1);
    let private = {
        let calls = asked.0.lock().unwrap();
        Reader::new(&calls[0].args).get::<Mon<'_>>().unwrap().private
    };
    let rebooted = |from: &str, name: &str, private: &[u8]| {
        monitor.rebooted_address(from.parse().unwrap(), name.as_bytes(), private)
    };
    assert_eq!(rebooted("127.0.0.1:700", "10.0.0.1", &private), Some(address(1)));
    assert_eq!(rebooted("[::1]:700", "10.0.0.1", &private), Some(address(1)));
    assert_eq!(rebooted("127.0.0.1:1024", "10.0.0.1", &private), None, "any user's port");
    assert_eq!(rebooted("10.0.0.1:700", "10.0.0.1", &private), None, "not this machine");
    assert_eq!(rebooted("127.0.0.1:700", "10.0.0.1", &[0; 16]), None, "was never asked");
    assert_eq!(rebooted("127.0.0.1:700", "one", &private), None, "no address");
    monitor.set_on(false, Vec::new);
    assert_eq!(rebooted("127.0.0.1:700", "10.0.0.1", &private), None, "off");
}
