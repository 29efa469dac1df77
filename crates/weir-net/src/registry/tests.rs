//! Records of living, dead and faked owners; and the real thing: a process killed by SIGKILL.

use std::process::{Child, Command, Stdio};

use super::*;
use crate::testing::unique;

/// A registry in a directory of its own.
fn registry() -> (tempfile::TempDir, Registry) {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::at(directory.path().join("run/lab"));
    (directory, registry)
}

fn fake_record(registry: &Registry, file: &str, pid: i32, ticks: u64, names: &[&str]) -> PathBuf {
    fs::create_dir_all(&registry.directory).unwrap();
    let path = registry.directory.join(file);
    let names = serde_json::to_string(names).unwrap();
    let text = format!(r#"{{"pid":{pid},"start_time_ticks":{ticks},"namespaces":{names}}}"#);
    fs::write(&path, text).unwrap();
    path
}

fn current_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap()
}

#[test]
fn a_record_is_written_extended_and_closed() {
    let (_directory, registry) = registry();
    assert!(registry.clean_leftovers().unwrap().is_empty(), "no directory is fine");
    let mut record = registry.record(&["weirtest-a"]).unwrap();
    let other = registry.record(&["weirtest-b"]).unwrap();
    assert_ne!(record.path(), other.path());
    record.add(&["weirtest-c", "weirtest-a"]).unwrap();
    assert_eq!(record.namespaces(), ["weirtest-a", "weirtest-c"]);
    let content = read_content(record.path()).unwrap();
    assert_eq!(content.pid, current_pid());
    assert!(content.owner_lives());
    assert_eq!(content.namespaces, record.namespaces());
    let path = record.path().to_owned();
    record.close().unwrap();
    assert!(!path.exists());
    let path = other.path().to_owned();
    drop(other);
    assert!(path.exists(), "only close() removes a record");
    assert!(matches!(registry.record(&["a/b"]), Err(RegistryError::Name(_))));
}

#[test]
fn a_record_cannot_be_closed_before_its_namespaces_are_gone() {
    let (_directory, registry) = registry();
    let name = unique("open-record");
    let record = registry.record(&[&name]).unwrap();
    let namespace = Netns::create(&name).unwrap().guard();
    let path = record.path().to_owned();
    let error = record.close().unwrap_err();
    assert!(error.to_string().contains(&name), "{error}");
    assert!(path.exists());
    drop(namespace);
}

#[test]
fn a_directory_goes_with_its_record() {
    let (_directory, registry) = registry();
    let name = unique("with-directory");
    let record = registry.record(&[&name]).unwrap();
    let files = record.directory().unwrap();
    fs::write(files.join("router.sh"), "exit 0").unwrap();
    record.close().unwrap();
    assert!(!files.exists());
    // And with one whose owner is dead: pid 1 never started at tick 1.
    let path = fake_record(&registry, "1-0.json", 1, 1, &[&name]);
    let files = directory_of(&path);
    fs::create_dir(&files).unwrap();
    fs::write(files.join("router.sh"), "exit 0").unwrap();
    let report = registry.clean_leftovers().unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(report.records, [path]);
    assert!(!files.exists());
}

