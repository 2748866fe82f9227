//! Connections whose TLS records the kernel encrypts and decrypts, which takes its module `tls`: these tests run in a guest
//! (`tests_of_kernel_features_pass` of bowline). Elsewhere the tests of `tls` find the kernel without it.

use crate::tls::{self, Sealed, call, receive};
use crate::tls_storm::{ServersRecords, storm};
use crate::toy::{ECHO, FILE, TAKE, config, message, opaque, record, results, until};
use bowline_svc::{Config, KernelTlsChoice, KernelTlsState, ZeroCopy, kernel_tls_of_this_machine};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;
use telemetry::Counter;

const PATIENCE: Duration = Duration::from_secs(10);
/// From this Linux on keys can be changed.
const REKEYS: (u32, u32) = (6, 14);

fn kernel_version() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = text.split(['.', '-']).map_while(|word| word.trim().parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// The connections of this network namespace whose records the kernel has sent so far.
fn connections_so_far() -> u64 {
    let text = std::fs::read_to_string("/proc/net/tls_stat").unwrap();
    let row = text.lines().find_map(|line| line.strip_prefix("TlsTxSw")).unwrap();
    row.trim().parse().unwrap()
}

/// A server that sends ranges of files, and a file for it.
fn server_with_a_file(data: &[u8]) -> Sealed {
    let server = Sealed::start_as(PATIENCE, Config { zero_copy: ZeroCopy::On, ..config() });
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(data).unwrap();
    *server.toy.state.file.lock().unwrap() = Some(Arc::new(file.into()));
    server
}

fn is_in_kernel(server: &Sealed) -> bool {
    let conns = server.toy.server.conns();
    conns.iter().any(|conn| conn.tls.as_ref().is_some_and(|tls| tls.in_kernel))
}

fn range_of_file(offset: u64, len: u32) -> Vec<u8> {
    [&offset.to_be_bytes()[..], &len.to_be_bytes()].concat()
}

/// The kernel of this test has all suites that Linux knows, files are sent without being copied, and large calls arrive
/// whole without a pipe.
fn data_is_not_copied() {
    let state = kernel_tls_of_this_machine();
    assert!(matches!(&state, KernelTlsState::Ready(suites) if suites.len() == 3), "{state}");
    let data: Vec<u8> = (0..400_000_u32).map(|at| (at % 251) as u8).collect();
    let server = server_with_a_file(&data);
    let mut stream = server.connect();
    assert!(call(&mut stream, 1, FILE, &range_of_file(0, 400_000)) == opaque(&data));
    assert!(is_in_kernel(&server));
    let some = call(&mut stream, 2, FILE, &range_of_file(399_000, 1000));
    assert!(some == opaque(&data[399_000..]));
    until("both are counted", || server.toy.counter(Counter::BytesNotCopied) == 401_000);
    assert_eq!(server.toy.counter(Counter::TlsInKernel), 1);
    assert_eq!(server.toy.counter(Counter::CopiedSealed), 0);
    // a record that comes in pieces
    let sealed = stream.seal(&record(&message(3, ECHO, &opaque(b"in pieces")))).unwrap();
    let mut socket = stream.get_ref();
    for piece in sealed.chunks(20) {
        socket.write_all(piece).unwrap();
    }
    assert_eq!(results(&receive(&mut stream).unwrap()), (3, opaque(b"in pieces")));
    // several ranges and copied replies together
    let calls = (10..30).flat_map(|xid| match xid % 2 {
        0 => record(&message(xid, FILE, &range_of_file(u64::from(xid), 50_000))),
        _ => record(&message(xid, ECHO, &opaque(&[7; 40]))),
    });
    stream.write_all(&calls.collect::<Vec<_>>()).unwrap();
    for xid in 10..30 {
        let wanted = match xid % 2 {
            0 => opaque(&data[xid as usize..][..50_000]),
            _ => opaque(&[7; 40]),
        };
        assert!(results(&receive(&mut stream).unwrap()) == (xid, wanted), "{xid}");
    }
    let args = [&0_u32.to_be_bytes()[..], &opaque(&data)].concat();
    let taken = call(&mut stream, 40, TAKE, &args);
    assert!(taken[4..] == opaque(&data));
    // how many depends on how much arrives at a time
    println!("{} pieces were taken ahead", server.toy.counter(Counter::PiecesAhead));
    assert_eq!(server.toy.counter(Counter::BytesPiped), 0);
    server.toy.stop();
}

/// What the client has not read when the server stops still arrives, and then the end of the session.
fn replies_arrive_although_the_server_stops() {
    let server = server_with_a_file(&[9; 400_000]);
    let mut stream = server.connect();
    // one call: others would wait until the client has read the reply to the first
    stream.write_all(&record(&message(1, FILE, &range_of_file(0, 300_000)))).unwrap();
    // and the probe
    until("it is answered", || server.toy.server.conns().iter().any(|conn| conn.calls == 2));
    let stopped = std::thread::spawn(move || server.toy.stop());
    std::thread::sleep(Duration::from_millis(50));
    assert!(results(&receive(&mut stream).unwrap()) == (1, opaque(&[9; 300_000])));
    assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0, "close_notify, and nothing behind it");
    stopped.join().unwrap();
}

