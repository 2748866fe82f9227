//! Keys, encryption and checksums of the AES encryption types: RFC 3961 §5.3 with RFC 3962 (SHA-1), and RFC 8009 (SHA-2).

use super::cts::{Aes, BLOCK};
use aws_lc_rs::{constant_time, hmac};

/// What the HMAC of a message covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authenticated {
    /// The plaintext (RFC 3961 §5.3).
    Plaintext,
    /// An initial vector of zeros and the ciphertext (RFC 8009 §5).
    Ciphertext,
}

impl Authenticated {
    /// Bytes of plaintext.
    pub fn before(self, mac: &mut hmac::Context, bytes: &[u8]) {
        if self == Self::Plaintext {
            mac.update(bytes);
        }
    }

    /// Bytes of ciphertext.
    pub fn after(self, mac: &mut hmac::Context, bytes: &[u8]) {
        if self == Self::Ciphertext {
            mac.update(bytes);
        }
    }
}

/// The keys of one direction of a context.
pub struct Keys {
    cipher: Aes,
    integrity: hmac::Key,
    checksum: hmac::Key,
    authenticated: Authenticated,
    mac_len: usize,
}

/// The last bytes of the constants used for key derivation (RFC 3961 §5.3).
const CHECKSUM: u8 = 0x99;
const ENCRYPTION: u8 = 0xaa;
const INTEGRITY: u8 = 0x55;

/// A checksum does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChecksumMismatch;

/// The parameters of an encryption type.
struct Profile {
    key_len: usize,
    mac_len: usize,
    /// Bytes of derived HMAC keys.
    mac_key_len: usize,
    algorithm: hmac::Algorithm,
    authenticated: Authenticated,
}

fn profile(encryption_type: u32) -> Option<Profile> {
    let (key_len, mac_len, mac_key_len, algorithm, authenticated) = match encryption_type {
        17 => (16, 12, 16, hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, Authenticated::Plaintext),
        18 => (32, 12, 32, hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, Authenticated::Plaintext),
        19 => (16, 16, 16, hmac::HMAC_SHA256, Authenticated::Ciphertext),
        20 => (32, 24, 24, hmac::HMAC_SHA384, Authenticated::Ciphertext),
        _ => return None,
    };
    Some(Profile { key_len, mac_len, mac_key_len, algorithm, authenticated })
}

/// Bytes of the checksums of an encryption type; `None` if it is not an AES type.
pub fn mac_len(encryption_type: u32) -> Option<usize> {
    profile(encryption_type).map(|profile| profile.mac_len)
}

impl Keys {
    /// Derives the keys for these seal and sign key usage numbers; `None` for another encryption type or an invalid key.
    pub fn derive(encryption_type: u32, key: &[u8], seal: u32, sign: u32) -> Option<Self> {
        let profile = profile(encryption_type)?;
        if key.len() != profile.key_len {
            return None;
        }
        let derived = |usage: u32, purpose: u8, len: usize| {
            let [a, b, c, d] = usage.to_be_bytes();
            let constant = [a, b, c, d, purpose];
            match profile.authenticated {
                Authenticated::Plaintext => derive_by_cipher(key, &constant, len),
                Authenticated::Ciphertext => derive_by_hmac(profile.algorithm, key, &constant, len),
            }
        };
        let mac_key = |usage, purpose| {
            let bytes = derived(usage, purpose, profile.mac_key_len)?;
            Some(hmac::Key::new(profile.algorithm, &bytes))
        };
        Some(Self {
            cipher: Aes::new(&derived(seal, ENCRYPTION, profile.key_len)?)?,
            integrity: mac_key(seal, INTEGRITY)?,
            checksum: mac_key(sign, CHECKSUM)?,
            authenticated: profile.authenticated,
            mac_len: profile.mac_len,
        })
    }

    /// Bytes of a checksum, and of the HMAC after a ciphertext.
    pub const fn mac_len(&self) -> usize {
        self.mac_len
    }

    fn mac_of_message(&self) -> hmac::Context {
        let mut mac = hmac::Context::with_key(&self.integrity);
        self.authenticated.after(&mut mac, &[0; BLOCK]);
        mac
    }

    /// Encrypts `data`, which begins with the confounder and ends with space for the HMAC.
    ///
    /// # Errors
    /// It is too short.
    pub fn encrypt(&self, data: &mut [u8]) -> Result<(), ChecksumMismatch> {
        let len = data.len().checked_sub(self.mac_len).ok_or(ChecksumMismatch)?;
        let (message, place) = data.split_at_mut_checked(len).ok_or(ChecksumMismatch)?;
        let mut mac = self.mac_of_message();
        self.cipher.encrypt(message, self.authenticated, &mut mac).ok_or(ChecksumMismatch)?;
        let sum = mac.sign();
        place.copy_from_slice(sum.as_ref().get(..self.mac_len).ok_or(ChecksumMismatch)?);
        Ok(())
    }

