//! `bitmap4`: a set of attribute numbers.

use xdr::{Decode, Encode, Error, Reader, Writer};

/// Words of a bitmap that name attributes which this server knows.
const WORDS: usize = 3;
/// The most words that are taken off the wire.
const WORDS_MAX: usize = 256;

/// A set of attributes. Numbers that no version of this server knows are only remembered as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bitmap4 {
    words: [u32; WORDS],
    unknown: bool,
}

impl Bitmap4 {
    /// No attribute.
    pub const NONE: Self = Self { words: [0; WORDS], unknown: false };

    /// The set of these numbers, each below 96.
    pub const fn of(numbers: &[u32]) -> Self {
        let mut words = [0; WORDS];
        let mut rest = numbers;
        while let [number, tail @ ..] = rest {
            let bit = 1 << (*number % 32);
            match *number / 32 {
                0 => words[0] |= bit,
                1 => words[1] |= bit,
                _ => words[2] |= bit,
            }
            rest = tail;
        }
        Self { words, unknown: false }
    }

    /// The set with these words.
    pub const fn of_words(words: [u32; WORDS]) -> Self {
        Self { words, unknown: false }
    }

    /// The words of the set; what no version of this server knows is not in them.
    pub const fn words(&self) -> [u32; WORDS] {
        self.words
    }

    /// Whether an attribute is in the set.
    pub const fn has(&self, number: u32) -> bool {
        let word = match number / 32 {
            0 => self.words[0],
            1 => self.words[1],
            2 => self.words[2],
            _ => 0,
        };
        word & 1 << (number % 32) != 0
    }

    /// The attributes that are in both.
    #[must_use]
    pub const fn and(&self, other: &Self) -> Self {
        let ([a, b, c], [d, e, f]) = (self.words, other.words);
        Self { words: [a & d, b & e, c & f], unknown: self.unknown && other.unknown }
    }

    /// The attributes that are in one or the other.
    #[must_use]
    pub const fn or(&self, other: &Self) -> Self {
        let ([a, b, c], [d, e, f]) = (self.words, other.words);
        Self { words: [a | d, b | e, c | f], unknown: self.unknown || other.unknown }
    }

    /// The attributes that are not in the other.
    #[must_use]
    pub const fn without(&self, other: &Self) -> Self {
        let ([a, b, c], [d, e, f]) = (self.words, other.words);
        Self { words: [a & !d, b & !e, c & !f], unknown: self.unknown }
    }

    /// Whether all of `other` is in the set.
    pub const fn covers(&self, other: &Self) -> bool {
        other.without(self).is_empty()
    }

    /// Whether both have an attribute in common.
    pub const fn intersects(&self, other: &Self) -> bool {
        !self.and(other).is_empty()
    }

    /// Whether nothing is in the set.
    pub const fn is_empty(&self) -> bool {
        let [a, b, c] = self.words;
        a | b | c == 0 && !self.unknown
    }

    /// The numbers, rising; unknown ones left out.
    pub const fn iter(&self) -> Numbers {
        let [a, b, c] = self.words;
        Numbers { low: a as u64 | (b as u64) << 32, high: c as u64, base: 0 }
    }
}

/// The numbers of the attributes in a set, rising.
#[derive(Debug, Clone)]
pub struct Numbers {
    /// Those that come next, from `base` on.
    low: u64,
    /// Those that come after them.
    high: u64,
    base: u32,
}

impl Iterator for Numbers {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.low == 0 {
            if self.high == 0 {
                return None;
            }
            (self.low, self.high, self.base) = (self.high, 0, 64);
        }
        let bit = self.low.trailing_zeros();
        self.low &= self.low.wrapping_sub(1);
        Some(self.base | bit)
    }
}

impl<'a> Decode<'a> for Bitmap4 {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let count = r.count(WORDS_MAX)?;
        // as nearly all are
        if count == 2 {
            let [first, second] = r.words()?;
            return Ok(Self { words: [first, second, 0], unknown: false });
        }
        let mut map = Self::NONE;
        for at in 0..count {
            let word = r.u32()?;
            match map.words.get_mut(at) {
                Some(place) => *place = word,
                None => map.unknown |= word != 0,
            }
        }
        Ok(map)
    }
}

impl Encode for Bitmap4 {
    fn encode(&self, w: &mut Writer) {
        match self.words {
            [0, 0, 0] => w.u32(0),
            [a, 0, 0] => w.words([1, a]),
            [a, b, 0] => w.words([2, a, b]),
            [a, b, c] => w.words([3, a, b, c]),
        }
    }
}
