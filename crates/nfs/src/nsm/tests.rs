//! Which notifications are believed, and when clients are told of a restart.

use super::{Notifier, Nsm, NsmCounters, Reboots, nsm_program};
use proto::nsm::{Mon, MonId, MyId, Name, Notify, Outcome, StatResult, procedure};
use rpc::{
    Call, CallFailure, CallId, CallTarget, Credential, IgnoreBlocking, Outbound, OutboundCall,
    Peer, Program, Transport,
};
use state::{Caller, Limits, MonitoredHost, Now, Record, Recovery, State};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use xdr::{Encode, Reader, Writer};

/// The state itself: there are no kernel locks here.
struct Direct(Arc<State>);

impl Reboots for Direct {
    fn client_rebooted(&self, from: IpAddr, name: &[u8], nsm_state: i32) -> Option<usize> {
        match self.0.client_rebooted(Now(9), from, name, nsm_state) {
            state::Reboot::Ignored => None,
            state::Reboot::Dropped { ranges, .. } => Some(ranges),
        }
    }
}

fn address(host: u8) -> IpAddr {
    [10, 0, 0, host].into()
}

/// A status monitor that knows these monitored hosts.
fn monitor(hosts: &[(u8, &str)]) -> (Arc<Nsm>, Arc<State>) {
    let state = Arc::new(State::new(&Recovery::default(), Now(0), Limits::default(), 1));
    for (addr, name) in hosts {
        let caller = Caller {
            addr: address(*addr),
            name: name.as_bytes(),
            local: address(250),
            nlm_version: 4,
            transport: state::Transport::Udp,
            nsm_state: 7,
        };
        state.identify(Now(1), &caller).unwrap();
        let host = MonitoredHost {
            addr: address(*addr),
            name: name.as_bytes().into(),
            local: address(250),
            nlm_version: 4,
            transport: state::Transport::Udp,
            nsm_state: 7,
        };
        let effects = state.persisted(Now(1), &Record::NsmHost(host));
        assert!(effects.is_empty());
    }
    let reboots = Arc::new(Direct(Arc::clone(&state)));
    (Arc::new(Nsm::new(Arc::clone(&state), reboots)), state)
}

fn call(nsm: &Arc<Nsm>, from: (u8, u16), number: u32, args: &impl Encode) -> Vec<u8> {
    let from_ip = if from.0 == 0 { [127, 0, 0, 1].into() } else { address(from.0) };
    let addr = (from_ip, from.1).into();
    let peer = Peer {
        addr,
        local: (address(250), 2049).into(),
        transport: Transport::Udp,
        security: rpc::TransportSecurity::PLAIN,
    };
    let mut call = Call::new(1, &peer, Credential::Anonymous, &IgnoreBlocking);
    let (mut wire, mut reply) = (Writer::new(), Writer::new());
    wire.put(args);
    let program = nsm_program(Arc::clone(nsm));
    let row = program.row(1, number).unwrap();
    program.run(row.id, &mut call, &mut Reader::new(wire.bytes()), &mut reply).unwrap();
    reply.bytes().to_vec()
}

fn notify(nsm: &Arc<Nsm>, from: (u8, u16), name: &str, state: i32) -> NsmCounters {
    let args = Notify { name: name.as_bytes(), state };
    assert!(call(nsm, from, procedure::NOTIFY, &args).is_empty(), "always void");
    nsm.counters()
}

fn believed(counters: NsmCounters) -> (u64, u64) {
    (counters.reboots, counters.ignored)
}

