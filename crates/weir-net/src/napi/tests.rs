//! Threaded NAPI on a real veth, and the reading of thread names.

use super::*;
use crate::link::VethEnd;
use crate::netlink::Netlink;
use crate::testing::{delete_link, namespace, tool};

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
        threads_expecting("weir-no-such", 1, Duration::ZERO).unwrap_err(),
    ] {
        assert!(matches!(error, NapiError::NoLink { .. }), "{error}");
    }
    assert!(matches!(threads("a/b"), Err(NapiError::Name(_))));
}

#[test]
fn without_napi_there_is_nothing_to_thread() {
    let netns = namespace("napi-none");
    netns
        .run(|| {
            let netlink = Netlink::open().unwrap();
            netlink.create_veth(&VethEnd::new("d0"), &VethEnd::new("g0"), 2).unwrap();
            assert_eq!(threads("d0").unwrap(), []);
            let error = set_threaded("d0", true).unwrap_err();
            assert!(matches!(error, NapiError::NoNapi { .. }), "{error}");
            let error = threads_expecting("d0", 2, Duration::ZERO).unwrap_err();
            assert!(
                matches!(&error, NapiError::Count { expected: 2, found, .. } if found.is_empty())
            );
            assert!(error.to_string().contains("should have 2 NAPI threads"), "{error}");
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
    second.run(|| delete_link(&Netlink::open().unwrap(), &link)).unwrap();
    let mut by_name = first.run(|| threads_by_name(&link)).unwrap().unwrap();
    by_name.sort_unstable();
    assert_eq!(by_name, of_first);

    let cpus = cpu::online().unwrap();
    let placed = first.run(|| pin_expecting(&link, 4, &cpus, Duration::ZERO)).unwrap().unwrap();
    let expected: Vec<usize> = cpus.iter().cycle().take(4).collect();
    assert_eq!(placed.iter().map(|(_, cpu)| *cpu).collect::<Vec<_>>(), expected);
    for (pid, cpu) in placed {
        assert_eq!(cpu::affinity(pid).unwrap(), CpuList::new([cpu]));
    }
    first.run(|| set_threaded(&link, false)).unwrap().unwrap();
}

/// A pair with four queues, NAPI by GRO, threaded. `None` if `ethtool` is not installed.
fn threaded_pair(link: &str) -> Option<Vec<NapiThread>> {
    let netlink = Netlink::open().unwrap();
    netlink.create_veth(&VethEnd::new(link), &VethEnd::new("g0"), 4).unwrap();
    netlink.set_up(link).unwrap();
    netlink.set_up("g0").unwrap();
    tool(&["ethtool", "-K", link, "gro", "on"])?;
    set_threaded(link, true).unwrap();
    Some(threads(link).unwrap())
}

/// The way of kernels before 6.8, while a deleted namespace's threads may still be there.
#[test]
fn threads_of_a_deleted_namespaces_interface_are_waited_out() {
    let link = format!("wd-{}", std::process::id());
    let (first, second) = (namespace("napi-old"), namespace("napi-new"));
    if first.run(|| threaded_pair(&link)).unwrap().is_none() {
        return;
    }
    let known = second.run(|| threaded_pair(&link)).unwrap().unwrap();
    first.delete().unwrap();
    let patience = Duration::from_secs(60);
    let found =
        second.run(|| Expecting::new(&link, 4, patience).threads(&mut || threads_by_name(&link)));
    assert_eq!(found.unwrap().unwrap(), known);
    // Told otherwise, it says what it found.
    let error = second.run(|| threads_expecting(&link, 5, Duration::ZERO)).unwrap().unwrap_err();
    let pids: Vec<i32> = known.iter().map(|thread| thread.pid).collect();
    assert!(error.to_string().contains(&format!("but has 4: {pids:?}")), "{error}");
}

#[test]
fn too_many_threads_are_asked_about_again() {
    let thread = |pid: i32| NapiThread { napi_id: 8000 + pid.unsigned_abs(), pid };
    let mut answers = vec![vec![thread(2), thread(1)], vec![thread(1), thread(2), thread(3)]];
    let expecting = Expecting::new("d0", 2, Duration::from_secs(60));
    let found = expecting.threads(&mut || Ok(answers.pop().unwrap_or_default()));
    assert_eq!(found.unwrap(), [thread(1), thread(2)]);
    assert_eq!(answers.len(), 0);

    let mut asked = 0;
    let error = Expecting::new("d0", 1, Duration::ZERO).threads(&mut || {
        asked += 1;
        Err(NapiError::NoLink { link: "d0".to_owned() })
    });
    assert!(matches!(error, Err(NapiError::NoLink { .. })));
    assert_eq!(asked, 1, "what waiting cannot mend is not waited for");
}

#[test]
fn a_thread_that_is_gone_when_it_is_pinned_is_looked_for_again() {
    let cpus = CpuList::new([cpu::online().unwrap().first()]).unwrap();
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let gone = i32::try_from(ended.id()).unwrap();
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let alive = i32::try_from(child.id()).unwrap();
    let thread = |pid| NapiThread { napi_id: 8193, pid };
    let mut answers = vec![vec![thread(alive)], vec![thread(gone)]];
    let placed = Expecting::new("d0", 1, Duration::from_secs(60))
        .pin(&cpus, &mut || Ok(answers.pop().unwrap_or_default()));
    let affinity = cpu::affinity(alive);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(placed.unwrap(), [(alive, cpus.first())]);
    assert_eq!(affinity.unwrap(), Some(cpus.clone()));

    let error = Expecting::new("d0", 1, Duration::ZERO).pin(&cpus, &mut || Ok(vec![thread(gone)]));
    assert!(is_gone(&error.unwrap_err()));
}
