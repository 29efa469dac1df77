//! The files of `/etc`, and the interfaces of this machine.

use weir_rules::resolve::Resolver as _;

use super::*;

#[test]
fn names_come_from_the_files() {
    let mut facts = Facts::new();
    add_services(
        &mut facts,
        "# comment\nhttp 80/tcp www # web\nown-http 80/tcp\nproxy 3128/tcp squid\nbad\n\
         worse x/tcp\n",
    );
    add_protocols(&mut facts, "# n\nspecial 250 SPECIAL\n");
    add_hosts(&mut facts, "127.0.0.1 localhost me\n::1 localhost # v6\nnonsense a\n");
    assert_eq!(facts.service_name(80, true).as_deref(), Some("http"));
    assert_eq!(facts.service_port("squid"), Some(3128));
    assert_eq!(facts.service_name(3128, true).as_deref(), Some("proxy"));
    assert_eq!(facts.service_name(3128, false), None);
    assert_eq!(facts.protocol_number("special"), Some(250));
    assert_eq!(facts.host("localhost").len(), 2);
    assert_eq!(facts.host("nonsense").len(), 0);
    let users: Vec<_> = numbered("root:x:0:0::/:/bin/sh\nbad\n_pf:*:115:\n").collect();
    assert_eq!(users, [("root", 0), ("_pf", 115)]);
}

#[test]
fn this_machine_has_a_loopback_interface() {
    let facts = facts(None).unwrap();
    let lo = facts.interfaces().iter().find(|interface| interface.name == "lo").unwrap();
    assert!(lo.is_loopback);
    assert!(facts.is_group("egress"));
    assert_eq!(facts.user("root"), Some(0));
}

#[test]
fn a_file_of_facts_that_is_wrong_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("facts");
    let refusal = facts(Some(&path)).unwrap_err().to_string();
    assert_eq!(
        refusal,
        format!("cannot read the facts of {}: No such file or directory", path.display())
    );
    fs::write(&path, "interface em0\nhots a 1.2.3.4\n").unwrap();
    let refusal = facts(Some(&path)).unwrap_err().to_string();
    assert!(
        refusal.starts_with(&format!("{}:2: `hots` is not a fact", path.display())),
        "{refusal}"
    );
}
