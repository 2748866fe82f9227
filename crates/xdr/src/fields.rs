//! Fields that are written one after the other into a place.

/// What is left of a place. Where the compiler knows the length of the whole place, it finds out that all fields fit, and
/// checks nothing; what does not fit is left out.
#[derive(Debug)]
pub struct Fields<'p>(&'p mut [u8]);

impl<'p> Fields<'p> {
    /// Fields that begin where the place begins.
    #[inline(always)]
    pub const fn of<const N: usize>(place: &'p mut [u8; N]) -> Self {
        Self(place)
    }

    /// Bytes as they are.
    #[inline(always)]
    pub fn bytes<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some((place, rest)) = std::mem::take(&mut self.0).split_first_chunk_mut::<N>() {
            *place = bytes;
            self.0 = rest;
        }
    }

    /// An `unsigned int`.
    #[inline(always)]
    pub fn u32(&mut self, value: u32) {
        self.bytes(value.to_be_bytes());
    }

    /// An `unsigned hyper`.
    #[inline(always)]
    pub fn u64(&mut self, value: u64) {
        self.bytes(value.to_be_bytes());
    }
}
