//! A queue of bytes in one allocation: what is pushed lies behind what was pushed before, across the end of the
//! allocation where it comes to that.
//!
//! A place is counted in bytes since the beginning of the queue, so that it stays what it is while what is before it
//! leaves.

/// The queue.
#[derive(Debug)]
pub(super) struct Bytes {
    ring: Box<[u8]>,
    /// The place of the first byte that is left.
    begin: u64,
    /// The place behind the last.
    end: u64,
}

impl Bytes {
    /// One of so many bytes at the most, which become resident as they are used.
    pub fn with_room(most: usize) -> Self {
        Self { ring: vec![0; most].into_boxed_slice(), begin: 0, end: 0 }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::try_from(self.end.saturating_sub(self.begin)).unwrap_or(usize::MAX)
    }

    /// Whether so many more find room.
    pub fn fits(&self, len: usize) -> bool {
        self.len().saturating_add(len) <= self.ring.len()
    }

    /// Puts bytes behind the others, and says where; nothing if they do not fit.
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

    /// So many bytes from a place on; nothing if they are not all there.
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

    /// Lets go of what is before a place.
    pub fn leave(&mut self, until: u64) {
        self.begin = until.clamp(self.begin, self.end);
    }

    /// Asks for the memory of the next so many bytes, which are going to be written.
    pub fn fetch(&self, len: usize) {
        if let Some(next) = self.at(self.end).and_then(|at| self.ring.get(at..)) {
            sys::prefetch::for_writing(next.get(..len).unwrap_or(next));
        }
    }

    /// Where in the ring a place is; nothing in a ring without bytes.
    fn at(&self, place: u64) -> Option<usize> {
        usize::try_from(place.checked_rem(self.ring.len() as u64)?).ok()
    }

    /// So many bytes of the ring from a place on: until its end, and from its beginning.
    fn parts_mut(&mut self, start: u64, len: usize) -> Option<(&mut [u8], &mut [u8])> {
        let at = self.at(start)?;
        let (before, first) = self.ring.split_at_mut_checked(at)?;
        let here = len.min(first.len());
        Some((first.get_mut(..here)?, before.get_mut(..len.checked_sub(here)?)?))
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;
    use std::collections::VecDeque;

    #[test]
    fn it_is_a_queue_wherever_it_lies_in_the_ring() {
        let mut bytes = Bytes::with_room(1000);
        let mut kept = VecDeque::new();
        for n in 0..5000_u32 {
            let piece = vec![n as u8; (n * 37 % 211) as usize];
            while !bytes.fits(piece.len()) {
                assert_eq!(bytes.push(&piece), None);
                let (start, gone): (u64, Vec<u8>) = kept.pop_front().unwrap();
                let next = start + gone.len() as u64;
                bytes.leave(next);
                assert!(gone.is_empty() || bytes.get(start, gone.len()).is_none());
            }
            bytes.fetch(300);
            kept.push_back((bytes.push(&piece).unwrap(), piece));
            for (start, piece) in &kept {
                assert_eq!(*bytes.get(*start, piece.len()).unwrap(), **piece);
            }
            assert_eq!(bytes.len(), kept.iter().map(|(_, piece)| piece.len()).sum());
        }
    }

    #[test]
    fn one_without_room_holds_nothing() {
        let mut bytes = Bytes::with_room(0);
        assert_eq!((bytes.push(b"1"), bytes.len()), (None, 0));
        bytes.fetch(10);
    }
}
