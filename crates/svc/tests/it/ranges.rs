//! Replies that are ranges of files: whole and in order, whatever the file and the client do.

use crate::tls::{Sealed, call, receive};
use crate::toy::{ECHO, FILE, Toy, config, datagrams, message, opaque, record, results, until};
use bowline_svc::{Config, KernelTlsChoice, Limits, UdpSockets, ZeroCopy};
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;
use telemetry::Counter;
use testing::{Missing, skip};

/// What the file holds at an offset: never zero.
fn byte(at: usize) -> u8 {
    (at % 251) as u8 + 1
}

fn bytes(offset: usize, len: usize) -> Vec<u8> {
    (offset..offset + len).map(byte).collect()
}

/// A server with a file of `len` bytes, and the file, open for writing.
fn with_file(len: usize, config: Config) -> (Toy, File) {
    let toy = Toy::start(config);
    let file = write_file(&toy, len);
    (toy, file)
}

fn write_file(toy: &Toy, len: usize) -> File {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, bytes(0, len)).unwrap();
    *toy.state.file.lock().unwrap() = Some(Arc::new(File::open(&path).unwrap().into()));
    File::options().write(true).open(&path).unwrap()
}

/// The same for a server over TLS, whose records it makes itself.
fn with_file_over_tls(len: usize, config: Config) -> (Sealed, File) {
    let sealed = Sealed::start_as(Duration::from_secs(10), config);
    sealed.toy.server.set_kernel_tls(KernelTlsChoice::Off);
    let file = write_file(&sealed.toy, len);
    (sealed, file)
}

/// Bytes of payload that were copied, and that were not.
fn moved(toy: &Toy) -> (u64, u64) {
    (toy.counter(Counter::BytesCopied), toy.counter(Counter::BytesNotCopied))
}

fn ask(offset: usize, len: usize) -> Vec<u8> {
    [&(offset as u64).to_be_bytes()[..], &(len as u32).to_be_bytes()].concat()
}

#[test]
fn a_range_contains_the_data_of_the_file() {
    for choice in [ZeroCopy::On, ZeroCopy::Off, ZeroCopy::Auto] {
        let (toy, _file) = with_file(3 << 20, Config { zero_copy: choice, ..config() });
        let mut client = toy.client();
        let mut read = 0;
        for (xid, (offset, len)) in
            [(0, 4096), (7, 1), (1, 100_001), (12_345, 2 << 20), (0, 0), (3, 65_533)]
                .into_iter()
                .enumerate()
        {
            let got = client.call(xid as u32, FILE, &ask(offset, len));
            assert!(got == opaque(&bytes(offset, len)), "{len} bytes at {offset}");
            read += len as u64;
        }
        until("all is counted", || moved(&toy).0 + moved(&toy).1 >= read);
        let (copied, not) = moved(&toy);
        assert_eq!(copied + not, read);
        match choice {
            ZeroCopy::On => assert_eq!(copied, 0),
            ZeroCopy::Off => assert_eq!(not, 0),
            ZeroCopy::Auto => assert_eq!(copied, 4096 + 1, "what is small"),
        }
        toy.stop();
    }
}

#[test]
fn ranges_keep_their_order_among_other_replies() {
    let (toy, _file) = with_file(1 << 20, Config { zero_copy: ZeroCopy::On, ..config() });
    let mut client = toy.client();
    let mut wire = Vec::new();
    for xid in 0..300_u32 {
        let args = match xid % 3 {
            0 => message(xid, ECHO, &opaque(&xid.to_be_bytes())),
            _ => message(xid, FILE, &ask(xid as usize, 1000 + xid as usize)),
        };
        wire.extend(record(&args));
    }
    client.0.write_all(&wire).unwrap();
    for xid in 0..300_u32 {
        let (got, result) = client.receive();
        assert_eq!(got, xid);
        match xid % 3 {
            0 => assert_eq!(result, opaque(&xid.to_be_bytes())),
            _ => assert!(result == opaque(&bytes(xid as usize, 1000 + xid as usize)), "{xid}"),
        }
    }
    toy.stop();
}

