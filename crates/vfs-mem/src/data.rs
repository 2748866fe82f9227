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
        for (n, byte) in into.iter_mut().take(len).enumerate() {
            let at = offset + n as u64;
            let page = self.pages.get(&(at / PAGE));
            *byte = page.and_then(|p| p.get(index(at))).copied().unwrap_or(0);
        }
        len
    }

    /// Writes all of `from`; the caller has checked that the end does not overflow.
    pub fn write(&mut self, offset: u64, from: &[u8]) {
        for (n, byte) in from.iter().enumerate() {
            let at = offset + n as u64;
            let empty = || vec![0; usize::try_from(PAGE).unwrap_or(0)].into_boxed_slice();
            let page = self.pages.entry(at / PAGE).or_insert_with(empty);
            if let Some(place) = page.get_mut(index(at)) {
                *place = *byte;
            }
        }
        if !from.is_empty() {
            self.size = self.size.max(offset + from.len() as u64);
        }
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
