use proptest::prelude::*;

use super::*;

fn size(text: &str) -> PacketSize {
    PacketSize::of(&text.parse().unwrap()).unwrap()
}

/// Line rate of one direction, whole packets per second.
fn line_rate(text: &str, link_bps: u64) -> f64 {
    size(text).line_rate_pps(link_bps, Duplex::Half).floor()
}

/// To as many units as `unit` says, rounded.
fn rounded(value: f64, unit: f64) -> f64 {
    (value / unit).round()
}

const G: u64 = 1_000_000_000;

#[test]
fn line_rates_are_those_of_rfc_2544() {
    // Appendix B of RFC 2544 lists them for 10 Mb/s.
    let listed = [14_880.0, 8_445.0, 4_528.0, 2_349.0, 1_197.0, 961.0, 812.0];
    for (with_fcs_bytes, listed) in RFC2544_SIZES_WITH_FCS_BYTES.into_iter().zip(listed) {
        let size_bytes = (with_fcs_bytes - FCS_BYTES).to_string();
        assert_eq!(line_rate(&size_bytes, 10_000_000), listed, "{with_fcs_bytes} bytes");
    }
    assert_eq!(line_rate("60", G), 1_488_095.0);
    assert_eq!(line_rate("60", 10 * G), 14_880_952.0);
    assert_eq!(line_rate("60", 400 * G), 595_238_095.0);
    assert_eq!(size("60").line_rate_pps(10 * G, Duplex::Full).floor(), 29_761_904.0);
}

#[test]
fn the_simple_mix_needs_what_is_published() {
    assert_eq!(rounded(imix_pps(G, Duplex::Half), 1e3), 353.0);
    assert_eq!(rounded(imix_pps(G, Duplex::Full), 1e3), 706.0);
    assert_eq!(rounded(imix_pps(10 * G, Duplex::Half), 1e5), 35.0);
    assert_eq!(rounded(imix_pps(10 * G, Duplex::Full), 1e6), 7.0);
}

#[test]
fn the_simple_mix_at_each_layer() {
    let imix = PacketSize::imix();
    let twelve = |layer| (imix.layer_bytes(layer) * 12.0).round();
    assert_eq!(twelve(Layer::Ip), 7.0 * 40.0 + 4.0 * 576.0 + 1500.0);
    assert_eq!(twelve(Layer::Ethernet), 7.0 * 54.0 + 4.0 * 590.0 + 1514.0);
    // On the line, the 54 bytes are padded to 60.
    assert_eq!(twelve(Layer::Line), 7.0 * 84.0 + 4.0 * 614.0 + 1538.0);
    assert_eq!((imix.frame_with_fcs_bytes() * 12.0).round(), 7.0 * 64.0 + 4.0 * 594.0 + 1518.0);
    assert_eq!(size("imix"), imix);
}

#[test]
fn a_mix_has_the_mean_of_its_sizes() {
    assert_eq!(size("60-1514").frame_bytes(), 787.0);
    assert_eq!(size("60,60,60,1514").frame_bytes(), 423.5);
    // RFC 6985's letters have the FCS in them: three frames of 64 bytes and one of 1,518.
    let genome = size("imix-genome:aaag");
    assert_eq!((genome.frame_bytes(), genome.frame_with_fcs_bytes()), (423.5, 427.5));
    assert_eq!(genome.layer_bytes(Layer::Ip), 409.5);
}

#[test]
fn bits_at_each_layer() {
    let small = size("60");
    assert_eq!(small.bps(1e6, Layer::Ip), 368e6);
    assert_eq!(small.bps(1e6, Layer::Ethernet), 480e6);
    assert_eq!(small.bps(1e6, Layer::Line), 672e6);
}

#[test]
fn a_frame_too_short_is_refused() {
    for (text, size_bytes) in [("59", 59), ("40-1514", 40), ("60,0", 0)] {
        let error = PacketSize::of(&text.parse().unwrap()).unwrap_err();
        assert_eq!(error, TooShort { size_bytes });
        assert!(error.to_string().contains("the smallest has 60"), "{error}");
    }
}

#[test]
fn the_fastest_link_is_found_at_its_edges() {
    for (index, link_bps) in LINKS_BPS.into_iter().enumerate() {
        for duplex in [Duplex::Half, Duplex::Full] {
            let needed_pps = imix_pps(link_bps, duplex);
            assert_eq!(imix_link_bps(needed_pps, duplex), Some(link_bps));
            let slower = index.checked_sub(1).map(|index| LINKS_BPS[index]);
            assert_eq!(imix_link_bps(needed_pps * 0.999, duplex), slower);
        }
    }
    assert_eq!(imix_link_bps(0.0, Duplex::Half), None);
    assert_eq!(imix_link_bps(f64::NAN, Duplex::Half), None);
    assert_eq!(imix_link_bps(1e12, Duplex::Full), Some(400 * G));
}

proptest! {
    #[test]
    fn packets_and_bits_are_inverse(rate_pps in 1.0..1e9_f64, size_bytes in 60_u16..) {
        let size = PacketSize::of(&Sizes::Fixed(size_bytes)).unwrap();
        for layer in [Layer::Ip, Layer::Ethernet, Layer::Line] {
            let back_pps = size.pps(size.bps(rate_pps, layer), layer);
            prop_assert!((back_pps / rate_pps - 1.0).abs() < 1e-12);
        }
        prop_assert!(size.layer_bytes(Layer::Ip) < size.layer_bytes(Layer::Ethernet));
        prop_assert!(size.layer_bytes(Layer::Ethernet) < size.layer_bytes(Layer::Line));
    }
}
