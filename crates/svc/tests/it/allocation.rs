//! A warm call costs no allocation on its way from the socket to the socket: over TCP and UDP, alone and
//! among others, with bytes and with ranges of files. In a process of its own, whose allocations it counts.

use crate::HEAP;
use crate::toy::{ECHO, FILE, Toy, config, datagrams, message, opaque, record};
use bowline_svc::{Config, PoolMode, ZeroCopy};
use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;
use testing::{Missing, in_child, skip};

/// Rounds that are counted, after as many that are not.
const ROUNDS: usize = 500;
/// Calls that are sent together.
const TOGETHER: usize = 16;

/// What a round costs, in hundredths of an allocation.
fn cost(mut round: impl FnMut()) -> u64 {
    (0..ROUNDS).for_each(|_| round());
    let before = HEAP.count();
    (0..ROUNDS).for_each(|_| round());
    (HEAP.count() - before) * 100 / ROUNDS as u64
}

#[test]
fn a_warm_call_allocates_nothing() {
    if !in_child("allocation::a_warm_call_allocates_nothing", &[]) {
        return;
    }
    let settings = Config { zero_copy: ZeroCopy::On, pool_mode: PoolMode::Global, ..config() };
    let toy = Toy::start(settings);
    if !toy.is_adaptive() {
        skip(Missing::Purpose, "other wake policies queue each item of work");
        return;
    }
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[7; 8192]).unwrap();
    let file: Arc<std::os::fd::OwnedFd> = Arc::new(File::into(file));
    *toy.state.file.lock().unwrap() = Some(file);
    let (mut tcp, udp) = (toy.client().0, datagrams(toy.udp));
    let mut room = vec![0; 1 << 16];
    assert!(cost(|| drop(std::hint::black_box(vec![1; 9]))) >= 100, "the counter counts");
    let ranged = [&0_u64.to_be_bytes()[..], &8192_u32.to_be_bytes()].concat();
    for (name, procedure, args, data) in
        [("bytes", ECHO, opaque(b"to and fro"), 16), ("a range", FILE, ranged, 4 + 8192)]
    {
        let call = message(1, procedure, &args);
        let one = record(&call);
        let many = one.repeat(TOGETHER);
        // a mark and an accepted reply's header (RFC 5531 §9)
        let answer = 4 + 24 + data;
        let alone = cost(|| {
            tcp.write_all(&one).unwrap();
            tcp.read_exact(&mut room[..answer]).unwrap();
        });
        let among = cost(|| {
            tcp.write_all(&many).unwrap();
            for _ in 0..TOGETHER {
                tcp.read_exact(&mut room[..answer]).unwrap();
            }
        });
        let datagram = cost(|| {
            udp.send(&call).unwrap();
            assert_eq!(udp.recv(&mut room).unwrap(), answer - 4);
        });
        // other threads want memory now and then, and a round that ends early, which on a busy machine is nearly
        // each, keeps what is left of the calls
        let among_max = 100 * TOGETHER as u64;
        let told = format!("{name}: {alone} {among} {datagram}");
        assert!(alone < 50 && among < among_max && datagram < 50, "{told}");
    }
    toy.stop();
}
