//! CRC-32C (the Castagnoli polynomial, RFC 3720 appendix B.4), a byte at a time: records are short and few.

/// The polynomial, its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// The checksum of all parts, one behind the other.
pub(crate) fn crc32c(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    !bytes.fold(!0, |crc: u32, byte| {
        let [low, ..] = crc.to_le_bytes();
        let at = usize::from(low ^ byte);
        (crc >> 8) ^ TABLE.get(at).copied().unwrap_or_default()
    })
}
