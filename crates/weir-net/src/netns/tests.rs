//! Names, entering, isolation and removal, against the real kernel.

use std::os::unix::fs::MetadataExt;

use super::*;
use crate::testing::{namespace, tool, unique};

#[test]
fn names_are_checked() {
    for name in ["", ".", "..", "a/b", "-n", "a b", "a\nb", &"x".repeat(256)] {
        assert!(matches!(Netns::create(name), Err(NetnsError::BadName { .. })), "{name:?}");
        assert!(matches!(delete(name), Err(NetnsError::BadName { .. })), "{name:?}");
    }
}

#[test]
fn create_list_open_delete() {
    let name = unique("life");
    let made = Netns::create(&name).unwrap();
    assert!(list().unwrap().contains(&name));
    assert_eq!(made.path(), Path::new(NETNS_DIR).join(&name));
    assert_ne!(made.inode(), current_inode().unwrap(), "it is another namespace than ours");
    assert_eq!(Netns::open(&name).unwrap().inode(), made.inode());
    if let Some(output) = tool(&["ip", "netns", "list"]) {
        assert!(output.text().lines().any(|line| line.split(' ').next() == Some(&name)));
    }
    let error = Netns::create(&name).unwrap_err();
    assert!(matches!(error, NetnsError::Exists { .. }), "{error}");
    made.delete().unwrap();
    assert!(!list().unwrap().contains(&name));
    assert!(!Path::new(NETNS_DIR).join(&name).exists());
    assert!(matches!(Netns::open(&name), Err(NetnsError::Missing { .. })));
    assert!(matches!(delete(&name), Err(NetnsError::Missing { .. })));
}

#[test]
fn names_made_by_iproute2_are_ours_too() {
    let name = unique("iproute2");
    if tool(&["ip", "netns", "add", &name]).is_none() {
        return;
    }
    let opened = Netns::open(&name).unwrap().guard();
    let inside = opened.run(|| current_inode().unwrap()).unwrap();
    assert_eq!(inside, opened.inode());
    drop(opened);
    assert!(!list().unwrap().contains(&name));
}

#[test]
fn names_made_here_are_iproute2s_too() {
    let ours = namespace("for-ip");
    let name = ours.name().to_owned();
    let Some(output) = tool(&["ip", "netns", "exec", &name, "readlink", "/proc/self/ns/net"])
    else {
        return;
    };
    assert_eq!(output.text().trim(), format!("net:[{}]", ours.inode()));
    tool(&["ip", "netns", "delete", &name]);
    assert!(matches!(Netns::open(&name), Err(NetnsError::Missing { .. })));
}

#[test]
fn run_is_inside_with_a_sysfs_of_its_own() {
    let outside = current_inode().unwrap();
    let netns = namespace("inside");
    let (inode, links) = netns
        .run(|| {
            let links: Vec<String> = fs::read_dir("/sys/class/net")
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            (current_inode().unwrap(), links)
        })
        .unwrap();
    assert_eq!(inode, netns.inode());
    // Nothing but the loopback and the fallback tunnels that some kernels make everywhere.
    assert!(links.contains(&"lo".to_owned()), "{links:?}");
    assert!(!links.iter().any(|link| link.starts_with("eth") || link.starts_with("en")));
    assert_eq!(current_inode().unwrap(), outside, "the caller stays where it was");
    assert!(netns.run(|| fs::metadata("/sys").unwrap().dev()).unwrap() != host_sys_device());
}

fn host_sys_device() -> u64 {
    fs::metadata("/sys").unwrap().dev()
}

#[test]
fn panics_go_on_in_the_caller() {
    let netns = namespace("panic");
    let caught = std::panic::catch_unwind(|| {
        netns.run(|| std::panic::resume_unwind(Box::new("expected"))).unwrap()
    });
    assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"expected"));
}

#[test]
fn spawned_threads_are_inside_and_return_their_value() {
    let netns = namespace("spawn");
    let (release, wait) = mpsc::channel::<()>();
    let worker = netns
        .spawn(move || {
            let inside = current_inode().unwrap();
            wait.recv().unwrap();
            inside
        })
        .unwrap();
    assert!(!worker.is_finished());
    release.send(()).unwrap();
    assert_eq!(worker.join(), netns.inode());
}

#[test]
fn names_cannot_be_made_or_removed_inside() {
    let netns = namespace("nested");
    let name = unique("nested-new");
    let (made, removed) =
        netns.run(|| (Netns::create(&name).map(Netns::guard), delete(netns.name()))).unwrap();
    assert!(matches!(made, Err(NetnsError::Inside { operation: "created", .. })));
    assert!(matches!(removed, Err(NetnsError::Inside { operation: "deleted", .. })));
}

#[test]
fn removal_outside_reaches_a_thread_inside() {
    let netns = namespace("propagate");
    let path = netns.path().to_owned();
    let (release, wait) = mpsc::channel::<()>();
    let worker = netns
        .spawn(move || {
            wait.recv().unwrap();
            is_namespace(&path)
        })
        .unwrap();
    netns.delete().unwrap();
    release.send(()).unwrap();
    assert!(!worker.join(), "the thread's copy of the mount would keep the namespace alive");
}

#[test]
fn an_ordinary_file_is_no_namespace_but_can_be_removed() {
    let made_first = namespace("directory");
    let name = unique("file");
    let path = Path::new(NETNS_DIR).join(&name);
    fs::write(&path, "").unwrap();
    let opened = Netns::open(&name);
    let deleted = delete(&name);
    let _ = fs::remove_file(&path);
    assert!(matches!(opened, Err(NetnsError::NotANamespace { .. })));
    deleted.unwrap();
    drop(made_first);
}
