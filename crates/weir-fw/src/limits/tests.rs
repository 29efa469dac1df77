//! The arithmetic against tables of numbers, and against chance itself.

use weir_wire::random::splitmix64;

use super::*;

/// A plan without translated states.
fn plan(state_limit: u32, hash_size: Option<u32>, cpu_count: u32) -> Result<Plan, LimitError> {
    super::plan(state_limit, hash_size, cpu_count, 0)
}

#[test]
fn the_default_index_follows_the_limit() {
    for (limit, buckets) in [
        (1, 16),
        (20, 16),
        (21, 16),
        (100, 128),
        (100_000, 131_072),
        (163_840, 131_072),
        (163_842, 262_144),
        (10_000_000, 8_388_608),
        (30_000_000, 16_777_216),
    ] {
        assert_eq!(default_bucket_count(limit), buckets, "{limit} states");
    }
}

#[test]
fn ten_million_flows_take_at_most_128_bytes_each() {
    let plan = plan(10_000_000, None, 2).unwrap();
    let per_flow = plan.full_bytes() as f64 / 10e6;
    assert!(per_flow <= 128.0, "{per_flow} bytes");
    assert!(per_flow >= 96.0, "a slot alone is 96 bytes: {per_flow}");
}

#[test]
fn the_default_limit_fits_64_mebibytes_and_may_be_all_ipv6() {
    let followed = Followed { fragment_limit: 5000, source_limit: 10_000 };
    let plan = plan(100_000, None, 64).unwrap().with(followed);
    assert!(plan.full_bytes() <= 64 << 20, "{} bytes", plan.full_bytes());
    assert_eq!(plan.ipv6_count, 100_000);
}

#[test]
fn a_start_takes_little_and_leaves_room_for_a_higher_limit() {
    let large = plan(10_000_000, None, 2).unwrap();
    assert!(large.first().bytes() <= 16 << 20, "{:?}", large.first());
    let small = plan(100, None, 2).unwrap();
    assert_eq!(small.first(), small.slots);
    assert_eq!(small.sizes, large.sizes, "the addresses are the same");
    assert!(small.sizes.overflow_count >= plan(30_000_000, None, 2).unwrap().slots.overflow_count);
    // A size that is fixed is there from the start, and the rest follows.
    let fixed = plan(10_000_000, Some(1 << 22), 2).unwrap();
    let first = Slots { bucket_count: 1 << 22, overflow_count: OVERFLOW_COUNT_SPARE };
    assert_eq!((fixed.first(), fixed.sizes.bucket_count), (first, 1 << 22));
    assert!(fixed.sizes.overflow_count > large.sizes.overflow_count);
    // What is there already is not needed again.
    let most = large.slots.bytes() / 4096 * 4112;
    assert_eq!(large.check(Some(small.slots), most), Ok(()));
    assert_eq!(large.check(Some(large.slots), 0), Ok(()));
    assert!(large.check(Some(small.slots), most / 2).is_err());
}

#[test]
fn an_index_is_a_power_of_two_in_its_range() {
    for wrong in [0, 1, 8, 1000, 32_769, 1 << 26, u32::MAX] {
        assert_eq!(plan(1000, Some(wrong), 2), Err(LimitError::HashSize(wrong)));
    }
    for exponent in 15..=25 {
        let plan = plan(2_000_000, Some(1 << exponent), 2).unwrap();
        assert_eq!(u64::from(plan.sizes.bucket_count * SLOT_BYTES), 96 << exponent);
    }
}

#[test]
fn an_index_that_makes_endless_chains_is_refused() {
    let error = plan(10_000_000, Some(1 << 14), 2).unwrap_err();
    assert_eq!(error, LimitError::Chains { bucket_count: 1 << 14, state_limit: 10_000_000 });
    assert!(error.to_string().contains("610 states on average"), "{error}");
    assert!(error.to_string().contains("at least 32768 buckets"), "{error}");
    assert!(plan(10_000_000, Some(1 << 15), 2).is_ok());
}

