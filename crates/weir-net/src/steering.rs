//! Receive packet steering: which CPUs go on with what a queue has received, flow by flow.
//!
//! See `Documentation/networking/scaling.rst` in the kernel tree. It acts where the stack takes a
//! packet over, so what an XDP program forwards is not steered. It acts on the namespace of the
//! calling thread, and expects its `/sys` to show it (inside [`crate::Netns::run`] it does).

use std::fs;

use crate::cpu::CpuList;
use crate::napi::{NapiError, sysfs};

/// Spreads the flows of an interface's first `queue_count` receive queues over CPUs.
///
/// # Errors
///
/// If there is no such interface or queue, or the kernel refuses, or took other CPUs.
pub fn set_rps(link: &str, queue_count: u32, cpus: &CpuList) -> Result<(), NapiError> {
    let failed = |action, source| NapiError::System { link: link.to_owned(), action, source };
    let (directory, mask) = (sysfs(link)?.join("queues"), mask(cpus));
    for queue in 0..queue_count {
        let path = directory.join(format!("rx-{queue}/rps_cpus"));
        fs::write(&path, &mask).map_err(|source| failed("set the steering (rps_cpus)", source))?;
        let read = fs::read_to_string(&path);
        let read = read.map_err(|source| failed("read the steering (rps_cpus)", source))?;
        if bits(&read) != bits(&mask) {
            let kept = format!("the kernel has {} and not {mask}", read.trim());
            return Err(failed("set the steering (rps_cpus)", std::io::Error::other(kept)));
        }
    }
    Ok(())
}

/// The CPUs that go on with what an interface's queues have received; `None` if the CPU does that
/// which has received it.
///
/// # Errors
///
/// If there is no such interface, or the kernel does not say.
pub fn rps(link: &str) -> Result<Option<CpuList>, NapiError> {
    let failed = |source| NapiError::System {
        link: link.to_owned(),
        action: "read the steering (rps_cpus)",
        source,
    };
    let mut cpus = Vec::new();
    for entry in fs::read_dir(sysfs(link)?.join("queues")).map_err(failed)? {
        let path = entry.map_err(failed)?.path().join("rps_cpus");
        // Queues that send have none.
        if path.exists() {
            cpus.extend(cpus_of(&fs::read_to_string(path).map_err(failed)?));
        }
    }
    Ok(CpuList::new(cpus))
}

/// The CPUs of a mask.
fn cpus_of(mask: &str) -> Vec<usize> {
    let groups = mask.trim().split(',').rev().map(|group| u32::from_str_radix(group, 16));
    let bits = |(index, group): (usize, u32)| {
        (0..32).filter(move |bit| group >> bit & 1 == 1).map(move |bit| index * 32 + bit)
    };
    groups.map(|group| group.unwrap_or(0)).enumerate().flat_map(bits).collect()
}

/// A set of CPUs as sysfs writes it: groups of 32 bits, the highest first.
fn mask(cpus: &CpuList) -> String {
    let mut groups = vec![0_u32; cpus.iter().max().unwrap_or(0) / 32 + 1];
    for cpu in cpus.iter() {
        groups[cpu / 32] |= 1 << (cpu % 32);
    }
    let groups: Vec<String> = groups.iter().rev().map(|group| format!("{group:08x}")).collect();
    groups.join(",")
}

/// The digits of a mask that say something: how long the kernel writes it depends on the machine.
fn bits(mask: &str) -> String {
    let digits: String = mask.chars().filter(char::is_ascii_hexdigit).collect();
    digits.trim_start_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_groups_of_32_bits() {
        for (cpus, expected) in
            [("0", "00000001"), ("0-1,3", "0000000b"), ("1,32", "00000001,00000002")]
        {
            let cpus: CpuList = cpus.parse().unwrap();
            assert_eq!(mask(&cpus), expected, "{cpus}");
            assert_eq!(CpuList::new(cpus_of(expected)), Some(cpus));
        }
    }

    #[test]
    fn masks_are_compared_by_what_they_say() {
        assert_eq!(bits("00000000,00000003\n"), bits("3"));
        assert_ne!(bits("1,00000003"), bits("3"));
    }

    #[test]
    fn every_queue_of_a_veth_is_steered() {
        let netns = crate::testing::namespace("steering");
        let shown = netns.run(|| {
            let netlink = crate::Netlink::open().unwrap();
            let ends = [crate::VethEnd::new("rps0"), crate::VethEnd::new("rps1")];
            netlink.create_veth(&ends[0], &ends[1], 2).unwrap();
            assert_eq!(rps("rps0").unwrap(), None);
            set_rps("rps0", 2, &"0".parse().unwrap()).unwrap();
            assert_eq!(rps("rps0").unwrap(), Some("0".parse().unwrap()));
            assert!(set_rps("rps0", 3, &"0".parse().unwrap()).is_err(), "there are two queues");
            [0, 1].map(|queue| {
                fs::read_to_string(format!("/sys/class/net/rps0/queues/rx-{queue}/rps_cpus"))
                    .unwrap()
            })
        });
        assert_eq!(shown.unwrap().map(|mask| bits(&mask)), ["1", "1"].map(str::to_owned));
    }
}