#[test]
fn unread_ranges_hold_the_file_open_but_use_no_memory() {
    const LEN: usize = 4 << 20;
    let (toy, file) = with_file(LEN, config());
    let held = Arc::downgrade(toy.state.file.lock().unwrap().as_ref().unwrap());
    let mut lazy = toy.client();
    let mut other = toy.client();
    for xid in 0..64 {
        lazy.send(xid, FILE, &ask(0, LEN));
        lazy.send(1000 + xid, ECHO, &opaque(b"behind it"));
    }
    until("its socket is full", || toy.server.conns().iter().any(|conn| conn.queued_bytes > 0));
    for xid in 0..100 {
        assert_eq!(other.call(xid, ECHO, &opaque(b"x")), opaque(b"x"));
    }
    let conns = toy.server.conns();
    let conn = conns.iter().find(|conn| conn.queued_bytes > 0).unwrap();
    assert!(conn.calls < 128, "it is not read any more: {conn:?}");
    assert!(held.strong_count() > 1, "the reply under way holds the file");
    // Its pages leave the memory as far as the kernel lets them; the reply goes on all the same.
    file.sync_all().unwrap();
    sys::io::forget(std::os::fd::AsFd::as_fd(&file)).unwrap();
    let all = opaque(&bytes(0, LEN));
    for xid in 0..64 {
        let (got, result) = lazy.receive();
        assert!(got == xid && result == all, "the reply to call {xid}");
        assert_eq!(lazy.receive(), (1000 + xid, opaque(b"behind it")));
    }
    until("nothing holds the file", || held.strong_count() == 1);
    toy.stop();
}

#[test]
fn a_range_truncated_during_the_send_is_padded_with_zeros() {
    const LEN: usize = 4 << 20;
    let (toy, file) = with_file(LEN, config());
    let mut client = toy.client();
    for xid in 0..8 {
        client.send(xid, FILE, &ask(1, LEN - 1));
    }
    until("its socket is full", || toy.server.conns().iter().any(|conn| conn.queued_bytes > 0));
    file.set_len(5000).unwrap();
    for xid in 0..8 {
        let (got, result) = client.receive();
        assert_eq!((got, result.len()), (xid, 4 + LEN));
        let data = &result[4..4 + LEN - 1];
        // What had left the page cache for the socket is sent as it was, or as it was cut.
        let mut pairs = data.iter().enumerate();
        assert!(pairs.all(|(at, b)| *b == byte(at + 1) || at >= 4999 && *b == 0));
    }
    assert!(toy.counter(Counter::RangesPadded) > 0);
    assert_eq!(client.call(99, ECHO, &opaque(b"in step")), opaque(b"in step"));
    toy.stop();
}

/// Ranges of less than a piece are copied into the reply, whatever the setting says.
#[test]
fn a_range_over_tls_contains_the_data_of_the_file() {
    for choice in [ZeroCopy::On, ZeroCopy::Off] {
        let config = Config { zero_copy: choice, ..config() };
        let (server, _file) = with_file_over_tls(3 << 20, config);
        let mut client = server.connect();
        let asked =
            [(7, 1), (3, 131_071), (0, 131_072), (5, 131_073), (12_345, 2 << 20), (1, 1 << 20)];
        let mut read = 0;
        for (xid, (offset, len)) in asked.into_iter().enumerate() {
            let got = call(&mut client, xid as u32, FILE, &ask(offset, len));
            assert!(got == opaque(&bytes(offset, len)), "{len} bytes at {offset}");
            read += len as u64;
        }
        let toy = &server.toy;
        until("all is counted", || moved(toy) == (read, 0));
        let sealed = || toy.counter(Counter::CopiedSealed);
        until("and how", || sealed() == 6);
        server.toy.stop();
    }
}

/// Of what a client does not take, the records under way are kept, and of the rest which file it is.
#[test]
fn unread_ranges_over_tls_are_read_when_the_client_takes_them() {
    const LEN: usize = 4 << 20;
    let (server, file) = with_file_over_tls(LEN, config());
    let toy = &server.toy;
    let mut client = server.connect();
    for xid in 0..16 {
        client.write_all(&record(&message(xid, FILE, &ask(1, LEN - 1)))).unwrap();
        client.write_all(&record(&message(1000 + xid, ECHO, &opaque(b"behind it")))).unwrap();
    }
    until("its socket is full", || toy.server.conns().iter().any(|conn| conn.queued_bytes > 0));
    file.set_len(5000).unwrap();
    for xid in 0..16 {
        let (got, result) = results(&receive(&mut client).unwrap());
        assert_eq!((got, result.len()), (xid, 4 + LEN));
        let mut pairs = result[4..4 + LEN - 1].iter().enumerate();
        assert!(pairs.all(|(at, b)| *b == byte(at + 1) || at >= 4999 && *b == 0), "{xid}");
        let behind = results(&receive(&mut client).unwrap());
        assert_eq!(behind, (1000 + xid, opaque(b"behind it")));
    }
    assert!(toy.counter(Counter::RangesPadded) > 0);
    drop(client);
    server.toy.stop();
}

