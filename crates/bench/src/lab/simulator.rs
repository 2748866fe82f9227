//! A line between two TUN devices: one thread that takes packets from each and passes them to the
//! other when a real line would.
//!
//! Each direction is a wire that sends one packet after the other at the line's rate. A packet that
//! arrives at `t` begins to leave when the wire is free, `start = max(t, free)`, has left at
//! `free = start + size / rate`, and is delivered at `free + delay`. If it would wait longer than the queue
//! holds (`start - t`), it is dropped. Delivery times increase, so a direction is a queue and the
//! thread sleeps until the first packet of either is due or a new one arrives.
//!
//! With offload a packet can stand for several packets on the wire: its size is then their total,
//! headers included, it is delivered when the last of them would be, and is dropped as a whole.
//!
//! Invariant: only the thread uses the queues; the counters are atomics that only it writes and any
//! thread reads.

use super::ring::Ring;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use sys::event::Event;
use sys::tun::{HEADER_BYTES, PACKET_MAX, Tun, wait_readable};

/// Packets taken from one device before the other one is served.
const BURST: usize = 32;
/// Rounds without a sleep after which the thread's processor time is recorded.
const TURNS_PER_NOTE: u64 = 256;
/// Longest sleep, after which the thread's processor time is recorded.
const NAP: Duration = Duration::from_millis(50);
/// Most memory for the packets of one direction: 10 Gbit/s for 300 ms.
const RING_BYTES_MAX: u64 = 384 << 20;
/// Least memory, for bursts on short lines.
const RING_BYTES_MIN: u64 = 16 << 20;
/// Space for a packet without offload: the largest useful MTU.
const PLAIN_PACKET_MAX: usize = 9216;

/// Parameters of the line, the same in both directions.
#[derive(Debug, Clone, Copy)]
pub struct Wire {
    /// Bits per second; `None`: no limit.
    pub rate_bits_per_s: Option<u64>,
    /// From one end to the other.
    pub delay: Duration,
    /// How long a packet may wait for the wire.
    pub queue: Duration,
    /// Share of packets lost at random.
    pub loss: f64,
}

/// What happened in one direction.
#[derive(Debug, Default)]
pub struct DirectionCounters {
    /// Packets delivered, counted as they would be on the wire.
    pub packets: AtomicU64,
    /// Their bytes, IP headers included.
    pub bytes: AtomicU64,
    /// Packets dropped because the queue was full.
    pub dropped: AtomicU64,
    /// Packets lost at random.
    pub lost: AtomicU64,
}

/// Counters of the thread.
#[derive(Debug, Default)]
pub struct Counters {
    /// From the first device to the second, and back.
    pub directions: [DirectionCounters; 2],
    /// Processor time of the thread.
    pub cpu_ns: AtomicU64,
    /// Sum over deliveries of how much later than due they were.
    pub late_ns: AtomicU64,
    /// Deliveries.
    pub deliveries: AtomicU64,
    /// The latest delivery since this was last read.
    pub latest_ns: AtomicU64,
}

