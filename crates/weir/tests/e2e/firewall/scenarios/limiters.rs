//! Limiters, of states that several rules make, and of the states of each source: by real
//! connections.

use super::sources::{ONE, OTHER, call, two_sources};
use crate::common::{assert_exit, can_run_lab};
use crate::turns::beside;

use super::super::network::wait_until;

/// Connections that are over are soon forgotten.
const START: &str = "set timeout { interval 1, tcp.closing 1, tcp.finwait 1, tcp.closed 1 }\n\
                     block\npass inet6 proto icmp6 no state\npass out on b1 keep state\n";

#[test]
fn a_state_limiter_has_so_many_states() {
    let test = "a_state_limiter_has_so_many_states";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = two_sources("sc-stlim");
    let rules = |limit: u32| {
        format!(
            "state limiter web id 1 limit {limit}\n{START}\
             pass in on b0 inet6 proto tcp from {ONE} state limiter web\n\
             pass in on b0 inet6 proto tcp from {OTHER} state limiter web\n"
        )
    };
    net.start(&rules(2));
    let holds = |count: u32| net.pfctl("-s Stlimiters").contains(&format!("[ In use: {count} "));
    let first = call(&net, ONE, 4301, true);
    let second = call(&net, OTHER, 4302, true);
    call(&net, ONE, 4303, false);
    assert!(holds(2), "{}", net.pfctl("-s Stlimiters"));

    // It goes on counting after a reload, with what it allows by now.
    net.reload(&rules(3));
    assert!(holds(2), "{}", net.pfctl("-s Stlimiters"));
    let third = call(&net, ONE, 4304, true);
    call(&net, OTHER, 4305, false);
    let shown = net.pfctl("-s Stlimiters");
    assert!(shown.contains("[ In use: 3  Admitted: 3  Hardlimited: "), "{shown}");

    // Where one ends there is room again; those that are killed have ended, too.
    drop(first);
    wait_until("a connection is forgotten", || holds(2));
    let fourth = call(&net, OTHER, 4306, true);
    net.pfctl("-F states");
    assert!(holds(0), "{}", net.pfctl("-s Stlimiters"));
    drop((second, third, fourth));
}

#[test]
fn a_source_limiter_counts_each_source() {
    let test = "a_source_limiter_counts_each_source";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = two_sources("sc-srclim");
    net.start(&format!(
        "table <many> persist\n\
         source limiter each id 2 entries 10 limit 2 table <many> above 1 below 1\n{START}\
         pass in on b0 inet6 proto tcp source limiter each\n"
    ));
    let is_listed = |source: &str| {
        net.run(&["pfctl", "-t", "many", "-T", "test", source]).status.code() == Some(0)
    };
    let of_one: Vec<_> = (4311..4313).map(|port| call(&net, ONE, port, true)).collect();
    call(&net, ONE, 4313, false);
    let other = call(&net, OTHER, 4314, true);
    wait_until("the source is in the table", || is_listed(ONE));
    assert_exit(&net.run(&["pfctl", "-t", "many", "-T", "test", OTHER]), 2);
    let shown = net.pfctl("-vs Srclimiters");
    for line in
        [format!("   {ONE}/128 ( states 2, in the table )"), format!("   {OTHER}/128 ( states 1 )")]
    {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    assert!(shown.contains("  [ Sources: 2  Allocated: 2  "), "{shown}");

    // A source whose states have ended leaves the table, and is none any more.
    net.pfctl(&format!("-k {ONE}"));
    wait_until("the source is in the table no longer", || !is_listed(ONE));
    let shown = net.pfctl("-vs Srclimiters");
    assert!(shown.contains("[ In use: 1 ") && shown.contains("[ Sources: 1 "), "{shown}");
    drop(of_one);
    let again = call(&net, ONE, 4315, true);
    drop((again, other));
}
