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
            assert_eq!(mask(&cpus.parse().unwrap()), expected, "{cpus}");
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
            set_rps("rps0", 2, &"0".parse().unwrap()).unwrap();
            assert!(set_rps("rps0", 3, &"0".parse().unwrap()).is_err(), "there are two queues");
            [0, 1].map(|queue| {
                fs::read_to_string(format!("/sys/class/net/rps0/queues/rx-{queue}/rps_cpus"))
                    .unwrap()
            })
        });
        assert_eq!(shown.unwrap().map(|mask| bits(&mask)), ["1", "1"].map(str::to_owned));
    }
}