#[test]
fn a_notify_needs_a_new_state_number_and_the_hosts_reserved_port() {
    let (nsm, state) = monitor(&[(1, "one"), (2, "two")]);
    let id = |host: u8| {
        state.host_rows(Now(2)).iter().find(|row| row.info.addr == address(host)).map(|row| row.id)
    };
    let (one, two) = (id(1), id(2));
    assert_eq!(believed(notify(&nsm, (1, 700), "one", 7)), (0, 1), "the number is known");
    assert_eq!(believed(notify(&nsm, (1, 1024), "one", 9)), (0, 2), "any user's port");
    assert_eq!(believed(notify(&nsm, (2, 700), "one", 9)), (0, 3), "another address");
    assert_eq!(believed(notify(&nsm, (9, 700), "one", 9)), (0, 4), "an unknown address");
    assert_eq!(believed(notify(&nsm, (1, 700), "three", 9)), (0, 5), "another name");
    assert_eq!(believed(notify(&nsm, (1, 700), "", 9)), (0, 6));
    assert_eq!((id(1), id(2)), (one, two), "nothing was dropped");
    assert_eq!(believed(notify(&nsm, (1, 700), "one", 9)), (1, 6));
    assert!(id(1) != one && id(2) == two, "only the one that rebooted");
    assert_eq!(believed(notify(&nsm, (1, 700), "one", 9)), (1, 7), "sent again");
}

#[test]
fn names_match_with_or_without_their_domain() {
    let (nsm, _) =
        monitor(&[(1, "one"), (2, "two.example.org"), (3, "same"), (3, "same.a"), (4, "10")]);
    assert_eq!(believed(notify(&nsm, (1, 700), "ONE.example.org", 9)), (1, 0));
    assert_eq!(believed(notify(&nsm, (2, 700), "two", 9)), (2, 0));
    assert_eq!(believed(notify(&nsm, (2, 700), "tw", 11)), (2, 1));
    assert_eq!(believed(notify(&nsm, (2, 700), "two.example.com", 11)), (2, 2), "two domains");
    assert_eq!(believed(notify(&nsm, (3, 700), "same.b", 9)), (3, 2), "the short one is meant");
    assert_eq!(believed(notify(&nsm, (4, 700), "10.0.0.4", 9)), (3, 3), "an address has no domain");
}

#[test]
fn an_ambiguous_name_matches_no_host() {
    let (nsm, _) = monitor(&[(3, "same.a"), (3, "same.b")]);
    assert_eq!(believed(notify(&nsm, (3, 700), "same", 9)), (0, 1));
    assert_eq!(believed(notify(&nsm, (3, 700), "same.b", 9)), (1, 1));
}

#[test]
fn monitoring_for_others_is_refused_and_the_state_number_is_odd() {
    let (nsm, state) = monitor(&[]);
    let result = |bytes: &[u8]| Reader::new(bytes).get::<StatResult>().unwrap();
    let my_id = MyId { name: Name(b"me"), program: 100_021, version: 4, procedure: 16 };
    let mon = Mon { mon_id: MonId { name: Name(b"server"), my_id }, private: [1; 16] };
    for from in [0, 5] {
        let refused = result(&call(&nsm, (from, 700), procedure::MON, &mon));
        assert_eq!(refused.outcome, Outcome::Fail);
    }
    assert_eq!(nsm.counters().monitor_refused, 1, "this machine's own is told to the operator");
    let stat = result(&call(&nsm, (5, 7000), procedure::STAT, &Name(b"any")));
    assert_eq!((stat.outcome, stat.stat.state), (Outcome::Success, state.nsm_state()));
    assert_eq!(stat.stat.state % 2, 1);
}

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

impl Asked {
    /// What each call says and where it goes.
    fn seen(&self) -> Vec<(IpAddr, IpAddr, Transport, String)> {
        let seen = |call: &OutboundCall| {
            let CallTarget::Machine { to, transport, .. } = &call.target else {
                panic!("no machine")
            };
            let notify: Notify<'_> = Reader::new(&call.args).get().unwrap();
            assert_eq!(notify.state, 11);
            let name = String::from_utf8(notify.name.to_vec()).unwrap();
            (to.addr(), to.local(), *transport, name)
        };
        self.0.lock().unwrap().iter().map(seen).collect()
    }