    /// Decrypts `sealed` into `plain`: the confounder and the message.
    ///
    /// # Errors
    /// The HMAC does not match; the content of `plain` must not be used.
    pub fn decrypt(&self, sealed: &[u8], plain: &mut Vec<u8>) -> Result<(), ChecksumMismatch> {
        let len = sealed.len().checked_sub(self.mac_len).ok_or(ChecksumMismatch)?;
        let (message, sum) = sealed.split_at_checked(len).ok_or(ChecksumMismatch)?;
        plain.clear();
        plain.resize(len, 0);
        let mut mac = self.mac_of_message();
        self.cipher
            .decrypt(message, plain, self.authenticated, &mut mac)
            .ok_or(ChecksumMismatch)?;
        self.compare(&mac.sign(), sum)
    }

    /// The checksum of a message given in two parts.
    pub fn sign(&self, parts: [&[u8]; 2]) -> hmac::Tag {
        let mut mac = hmac::Context::with_key(&self.checksum);
        parts.iter().for_each(|part| mac.update(part));
        mac.sign()
    }

    /// Verifies the checksum of a message given in two parts.
    ///
    /// # Errors
    /// It does not match.
    pub fn verify(&self, parts: [&[u8]; 2], sum: &[u8]) -> Result<(), ChecksumMismatch> {
        self.compare(&self.sign(parts), sum)
    }

    fn compare(&self, right: &hmac::Tag, sum: &[u8]) -> Result<(), ChecksumMismatch> {
        let right = right.as_ref().get(..self.mac_len).ok_or(ChecksumMismatch)?;
        constant_time::verify_slices_are_equal(right, sum).map_err(|_| ChecksumMismatch)
    }
}

/// DK of RFC 3961 §5.1: encrypts the n-folded constant repeatedly.
fn derive_by_cipher(key: &[u8], constant: &[u8], len: usize) -> Option<Vec<u8>> {
    let aes = Aes::new(key)?;
    let mut block: [u8; BLOCK] = folded(constant, BLOCK).try_into().ok()?;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        aes.encrypt_block(&mut block);
        bytes.extend_from_slice(&block);
    }
    bytes.truncate(len);
    Some(bytes)
}

/// KDF-HMAC-SHA2 of RFC 8009 §3; one round suffices.
fn derive_by_hmac(
    algorithm: hmac::Algorithm,
    key: &[u8],
    label: &[u8],
    len: usize,
) -> Option<Vec<u8>> {
    let bits = u32::try_from(len.checked_mul(8)?).ok()?;
    let mut mac = hmac::Context::with_key(&hmac::Key::new(algorithm, key));
    for part in [&1_u32.to_be_bytes()[..], label, &[0], &bits.to_be_bytes()] {
        mac.update(part);
    }
    mac.sign().as_ref().get(..len).map(<[u8]>::to_vec)
}

/// n-fold (RFC 3961 §5.1): adds up copies of the input, each rotated right by 13 more bits, in pieces of `len` bytes,
/// with end-around carry.
fn folded(input: &[u8], len: usize) -> Vec<u8> {
    let bits = input.len().saturating_mul(8).max(1);
    let total = least_common_multiple(input.len(), len);
    let bit = |at: usize| {
        // bit `at` of the copies, from the front
        let (copy, within) = (at.checked_div(bits), at.checked_rem(bits));
        let turned = copy.unwrap_or(0).saturating_mul(13).checked_rem(bits).unwrap_or(0);
        let from = within.unwrap_or(0).saturating_add(bits).saturating_sub(turned);
        let from = from.checked_rem(bits).unwrap_or(0);
        let byte = input.get(from / 8).copied().unwrap_or(0);
        byte >> (7_usize.saturating_sub(from % 8)) & 1
    };
    let byte = |at: usize| {
        (0..8).fold(0_u8, |byte, n| byte << 1 | bit(at.saturating_mul(8).saturating_add(n)))
    };
    let copies: Vec<u8> = (0..total).map(byte).collect();
    let mut sum = vec![0_u8; len];
    for piece in copies.chunks(len.max(1)) {
        let mut carry = 0_u16;
        for (to, from) in sum.iter_mut().zip(piece).rev() {
            let added = u16::from(*to).saturating_add(u16::from(*from)).saturating_add(carry);
            *to = (added & 0xff) as u8;
            carry = added >> 8;
        }
        // end-around carry, once more if that overflows
        while carry > 0 {
            for to in sum.iter_mut().rev() {
                let added = u16::from(*to).saturating_add(carry);
                *to = (added & 0xff) as u8;
                carry = added >> 8;
            }
        }
    }
    sum
}

fn least_common_multiple(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while let Some(rest) = x.checked_rem(y) {
        (x, y) = (y, rest);
    }
    a.checked_div(x).unwrap_or(0).saturating_mul(b)
}

#[cfg(test)]
mod tests;
