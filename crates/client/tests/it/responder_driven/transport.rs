//! The client against faulty servers.

use super::responder::{marked, read_record, reply_to, tcp, tcp_script, udp, words};
use bowline_client::{Client, Error, Nothing, Refusal, Target};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(150);
const NULL: Target = Target { program: 100_003, version: 3, procedure: 0 };

fn call_once(addr: SocketAddr, timeout: Duration) -> Result<Vec<u8>, Error> {
    let mut client = Client::tcp(addr, timeout)?;
    client.call(NULL, &Nothing).map(|reply| reply.body().to_vec())
}

#[test]
fn a_missing_server_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    let error = call_once(addr, PATIENCE).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains(&addr.to_string()), "{error}");
    let error = Client::udp(addr, PATIENCE).unwrap().call(NULL, &Nothing).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
}

#[test]
fn a_server_that_hangs_times_out() {
    let start = Instant::now();
    let error = call_once(tcp(|_| Vec::new()), SHORT).unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(start.elapsed() >= SHORT && start.elapsed() < PATIENCE);
}

#[test]
fn a_partial_reply_times_out() {
    let addr = tcp(|record| {
        let whole = marked(&reply_to(record, b""));
        whole[..whole.len() - 3].to_vec()
    });
    assert!(call_once(addr, SHORT).unwrap_err().is_timeout());
}

#[test]
fn a_closed_connection_error_says_how_much_had_arrived() {
    for (sent, wanted) in [(0, "no answer"), (2, "half an answer"), (13, "half an answer")] {
        let addr = tcp_script(move |mut stream| {
            let record = read_record(&mut stream).unwrap();
            stream.write_all(&marked(&reply_to(&record, b""))[..sent]).unwrap();
        });
        let error = call_once(addr, PATIENCE).unwrap_err();
        assert!(matches!(error, Error::Closed { missing, .. } if missing == wanted), "{error:?}");
    }
}

#[test]
fn another_protocol_is_recognised() {
    let http = |_: &[u8]| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    let error = call_once(tcp(http), PATIENCE).unwrap_err();
    assert!(matches!(error, Error::BadRecord { .. }), "{error:?}");
    let call_back = |record: &[u8]| marked(record);
    let error = call_once(tcp(call_back), PATIENCE).unwrap_err();
    assert!(matches!(error, Error::NotRpc { .. }), "{error:?}");
    let tiny = |_: &[u8]| marked(b"ab");
    let error = call_once(tcp(tiny), PATIENCE).unwrap_err();
    assert!(matches!(error, Error::NotRpc { .. }), "{error:?}");
}

#[test]
fn a_truncated_header_is_garbled() {
    for cut in [8, 12, 20] {
        let addr = tcp(move |record| marked(&reply_to(record, b"")[..cut]));
        let error = call_once(addr, PATIENCE).unwrap_err();
        assert!(matches!(error, Error::Garbled { .. }), "{cut}: {error:?}");
    }
}

#[test]
fn rejections_have_names() {
    let addr = tcp(|record| marked(&[&record[..4], &words(&[1, 0, 0, 0, 2, 4, 4])].concat()));
    let error = call_once(addr, PATIENCE).unwrap_err();
    let wanted = Refusal::ProgMismatch { low: 4, high: 4 };
    assert!(matches!(error, Error::Rejected(refusal) if refusal == wanted), "{error:?}");
}

#[test]
fn a_reply_with_another_xid_is_ignored() {
    let addr = tcp(|record| {
        let mut reply = reply_to(record, b"");
        reply[0] ^= 0x80;
        marked(&reply)
    });
    let error = call_once(addr, SHORT).unwrap_err();
    assert!(matches!(error, Error::TimedOut { strays: 1, .. }), "{error:?}");
}

