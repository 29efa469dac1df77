//! Tests of the unit parsers and printers.

use super::*;

fn rate(text: &str) -> Rate {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn rates_are_read() {
    assert_eq!(rate("max"), Rate::Max);
    assert_eq!(rate("1.5Mpps"), Rate::Pps(1_500_000.0));
    assert_eq!(rate("50kpps"), Rate::Pps(50_000.0));
    assert_eq!(rate("50000pps"), Rate::Pps(50_000.0));
    assert_eq!(rate("50_000"), Rate::Pps(50_000.0));
    assert_eq!(rate("0.5pps"), Rate::Pps(0.5));
    assert_eq!(rate("500Mbps"), Rate::Bps(500_000_000));
    assert_eq!(rate("1Kibps"), Rate::Bps(1024));
    assert_eq!(rate("80%"), Rate::Percent(80.0));
}

#[test]
fn rates_round_trip() {
    let texts = [
        "max",
        "1.5Mpps",
        "50kpps",
        "1pps",
        "999pps",
        "1.234567Mpps",
        "0.1pps",
        "14.88Gpps",
        "500Mbps",
        "1001bps",
        "10Gbps",
        "80%",
        "0.5%",
        "99.99%",
    ];
    for text in texts {
        assert_eq!(rate(text).to_string(), text);
    }
    for value in [1.0 / 3.0, 1e6 / 7.0, 123_456_789.125, 0.1 + 0.2, 1_488_095.238_095_238] {
        let text = Rate::Pps(value).to_string();
        assert_eq!(rate(&text), Rate::Pps(value), "{text}");
    }
}

#[test]
fn bad_rates_are_refused_with_what_is_accepted() {
    for text in
        ["", "fast", "1,000pps", "-5pps", "1e6", "5 kpps", "NaN", "infpps", "1.pps", ".5pps"]
    {
        let message = text.parse::<Rate>().expect_err(text).to_string();
        assert!(message.contains(&format!("`{text}`")), "{message}");
        assert!(message.contains("1.5Mpps"), "{message}");
    }
    for text in ["0", "0pps", "0.0Mpps", "0%", "101%", "0bps", "1.5bps"] {
        let error = text.parse::<Rate>().expect_err(text);
        assert!(matches!(error, UnitError::OutOfRange { .. }), "{error}");
    }
}

#[test]
fn counts_and_numbers_are_read() {
    assert_eq!(parse_count("4_900"), Ok(4_900));
    assert_eq!(parse_count("100k"), Ok(100_000));
    assert_eq!(parse_count("1.5M"), Ok(1_500_000));
    assert_eq!(parse_count("64Ki"), Ok(65_536));
    assert_eq!(parse_count("0"), Ok(0));
    assert_eq!(parse_count("9999999999999999999"), Ok(9_999_999_999_999_999_999));
    assert_eq!(parse_number("65Ki"), Ok(66_560.0));
    assert_eq!(parse_number("64Ki"), Ok(65_536.0));
    assert_eq!(parse_number("-1.5k"), Ok(-1_500.0));
    assert_eq!(parse_number("0.87M"), Ok(870_000.0));
}

#[test]
fn bad_counts_are_refused() {
    for text in ["", "k", "4,900", "1.5", "-1", "1K", "1e3", "99999999999G", "99999999999999999999"]
    {
        let message = parse_count(text).expect_err(text).to_string();
        assert!(message.contains(&format!("`{text}`")), "{message}");
    }
}

#[test]
fn durations_are_read_and_round_trip() {
    assert_eq!(parse_duration("200ms"), Ok(Duration::from_millis(200)));
    assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1_500)));
    assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
    for text in ["200ms", "3s", "5m", "1h", "500us", "90s", "1500ms", "0s", "7ns"] {
        let duration = parse_duration(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(format_duration(duration), text);
    }
}

#[test]
fn bad_durations_are_refused() {
    for text in ["", "5", "s", "-1s", "NaNs", "infs", "1 s", "3sec", "1d", "0.5ns", "99999999999h"]
    {
        let message = parse_duration(text).expect_err(text).to_string();
        assert!(message.contains(&format!("`{text}`")), "{message}");
    }
}

#[test]
fn figures_are_printed_for_people() {
    assert_eq!(format_count(0), "0");
    assert_eq!(format_count(999), "999");
    assert_eq!(format_count(4_900), "4,900");
    assert_eq!(format_count(1_997_982), "1,997,982");
    assert_eq!(format_bps(10_000_000_000), "10 Gbit/s");
    assert_eq!(format_bps(2_500_000_000), "2.5 Gbit/s");
    assert_eq!(format_bps(100_000_000), "100 Mbit/s");
    assert_eq!(format_bps(1_000_000_001), "1.000000001 Gbit/s");
    assert_eq!(format_bps(1_050), "1.05 kbit/s");
    assert_eq!(format_bps(999), "999 bit/s");
    assert_eq!(format_bps(0), "0 bit/s");
}
