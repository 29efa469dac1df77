//! The checksum of cksum(1), POSIX: what proves on every system that a file arrived whole.
//!
//! CRC-32 with the polynomial 0x04C11DB7, most significant bit first, over the bytes and then over
//! their number, complemented. Only computes.

const POLYNOMIAL: u32 = 0x04C1_1DB7;

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "below 256")]
        let mut value = (index as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            value = if value & (1 << 31) == 0 { value << 1 } else { (value << 1) ^ POLYNOMIAL };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

/// The checksum of a file with this content.
pub(super) fn cksum(content: &[u8]) -> u32 {
    let step =
        |crc: u32, byte: u8| (crc << 8) ^ TABLE[usize::from((crc >> 24).to_be_bytes()[3] ^ byte)];
    let mut crc = content.iter().fold(0, |crc, &byte| step(crc, byte));
    let mut length = content.len();
    while length > 0 {
        crc = step(crc, length.to_le_bytes()[0]);
        length >>= 8;
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_the_program() {
        // As cksum(1) prints them.
        assert_eq!(cksum(b""), 4_294_967_295);
        assert_eq!(cksum(b"123456789"), 930_766_865);
        assert_eq!(cksum(&[b'x'; 70_000]), expected(&[b'x'; 70_000]));
    }

    /// The same by the definition, bit by bit.
    fn expected(content: &[u8]) -> u32 {
        let mut length = content.len();
        let mut bytes = content.to_vec();
        while length > 0 {
            bytes.push(length.to_le_bytes()[0]);
            length >>= 8;
        }
        let mut crc = 0_u32;
        for byte in bytes {
            for bit in (0..8).rev() {
                let top = (crc >> 31) ^ u32::from((byte >> bit) & 1);
                crc = (crc << 1) ^ if top == 1 { POLYNOMIAL } else { 0 };
            }
        }
        !crc
    }
}
