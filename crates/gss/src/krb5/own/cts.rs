//! AES-CBC with ciphertext stealing, the last two blocks always swapped (RFC 3962 §5, RFC 8009 §3: CBC-CS3), with a zero
//! initial vector. The HMAC is computed in the same pass, while the data is in the CPU cache.

use super::profile::Authenticated;
use aes::{Aes128, Aes256};
use aws_lc_rs::hmac;
use cbc::cipher::array::Array;
use cbc::cipher::{
    BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, BlockSizeUser,
    InnerIvInit, KeyInit, typenum::U16,
};

/// Bytes of a block.
pub const BLOCK: usize = 16;
/// Bytes that are encrypted and authenticated per pass.
const PIECE: usize = 8192;

type Block = Array<u8, U16>;

/// AES with the key of one direction.
pub enum Aes {
    Short(Box<Aes128>),
    Long(Box<Aes256>),
}

impl Aes {
    /// With a key of 16 or 32 bytes.
    pub fn new(key: &[u8]) -> Option<Self> {
        match key.len() {
            16 => Some(Self::Short(Box::new(Aes128::new_from_slice(key).ok()?))),
            32 => Some(Self::Long(Box::new(Aes256::new_from_slice(key).ok()?))),
            _ => None,
        }
    }

    /// Encrypts a single block.
    pub fn encrypt_block(&self, block: &mut [u8; BLOCK]) {
        let block: &mut Block = block.into();
        match self {
            Self::Short(aes) => aes.encrypt_block(block),
            Self::Long(aes) => aes.encrypt_block(block),
        }
    }

    /// Encrypts in place; `None` if the data is shorter than a block and a byte.
    pub fn encrypt(
        &self,
        data: &mut [u8],
        authenticated: Authenticated,
        mac: &mut hmac::Context,
    ) -> Option<()> {
        match self {
            Self::Short(aes) => encrypt(aes.as_ref(), data, authenticated, mac),
            Self::Long(aes) => encrypt(aes.as_ref(), data, authenticated, mac),
        }
    }

    /// Decrypts `sealed` into `plain` of the same length; `None` if the lengths differ or are too short.
    pub fn decrypt(
        &self,
        sealed: &[u8],
        plain: &mut [u8],
        authenticated: Authenticated,
        mac: &mut hmac::Context,
    ) -> Option<()> {
        match self {
            Self::Short(aes) => decrypt(aes.as_ref(), sealed, plain, authenticated, mac),
            Self::Long(aes) => decrypt(aes.as_ref(), sealed, plain, authenticated, mac),
        }
    }
}

/// The start of the last full block; plain CBC applies before it.
fn tail_start(len: usize) -> Option<usize> {
    let last = len.checked_sub(1)?.checked_rem(BLOCK)?.checked_add(1)?;
    len.checked_sub(last)?.checked_sub(BLOCK)
}

fn encrypt<C>(
    aes: &C,
    data: &mut [u8],
    authenticated: Authenticated,
    mac: &mut hmac::Context,
) -> Option<()>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + Clone,
{
    let (body, tail) = data.split_at_mut_checked(tail_start(data.len())?)?;
    let mut mode = cbc::Encryptor::inner_iv_init(aes.clone(), &Block::default());
    for piece in body.chunks_mut(PIECE) {
        authenticated.before(mac, piece);
        mode.encrypt_blocks(Array::slice_as_chunks_mut(piece).0);
        authenticated.after(mac, piece);
    }
    authenticated.before(mac, tail);
    let (full, short) = tail.split_first_chunk_mut::<BLOCK>()?;
    let mut stolen: Block = (*full).into();
    mode.encrypt_block(&mut stolen);
    let mut last = Block::default();
    last.get_mut(..short.len())?.copy_from_slice(short);
    mode.encrypt_block(&mut last);
    *full = last.into();
    short.copy_from_slice(stolen.get(..short.len())?);
    authenticated.after(mac, tail);
    Some(())
}

fn decrypt<C>(
    aes: &C,
    sealed: &[u8],
    plain: &mut [u8],
    authenticated: Authenticated,
    mac: &mut hmac::Context,
) -> Option<()>
where
    C: BlockCipherDecrypt + BlockSizeUser<BlockSize = U16> + Clone,
{
    if sealed.len() != plain.len() {
        return None;
    }
    let at = tail_start(sealed.len())?;
    let ((body, tail), (to, to_tail)) =
        (sealed.split_at_checked(at)?, plain.split_at_mut_checked(at)?);
    let mut mode = cbc::Decryptor::inner_iv_init(aes.clone(), &Block::default());
    for (piece, to) in body.chunks(PIECE).zip(to.chunks_mut(PIECE)) {
        authenticated.after(mac, piece);
        let (from, into) = (Array::slice_as_chunks(piece).0, Array::slice_as_chunks_mut(to).0);
        mode.decrypt_blocks_b2b(from, into).ok()?;
        authenticated.before(mac, to);
    }
    authenticated.after(mac, tail);
    let (last, short) = tail.split_first_chunk::<BLOCK>()?;
    let (to_full, to_short) = to_tail.split_first_chunk_mut::<BLOCK>()?;
    // the last block is XORed with the block before it, part of which was stolen
    let mut opened: Block = (*last).into();
    aes.decrypt_block(&mut opened);
    for ((to, opened), sealed) in to_short.iter_mut().zip(&opened).zip(short) {
        *to = opened ^ sealed;
    }
    let mut stolen = opened;
    stolen.get_mut(..short.len())?.copy_from_slice(short);
    mode.decrypt_block(&mut stolen);
    *to_full = stolen.into();
    authenticated.before(mac, to_tail);
    Some(())
}
