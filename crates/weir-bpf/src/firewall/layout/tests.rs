//! The constants against what the C compiler made of the header.

use std::collections::HashMap;
use std::ffi::OsStr;

use libbpf_rs::HasSize as _;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;

use super::*;

static HEADER: &str = include_str!("../../../../../bpf/include/weir/fw/layout.h");

#[test]
fn structures_are_the_headers() {
    let object = concat!(env!("OUT_DIR"), "/layout.bpf.o");
    let btf = Btf::from_path(object).expect("the object file has BTF");
    for (name, bytes, fields) in STRUCTURES {
        let structure: Struct<'_> = btf.type_by_name(name).expect("the structure is in the BTF");
        assert_eq!(structure.size(), *bytes as usize, "size of {name}");
        let members: HashMap<_, _> =
            structure.iter().map(|member| (member.name, member.attr)).collect();
        for (field, offset) in *fields {
            let attributes = members.get(&Some(OsStr::new(field)));
            let attributes = attributes.unwrap_or_else(|| panic!("{name} has no {field}"));
            let libbpf_rs::btf::types::MemberAttr::Normal { offset: bits } = attributes else {
                panic!("{name}.{field} is a bit field");
            };
            assert_eq!(*bits, offset * 8, "offset of {name}.{field} in bits");
        }
        let described = structure.iter().filter(|member| {
            let name = member.name.unwrap_or_default().to_string_lossy();
            !name.ends_with("unused")
        });
        assert_eq!(described.count(), fields.len(), "every field of {name} has a constant");
    }
}

/// The value of a constant in the header: `NAME = 1 << 4,`, `#define NAME 0x10u`, `NAME = 16,`.
fn header_value(name: &str) -> Option<u32> {
    let is_word = |text: &str| !text.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    HEADER.lines().find_map(|line| {
        let line = line.trim_start();
        let rest = line.strip_prefix("#define ").unwrap_or(line).strip_prefix(name)?;
        let value = is_word(rest).then(|| rest.trim_start_matches([' ', '=', '\t']))?;
        let value = value.split([',', '/']).next()?.trim().trim_end_matches('u');
        match value.split_once("<<") {
            Some((one, shift)) => {
                Some(one.trim().parse::<u32>().ok()? << shift.trim().parse::<u32>().ok()?)
            }
            None => match value.strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16).ok(),
                None => value.parse().ok(),
            },
        }
    })
}

#[test]
fn constants_are_the_headers() {
    for (name, value) in CONSTANTS {
        assert_eq!(header_value(name), Some(*value), "{name}");
    }
}

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
