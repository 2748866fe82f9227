//! A file's data: pages exist where something was written; the rest is zeros.

use std::collections::BTreeMap;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Sparse contents.
#[derive(Debug, Clone, Default)]
pub struct Data {
    pages: BTreeMap<u64, Box<[u8]>>,
    size: u64,
}

impl Data {
    /// The file's size.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of memory in use.
    pub fn used(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    /// Additional memory in bytes that a write would need.
    pub fn growth(&self, offset: u64, len: u64) -> u64 {
        pages_of(offset, len).filter(|page| !self.pages.contains_key(page)).count() as u64 * PAGE
    }

    /// Reads into the front of `into`; returns how many bytes there were.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let left = self.size.saturating_sub(offset);
        let len = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut at = offset;
        let mut rest = into.get_mut(..len).unwrap_or_default();
        while !rest.is_empty() {
            let (part, behind) = rest.split_at_mut(in_page(at).min(rest.len()));
            let page = self.pages.get(&(at / PAGE));
            let from = page.and_then(|page| page.get(index(at)..)?.get(..part.len()));
            match from {
                Some(from) => part.copy_from_slice(from),
                None => part.fill(0),
            }
            at = at.saturating_add(part.len() as u64);
            rest = behind;
        }
        len
    }

    /// Writes all of `from`; the caller has checked that the end does not overflow.
    pub fn write(&mut self, offset: u64, from: &[u8]) {
        let (mut at, mut rest) = (offset, from);
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(in_page(at).min(rest.len()));
            let page = self.pages.entry(at / PAGE).or_insert_with(zeros);
            let place = page.get_mut(index(at)..).and_then(|page| page.get_mut(..part.len()));
            if let Some(place) = place {
                place.copy_from_slice(part);
            }
            at = at.saturating_add(part.len() as u64);
            rest = behind;
        }
        if !from.is_empty() {
            self.size = self.size.max(offset + from.len() as u64);
        }
    }

    /// Makes the pages of a range, which the file then has; the caller has checked that the end does not overflow.
    pub fn allocate(&mut self, offset: u64, len: u64) {
        for page in pages_of(offset, len) {
            self.pages.entry(page).or_insert_with(zeros);
        }
        if len > 0 {
            self.size = self.size.max(offset + len);
        }
    }

    /// Makes a range zero and frees the pages within; the size stays.
    pub fn deallocate(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len);
        let (first, last) = (offset.div_ceil(PAGE), end / PAGE);
        let inside: Vec<u64> = match first < last {
            true => self.pages.range(first..last).map(|(page, _)| *page).collect(),
            false => Vec::new(),
        };
        for page in inside {
            self.pages.remove(&page);
        }
        // what is left of the first and of the last page
        for page in [offset / PAGE, last] {
            let start = page.saturating_mul(PAGE);
            let (from, to) = (offset.max(start), end.min(start.saturating_add(PAGE)));
            if let Some(bytes) = self.pages.get_mut(&page) {
                let zeroed = to.saturating_sub(from);
                let skipped = index(from);
                let range = bytes.iter_mut().skip(skipped);
                range.take(usize::try_from(zeroed).unwrap_or(0)).for_each(|byte| *byte = 0);
            }
        }
    }

    /// The first byte at or behind one that is in a page, or is in none; the end of the file is in none.
    pub fn seek(&self, offset: u64, in_page: bool) -> Option<u64> {
        let mut at = offset;
        while at < self.size {
            if self.pages.contains_key(&(at / PAGE)) == in_page {
                return Some(at);
            }
            at = match in_page {
                true => self.pages.range(at / PAGE..).next()?.0.saturating_mul(PAGE),
                false => (at / PAGE).saturating_add(1).saturating_mul(PAGE),
            };
        }
        (!in_page).then_some(self.size)
    }

    /// Cuts or grows; what is cut reads as zeros if the file grows again.
    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            let keep = size.div_ceil(PAGE);
            self.pages.split_off(&keep);
            if let Some(page) = self.pages.get_mut(&(size / PAGE)) {
                page.iter_mut().skip(index(size)).for_each(|byte| *byte = 0);
            }
        }
        self.size = size;
    }
}

/// Bytes from an offset to the end of its page.
fn in_page(at: u64) -> usize {
    usize::try_from(PAGE - at % PAGE).unwrap_or(1)
}

fn zeros() -> Box<[u8]> {
    vec![0; usize::try_from(PAGE).unwrap_or(0)].into_boxed_slice()
}

fn index(at: u64) -> usize {
    usize::try_from(at % PAGE).unwrap_or(0)
}

fn pages_of(offset: u64, len: u64) -> std::ops::Range<u64> {
    if len == 0 { 0..0 } else { offset / PAGE..(offset + len).div_ceil(PAGE) }
}

#[cfg(test)]
mod tests {
    use super::{Data, PAGE};

    #[test]
    fn holes_are_zeros_and_use_no_memory() {
        let mut data = Data::default();
        data.write(10 * PAGE + 5, b"far");
        assert_eq!((data.size(), data.used()), (10 * PAGE + 8, PAGE));
        let mut bytes = [9; 8];
        assert_eq!(data.read(10 * PAGE, &mut bytes), 8);
        assert_eq!(&bytes, b"\0\0\0\0\0far");
        assert_eq!(data.read(10 * PAGE + 8, &mut bytes), 0);
    }

    #[test]
    fn freed_ranges_are_holes_and_their_ends_are_zeros() {
        let mut data = Data::default();
        data.write(0, &[7; 5 * 4096]);
        data.deallocate(100, 2 * PAGE);
        assert_eq!((data.size(), data.used()), (5 * PAGE, 4 * PAGE));
        let mut bytes = [9; 5 * 4096];
        data.read(0, &mut bytes);
        let zero = |at: usize| (100..100 + 8192).contains(&at);
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == if zero(at) { 0 } else { 7 }));
        assert_eq!((data.seek(10, true), data.seek(10, false)), (Some(10), Some(PAGE)));
        assert_eq!(data.seek(PAGE + 1, true), Some(2 * PAGE));
        assert_eq!(data.seek(2 * PAGE, false), Some(5 * PAGE));
        data.resize(6 * PAGE);
        assert_eq!((data.seek(5 * PAGE, true), data.seek(5 * PAGE, false)), (None, Some(5 * PAGE)));
    }

    #[test]
    fn truncated_data_is_zero_after_growing() {
        let mut data = Data::default();
        data.write(0, &[1; 9000]);
        data.resize(100);
        data.resize(9000);
        let mut bytes = [9; 9000];
        assert_eq!(data.read(0, &mut bytes), 9000);
        assert!(bytes[..100].iter().all(|b| *b == 1) && bytes[100..].iter().all(|b| *b == 0));
    }
}
