//! A socket is taken away while datagrams arrive and workers serve it: every interleaving of a
//! small world around the machine that the server uses (`src/udp/removal.rs`), by loom.
//!
//! In this world a processor that delivers a datagram looks for the socket that fits and puts the
//! datagram into it later, as the kernel does; a grace period waits for those that have looked.
//! Workers read the table, take a datagram, and answer it when the table may have changed; the
//! last reference to a socket closes it, which must find it empty. Loom says if anybody waits for
//! ever.
#![allow(missing_docs, clippy::unwrap_used, reason = "test code")]

#[path = "../../src/udp/removal.rs"]
mod removal;

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex, RwLock};
use loom::thread;
use removal::{RemovableSocket, SocketRemoval};

/// Most unforced switches of threads in one run; more finds nothing new and takes hours.
const SWITCHES: usize = 2;
const DATAGRAMS: usize = 2;

struct Socket {
    queue: Mutex<Vec<usize>>,
    hidden: AtomicBool,
    world: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    closed: AtomicUsize,
}

impl Drop for Socket {
    fn drop(&mut self) {
        assert!(self.queue.lock().unwrap().is_empty(), "closed with a datagram in it");
        self.world.closed.fetch_add(1, Ordering::Relaxed);
    }
}

struct World {
    /// What workers see.
    table: Mutex<Vec<Arc<Socket>>>,
    /// Who delivers holds it for reading; a grace period is to have it for writing.
    delivering: RwLock<()>,
    /// How often each datagram was answered.
    answers: Mutex<[usize; DATAGRAMS]>,
    /// The removal is over.
    over: AtomicBool,
}

impl World {
    /// A processor handles an arrival.
    fn deliver(&self, fitting: &Socket, base: &Socket, datagram: usize) {
        let _reading = self.delivering.read().unwrap();
        let hidden = fitting.hidden.load(Ordering::Acquire);
        let chosen = if hidden { base } else { fitting };
        chosen.queue.lock().unwrap().push(datagram);
    }

    /// A worker's service round; whether it found anything.
    fn round(&self) -> bool {
        let sockets = self.table.lock().unwrap().clone();
        let mut found = false;
        for socket in &sockets {
            let taken = socket.queue.lock().unwrap().pop();
            if let Some(datagram) = taken {
                self.answers.lock().unwrap()[datagram] += 1;
                found = true;
            }
        }
        found
    }
}

struct RemovalTarget {
    socket: Arc<Socket>,
    world: Arc<World>,
}

impl RemovableSocket for RemovalTarget {
    fn hide(&self) {
        self.socket.hidden.store(true, Ordering::Release);
    }

    fn has_arrivals(&self) -> bool {
        !self.socket.queue.lock().unwrap().is_empty()
    }

    fn unregister(&self) {
        self.world.table.lock().unwrap().retain(|socket| !Arc::ptr_eq(socket, &self.socket));
    }
}

/// Takes a socket away while datagrams arrive; `patient` waits for the grace period.
fn remove(patient: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(SWITCHES);
    model.check(move || {
        let counts = Arc::new(Counts::default());
        let socket = || {
            Arc::new(Socket {
                queue: Mutex::new(Vec::new()),
                hidden: AtomicBool::new(false),
                world: Arc::clone(&counts),
            })
        };
        let (fitting, base) = (socket(), socket());
        let world = Arc::new(World {
            table: Mutex::new(vec![Arc::clone(&fitting), Arc::clone(&base)]),
            delivering: RwLock::new(()),
            answers: Mutex::new([0; DATAGRAMS]),
            over: AtomicBool::new(false),
        });
        let processor = {
            let (world, base) = (Arc::clone(&world), Arc::clone(&base));
            // the kernel holds a socket open while it delivers to it, and no longer
            let kernel = Arc::clone(&fitting);
            thread::spawn(move || {
                for datagram in 0..DATAGRAMS {
                    world.deliver(&kernel, &base, datagram);
                }
            })
        };
        let worker = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                while !world.over.load(Ordering::Acquire) {
                    if !world.round() {
                        thread::yield_now();
                    }
                }
            })
        };
        let exit = RemovalTarget { socket: fitting, world: Arc::clone(&world) };
        let mut leaving = SocketRemoval::begin(exit);
        assert!(leaving.is_unsettled());
        if patient {
            drop(world.delivering.write().unwrap());
        }
        leaving.settle();
        while !leaving.advance() {
            thread::yield_now();
        }
        // gone from the table: whatever is in it from here on is lost
        drop(leaving);
        world.over.store(true, Ordering::Release);
        processor.join().unwrap();
        worker.join().unwrap();
        while world.round() {}
        assert_eq!(*world.answers.lock().unwrap(), [1; DATAGRAMS], "answered once each");
        assert_eq!(counts.closed.load(Ordering::Relaxed), 1, "the removed socket is closed");
    });
}

#[test]
fn no_datagram_is_lost_and_no_thread_waits_for_ever() {
    remove(true);
}

/// That the model finds what the protocol is there for.
#[test]
#[should_panic(expected = "closed with a datagram in it")]
fn without_the_grace_period_a_datagram_is_lost() {
    remove(false);
}
