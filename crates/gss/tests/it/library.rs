//! Messages protected by this program against those of the Kerberos library, both ways, over contexts of a real realm: a
//! KDC on its own port, one for each encryption type.

use bowline_gss::Messages;
use bowline_gss::krb5::{Sealing, messages};
use std::fs;
use std::path::Path;
use sys::gssapi::{AcceptorCredential, Initiator, InitiatorCredential};
use sys::thread::cpu_time;
use testing::{Missing, Realm, in_child, skip};

const TYPES: [(u32, &str); 4] = [
    (17, "aes128-cts-hmac-sha1-96"),
    (18, "aes256-cts-hmac-sha1-96"),
    (19, "aes128-cts-hmac-sha256-128"),
    (20, "aes256-cts-hmac-sha384-192"),
];
/// Both sides of a context, the client's messages and the server's, protected by these.
fn context(client: Sealing, server: Sealing) -> (u32, Box<dyn Messages>, Box<dyn Messages>) {
    let keytab = std::env::var("LAB_KEYTAB").unwrap();
    let credential = InitiatorCredential::from_cache("MEMORY:it", Some(&keytab)).unwrap();
    let (initiator, token) = Initiator::begin(&credential, "nfs@server.lab.test").unwrap();
    let accepted = AcceptorCredential::from_keytab(Path::new(&keytab)).unwrap().accept(&token);
    let accepted = accepted.unwrap();
    let kind = accepted.encryption_type;
    let established = initiator.finish(&accepted.token).unwrap();
    let ours = messages(established, kind, client).unwrap();
    (kind, ours, messages(accepted.context, kind, server).unwrap())
}

fn sealed(by: &dyn Messages, message: &[u8]) -> Vec<u8> {
    let room = by.room();
    let mut token = [&vec![0; room.head], message, &vec![0; room.tail]].concat();
    by.seal(&mut token).unwrap();
    token
}

/// Messages of all lengths modulo the block, and long ones; from one side to the other.
fn passes(from: &dyn Messages, to: &dyn Messages) {
    let mut buffer = Vec::new();
    for len in (0..70).chain([255, 4096, 8175, 8192, 32_768, 100_003, 1_048_580]) {
        let message: Vec<u8> = (0..len).map(|n: u32| (n % 253) as u8).collect();
        let mut token = sealed(from, &message);
        let range = to.open(&token, &mut buffer).unwrap();
        assert_eq!(&buffer[range], message, "{len}");
        // as Windows rotates: the body begins in its middle
        let body_len = token.len() - 16;
        let count = u16::try_from(len.min(40_000) + 28).unwrap();
        token[16..].rotate_right(usize::from(count) % body_len);
        token[6..8].copy_from_slice(&count.to_be_bytes());
        let range = to.open(&token, &mut buffer).unwrap();
        assert_eq!(&buffer[range], message, "{len}, rotated by {count}");
        let at = token.len() / 2;
        token[at] ^= 1;
        assert!(to.open(&token, &mut buffer).is_err(), "{len}, changed");
        let mut sum = from.checksum(&message).unwrap();
        to.verify(&message, &sum).unwrap();
        *sum.last_mut().unwrap() ^= 1;
        assert!(to.verify(&message, &sum).is_err());
    }
}

/// Runs a test in each realm, in a process of its own whose library reads that realm's configuration.
fn in_each_realm(test: &str, body: impl Fn()) {
    if std::env::var_os("LAB_KEYTAB").is_some() {
        return body();
    }
    if !Realm::is_possible() {
        return skip(Missing::Program, "krb5kdc, of the package krb5-kdc");
    }
    for (number, kind) in TYPES {
        let dir = tempfile::tempdir().unwrap();
        let realm = Realm::start(dir.path(), kind);
        let config = format!("KRB5_CONFIG={}", realm.config().display());
        let keytab = format!("LAB_KEYTAB={}", realm.keytab().display());
        let kind = format!("LAB_TYPE={number}");
        assert!(!in_child(test, &["env", &config, &keytab, &kind]));
    }
}

#[test]
fn own_messages_and_library_messages_are_interchangeable() {
    in_each_realm("library::own_messages_and_library_messages_are_interchangeable", || {
        let expected = std::env::var("LAB_TYPE").unwrap();
        for sides in [
            (Sealing::Own, Sealing::Library),
            (Sealing::Library, Sealing::Own),
            (Sealing::Own, Sealing::Own),
            (Sealing::Library, Sealing::Library),
        ] {
            let (kind, client, server) = context(sides.0, sides.1);
            assert_eq!(kind.to_string(), expected);
            assert_eq!(client.room(), server.room());
            passes(client.as_ref(), server.as_ref());
            passes(server.as_ref(), client.as_ref());
        }
    });
}

/// Prints the CPU time of our messages relative to the library's: medians of ratios of alternating rounds.
#[test]
#[ignore = "by hand: cargo test --release -p bowline-gss --test it library -- --ignored; LAB_REPORT=FILE for the figures"]
fn cost_relative_to_the_library() {
    in_each_realm("library::cost_relative_to_the_library", || {
        let report = std::env::var("LAB_REPORT").unwrap();
        let (kind, own, own_peer) = context(Sealing::Own, Sealing::Own);
        let (_, library, library_peer) = context(Sealing::Library, Sealing::Library);
        let pairs = [(&own, &own_peer), (&library, &library_peer)];
        for (len, calls) in [(128_usize, 400_usize), (32 << 10, 64), (1 << 20, 4)] {
            let message = vec![0x5a; len];
            let mut ratios = [const { Vec::new() }; 4];
            for _ in 0..15 {
                let mut costs = [[0.0_f64; 4]; 2];
                for (cost, (client, server)) in costs.iter_mut().zip(pairs) {
                    let token = sealed(client.as_ref(), &message);
                    let sum = client.checksum(&message).unwrap();
                    let (mut scratch, mut buffer) = (token.clone(), Vec::new());
                    let timed = |run: &mut dyn FnMut()| {
                        let start = cpu_time();
                        (0..calls).for_each(|_| run());
                        (cpu_time() - start).as_secs_f64()
                    };
                    *cost = [
                        timed(&mut || client.seal(&mut scratch).unwrap()),
                        timed(&mut || {
                            server.open(&token, &mut buffer).unwrap();
                        }),
                        timed(&mut || drop(client.checksum(&message).unwrap())),
                        timed(&mut || server.verify(&message, &sum).unwrap()),
                    ];
                }
                for (at, ratios) in ratios.iter_mut().enumerate() {
                    ratios.push(costs[0][at] / costs[1][at]);
                }
            }
            let median = |ratios: &mut Vec<f64>| {
                ratios.sort_by(f64::total_cmp);
                ratios[ratios.len() / 2]
            };
            let [seal, open, sign, verify] = ratios.each_mut().map(median);
            let line = format!(
                "type {kind}, {len} bytes, own/library: seal {seal:.3}, open {open:.3}, checksum {sign:.3}, verify {verify:.3}\n"
            );
            use std::io::Write;
            let mut file = fs::File::options().append(true).create(true).open(&report).unwrap();
            file.write_all(line.as_bytes()).unwrap();
        }
    });
}