#[test]
fn a_file_that_cannot_be_sent_ends_the_connection() {
    let (toy, _file) = with_file(10, Config { zero_copy: ZeroCopy::On, ..config() });
    *toy.state.file.lock().unwrap() = Some(Arc::new(sys::open::open_path("/".as_ref()).unwrap()));
    let mut client = toy.client();
    client.send(1, FILE, &ask(0, 8192));
    let mut got = Vec::new();
    let end = std::io::Read::read_to_end(&mut client.0, &mut got);
    assert!(got.len() < 8192, "never a whole reply: {end:?}");
    let waited =
        |error: &Error| [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind());
    assert!(!end.is_err_and(|error| waited(&error)), "the server ends it");
    let mut next = toy.client();
    assert_eq!(next.call(1, ECHO, &opaque(b"x")), opaque(b"x"), "others go on");
    toy.stop();
}

#[test]
fn a_file_without_pages_is_copied() {
    let (toy, _file) = with_file(10, Config { zero_copy: ZeroCopy::On, ..config() });
    // a file of the kernel's own making that sendfile may refuse, and must not garble
    let path = "/proc/self/maps";
    let fd = File::open(path).unwrap();
    let mut expected = [0; 64];
    fd.read_exact_at(&mut expected, 0).unwrap();
    *toy.state.file.lock().unwrap() = Some(Arc::new(fd.into()));
    let mut client = toy.client();
    let got = client.call(1, FILE, &ask(0, 64));
    assert!(got == opaque(&expected));
    toy.stop();
}

#[test]
fn a_file_that_is_read_in_small_pieces_is_copied_whole() {
    let (toy, _file) = with_file(10, Config { zero_copy: ZeroCopy::On, ..config() });
    // the kernel gives a page at a time of a text of its own, and lets nobody send it
    let Ok(fd) = File::open("/proc/kallsyms") else {
        skip(Missing::Kernel, "/proc/kallsyms");
        return;
    };
    let mut expected = vec![0; 30_000];
    let first = fd.read_at(&mut expected, 0).unwrap();
    assert!(first > 0 && first < expected.len() / 2, "{first} bytes at once");
    fd.read_exact_at(&mut expected, 0).unwrap();
    *toy.state.file.lock().unwrap() = Some(Arc::new(fd.into()));
    let got = toy.client().call(1, FILE, &ask(0, expected.len()));
    assert!(got == opaque(&expected));
    assert!(toy.counter(Counter::CopiedRefused) > 0);
    let client = datagrams(toy.udp);
    client.send(&message(2, FILE, &ask(0, expected.len()))).unwrap();
    let mut room = vec![0; 65_536];
    let len = client.recv(&mut room).unwrap();
    assert!(results(&room[..len]) == (2, opaque(&expected)), "one datagram, copied");
    // none of it went from pages to the socket, whatever was promised
    until("all is counted", || moved(&toy) == (60_000, 0));
    toy.stop();
}

