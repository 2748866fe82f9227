//! A queue of bytes in one allocation: a ring buffer.
//!
//! A position is counted in bytes since the beginning of the queue, so that it remains valid while what is before
//! it is removed.

/// The queue.
#[derive(Debug)]
pub(super) struct ByteRing {
    ring: Box<[u8]>,
    /// The position of the first byte.
    begin: u64,
    /// The position behind the last byte.
    end: u64,
}

impl ByteRing {
    /// A ring of `most` bytes, which become resident as they are used.
    pub fn with_capacity(most: usize) -> Self {
        Self { ring: vec![0; most].into_boxed_slice(), begin: 0, end: 0 }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::try_from(self.end.saturating_sub(self.begin)).unwrap_or(usize::MAX)
    }

    /// Whether `len` more bytes fit.
    pub fn fits(&self, len: usize) -> bool {
        self.len().saturating_add(len) <= self.ring.len()
    }

    /// Appends bytes; their position, or `None` if they do not fit.
    pub fn push(&mut self, bytes: &[u8]) -> Option<u64> {
        if !self.fits(bytes.len()) {
            return None;
        }
        let start = self.end;
        let (first, second) = self.parts_mut(start, bytes.len())?;
        let (head, tail) = bytes.split_at_checked(first.len())?;
        first.copy_from_slice(head);
        second.copy_from_slice(tail);
        self.end = start.saturating_add(bytes.len() as u64);
        Some(start)
    }

    /// `len` bytes from a position on; `None` if they are not all there.
    pub fn get(&self, start: u64, len: usize) -> Option<Box<[u8]>> {
        if start < self.begin || start.checked_add(len as u64)? > self.end {
            return None;
        }
        let at = self.at(start)?;
        let first = self.ring.get(at..)?;
        let (first, second) = match first.get(..len) {
            Some(whole) => (whole, &[][..]),
            None => (first, self.ring.get(..len.checked_sub(first.len())?)?),
        };
        Some([first, second].concat().into_boxed_slice())
    }

    /// Removes what is before a position.
    pub fn remove_before(&mut self, until: u64) {
        self.begin = until.clamp(self.begin, self.end);
    }

    /// Prefetches the memory of the next `len` bytes, which are going to be written.
    pub fn prefetch(&self, len: usize) {
        if let Some(next) = self.at(self.end).and_then(|at| self.ring.get(at..)) {
            sys::prefetch::for_writing(next.get(..len).unwrap_or(next));
        }
    }

    /// Where in the ring a position is; `None` in a ring without memory.
    fn at(&self, position: u64) -> Option<usize> {
        usize::try_from(position.checked_rem(self.ring.len() as u64)?).ok()
    }

    /// `len` bytes of the ring from a position on: until its end, and from its beginning.
    fn parts_mut(&mut self, start: u64, len: usize) -> Option<(&mut [u8], &mut [u8])> {
        let at = self.at(start)?;
        let (before, first) = self.ring.split_at_mut_checked(at)?;
        let here = len.min(first.len());
        Some((first.get_mut(..here)?, before.get_mut(..len.checked_sub(here)?)?))
    }
}

#[cfg(test)]
mod tests {
    use super::ByteRing;
    use std::collections::VecDeque;

    #[test]
    fn the_byte_ring_is_a_queue_across_its_end() {
        let mut bytes = ByteRing::with_capacity(1000);
        let mut kept = VecDeque::new();
        for n in 0..5000_u32 {
            let piece = vec![n as u8; (n * 37 % 211) as usize];
            while !bytes.fits(piece.len()) {
                assert_eq!(bytes.push(&piece), None);
                let (start, gone): (u64, Vec<u8>) = kept.pop_front().unwrap();
                let next = start + gone.len() as u64;
                bytes.remove_before(next);
                assert!(gone.is_empty() || bytes.get(start, gone.len()).is_none());
            }
            bytes.prefetch(300);
            kept.push_back((bytes.push(&piece).unwrap(), piece));
            for (start, piece) in &kept {
                assert_eq!(*bytes.get(*start, piece.len()).unwrap(), **piece);
            }
            assert_eq!(bytes.len(), kept.iter().map(|(_, piece)| piece.len()).sum());
        }
    }

    #[test]
    fn a_ring_without_memory_holds_nothing() {
        let mut bytes = ByteRing::with_capacity(0);
        assert_eq!((bytes.push(b"1"), bytes.len()), (None, 0));
        bytes.prefetch(10);
    }
}
