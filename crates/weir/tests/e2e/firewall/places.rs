//! Programs that come and go with the rules: flows that are there do not notice.

use std::thread;

use super::network::{Network, PATIENCE, SERVER, echo_server, pattern};
use crate::common::can_run_lab;
use crate::turns::beside;

/// The mode of the ingress program.
fn mode(net: &Network, name: &str) -> serde_json::Value {
    let status = net.json("status");
    let interfaces = status["interfaces"].as_array().expect("a list").iter();
    interfaces.clone().find(|interface| interface["name"] == name).expect("it is there")["mode"]
        .clone()
}

#[test]
fn a_flow_outlives_the_program_of_an_interface() {
    let test = "a_flow_outlives_the_program_of_an_interface";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("leave");
    echo_server(&net.server, SERVER, 7001);
    // The second one names b1 alone: what the client sends comes in by the kernel then.
    let rules = ["pass\n", "block in on b1\npass out on b1\n"];
    net.start(rules[0]);
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    line.echo("judged on both ways");
    let bytes = pattern(3_000_000);
    let before = mode(&net, "b0");
    assert_eq!(before, "native");
    for number in [1, 0] {
        net.reload(rules[number]);
        assert_eq!(mode(&net, "b0") == before, number == 0, "by the rules");
        assert!(line.bulk(&bytes) == bytes, "what comes back is what was sent");
        assert_eq!(net.dropped("state-mismatch"), 0);
    }
    thread::scope(|scope| {
        let transfer = scope.spawn(|| line.bulk(&bytes) == bytes);
        let mut count = 0;
        while !transfer.is_finished() || count < 4 {
            count += 1;
            net.reload(rules[count % 2]);
        }
        assert!(transfer.join().expect("no panic"), "what comes back is what was sent");
    });
    assert_eq!(net.dropped("state-mismatch"), 0);
}