#[test]
fn copied_and_zero_copy_bytes_are_counted() {
    const LEN: usize = 1 << 20;
    let (toy, file) = with_file(LEN, Config { zero_copy: ZeroCopy::On, ..config() });
    let client = datagrams(toy.udp);
    let mut room = vec![0; 65_536];
    let mut read = |offset, len| {
        client.send(&message(1, FILE, &ask(offset, len))).unwrap();
        let got = client.recv(&mut room).unwrap();
        results(&room[..got]).1
    };
    assert!(read(4096, 8192) == opaque(&bytes(4096, 8192)));
    until("its pages went", || moved(&toy) == (0, 8192));
    assert_eq!(toy.counter(Counter::CopiedOdd), 0);
    // the kernel makes a wrong checksum of these
    assert!(read(4097, 8192) == opaque(&bytes(4097, 8192)));
    until("it was copied", || moved(&toy) == (8192, 8192));
    assert_eq!(toy.counter(Counter::CopiedOdd), 1);
    assert_eq!(toy.counter(Counter::CopiedRefused), 0, "nobody has refused anything");
    // zeros come from nobody's pages
    file.set_len(10_001).unwrap();
    assert!(read(0, 40_000)[4..10_005] == bytes(0, 10_001));
    until("its front went", || moved(&toy) == (8192 + 29_999, 8192 + 10_001));
    assert!(toy.client().call(1, FILE, &ask(3, 100_000))[4..10_002] == bytes(3, 9998));
    until("as much", || moved(&toy) == (8192 + 29_999 + 90_002, 8192 + 10_001 + 9998));
    toy.stop();
}

#[test]
fn a_range_in_a_datagram_is_one_datagram() {
    for layout in [UdpSockets::Single, UdpSockets::Interface] {
        let settings = Config { zero_copy: ZeroCopy::On, udp_sockets: layout, ..config() };
        let (toy, file) = with_file(1 << 20, settings);
        let client = datagrams(toy.udp);
        let mut room = vec![0; 65_536];
        let mut receive = || {
            let len = client.recv(&mut room).unwrap();
            results(&room[..len])
        };
        for (xid, (offset, len)) in
            [(0, 8192), (7, 1), (1, 32_767), (12_345, 61_440), (0, 0)].into_iter().enumerate()
        {
            client.send(&message(xid as u32, FILE, &ask(offset, len))).unwrap();
            client.send(&message(100 + xid as u32, ECHO, &opaque(b"x"))).unwrap();
            for _ in 0..2 {
                match receive() {
                    (got, result) if got == xid as u32 => {
                        assert!(result == opaque(&bytes(offset, len)), "{len} bytes at {offset}");
                    }
                    other => assert_eq!(other, (100 + xid as u32, opaque(b"x"))),
                }
            }
        }
        // cut off behind the server's back: the datagram is as long as was promised
        file.set_len(10_000).unwrap();
        client.send(&message(50, FILE, &ask(0, 40_000))).unwrap();
        let (xid, result) = receive();
        assert_eq!((xid, result.len()), (50, 40_004));
        assert!(result[4..10_004] == bytes(0, 10_000) && result[10_004..].iter().all(|b| *b == 0));
        // a reply that cannot be put together is dropped, and the next is whole
        let good = toy.state.file.lock().unwrap().clone();
        *toy.state.file.lock().unwrap() =
            Some(Arc::new(sys::open::open_path("/".as_ref()).unwrap()));
        client.send(&message(51, FILE, &ask(0, 10_000))).unwrap();
        until("it is dropped", || toy.counter(Counter::DatagramsDropped) > 0);
        *toy.state.file.lock().unwrap() = good;
        client.send(&message(52, FILE, &ask(0, 10_000))).unwrap();
        assert!(receive() == (52, opaque(&bytes(0, 10_000))));
        toy.stop();
    }
}

#[test]
fn send_buffers_of_the_kernel_are_in_the_budget() {
    const LEN: usize = 1 << 20;
    let limits = Limits { reply_age_max: Duration::from_secs(60), ..Limits::default() };
    let (toy, _file) = with_file(LEN, Config { zero_copy: ZeroCopy::On, limits, ..config() });
    // ranges in the queue cost little: what exceeds this is in the send buffer
    toy.server.set_memory(64 << 10);
    let mut lazy = toy.client();
    for xid in 0..40 {
        lazy.send(xid, FILE, &ask(0, LEN));
    }
    until("it is held up", || toy.server.conns().iter().any(|conn| conn.queued_bytes > 0));
    until("there is no room for it", || toy.counter(Counter::BudgetClosed) == 1);
    until("it is forgotten", || toy.server.connections() == 0);
    assert_eq!(toy.counter(Counter::RepliesTimedOut), 0);
    let mut rest = Vec::new();
    let end = lazy.0.read_to_end(&mut rest);
    assert!(end.is_err(), "the kernel keeps nothing for it: the connection is reset");
    toy.stop();
}
