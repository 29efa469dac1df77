//! `dnpipe` with `route-to` and `reply-to`: packets go by the pipe where their gateway is.

use super::{assert_answered, connect_as, has_ping};
use crate::common::{assert_exit, can_run_lab};
use crate::turns::beside;

use super::super::nat::ip;
use super::super::network::{PATIENCE, connect_from, echo_server};
use super::super::pipes::passed;
use super::super::uplinks::Site;

/// A host that is behind the second uplink alone.
const FAR: &str = "203.0.113.10";

const FACTS: &str = "\
pipe 1 config bw 100Mbit/s
pipe 2 config bw 100Mbit/s
queue 1 config pipe 1
";

#[test]
fn packets_to_a_gateway_go_by_their_pipe() {
    let test = "packets_to_a_gateway_go_by_their_pipe";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let Site { net, second } = &Site::new("sc-pipe", true);
    if !has_ping(test, &net.client) {
        return;
    }
    ip(second, &format!("address add {FAR}/32 dev lo"));
    for port in [7007, 7008] {
        echo_server(second, FAR, port);
    }
    let facts = net.file("facts", FACTS);
    let rules = net.file(
        "pf.conf",
        "set reassemble yes\npass\n\
         pass in on b0 route-to (b2 10.3.0.2) inet to 203.0.113.10 dnpipe (1, 2)\n\
         pass out route-to (b2 10.3.0.2) inet proto tcp from 10.3.0.1 to port 7008 dnpipe 2\n",
    );
    assert_exit(&net.run(&["fw", "run", "--facts", &facts, "-f", &rules]), 0);
    let mut line = connect_from(&net.client, FAR, 7007, PATIENCE).expect("by the gateway");
    line.bounce(100_000, "by the gateway");
    let (there, back) = (passed(net, "pipe 1", "b2"), passed(net, "pipe 2", "b0"));
    assert!(there > 60 && back > 60, "{there} there, {back} back");
    assert_eq!((passed(net, "pipe 1", "b1"), passed(net, "pipe 1", "b0")), (0, 0));

    // Pieces of packets, which are put together.
    assert_answered(&net.client, &["-c", "3", "-i", "0.2", "-s", "4000", FAR]);
    assert!(passed(net, "pipe 1", "b2") >= there + 3);
    assert!(passed(net, "pipe 2", "b0") >= back + 3);

    // What the box itself sends.
    assert_eq!(passed(net, "pipe 2", "b2"), 0);
    let mut line = connect_as(&net.router, "10.3.0.1:0", FAR, 7008, true).expect("by the gateway");
    line.bounce(100_000, "from the box");
    assert!(passed(net, "pipe 2", "b2") > 60);
}

/// FreeBSD's pf sends packets through both; here where they leave counts.
#[test]
fn packets_by_two_pipes_go_by_that_of_the_way_out() {
    let test = "packets_by_two_pipes_go_by_that_of_the_way_out";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let Site { net, second } = &Site::new("sc-pipe3", true);
    ip(second, &format!("address add {FAR}/32 dev lo"));
    echo_server(second, FAR, 7007);
    let facts = net.file("facts", FACTS);
    let rules = net.file(
        "pf.conf",
        "pass\npass in on b0 route-to (b2 10.3.0.2) inet to 203.0.113.10 dnpipe 1\n\
         match out on b2 inet proto tcp dnpipe (1, 1)\n\
         pass out on b2 inet proto tcp dnpipe (2, 0)\n",
    );
    assert_exit(&net.run(&["fw", "run", "--facts", &facts, "-f", &rules]), 0);
    let mut line = connect_from(&net.client, FAR, 7007, PATIENCE).expect("by the gateway");
    line.bounce(100_000, "by the gateway");
    let (there, back) = (passed(net, "pipe 2", "b2"), passed(net, "pipe 1", "b0"));
    assert!(there > 60 && back > 60, "{there} there, {back} back");
    assert_eq!((passed(net, "pipe 1", "b2"), passed(net, "pipe 2", "b0")), (0, 0));
}

/// Answers of what was redirected go by the pipe of the way back, out of the uplink.
#[test]
fn answers_by_an_uplink_go_by_their_pipe() {
    let test = "answers_by_an_uplink_go_by_their_pipe";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let Site { net, second } = &Site::new("sc-pipe2", true);
    echo_server(&net.client, "10.1.0.2", 7007);
    let facts = net.file("facts", FACTS);
    let rules = net.file(
        "pf.conf",
        "set state-policy if-bound\n\
         rdr on b2 inet proto tcp from any to 10.3.0.1 port 7 -> 10.1.0.2 port 7007\n\
         block\npass quick proto icmp6\npass out on b0 inet proto tcp\n\
         pass in on b2 reply-to (b2 10.3.0.2) inet proto tcp to port 7007 dnqueue (1, 1)\n",
    );
    assert_exit(&net.run(&["fw", "run", "--facts", &facts, "-f", &rules]), 0);
    let mut line = connect_as(second, "10.3.0.2:0", "10.3.0.1", 7, true).expect("redirected");
    line.bounce(100_000, "redirected");
    let (there, back) = (passed(net, "queue 1", "b0"), passed(net, "queue 1", "b2"));
    assert!(there > 60 && back > 60, "{there} there, {back} back");
}