#[test]
fn what_does_not_fit_is_refused_with_its_arithmetic() {
    let error = plan(60_000_000, None, 2).unwrap_err().to_string();
    assert!(error.contains("60000000 states need 16777216 buckets"), "{error}");
    assert!(error.contains("of 96 bytes are") && error.contains("holds 4294967296"), "{error}");
    let plan = plan(10_000_000, None, 2).unwrap();
    assert_eq!(plan.check(None, plan.full_bytes()), Ok(()));
    let error = plan.check(None, 1 << 30).unwrap_err().to_string();
    assert!(error.contains("10000000 states need 8388608 buckets"), "{error}");
    assert!(error.contains("1073741824 bytes (1024 MiB) are available"), "{error}");
    assert_eq!(super::plan(0, None, 2, 0), Err(LimitError::NoStates));
}

#[test]
fn what_is_followed_beside_states_counts() {
    let bare = plan(100_000, None, 2).unwrap();
    let limited = bare.clone().with(Followed { fragment_limit: 1 << 20, source_limit: 4_190_208 });
    let [fragments, sources] = limited.followed_bytes();
    assert_eq!(fragments, ((1 << 20) + 2) * 240 + (1 << 20) * 16);
    assert_eq!(sources, 4_190_208 * 192 + (1 << 22) * 16);
    assert_eq!(limited.full_bytes(), bare.full_bytes() + fragments + sources);
    let error = limited.check(None, 512 << 20).unwrap_err().to_string();
    for part in [
        "100000 states need 131072 buckets",
        "; 1048576 packets in fragments need 268435936 bytes (256 MiB)",
        "; 4190208 sources need 871628800 bytes (831 MiB)",
        "536870912 bytes (512 MiB) are available: lower these limits",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(bare.check(None, 512 << 20), Ok(()));
    assert!(plan(60_000_000, None, 2).unwrap_err().to_string().contains("(4096 MiB)"));
}

#[test]
fn places_of_sources_are_a_power_of_two_with_room() {
    for (limit, places) in [(0, 1 << 16), (61_440, 1 << 16), (61_441, 1 << 17)] {
        assert_eq!(source_places(limit), places, "{limit}");
    }
    assert_eq!((source_places(SOURCE_LIMIT_MAX), source_places(u32::MAX)), (1 << 22, 1 << 22));
}

/// Throws aliases and then records into buckets, and counts the records that are not the first of
/// theirs.
fn thrown(records: u32, buckets: u32, aliases: u32, seed: u64) -> usize {
    let mut is_taken = vec![false; buckets as usize];
    let thrown = (0..aliases + records).filter(|position| {
        let bucket = splitmix64(seed, u64::from(*position)) % u64::from(buckets);
        let bucket = usize::try_from(bucket).expect("less than the buckets");
        std::mem::replace(&mut is_taken[bucket], true) && *position >= aliases
    });
    thrown.count()
}

#[test]
fn the_further_slots_are_enough_and_not_many_more() {
    for (records, buckets) in [(1000, 1024), (100_000, 131_072), (50_000, 4096), (3000, 65_536)] {
        let planned = overflow_count(records, buckets, 0);
        for seed in 0..20 {
            let needed = thrown(records, buckets, 0, seed) as f64;
            assert!(needed <= planned, "{needed} of {planned} for {records} in {buckets}");
            let spare = planned - needed;
            let allowed = 16.0 * f64::from(records).sqrt();
            assert!(spare <= allowed, "{spare} too many for {records} in {buckets}");
        }
    }
}

#[test]
fn a_full_table_of_translated_states_of_ipv6_has_room() {
    for limit in [1000, 100_000, 250_000] {
        let planned = super::plan(limit, None, 2, limit).unwrap();
        let Slots { bucket_count, overflow_count } = planned.slots;
        assert_eq!(planned.ipv6_count, limit, "all of them may be of IPv6");
        for seed in 0..20 {
            // The addresses of each record, its alias, and the alias's addresses.
            let behind = u32::try_from(thrown(limit, bucket_count, limit, seed)).unwrap();
            let needed = behind + 3 * limit;
            assert!(needed <= overflow_count, "{needed} of {overflow_count} for {limit}");
            let spare = f64::from(overflow_count - needed);
            assert!(spare <= 16.0 * f64::from(limit).sqrt(), "{spare} too many for {limit}");
        }
    }
}
