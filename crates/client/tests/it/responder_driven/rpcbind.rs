//! Registering with an rpcbind of version 2 only, simulated by the test.

use super::responder::{reply_to, udp, words};
use bowline_client::rpcbind::{RegisterError, Rpcbind, register};
use proto::portmap::{Mapping, Registration, procedure2};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use xdr::{Encode, Reader, Writer};

type Table = Arc<Mutex<Vec<Mapping>>>;

/// A port mapper that keeps mappings, and refuses to register `forbidden`.
fn port_mapper(table: Table, forbidden: u32) -> Rpcbind {
    let addr = udp(move |call| {
        let mut r = Reader::new(&call[20..]);
        let procedure = r.u32().unwrap();
        for _ in 0..2 {
            r.u32().unwrap();
            r.opaque(400).unwrap();
        }
        let mut table = table.lock().unwrap();
        let mut args = || r.get::<Mapping>().unwrap();
        let result = match procedure {
            procedure2::SET => {
                let new = args();
                let key = |m: &Mapping| (m.program, m.version, m.protocol);
                let free = table.iter().all(|m| key(m) != key(&new));
                let done = free && new.program != forbidden;
                if done {
                    table.push(new);
                }
                words(&[u32::from(done)])
            }
            procedure2::UNSET => {
                let old = args();
                table.retain(|m| (m.program, m.version) != (old.program, old.version));
                words(&[1])
            }
            procedure2::DUMP => {
                let mut w = Writer::new();
                for mapping in table.iter() {
                    w.bool(true);
                    mapping.encode(&mut w);
                }
                w.bool(false);
                w.bytes().to_vec()
            }
            other => panic!("procedure {other}"),
        };
        vec![reply_to(call, &result)]
    });
    Rpcbind { socket: PathBuf::from("/nonexistent/rpcbind.sock"), addr }
}

fn service(program: u32, tcp: bool, addr: &str) -> Registration {
    Registration::new(program, 3, tcp, addr.parse().unwrap())
}

fn mapping(program: u32, protocol: u32, port: u32) -> Mapping {
    Mapping { program, version: 3, protocol, port }
}

#[test]
fn version_2_registers_and_unregisters_ipv4_services() {
    let table = Table::default();
    let services = [
        service(100_003, true, "0.0.0.0:2049"),
        service(100_003, false, "0.0.0.0:2049"),
        service(100_003, true, "[::]:2049"),
    ];
    let registered = register(&services, port_mapper(table.clone(), 0)).unwrap();
    assert_eq!(registered.services(), services.get(..2).unwrap());
    let wanted = [mapping(100_003, 6, 2049), mapping(100_003, 17, 2049)];
    assert_eq!(*table.lock().unwrap(), wanted);
    registered.unregister().unwrap();
    assert!(table.lock().unwrap().is_empty());
}

#[test]
fn a_refusal_undoes_all_registrations() {
    let table = Table::default();
    let services = [service(100_003, true, "0.0.0.0:1"), service(100_005, true, "0.0.0.0:1")];
    let error = register(&services, port_mapper(table.clone(), 100_005)).unwrap_err();
    assert!(matches!(error, RegisterError::Refused { program: 100_005, .. }), "{error:?}");
    assert!(table.lock().unwrap().is_empty());
}

#[test]
fn the_registration_of_a_dead_server_is_replaced() {
    // A port that was free a moment ago: no server answers there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = u32::from(listener.local_addr().unwrap().port());
    drop(listener);
    let table = Table::default();
    table.lock().unwrap().push(mapping(100_003, 6, dead));
    let ours = [service(100_003, true, "0.0.0.0:9")];
    let registered = register(&ours, port_mapper(table.clone(), 0)).unwrap();
    assert_eq!(*table.lock().unwrap(), [mapping(100_003, 6, 9)]);
    registered.unregister().unwrap();
}

#[test]
fn the_registration_of_a_running_server_is_kept() {
    let live: SocketAddr =
        super::responder::tcp(|call| super::responder::marked(&reply_to(call, b"")));
    let table = Table::default();
    let theirs = mapping(100_003, 6, u32::from(live.port()));
    table.lock().unwrap().push(theirs);
    let ours = [service(100_003, true, "0.0.0.0:9")];
    let error = register(&ours, port_mapper(table.clone(), 0)).unwrap_err();
    assert!(matches!(error, RegisterError::Taken { program: 100_003, .. }), "{error:?}");
    let shown = format!("answers at 0.0.0.0:{};", live.port());
    assert!(error.to_string().contains(&shown), "{error}");
    assert_eq!(*table.lock().unwrap(), [theirs]);
}

#[test]
fn our_own_earlier_registration_is_replaced() {
    let table = Table::default();
    table.lock().unwrap().push(mapping(100_003, 6, 2049));
    let ours = [service(100_003, true, "0.0.0.0:2049")];
    let registered = register(&ours, port_mapper(table.clone(), 0)).unwrap();
    assert_eq!(registered.services().len(), 1);
    registered.unregister().unwrap();
    assert!(table.lock().unwrap().is_empty());
}

#[test]
fn registrations_lost_by_a_port_mapper_restart_are_restored() {
    let table = Table::default();
    let services = [service(100_003, true, "0.0.0.0:9"), service(100_005, true, "0.0.0.0:9")];
    let registered = register(&services, port_mapper(table.clone(), 0)).unwrap();
    assert_eq!(registered.restore().unwrap(), 0);
    table.lock().unwrap().remove(0);
    assert_eq!(registered.restore().unwrap(), 1);
    table.lock().unwrap().clear();
    assert_eq!(registered.restore().unwrap(), 2);
    assert_eq!(*table.lock().unwrap(), [mapping(100_003, 6, 9), mapping(100_005, 6, 9)]);
    registered.unregister().unwrap();
}

#[test]
fn a_service_of_another_server_is_not_replaced() {
    let live: SocketAddr =
        super::responder::tcp(|call| super::responder::marked(&reply_to(call, b"")));
    let table = Table::default();
    table.lock().unwrap().push(mapping(100_021, 6, u32::from(live.port())));
    let nfs = service(100_003, true, "0.0.0.0:9");
    let mut registered = register(&[nfs], port_mapper(table.clone(), 0)).unwrap();
    let error = registered.add(&service(100_021, true, "0.0.0.0:9")).unwrap_err();
    assert!(matches!(error, RegisterError::Taken { program: 100_021, .. }), "{error:?}");
    registered.add(&service(100_024, true, "0.0.0.0:9")).unwrap();
    assert_eq!(registered.services().len(), 2);
    registered.unregister().unwrap();
    assert_eq!(table.lock().unwrap().len(), 1, "the other's stays");
}

#[test]
fn a_missing_rpcbind_is_reported() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    drop(socket);
    let nowhere = Rpcbind { socket: PathBuf::from("/nonexistent/rpcbind.sock"), addr };
    let error = register(&[service(100_003, true, "0.0.0.0:9")], nowhere).unwrap_err();
    assert!(matches!(error, RegisterError::NoRpcbind(_)), "{error:?}");
}
