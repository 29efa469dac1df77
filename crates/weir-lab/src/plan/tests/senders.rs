//! Who sends a traffic: read, derived from the traffic, and held against the testbed.

use weir_results::traffic::Traffic;

use super::*;

/// A specification with these fields in its testbed and its traffic.
fn with(testbed: &str, traffic: &str) -> String {
    format!(
        "[campaign]\nname = \"c\"\niterations = 1\n\
         [testbed]\nkind = \"netns\"\n{testbed}\n\
         [[dut]]\nname = \"a\"\nkind = \"linux\"\n\
         [[traffic]]\nname = \"t\"\nsrc = \"198.18.10.1:5-198.18.10.3\"\n\
         dst = \"198.19.10.1:7\"\nrate = \"9kpps\"\n{traffic}\n"
    )
}

const TWO_CPUS: &str = "generator_cpus = \"0-1\"";

fn ends(traffic: &Traffic) -> Vec<(u16, String, String)> {
    let senders = traffic.each_sender().into_iter();
    let shown = senders.flat_map(|sender| {
        let specs = sender.streams.specs().to_vec().into_iter();
        specs.map(move |(spec, _)| (sender.port, spec.src.to_string(), spec.dst.to_string()))
    });
    shown.collect()
}

#[test]
fn what_comes_back_is_the_traffic_turned_round() {
    let both = plan(&with(TWO_CPUS, "direction = \"both\""), &[]).series.remove(0).traffic;
    let (there, back) = ("198.18.10.1:5-198.18.10.3", "198.19.10.1:7");
    let text = |text: &str| text.to_owned();
    let expected = [(0, text(there), text(back)), (1, text(back), text(there))];
    assert_eq!(ends(&both), expected);
    let reverse = both.senders.reverse.as_ref().expect("it is sent");
    assert_eq!((reverse.rate, both.flow_count()), (both.rate, 3));

    let fields = "direction = \"both\"\n[traffic.reverse]\nrate = \"1kpps\"\nsize = 200\n\
                  dst = \"198.18.20.1:9\"";
    let plan = plan(&with(TWO_CPUS, fields), &[]);
    let traffic = &plan.series[0].traffic;
    let reverse = traffic.senders.reverse.as_ref().expect("it is sent");
    assert_eq!(reverse.rate.to_string(), "1kpps");
    assert_eq!(reverse.streams.size_bytes_range(), (200, 200));
    assert_eq!(ends(traffic)[1], (1, text(back), text("198.18.20.1:9")));
    assert_eq!(traffic.flow_count(), 4, "what comes back has flows of its own");
    assert_ne!(traffic.id, both.id);
}

#[test]
fn what_a_generator_cannot_have_is_refused() {
    let said = |testbed: &str, traffic: &str| {
        let list = try_plan(&with(testbed, traffic), &[]).expect_err("it is refused");
        list.join("\n")
    };
    for (testbed, traffic, part) in [
        ("", "direction = \"back\"", "`direction` cannot be `back`"),
        ("", "[traffic.reverse]\nrate = 5", "write direction = \"both\""),
        ("", "ports = \"ring\"", "`ports` cannot be `ring`"),
        ("", "ports = \"mesh\"\ndirection = \"both\"", "every port sends to all others"),
        ("", "threads = 2", "`threads` is 2, but generator_cpus has 1"),
        ("", "threads = 0", "`threads` must be 1 to 256"),
        (TWO_CPUS, "", "no traffic sends from more than 1"),
        ("links = 5", "", "`links` must be 1 to 4"),
        ("links = 4", "ttl = 3\nstreams = []", "1 to 256 streams"),
        ("", "vlan = 5\ndirection = \"both\"\n[traffic.reverse]\nvlan = 6", "different tags"),
        // Behind the second port are the destinations.
        ("", "direction = \"both\"\n[traffic.reverse]\nsrc = \"198.18.1.1\"", "198.19.1.0 to"),
    ] {
        let said = said(testbed, traffic);
        assert!(said.contains(part), "{testbed} {traffic}: {said}");
    }
    let text = with("links = 2", "").replace("198.18.10.3", "198.18.130.3");
    let list = try_plan(&text, &[]).expect_err("it is refused").join("\n");
    assert!(list.contains("198.18.1.0 to 198.18.127.255 on the first link"), "{list}");
}

#[test]
fn machines_send_one_way_by_one_thread() {
    let fields = "direction = \"both\"\nthreads = 2\n";
    let machines = format!("{MACHINES}{fields}");
    let list = try_plan(&machines, &TREE).expect_err("it is refused").join("\n");
    for field in ["`direction` is not built for kind = \"hosts\"", "`threads` is not built"] {
        assert!(list.contains(field), "{list}");
    }
    let machine = VIRTUAL.replace("SETUP", "").replace("KIND", "kind = \"linux\"");
    let text = format!("{machine}ports = \"mesh\"\n");
    let list = try_plan(&text, &[]).expect_err("it is refused").join("\n");
    assert!(list.contains("`ports` is not built for kind = \"qemu\""), "{list}");
    let text = machine.replace("image =", "generator_cpus = \"0-1\"\nimage =");
    let list = try_plan(&text, &[]).expect_err("it is refused").join("\n");
    assert!(list.contains("no traffic sends from more than 1"), "{list}");
}

#[test]
fn generators_that_share_a_cpu_are_warned_of() {
    let warned = |testbed: &str, traffic: &str| {
        let (_, warnings) = try_plan(&with(testbed, traffic), &[]).expect("a good plan");
        warnings.join("\n")
    };
    let said = warned("", "direction = \"both\"");
    assert!(said.contains("2 generators share the 1 CPU of generator_cpus"), "{said}");
    assert_eq!(warned(TWO_CPUS, "direction = \"both\""), "");
    let said = warned("generator_cpus = \"0-2\"\nlinks = 2", "ports = \"mesh\"");
    assert!(said.contains("4 generators share the 3 CPUs"), "{said}");
    assert!(said.contains("4 CPUs in generator_cpus give each thread one of its own"), "{said}");
}