    fn answer(&self, result: Result<(), CallFailure>) {
        let calls = std::mem::take(&mut *self.0.lock().unwrap());
        calls.into_iter().for_each(|call| (call.done)(result.map(|()| &[][..])));
    }
}

fn host(addr: u8, name: &str) -> MonitoredHost {
    MonitoredHost {
        addr: address(addr),
        name: name.as_bytes().into(),
        local: address(250),
        nlm_version: 4,
        transport: state::Transport::Udp,
        nsm_state: 7,
    }
}

#[test]
fn sm_notify_is_sent_on_schedule_until_the_host_answers() {
    let asked = Arc::new(Asked::default());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&heard);
    let answered = Box::new(move |addr: IpAddr, name: &[u8]| {
        noted.lock().unwrap().push((addr, String::from_utf8(name.to_vec()).unwrap()));
    });
    let hosts = vec![host(1, "one"), host(1, "other")];
    let outbound = Arc::clone(&asked) as Arc<dyn Outbound>;
    let notifier = Notifier::new(outbound, hosts, b"me".to_vec(), 11, answered);
    let (mut now, mut times, mut transports) = (0, Vec::new(), Vec::new());
    while let Some(next) = notifier.tick(now) {
        let seen = asked.seen();
        if let [(_, _, transport, name)] = seen.as_slice() {
            assert_eq!(name, "me");
            times.push(now / 1000);
            transports.push(*transport);
        }
        asked.answer(Err(CallFailure::NoAnswer));
        now = if seen.is_empty() { next } else { now };
    }
    assert_eq!(times[..7], [0, 5, 10, 20, 40, 60, 120]);
    assert!(times[times.len() - 1] <= 900 && times.len() > 15, "{times:?}");
    assert_eq!(transports[..3], [Transport::Udp, Transport::Tcp, Transport::Udp]);
    assert_eq!(notifier.progress().given_up, 1);
    assert!(heard.lock().unwrap().is_empty());

    let outbound = Arc::clone(&asked) as Arc<dyn Outbound>;
    let noted = Arc::clone(&heard);
    let answered = Box::new(move |addr: IpAddr, name: &[u8]| {
        noted.lock().unwrap().push((addr, String::from_utf8(name.to_vec()).unwrap()));
    });
    let hosts = vec![host(1, "one"), host(1, "other")];
    let notifier = Notifier::new(outbound, hosts, b"me".to_vec(), 11, answered);
    notifier.tick(0);
    asked.answer(Ok(()));
    assert_eq!(
        *heard.lock().unwrap(),
        [(address(1), "one".into()), (address(1), "other".into())],
        "every host of the machine has heard it"
    );
    // and once by the address
    assert_eq!(asked.seen(), [(address(1), address(250), Transport::Udp, "10.0.0.250".into())]);
    asked.answer(Err(CallFailure::NoAnswer));
    assert_eq!(notifier.tick(5000), None);
    assert_eq!((notifier.progress().machines, notifier.progress().answered), (1, 1));
}

#[test]
fn concurrent_notifications_are_bounded() {
    let asked = Arc::new(Asked::default());
    let hosts = (0..10_000_u32).map(|n| MonitoredHost {
        addr: IpAddr::from((0x0a00_0000 + n).to_be_bytes()),
        ..host(0, "many")
    });
    let outbound = Arc::clone(&asked) as Arc<dyn Outbound>;
    let notifier =
        Notifier::new(outbound, hosts.collect(), b"me".to_vec(), 11, Box::new(|_, _| ()));
    let mut told = 0;
    while notifier.tick(1).is_some() {
        let calls = asked.seen();
        assert!(calls.len() <= 2 * super::notifier::UNDER_WAY_MAX, "{} calls", calls.len());
        told += calls.iter().filter(|(_, _, _, name)| name == "me").count();
        asked.answer(Ok(()));
    }
    assert_eq!((told, notifier.progress().answered), (10_000, 10_000));
}
