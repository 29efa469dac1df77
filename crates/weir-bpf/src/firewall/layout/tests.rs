//! Regions, as they are planned.

use super::*;

#[test]
fn regions_do_not_overlap_and_keep_their_sizes() {
    let sizes =
        Sizes { bucket_count: 1 << 17, overflow_count: 12_345, heap_bytes: 4097, cpu_count: 3 };
    let regions = Regions::plan(sizes).expect("this fits");
    let mut end = u64::from(PAGE_BYTES);
    for region in regions.all() {
        assert!(u64::from(region.at) >= end, "{region:?} begins behind the last one");
        assert!(region.at.is_multiple_of(PAGE_BYTES), "{region:?} begins on a page");
        end = u64::from(region.at) + region.bytes;
    }
    assert!(regions.total_bytes >= end);
    assert_eq!(regions.states.bytes, ((1 << 17) + 12_345) * 64);
    assert_eq!(regions.accounts.bytes, ((1 << 17) + 12_345) * 32);
}

#[test]
fn what_exceeds_the_arena_is_no_plan() {
    let sizes = Sizes { bucket_count: 1 << 25, overflow_count: 0, heap_bytes: 0, cpu_count: 1 };
    let fits = Regions::plan(sizes).expect("32Mi buckets take 3 GiB");
    assert!(fits.total_bytes <= ARENA_BYTES);
    assert_eq!(Regions::plan(Sizes { bucket_count: 1 << 26, ..sizes }), None);
    assert_eq!(Regions::plan(Sizes { overflow_count: u32::MAX, ..sizes }), None);
}