#[test]
fn what_a_killed_writer_had_begun_is_removed() {
    let (_directory, registry) = registry();
    let record = registry.record(&["weirtest-a"]).unwrap();
    // Killed while it wrote its first record, and while it wrote this one anew.
    let unwritten = [registry.directory.join("1-0.tmp"), record.path().with_extension("tmp")];
    for path in &unwritten {
        fs::write(path, r#"{"pid":1,"sta"#).unwrap();
    }
    let report = registry.clean_leftovers().unwrap();
    assert!(report.is_empty(), "they are no records: {report:?}");
    assert!(unwritten.iter().all(|path| !path.exists()));
    assert_eq!(read_content(record.path()).unwrap().namespaces, ["weirtest-a"]);
}

#[test]
fn living_owners_are_never_touched() {
    let (_directory, registry) = registry();
    let name = unique("living");
    let record = registry.record(&[&name]).unwrap();
    let namespace = Netns::create(&name).unwrap().guard();
    // A dead owner's record that names the same namespace must not take it away.
    let dead = fake_record(&registry, "999-0.json", current_pid(), 1, &[&name]);
    let report = registry.clean_leftovers().unwrap();
    assert_eq!(report.namespaces, [""; 0]);
    assert_eq!(report.records, [dead]);
    assert_eq!(Netns::open(&name).unwrap().inode(), namespace.inode());
    assert!(record.path().exists());
}

#[test]
fn corrupt_records_are_reported_and_kept() {
    let (_directory, registry) = registry();
    let bad_name = fake_record(&registry, "1-0.json", current_pid(), 1, &["../../etc/passwd"]);
    let bad_pid = fake_record(&registry, "2-0.json", 0, 1, &[]);
    let unknown = registry.directory.join("3-0.json");
    fs::write(&unknown, r#"{"pid":1,"start_time_ticks":1,"namespaces":[],"x":1}"#).unwrap();
    let cut = registry.directory.join("4-0.json");
    fs::write(&cut, r#"{"pid":1,"sta"#).unwrap();
    let dead = fake_record(&registry, "5-0.json", current_pid(), 1, &[]);
    let report = registry.clean_leftovers().unwrap();
    let paths: Vec<&PathBuf> = report
        .problems
        .iter()
        .map(|problem| match problem {
            CleanProblem::Corrupt { path, .. } => path,
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(paths, [&bad_name, &bad_pid, &unknown, &cut]);
    assert!(paths.iter().all(|path| path.exists()));
    assert_eq!(report.records, [dead], "the good ones are still cleaned up");
}

#[test]
fn a_creation_that_was_cut_off_is_removed_too() {
    let (_directory, registry) = registry();
    let keep = crate::testing::namespace("directory");
    let name = unique("cut-off");
    let path = Path::new(NETNS_DIR).join(&name);
    fs::write(&path, "").unwrap();
    let never_made = unique("never");
    fake_record(&registry, "1-0.json", current_pid(), 1, &[&name, &never_made]);
    let report = registry.clean_leftovers();
    let is_gone = fs::remove_file(&path).is_err();
    assert_eq!(report.unwrap().namespaces, [name]);
    assert!(is_gone);
    drop(keep);
}

#[test]
fn two_clean_ups_at_once_share_the_work() {
    let (_directory, registry) = registry();
    let mut guards = Vec::new();
    for index in 0..4 {
        let name = unique("shared-work");
        guards.push(Netns::create(&name).unwrap().guard());
        fake_record(&registry, &format!("{index}-0.json"), current_pid(), 1, &[&name]);
    }
    let clean = || registry.clean_leftovers().unwrap();
    let reports = std::thread::scope(|scope| {
        let workers = [scope.spawn(clean), scope.spawn(clean)];
        workers.map(|worker| worker.join().unwrap())
    });
    assert_eq!(reports.iter().map(|report| report.namespaces.len()).sum::<usize>(), 4);
    assert_eq!(reports.iter().map(|report| report.records.len()).sum::<usize>(), 4);
    assert!(reports.iter().all(|report| report.problems.is_empty()), "{reports:?}");
    assert!(guards.iter().all(|guard| !guard.path().exists()));
}

/// Ends and reaps the process also when the test fails.
struct Owner(Child);

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sleeper() -> Owner {
    Owner(Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap())
}

#[test]
fn what_a_killed_process_left_is_removed() {
    let before = netns::list().unwrap();
    let (_directory, registry) = registry();
    let name = unique("killed");
    // The namespace, and a process inside it, of an owner that lives and is then killed.
    let mut owner = sleeper();
    let pid = i32::try_from(owner.0.id()).unwrap();
    let ticks = procfs::stat(pid).unwrap().start_time_ticks;
    fake_record(&registry, "killed-0.json", pid, ticks, &[&name]);
    let namespace = Netns::create(&name).unwrap();
    let inode = namespace.inode();
    let daemon = namespace.run(sleeper).unwrap();
    let daemon_pid = i32::try_from(daemon.0.id()).unwrap();
    assert_eq!(procfs::netns_inode(daemon_pid), Some(inode));
    drop(namespace);

    let report = registry.clean_leftovers().unwrap();
    assert!(report.is_empty(), "the owner lives: {report:?}");
    assert!(Netns::open(&name).is_ok());

    owner.0.kill().unwrap();
    // Not waited for: an owner that is a zombie is dead too.
    let report = loop {
        let report = registry.clean_leftovers().unwrap();
        if !report.is_empty() {
            break report;
        }
    };
    assert_eq!(report.namespaces, std::slice::from_ref(&name));
    assert_eq!(report.processes_ended, 1);
    assert_eq!(report.records.len(), 1);
    assert!(report.problems.is_empty(), "{report:?}");
    assert!(procfs::stat(daemon_pid).is_none_or(|stat| stat.has_ended()));
    assert!(matches!(Netns::open(&name), Err(NetnsError::Missing { .. })));
    let left: Vec<String> = netns::list().unwrap();
    assert!(!left.contains(&name) && !before.contains(&name));
    assert!(registry.clean_leftovers().unwrap().is_empty(), "the second time there is nothing");
}

#[test]
fn what_was_made_local_is_taken_back_also_after_a_kill() {
    let (_directory, registry) = registry();
    let name = unique("local-route");
    let namespace = Netns::create(&name).unwrap().guard();
    let network: Prefix = "198.18.0.0/16".parse().unwrap();
    let netlink = || crate::Netlink::open().unwrap();
    let inside = |closure: &(dyn Fn() + Sync)| namespace.run(closure).unwrap();
    inside(&|| netlink().set_up("lo").unwrap());
    inside(&|| {
        let mut record = registry.record::<&str>(&[]).unwrap();
        assert!(record.add_local_route(network).unwrap());
        let bound = std::net::UdpSocket::bind("198.18.7.9:0");
        assert!(bound.is_ok(), "{bound:?}");
        // Once more is nothing new, and does not take it off the record.
        assert!(!record.add_local_route(network).unwrap());
        // Another run would take it away from the first, or the first from it.
        let mut other = registry.record::<&str>(&[]).unwrap();
        let error = other.add_local_route(network).unwrap_err();
        assert!(matches!(error, RegistryError::LocalElsewhere { .. }), "{error}");
        // What somebody has made local by hand is left alone.
        let by_hand: Prefix = "198.19.0.0/24".parse().unwrap();
        assert!(netlink().add_local_route(by_hand).unwrap());
        assert!(!other.add_local_route(by_hand).unwrap());
        other.close().unwrap();
        assert!(netlink().delete_local_route(by_hand).unwrap());
        assert!(std::net::UdpSocket::bind("198.18.7.9:0").is_ok());
        record.close().unwrap();
        assert!(std::net::UdpSocket::bind("198.18.7.9:0").is_err());
    });
    // Of a dead owner: pid 1 never started at tick 1. The clean-up is in another namespace.
    inside(&|| assert!(netlink().add_local_route(network).unwrap()));
    let route = namespace.run(|| LocalRoute::here(network).unwrap()).unwrap();
    let route = serde_json::to_string(&route).unwrap();
    fs::create_dir_all(&registry.directory).unwrap();
    let path = registry.directory.join("1-0.json");
    let text =
        format!(r#"{{"pid":1,"start_time_ticks":1,"namespaces":[],"local_routes":[{route}]}}"#);
    fs::write(&path, text).unwrap();
    let report = registry.clean_leftovers().unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(report.records, [path]);
    inside(&|| assert!(!netlink().delete_local_route(network).unwrap(), "it is gone"));
}
