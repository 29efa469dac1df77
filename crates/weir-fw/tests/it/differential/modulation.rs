//! What the data path adds to sequence numbers under `modulate state`, computed anew from the
//! papers: the hash of a flow (NH of UMAC, Black, Halevi, Krawczyk, Krovetz and Rogaway, 1999), and
//! of that SipHash-2-4 (Aumasson and Bernstein, 2012).

use std::hash::Hasher as _;
use std::net::IpAddr;

use weir_wire::protocol::TCP;
use weir_wire::random::{halves, splitmix64};

use super::device::HASH_SEED;

fn key() -> [u64; 8] {
    let mut key = HASH_SEED;
    for (position, word) in (0..).zip(&mut key) {
        *word = splitmix64(*word, position);
    }
    key
}

/// Of two words: the product of the keyed halves of each, added.
fn nh(words: [u64; 2], key: [u64; 2]) -> u64 {
    let product = |word: u64, key: u64| {
        let ((high, low), (key_high, key_low)) = (halves(word), halves(key));
        u64::from(low.wrapping_add(key_low)) * u64::from(high.wrapping_add(key_high))
    };
    product(words[0], key[0]).wrapping_add(product(words[1], key[1]))
}

/// Words as a processor reads them out of a packet.
fn word(bytes: &[u8]) -> u64 {
    u32::from_ne_bytes(bytes.try_into().expect("four bytes")).into()
}

fn end((address, port): (IpAddr, u16), key: &[u64; 8]) -> u64 {
    let port = u64::from(u16::from_ne_bytes(port.to_be_bytes()));
    match address {
        IpAddr::V4(address) => port << 32 | word(&address.octets()),
        IpAddr::V6(address) => {
            let octets = address.octets();
            let [a, b, c, d] = [0, 4, 8, 12].map(|at| word(&octets[at..at + 4]));
            nh([b << 32 | a, d << 32 | c], [key[3], key[4]])
                .wrapping_add(port.wrapping_mul(key[5] | 1))
        }
    }
}

fn flow_hash(source: (IpAddr, u16), destination: (IpAddr, u16), key: &[u64; 8]) -> u64 {
    let (one, two) = (end(source, key), end(destination, key));
    let family = u64::from(source.0.is_ipv6());
    let mut mixed = nh([one.min(two), one.max(two)], [key[0], key[1]]);
    mixed = mixed.wrapping_add(u64::from(TCP) << 8 | family);
    mixed ^= mixed >> 32;
    mixed = mixed.wrapping_mul(key[2] | 1);
    mixed ^ mixed >> 32
}

/// What is added to the numbers of the source, and to those of the destination.
#[expect(deprecated, reason = "the one SipHash-2-4 of the standard library; others have 1-3")]
pub(crate) fn modulation(source: (IpAddr, u16), destination: (IpAddr, u16)) -> [u32; 2] {
    let key = key();
    let mut hasher = std::hash::SipHasher::new_with_keys(key[6], key[7]);
    hasher.write(&flow_hash(source, destination, &key).to_le_bytes());
    let (destination, source) = halves(hasher.finish());
    [source, destination]
}