/// The running thread; ends when dropped.
#[derive(Debug)]
pub struct Forwarder {
    pub counters: Arc<Counters>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

#[derive(Debug)]
struct Stop {
    asked: AtomicBool,
    bell: Event,
}

impl Forwarder {
    /// Starts the line between two devices; both carry the same kind of packets.
    pub fn start(ends: [Tun; 2], wire: Wire) -> io::Result<Self> {
        let counters = Arc::new(Counters::default());
        let stop = Arc::new(Stop { asked: AtomicBool::new(false), bell: Event::new()? });
        let line = Line::new(ends, wire, Arc::clone(&counters), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("link".into()).spawn(|| line.run())?;
        Ok(Self { counters, stop, thread: Some(thread) })
    }

    /// Whether it still forwards; it ends by itself only when a device is removed.
    pub fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.stop.asked.store(true, Relaxed);
        self.stop.bell.raise();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's own.
struct Line {
    ends: [Tun; 2],
    directions: [Direction; 2],
    wire: Wire,
    counters: Arc<Counters>,
    stop: Arc<Stop>,
    begun: Instant,
    spare: Box<[u8]>,
    rng: Rng,
}

struct Direction {
    ring: Ring,
    free_ns: u64,
}

impl Line {
    fn new(ends: [Tun; 2], wire: Wire, counters: Arc<Counters>, stop: Arc<Stop>) -> Self {
        let offload = ends.iter().any(Tun::has_header);
        let packet_max = if offload { PACKET_MAX } else { PLAIN_PACKET_MAX };
        let capacity = ring_bytes(&wire);
        let direction = || Direction { ring: Ring::new(capacity, packet_max), free_ns: 0 };
        Self {
            ends,
            directions: [direction(), direction()],
            wire,
            counters,
            stop,
            begun: Instant::now(),
            spare: vec![0; packet_max].into_boxed_slice(),
            rng: Rng(0x9e37_79b9_7f4a_7c15),
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn run(mut self) -> io::Result<()> {
        // Both improve punctuality on a busy machine; where they are not permitted, lateness shows.
        let _ = sys::thread::wake_on_time();
        let _ = sys::thread::run_first();
        let mut turns = 0_u64;
        while !self.stop.asked.load(Relaxed) {
            self.deliver()?;
            let got = self.take(0)? + self.take(1)?;
            turns += 1;
            if got == 0 || turns.is_multiple_of(TURNS_PER_NOTE) {
                self.counters.cpu_ns.store(nanos(sys::thread::cpu_time()), Relaxed);
            }
            if got > 0 {
                continue;
            }
            let due = self.directions.iter().filter_map(|d| d.ring.due_ns()).min();
            let now = self.now_ns();
            let nap = due.map_or(NAP, |due| Duration::from_nanos(due.saturating_sub(now)).min(NAP));
            if !nap.is_zero() {
                let [near, far] = &self.ends;
                wait_readable([near.as_fd(), far.as_fd(), self.stop.bell.as_fd()], Some(nap))?;
            }
        }
        Ok(())
    }

    /// Takes a burst of packets from the device `from` onto the wire; returns how many.
    fn take(&mut self, from: usize) -> io::Result<usize> {
        let (Some(end), Some(counted)) = (self.ends.get(from), self.counters.directions.get(from))
        else {
            return Ok(0);
        };
        for burst in 0..BURST {
            let now = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let Some(direction) = self.directions.get_mut(from) else { return Ok(burst) };
            let Some(room) = direction.ring.room() else {
                match end.receive(&mut self.spare)? {
                    Some(_) => add(&counted.dropped, 1),
                    None => return Ok(burst),
                }
                continue;
            };
            let Some(len) = end.receive(room)? else { return Ok(burst) };
            let packet = room.get(..len).unwrap_or_default();
            let size = Size::of(packet, end.has_header());
            let start_ns = direction.free_ns.max(now);
            if start_ns - now > nanos(self.wire.queue) {
                add(&counted.dropped, size.packets);
                continue;
            }
            direction.free_ns = start_ns + size.time_ns(self.wire.rate_bits_per_s);
            // a lost packet has used the wire all the same
            if self.wire.loss > 0.0 && self.rng.one_of(size.packets, self.wire.loss) {
                add(&counted.lost, size.packets);
                continue;
            }
            add(&counted.packets, size.packets);
            add(&counted.bytes, size.bytes);
            direction.ring.commit(len, direction.free_ns + nanos(self.wire.delay));
        }
        Ok(BURST)
    }

    /// Passes due packets to the devices.
    fn deliver(&mut self) -> io::Result<()> {
        let now = self.now_ns();
        let [near, far] = &self.ends;
        for (direction, to) in self.directions.iter_mut().zip([far, near]) {
            while let Some(due) = direction.ring.due_ns().filter(|due| *due <= now) {
                if let Some(packet) = direction.ring.oldest() {
                    match to.send(packet) {
                        // the device's own refusal (down, no memory, an invalid packet) is a loss,
                        // as on a real line; its removal ends the line
                        Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                            return Err(error);
                        }
                        _ => {}
                    }
                }
                direction.ring.pop();
                let late = now - due;
                add(&self.counters.late_ns, late);
                add(&self.counters.deliveries, 1);
                if late > self.counters.latest_ns.load(Relaxed) {
                    self.counters.latest_ns.store(late, Relaxed);
                }
            }
        }
        Ok(())
    }
}

/// Adds to a counter that only this thread writes.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What can be in transit and in the queue at once, and as much again for small packets and the gap.
fn ring_bytes(wire: &Wire) -> usize {
    let on_the_way = wire.rate_bits_per_s.map_or(RING_BYTES_MAX, |rate| {
        let time = wire.delay + wire.queue + Duration::from_millis(10);
        let bytes = u128::from(rate / 8) * time.as_nanos() / 1_000_000_000 * 2;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    });
    usize::try_from(on_the_way.clamp(RING_BYTES_MIN, RING_BYTES_MAX)).unwrap_or(usize::MAX)
}

/// The size of a packet on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    packets: u64,
    bytes: u64,
}

impl Size {
    /// `packet` as read from a device, with a `virtio_net_hdr` before it or not.
    fn of(packet: &[u8], has_header: bool) -> Self {
        let plain = |len: usize| Self { packets: 1, bytes: u64::try_from(len).unwrap_or(u64::MAX) };
        if !has_header {
            return plain(packet.len());
        }
        let ip = packet.get(HEADER_BYTES..).unwrap_or_default();
        Self::of_large(packet, ip).unwrap_or_else(|| plain(ip.len()))
    }

    /// The packets that a large one stands for, each with its own headers. `None`: it is an ordinary one.
    /// `virtio_net_hdr`: flags u8, `gso_type` u8, `hdr_len` u16, `gso_size` u16, `csum_start` u16,
    /// `csum_offset` u16, in the machine's byte order; `csum_start` is where TCP begins.
    fn of_large(packet: &[u8], ip: &[u8]) -> Option<Self> {
        let half = |at: usize| {
            let bytes = packet.get(at..at + 2)?.try_into().ok()?;
            Some(usize::from(u16::from_ne_bytes(bytes)))
        };
        let (segment, tcp_at) = (half(4)?, half(6)?);
        if *packet.get(1)? == 0 || segment == 0 {
            return None;
        }
        // RFC 9293 §3.1: the upper four bits of byte 12 are the header's length in words
        let headers = tcp_at + usize::from(ip.get(tcp_at + 12)? >> 4) * 4;
        let payload = ip.len().checked_sub(headers)?;
        let packets = payload.div_ceil(segment).max(1);
        let bytes = payload + packets * headers;
        Some(Self { packets: u64::try_from(packets).ok()?, bytes: u64::try_from(bytes).ok()? })
    }

    /// How long it keeps the wire busy.
    fn time_ns(self, rate_bits_per_s: Option<u64>) -> u64 {
        let Some(rate) = rate_bits_per_s else { return 0 };
        let ns = u128::from(self.bytes) * 8 * 1_000_000_000 / u128::from(rate.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// A small generator of random numbers (xorshift64*): the same losses in each run of the same packets.
struct Rng(u64);

impl Rng {
    /// Whether at least one of `count` packets is lost, each with probability `share`.
    fn one_of(&mut self, count: u64, share: f64) -> bool {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        // 53 bits are what a float holds
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        #[allow(clippy::cast_precision_loss)] // 53 bits fit
        let throw = bits as f64 / (1_u64 << 53) as f64;
        let none = (1.0 - share).powi(i32::try_from(count).unwrap_or(i32::MAX));
        throw >= none
    }
}

#[cfg(test)]
mod tests {
    use super::{Rng, Size, Wire, ring_bytes};
    use std::time::Duration;
    use sys::tun::HEADER_BYTES;

    #[test]
    fn an_offloaded_packet_costs_as_much_as_its_segments() {
        // 20 bytes of IP, 32 of TCP, 3000 of data in pieces of 1448
        let mut packet = vec![0; HEADER_BYTES + 52 + 3000];
        packet[1] = 1;
        packet[4..6].copy_from_slice(&1448_u16.to_ne_bytes());
        packet[6..8].copy_from_slice(&20_u16.to_ne_bytes());
        packet[HEADER_BYTES + 32] = 8 << 4;
        let size = Size::of(&packet, true);
        assert_eq!(size, Size { packets: 3, bytes: 3000 + 3 * 52 });
        assert_eq!(size.time_ns(Some(1_000_000_000)), 3156 * 8);
        assert_eq!(size.time_ns(None), 0);
        packet[1] = 0;
        assert_eq!(Size::of(&packet, true), Size { packets: 1, bytes: 3052 });
        assert_eq!(Size::of(&packet[..4], true), Size { packets: 1, bytes: 0 });
        assert_eq!(Size::of(&[0; 1500], false), Size { packets: 1, bytes: 1500 });
    }

    #[test]
    fn the_loss_rate_is_as_configured() {
        let mut rng = Rng(1);
        let lost = (0..100_000).filter(|_| rng.one_of(1, 0.01)).count();
        assert!((800..1200).contains(&lost), "{lost}");
        let lost = (0..100_000).filter(|_| rng.one_of(10, 0.01)).count();
        assert!((9_000..10_200).contains(&lost), "{lost}");
        assert!((0..1000).all(|_| rng.one_of(1, 1.0)));
    }

    #[test]
    fn memory_is_bounded() {
        let wire = |rate| Wire {
            rate_bits_per_s: rate,
            delay: Duration::from_millis(60),
            queue: Duration::from_millis(30),
            loss: 0.0,
        };
        assert_eq!(ring_bytes(&wire(Some(1_000_000_000))), 25_000_000);
        assert_eq!(ring_bytes(&wire(Some(1000))), 16 << 20);
        assert_eq!(ring_bytes(&wire(None)), 384 << 20);
    }
}
