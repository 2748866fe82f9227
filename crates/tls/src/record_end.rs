//! Where the record ends that is being received (RFC 8446 §5.1), so that nothing behind it is received with it.

use crate::HEADER_LEN;

/// How much of a record has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RecordEnd {
    /// Bytes of the header that have arrived, and the length in it as far as it has.
    header: usize,
    len: usize,
    /// Bytes of the rest that have arrived.
    body: usize,
}

impl RecordEnd {
    /// Bytes up to the end of the header, or, behind it, of the record; never 0.
    pub const fn missing(&self) -> usize {
        if self.header < HEADER_LEN {
            HEADER_LEN - self.header
        } else {
            self.len.saturating_sub(self.body)
        }
    }

    /// Takes note of what has arrived, of this record and those behind it.
    pub fn arrived(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.header < HEADER_LEN {
                self.header = self.header.saturating_add(1);
                if self.header >= HEADER_LEN - 1 {
                    self.len = self.len << 8 | usize::from(*first);
                }
                bytes = rest;
            } else {
                let len = bytes.len().min(self.missing());
                self.body = self.body.saturating_add(len);
                bytes = bytes.get(len..).unwrap_or_default();
            }
            if self.header == HEADER_LEN && self.body == self.len {
                *self = Self::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RecordEnd;

    fn record(len: u16) -> Vec<u8> {
        [&[23, 3, 3][..], &len.to_be_bytes(), &vec![0xff; len.into()]].concat()
    }

    #[test]
    fn nothing_behind_a_record_is_asked_for() {
        let stream = [record(1), record(0), record(700), record(256), record(3)].concat();
        for step in 1..40 {
            let (mut end, mut at) = (RecordEnd::default(), 0);
            let mut ends = Vec::new();
            while at < stream.len() {
                let len = end.missing().min(step);
                assert!(len > 0);
                end.arrived(&stream[at..at + len]);
                at += len;
                if end == RecordEnd::default() {
                    ends.push(at);
                }
            }
            assert_eq!(ends, [6, 11, 716, 977, 985]);
        }
    }

    #[test]
    fn records_that_arrived_together_are_told_apart() {
        let mut end = RecordEnd::default();
        end.arrived(&[record(4), record(0), record(9)[..7].to_vec()].concat());
        assert_eq!(end.missing(), 7);
        end.arrived(&[1; 7]);
        assert_eq!(end, RecordEnd::default());
        end.arrived(&[23, 3]);
        assert_eq!(end.missing(), 3);
    }
}
