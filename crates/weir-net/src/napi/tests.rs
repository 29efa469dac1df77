//! Threaded NAPI on a real veth, and the reading of thread names.

use super::*;
use crate::link::VethEnd;
use crate::netlink::Netlink;
use crate::testing::{namespace, tool};

#[test]
fn thread_names_are_matched_exactly() {
    assert_eq!(parse_comm("napi/d0-8193", "d0"), Some(8193));
    // An interface may have a hyphen and digits in its name.
    assert_eq!(parse_comm("napi/d0-1-77", "d0-1"), Some(77));
    for (comm, link) in [
        ("napi/d0-1-77", "d0"),
        ("napi/d01-77", "d0"),
        ("napi/d0-", "d0"),
        ("napi/d0", "d0"),
        ("napi/d0-+7", "d0"),
        ("kworker/0:1", "d0"),
    ] {
        // An empty id must not be read as a number either.
        assert_eq!(parse_comm(comm, link), None, "{comm}");
    }
}

#[test]
fn an_unknown_interface_is_refused() {
    for error in [
        set_threaded("weir-no-such", true).unwrap_err(),
        threads("weir-no-such").unwrap_err(),
        is_threaded("weir-no-such").unwrap_err(),
    ] {
        assert!(matches!(error, NapiError::NoLink { .. }), "{error}");
    }
    assert!(matches!(threads("a/b"), Err(NapiError::Name(_))));
}

#[test]
fn without_napi_there_is_nothing_to_thread() {
    let own = namespace("napi-none");
    own.run(|| {
        let netlink = Netlink::open().unwrap();
        netlink.create_veth(&VethEnd::new("d0"), &VethEnd::new("g0"), 2).unwrap();
        assert_eq!(threads("d0").unwrap(), []);
        let error = set_threaded("d0", true).unwrap_err();
        assert!(matches!(error, NapiError::NoNapi { .. }), "{error}");
        assert!(!is_threaded("d0").unwrap());
    })
    .unwrap();
}

/// Two namespaces with interfaces of the same name: each sees its own threads only.
#[test]
fn threads_are_found_and_pinned_and_never_those_of_a_namesake() {
    // Unique on the host but for the namesake made here: other tests run at the same time.
    let link = format!("wn-{}", std::process::id());
    let (first, second) = (namespace("napi-1"), namespace("napi-2"));
    let pair = || threaded_pair(&link);
    let (Some(of_first), Some(of_second)) = (first.run(pair).unwrap(), second.run(pair).unwrap())
    else {
        return;
    };
    assert_eq!((of_first.len(), of_second.len()), (4, 4));
    assert!(of_first.iter().all(|thread| !of_second.contains(thread)));
    for thread in of_first.iter().chain(&of_second) {
        let comm = fs::read_to_string(format!("/proc/{}/comm", thread.pid)).unwrap();
        assert_eq!(comm.trim(), format!("napi/{link}-{}", thread.napi_id));
    }
    // The way of older kernels has to refuse here, and to agree where the name is unique.
    let by_name = first.run(|| threads_by_name(&link)).unwrap();
    assert!(matches!(by_name, Err(NapiError::Ambiguous { .. })));
    second.run(|| Netlink::open().unwrap().delete_link(&link)).unwrap().unwrap();
    let mut by_name = first.run(|| threads_by_name(&link)).unwrap().unwrap();
    by_name.sort_unstable();
    assert_eq!(by_name, of_first);

    let pids = first.run(|| thread_pids(&link)).unwrap().unwrap();
    let cpus = cpu::online().unwrap();
    let placed = pin(&pids, &cpus).unwrap();
    let expected: Vec<usize> = cpus.iter().cycle().take(4).collect();
    assert_eq!(placed.iter().map(|(_, cpu)| *cpu).collect::<Vec<_>>(), expected);
    for (pid, cpu) in placed {
        assert_eq!(cpu::affinity(pid).unwrap(), CpuList::new([cpu]));
    }
    first.run(|| set_threaded(&link, false)).unwrap().unwrap();
    assert!(!first.run(|| is_threaded(&link)).unwrap().unwrap());
}

/// A pair with four queues, NAPI by GRO, threaded. `None` if `ethtool` is not installed.
fn threaded_pair(link: &str) -> Option<Vec<NapiThread>> {
    let netlink = Netlink::open().unwrap();
    netlink.create_veth(&VethEnd::new(link), &VethEnd::new("g0"), 4).unwrap();
    netlink.set_up(link).unwrap();
    netlink.set_up("g0").unwrap();
    tool(&["ethtool", "-K", link, "gro", "on"])?;
    set_threaded(link, true).unwrap();
    assert!(is_threaded(link).unwrap());
    Some(threads(link).unwrap())
}
