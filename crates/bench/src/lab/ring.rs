//! The packets in transit in one direction: a queue in one piece of memory, written and read in
//! place.
//!
//! Packets leave in the order in which they arrived and each is contiguous, so memory is a ring of
//! bytes with a gap at its end where the next packet might not fit. The memory is taken from the
//! kernel page by page as it is used.
//!
//! Invariant: the bytes from the oldest packet to `write_at`, wrapped, are in use; the rest is free; when
//! something is in use, `write_at` is never equal to the oldest packet's place.

use std::collections::VecDeque;

/// Packets and when they are due.
#[derive(Debug)]
pub struct Ring {
    memory: Box<[u8]>,
    packets: VecDeque<Packet>,
    write_at: usize,
    packet_max: usize,
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    at: usize,
    len: usize,
    due_ns: u64,
}

impl Ring {
    /// Room for `capacity` bytes of packets of up to `packet_max` bytes.
    pub fn new(capacity: usize, packet_max: usize) -> Self {
        Self {
            memory: vec![0; capacity.max(2 * packet_max)].into_boxed_slice(),
            packets: VecDeque::new(),
            write_at: 0,
            packet_max,
        }
    }

    /// Where the next packet can be put; `None` if it is full.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        match self.packets.front().map(|oldest| oldest.at) {
            None => self.write_at = 0,
            Some(oldest) if self.write_at < oldest => {
                if oldest - self.write_at <= self.packet_max {
                    return None;
                }
            }
            Some(oldest) => {
                if self.memory.len() - self.write_at < self.packet_max {
                    if oldest <= self.packet_max {
                        return None;
                    }
                    self.write_at = 0;
                }
            }
        }
        self.memory.get_mut(self.write_at..self.write_at + self.packet_max)
    }

    /// Adds the packet that was written to the latest [`Ring::room`]: `len` bytes, to leave at
    /// `due_ns`.
    pub fn commit(&mut self, len: usize, due_ns: u64) {
        let len = len.min(self.packet_max);
        self.packets.push_back(Packet { at: self.write_at, len, due_ns });
        self.write_at += len;
    }

    /// When the oldest packet is due.
    pub fn due_ns(&self) -> Option<u64> {
        self.packets.front().map(|packet| packet.due_ns)
    }

    /// The oldest packet.
    pub fn oldest(&self) -> Option<&[u8]> {
        let packet = self.packets.front()?;
        self.memory.get(packet.at..packet.at + packet.len)
    }

    /// Removes the oldest packet.
    pub fn pop(&mut self) {
        self.packets.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::Ring;

    #[test]
    fn the_ring_keeps_packets_and_their_order_on_wraparound() {
        let mut ring = Ring::new(1000, 100);
        let (mut put, mut taken, mut full) = (0_u64, 0_u64, 0);
        let len = |n: u64| usize::try_from(n * 37 % 100).unwrap() + 1;
        let byte = |n: u64| u8::try_from(n % 251).unwrap();
        for step in 0..20_000_u64 {
            // fills up and drains in turn
            if step / 50 % 2 == 0 || step % 3 == 0 {
                if let Some(room) = ring.room() {
                    assert_eq!(room.len(), 100);
                    room[..len(put)].fill(byte(put));
                    ring.commit(len(put), put);
                    put += 1;
                } else {
                    full += 1;
                }
            } else if let Some(due) = ring.due_ns() {
                assert_eq!(due, taken);
                assert_eq!(ring.oldest().unwrap(), vec![byte(taken); len(taken)]);
                ring.pop();
                taken += 1;
            }
        }
        assert!(full > 100 && taken > 5000, "{full} {taken}");
        while ring.due_ns().is_some() {
            assert_eq!(ring.oldest().unwrap(), vec![byte(taken); len(taken)]);
            ring.pop();
            taken += 1;
        }
        assert_eq!(put, taken);
        assert!(ring.room().is_some());
    }
}