/// A client changes its keys between two calls and asks the server to do the same, alone and in the same bytes as calls.
fn clients_change_keys() {
    let server = server_with_a_file(&[3; 200_000]);
    let mut stream = server.connect();
    call(&mut stream, 1, ECHO, &opaque(b"before"));
    assert!(is_in_kernel(&server));
    stream.change_keys().unwrap();
    if kernel_version() < REKEYS {
        stream.write_all(&record(&message(2, ECHO, &opaque(b"after")))).unwrap();
        assert!(receive(&mut stream).is_err(), "such a kernel cannot go on");
        return server.toy.stop();
    }
    assert_eq!(call(&mut stream, 2, ECHO, &opaque(b"after")), opaque(b"after"));
    for turn in 10..40 {
        let mut bytes = stream.seal(&record(&message(turn, ECHO, &opaque(b"old key")))).unwrap();
        stream.change_keys().unwrap();
        let call = record(&message(turn + 100, FILE, &range_of_file(0, 200_000)));
        bytes.extend(stream.seal(&call).unwrap());
        let mut socket = stream.get_ref();
        socket.write_all(&bytes).unwrap();
        assert_eq!(results(&receive(&mut stream).unwrap()), (turn, opaque(b"old key")));
        assert!(results(&receive(&mut stream).unwrap()) == (turn + 100, opaque(&[3; 200_000])));
    }
    drop(stream);
    server.toy.stop();
}

/// The setting is for new connections; both kinds are served at once.
fn the_setting_changes_new_connections() {
    let server = server_with_a_file(&[1; 100_000]);
    let mut first = server.connect();
    call(&mut first, 1, ECHO, &opaque(b"kernel"));
    server.toy.server.set_kernel_tls(KernelTlsChoice::Off);
    let mut second = server.connect();
    for stream in [&mut first, &mut second] {
        assert!(call(stream, 2, FILE, &range_of_file(0, 100_000)) == opaque(&[1; 100_000]));
    }
    assert_eq!(server.toy.counter(Counter::TlsInKernel), 1);
    assert_eq!(server.toy.counter(Counter::CopiedSealed), 1);
    server.toy.server.set_kernel_tls(KernelTlsChoice::Auto);
    call(&mut server.connect(), 3, ECHO, &opaque(b"kernel"));
    until("it is counted", || server.toy.counter(Counter::TlsInKernel) == 2);
    drop((first, second));
    server.toy.stop();
}

fn a_storm() {
    let change_keys = kernel_version() >= REKEYS;
    storm(200, ServersRecords { in_kernel: true, change_keys });
}

#[test]
#[ignore = "runs inside a guest, whose kernel has the module tls"]
fn connections_are_encrypted_by_the_kernel() {
    let scenarios: [(&str, fn()); 11] = [
        ("data_is_not_copied", data_is_not_copied),
        ("replies_arrive_although_the_server_stops", replies_arrive_although_the_server_stops),
        ("clients_change_keys", clients_change_keys),
        ("the_setting_changes_new_connections", the_setting_changes_new_connections),
        ("a_queued_call", tls::a_queued_call_keeps_its_channel),
        ("slow_clients", tls::replies_that_the_client_is_slow_to_take_arrive_whole),
        ("the_end_of_the_handshake", tls::what_comes_with_the_end_of_the_handshake_is_answered),
        ("single_bytes", tls::a_client_hello_in_single_bytes_is_read),
        ("revocation", tls::a_certificate_that_is_revoked_ends_its_connections_and_no_others),
        ("tampering", tls::a_record_that_was_tampered_with_ends_the_session),
        ("a storm", a_storm),
    ];
    for (name, scenario) in scenarios {
        let before = connections_so_far();
        scenario();
        assert!(connections_so_far() > before, "{name}: the kernel was not used");
        println!("{name}: the kernel took its connections over");
    }
}
