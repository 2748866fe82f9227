//! A line for datagrams between one client and the server: it doubles calls, and lets doubles arrive late.
//!
//! A double never gets from one life of the server to the next: the server cannot know it there, as the
//! kept replies die with it.

use super::Lives;
use crate::rig::random::Xorshift;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// How long a double is held back at the most.
const LATE_MS: u64 = 20;
const TICK: Duration = Duration::from_millis(2);

/// Where a client sends to.
#[derive(Clone, Copy)]
pub struct UdpProxy(pub SocketAddr);

impl UdpProxy {
    /// Lays a line to `server`.
    pub fn new<'s>(
        scope: &'s Scope<'s, '_>,
        server: SocketAddr,
        lives: &'s Lives,
        over: &'s AtomicBool,
        seed: u64,
    ) -> Self {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        far.connect(server).unwrap();
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(TICK)).unwrap();
        }
        let line = Self(near.local_addr().unwrap());
        let (back, from) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        // whose call is under way: the client has one at a time
        let client = Arc::new(Mutex::new(None));
        let known = Arc::clone(&client);
        scope.spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while !over.load(SeqCst) {
                let Ok(len) = from.recv(&mut buffer) else { continue };
                if let Some(client) = *known.lock().unwrap() {
                    let _ = back.send_to(&buffer[..len], client);
                }
            }
        });
        scope.spawn(move || {
            let mut upstream =
                Upstream { far, lives, random: Xorshift(seed + 50), late: Vec::new() };
            let (mut buffer, mut last) = (vec![0; 1 << 16], (0, Vec::new()));
            while !over.load(SeqCst) {
                if let Ok((len, who)) = near.recv_from(&mut buffer) {
                    *client.lock().unwrap() = Some(who);
                    last = (lives.now(), buffer[..len].to_vec());
                    upstream.send(&last.1);
                } else if last.0 != lives.now()
                    && lives.now().is_multiple_of(2)
                    && !last.1.is_empty()
                {
                    // sooner than the client would
                    last.0 = lives.now();
                    upstream.send(&last.1);
                }
                upstream.send_late();
            }
        });
        line
    }
}

/// The way to the server.
struct Upstream<'l> {
    far: UdpSocket,
    lives: &'l Lives,
    random: Xorshift,
    /// When, in which life, what.
    late: Vec<(Instant, u64, Vec<u8>)>,
}

impl Upstream<'_> {
    fn send(&mut self, call: &[u8]) {
        let _served = self.lives.gate.read().unwrap();
        let _ = self.far.send(call);
        if self.random.below(3) == 0 {
            let _ = self.far.send(call);
        }
        if self.random.below(2) == 0 {
            let due = Instant::now() + Duration::from_millis(self.random.below(LATE_MS));
            self.late.push((due, self.lives.now(), call.to_vec()));
        }
    }

    fn send_late(&mut self) {
        let _served = self.lives.gate.read().unwrap();
        let (now, life) = (Instant::now(), self.lives.now());
        for (_, of, call) in self.late.extract_if(.., |(due, ..)| *due <= now) {
            if of == life {
                let _ = self.far.send(&call);
            }
        }
    }
}