#[test]
fn a_fragmented_reply_is_reassembled() {
    let addr = tcp_script(|mut stream| {
        let record = read_record(&mut stream).unwrap();
        let reply = reply_to(&record, b"result!!");
        let mut wire = Vec::new();
        for piece in reply.chunks(5) {
            wire.extend(u32::try_from(piece.len()).unwrap().to_be_bytes());
            wire.extend(piece);
        }
        wire.extend((1u32 << 31).to_be_bytes());
        for byte in wire {
            stream.write_all(&[byte]).unwrap();
        }
        read_record(&mut stream);
    });
    assert_eq!(call_once(addr, PATIENCE).unwrap(), b"result!!");
}

#[test]
fn replies_are_matched_in_any_order() {
    let addr = tcp_script(|mut stream| {
        let calls: Vec<_> = (0..4).map(|_| read_record(&mut stream).unwrap()).collect();
        for call in calls.iter().rev() {
            let number = &call[call.len() - 4..];
            stream.write_all(&marked(&reply_to(call, number))).unwrap();
        }
        read_record(&mut stream);
    });
    let mut client = Client::tcp(addr, PATIENCE).unwrap();
    let number = |n: u32| proto::portmap::Mapping { program: 0, version: 0, protocol: 0, port: n };
    let xids: Vec<u32> = (0..4).map(|n| client.send(NULL, &number(n)).unwrap()).collect();
    assert_eq!(client.recv(xids[2]).unwrap().body(), 2u32.to_be_bytes());
    assert_eq!(client.under_way(), 3);
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (xid, reply) = client.recv_any().unwrap();
        let n = xids.iter().position(|x| *x == xid).unwrap();
        assert_eq!(reply.unwrap().body(), u32::try_from(n).unwrap().to_be_bytes());
        seen.push(n);
    }
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 3]);
    assert!(matches!(client.recv(xids[0]), Err(Error::NotUnderWay(_))));
    assert!(matches!(client.recv_any(), Err(Error::NotUnderWay(_))));
}

#[test]
fn a_lost_datagram_is_retransmitted_unchanged() {
    let mut calls: Vec<Vec<u8>> = Vec::new();
    let addr = udp(move |call| {
        calls.push(call.to_vec());
        match calls.len() {
            1 | 2 => Vec::new(),
            _ => {
                assert!(calls.iter().all(|c| c == call));
                vec![reply_to(call, b"late")]
            }
        }
    });
    let mut client = Client::udp(addr, Duration::from_secs(3)).unwrap();
    assert_eq!(client.call(NULL, &Nothing).unwrap().body(), b"late");
    assert_eq!(client.retransmissions(), 2);
}

#[test]
fn invalid_datagrams_are_ignored() {
    let addr = udp(|call| {
        let mut other = reply_to(call, b"");
        other[3] ^= 1;
        vec![b"x".to_vec(), call.to_vec(), other, reply_to(call, b"good"), reply_to(call, b"dup.")]
    });
    let mut client = Client::udp(addr, PATIENCE).unwrap();
    assert_eq!(client.call(NULL, &Nothing).unwrap().body(), b"good");
    // The duplicate of the first reply is not taken for the second.
    assert_eq!(client.call(NULL, &Nothing).unwrap().body(), b"good");
}

#[test]
fn a_udp_call_times_out_after_several_retransmissions() {
    let mut client = Client::udp(udp(|_| Vec::new()), Duration::from_millis(300)).unwrap();
    let error = client.call(NULL, &Nothing).unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(client.retransmissions() >= 1);
    assert_eq!(client.under_way(), 0);
}

#[test]
fn a_late_reply_does_not_affect_the_next_call() {
    let addr = tcp_script(|mut stream| {
        let first = read_record(&mut stream).unwrap();
        let second = read_record(&mut stream).unwrap();
        thread::sleep(Duration::from_millis(20));
        stream.write_all(&marked(&reply_to(&first, b"old!"))).unwrap();
        stream.write_all(&marked(&reply_to(&second, b"new!"))).unwrap();
        read_record(&mut stream);
    });
    let mut client = Client::tcp(addr, SHORT).unwrap();
    assert!(client.call(NULL, &Nothing).unwrap_err().is_timeout());
    client.set_timeout(PATIENCE);
    assert_eq!(client.call(NULL, &Nothing).unwrap().body(), b"new!");
}
