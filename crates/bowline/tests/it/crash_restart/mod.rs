//! The server is killed and started again, over and over, under clients that change files and names: what
//! they were told stays so, each change happens once, handles lead where they led, and each life of the
//! server has a write verifier of its own (RFC 1813 §3.3.7, §4.8).
//!
//! Clients have directories of their own, so that each knows what it must find. As real ones do, they
//! send a call again until it is answered: over TCP or TLS on a new connection, over UDP as the same datagram.
//! Between the UDP client and the server is a line that doubles datagrams and holds some of the doubles
//! back, until after calls that came later.
//!
//! `SEED` makes the same choices again, but not the same moments.

mod client_calls;
mod udp_proxy;

use crate::rig::channel::Channel;
use crate::rig::random::{Xorshift, seed};
use crate::rig::{NOBODY, Server, is_root};
use client_calls::{RandomClient, Tally, Transport};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, RwLock};
use std::time::Duration;
use udp_proxy::UdpProxy;

/// Times that the server is killed, unless `KILLS` says otherwise.
const KILLS: u64 = 25;
const KILLS_UNDER_TLS: u64 = 12;
/// Milliseconds for which it may live, and for which it may start.
const LIFE_MS: u64 = 120;
const START_MS: u64 = 40;
const TCP_CLIENTS: u64 = 3;

/// The server's lives.
pub struct Lives {
    /// Counts up when the server is about to be killed, and when it serves again: even while it serves.
    count: AtomicU64,
    /// Locked for writing while there is no server.
    gate: RwLock<()>,
    /// The verifiers that were seen in each life.
    verifiers: Mutex<BTreeMap<u64, BTreeSet<[u8; 8]>>>,
}

impl Lives {
    /// The present one.
    pub fn now(&self) -> u64 {
        self.count.load(SeqCst)
    }

    /// Notes the verifier of an answer that came in this life.
    pub fn saw(&self, life: u64, verifier: [u8; 8]) {
        self.verifiers.lock().unwrap().entry(life).or_default().insert(verifier);
    }

    /// Kills the server and starts it again; now and then kills it while it starts.
    fn kill(&self, server: &mut Server, random: &mut Xorshift) {
        self.count.fetch_add(1, SeqCst);
        server.kill();
        let _nobody = self.gate.write().unwrap();
        while random.below(3) == 0 {
            server.begin_again();
            std::thread::sleep(Duration::from_millis(random.below(START_MS)));
            server.kill();
        }
        server.start_again();
        self.count.fetch_add(1, SeqCst);
    }

    /// Each life has one verifier, and no two have the same.
    fn differ(&self) {
        let seen = self.verifiers.lock().unwrap();
        assert!(seen.values().all(|of_one| of_one.len() == 1), "no data was lost: {seen:?}");
        let all: BTreeSet<_> = seen.values().flatten().collect();
        assert_eq!(all.len(), seen.len(), "{seen:?}");
    }
}

/// Works and kills; `served` is the server's, which lets everybody write there. The clients of TCP use the channel.
fn run(mut server: Server, served: &Path, channel: &Channel, kills: u64) {
    let (seed, mut tally) = (seed(), Tally::default());
    let kills = std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(kills);
    let lives =
        Lives { count: AtomicU64::new(0), gate: RwLock::new(()), verifiers: Mutex::default() };
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let at = SocketAddr::from(([127, 0, 0, 1], server.port));
    std::thread::scope(|scope| {
        let line = UdpProxy::new(scope, at, &lives, &over, seed);
        let mut workers = Vec::new();
        for number in 0..=TCP_CLIENTS {
            let (lives, stop, line) = (&lives, &stop, line);
            workers.push(scope.spawn(move || {
                let way = match number {
                    TCP_CLIENTS => Transport::Datagrams(line),
                    _ => Transport::Stream(channel),
                };
                let mut hands = RandomClient::new(at, way, served, seed + number, lives);
                while !stop.load(SeqCst) {
                    hands.step();
                }
                hands.look();
                hands.tally
            }));
        }
        let mut random = Xorshift(seed + 100);
        // over TLS each client begins with a handshake
        let life_ms = if matches!(channel, Channel::Tls(_)) { 3 * LIFE_MS } else { LIFE_MS };
        for _ in 0..kills {
            std::thread::sleep(Duration::from_millis(random.below(life_ms)));
            // a client that has failed says more than those that wait for it
            if workers.iter().any(|worker| worker.is_finished()) {
                break;
            }
            lives.kill(&mut server, &mut random);
        }
        stop.store(true, SeqCst);
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        over.store(true, SeqCst);
        for worker in ended {
            tally.add(worker.unwrap());
        }
    });
    lives.differ();
    println!("{kills} kills, {} verifiers, {tally:?}", lives.verifiers.lock().unwrap().len());
    assert!(tally.calls > 5 * kills && tally.again > 0, "{tally:?}");
}

/// A directory in which everybody may make files.
fn open_to_all(within: &Path) -> (tempfile::TempDir, std::path::PathBuf) {
    let base = tempfile::tempdir_in(within).unwrap();
    let served = base.path().join("served");
    std::fs::create_dir(&served).unwrap();
    for path in [base.path(), &served] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(path, mode).unwrap();
    }
    (base, served)
}

/// On the disk of the machine, as root if the test is: with the kernel's handles.
#[test]
fn acknowledged_changes_survive_sigkill() {
    let (base, served) = open_to_all(&std::env::temp_dir());
    let exports = base.path().join("exports");
    std::fs::write(&exports, format!("{} 127.0.0.1(rw,insecure)\n", served.display())).unwrap();
    let server = Server::start(&["--exports", exports.to_str().unwrap()]);
    run(server, &served, &Channel::Plain, KILLS);
}

/// Those of TCP reach the same export over TLS.
#[test]
fn acknowledged_changes_over_tls_survive_sigkill() {
    let (base, served) = open_to_all(&std::env::temp_dir());
    let (exports, channel) = (base.path().join("exports"), Channel::tls());
    std::fs::write(&exports, format!("{} 127.0.0.1(rw,insecure)\n", served.display())).unwrap();
    let mut args = channel.options();
    args.extend(["--exports".to_owned(), exports.display().to_string()]);
    let server = Server::start(&args.iter().map(String::as_str).collect::<Vec<_>>());
    run(server, &served, &channel, KILLS_UNDER_TLS);
}

/// In memory, where a call takes so little time that a kill is likely to come in the middle of one.
#[test]
fn acknowledged_changes_survive_sigkill_of_an_unprivileged_server() {
    let memory = Path::new("/dev/shm");
    let (_base, served) = open_to_all(if memory.is_dir() { memory } else { Path::new("/tmp") });
    let user = is_root().then_some(NOBODY);
    let server = Server::start_as(user, &[served.to_str().unwrap()]);
    run(server, &served, &Channel::Plain, KILLS);
}
