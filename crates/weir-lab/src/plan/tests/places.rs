//! Testbeds that refer to sweeps.

use super::*;

const CORES: &str = r#"
[campaign]
name = "cores"
iterations = 1
order = "sequential"
[testbed]
kind = "netns"
generator_cpus = "0"
dut_cpus = "1-${cpus}"
rps_cpus = "1-${cpus}"
napi_cpus = "1"
queues = "${queues}"
[[sweep]]
name = "cpus"
values = [1, 2]
[[sweep]]
name = "queues"
values = [1, "2"]
[[dut]]
name = "a"
kind = "linux"
[[traffic]]
name = "t"
src = "198.18.10.1"
dst = "198.19.10.1"
"#;

#[test]
fn the_testbed_is_part_of_a_cell() {
    let plan = plan(CORES, &[]);
    let of = |index: usize| {
        let TestbedSpec::Netns(netns) = plan.testbed_of(&plan.series[index].id) else {
            panic!("another kind")
        };
        (netns.dut_cpus.as_deref().unwrap_or_default(), netns.queues)
    };
    let names: Vec<&str> = plan.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names[1], "a.cpus=1.queues=2.t");
    assert_eq!([of(0), of(1), of(2), of(3)], [("1", 1), ("1", 2), ("1-2", 1), ("1-2", 2)]);
    assert_eq!((plan.dut_cpus().len(), plan.dut_cpus()[names[1]]), (4, 1));
    assert_eq!(plan.dut_cpus()[names[3]], 2);
    // Each has a path of its own, and is named by it.
    let calibrations: Vec<&str> =
        plan.calibrations().iter().map(|series| series.traffic.name.as_str()).collect();
    assert_eq!(calibrations.len(), 4);
    assert_eq!(calibrations[2], "t.cpus=2.queues=1");
    assert_eq!(plan.testbeds().len(), 4);
    // Where a message about this host points to.
    assert_eq!(plan.place_in_testbed("dut_cpus"), "lab.toml:9:12");
    assert_eq!(plan.place_in_testbed("sink_cpus"), "lab.toml");
}

#[test]
fn only_the_testbeds_of_chosen_cells_are_used() {
    let chosen = Overrides { only: Some("*cpus=1*".to_owned()), ..Overrides::default() };
    let (plan, _) = from_text(Path::new("lab.toml"), CORES, &files(&[]), &chosen).expect("good");
    assert_eq!(plan.testbeds().len(), 2);
}

#[test]
fn what_cannot_be_is_refused() {
    for (written, instead, expected) in [
        ("1-${cpus}\"\nrps", "1-${cpu}\"\nrps", "lab.toml:9:15: error: `${cpu}` is not a sweep"),
        ("dut_cpus = \"1-", "dut_cpus = \"3-", "has a range that ends before it begins: 3-1"),
        ("dut_cpus = \"1-", "dut_cpus = \"0-", "`dut_cpus` shares CPU 0 with `generator_cpus`"),
        ("napi_cpus = \"1\"", "napi_cpus = \"4\"", "`napi_cpus`: CPU 4 is not in `dut_cpus`"),
        ("dut_cpus = \"1-${cpus}\"\n", "", "`rps_cpus` needs `dut_cpus`"),
        ("[1, \"2\"]", "[0, \"2\"]", "`queues` must be 1 to 64, not `0`"),
        ("napi_cpus = \"1\"", "conntrack_max = \"${cpus}\"", "cannot be a sweep's in [testbed]"),
        ("napi_cpus = \"1\"", "mtu = 9001", "`mtu` must be 1280 to 9000, not 9001"),
        ("src = \"198", "size = 1515\nsrc = \"198", "the testbed's links carry at most 1514"),
        ("napi_cpus = \"1\"", "rx_ring = 512", "a veth has no ring whose size can be set"),
    ] {
        assert!(CORES.contains(written), "{written}");
        let errors = try_plan(&CORES.replace(written, instead), &[]).unwrap_err();
        assert!(errors[0].contains(expected), "{expected}: {errors:?}");
    }
}

/// `rss` of a testbed, or what is wrong with it.
fn rss(text: &str) -> Result<Option<crate::model::RssSpec>, Vec<String>> {
    let spec = CORES.replace("napi_cpus = \"1\"", &format!("rss = {text}"));
    let (plan, _) = try_plan(&spec.replace("[1, \"2\"]", "[4]"), &[])?;
    let TestbedSpec::Netns(netns) = plan.testbed_of(&plan.series[0].id) else {
        panic!("another kind")
    };
    Ok(netns.rss.as_deref().cloned())
}

#[test]
fn queues_are_chosen_as_a_card_would() {
    let all = rss("{}").unwrap().expect("defaults");
    assert!(all.key.starts_with("6d:5a:56:da") && all.table.starts_with("0,1,2,3,0"));
    assert_eq!((all.fields.as_str(), all.table.split(',').count()), ("4-tuple", 128));
    let some = rss("{ table = \"weights:1,0,1/4\", fields = \"sd\" }").unwrap().expect("both");
    assert_eq!((some.table.as_str(), some.fields.as_str()), ("0,0,2,2", "2-tuple"));
    assert!(some.settings().is_ok());
    let random = "5b".repeat(40);
    assert!(rss(&format!("{{ key = \"{random}\" }}")).unwrap().expect("a key").key.contains("5b:"));
    for (text, expected) in [
        ("{ table = \"equal:5\" }", "the table names queue 4, but the devices have 4"),
        ("{ table = \"weights:0,0\" }", "`table`: no queue has a share"),
        ("{ key = \"6d5a\" }", "`key`: a key has 40 to 52 bytes, not 2"),
        ("{ fields = \"udp\" }", "`fields`: the hash is over the 2-tuple"),
        ("{ fields = 4 }", "`fields` must be a text"),
        ("{ hash = \"crc\" }", "unknown field `hash` in `rss` of [testbed]"),
        ("\"on\"", "`rss` of [testbed] must be a table"),
    ] {
        let errors = rss(text).unwrap_err();
        assert!(errors[0].contains(expected), "{expected}: {errors:?}");
    }
}

/// The sources of a traffic that is spread over buckets.
fn spread(testbed: &str, text: &str) -> Result<Vec<String>, Vec<String>> {
    let spec = CORES.replace("napi_cpus = \"1\"", testbed).replace("[1, \"2\"]", "[4]");
    let ranges = format!("src = \"198.18.10.1:1024-198.18.10.1:2000\"\nspread = \"{text}\"");
    let (plan, _) = try_plan(&spec.replace("src = \"198.18.10.1\"", &ranges), &[])?;
    let streams = plan.series[0].traffic.streams.specs();
    Ok(streams.iter().map(|(stream, _)| stream.src.to_string()).collect())
}

#[test]
fn a_traffic_is_spread_over_the_buckets_of_the_testbeds_card() {
    // Drawn at random; one that repeats itself would not reach all buckets.
    let key = concat!(
        "63:c0:3b:19:30:61:fc:82:6d:9a:73:22:df:73:f4:f0:d4:76:28:74:",
        "1d:fc:2e:e0:27:b6:ef:1f:75:d8:45:31:fa:64:f8:b5:5f:72:1f:00"
    );
    let plain = spread("", "buckets:8").unwrap();
    assert_eq!(plain.len(), 8);
    assert!(plain.iter().all(|src| src.starts_with("198.18.10.1:")), "{plain:?}");
    let card = spread(&format!("rss = {{ key = \"{key}\" }}"), "buckets:8").unwrap();
    assert_ne!(card, plain);
    assert_eq!(card, spread("", &format!("buckets:8/{key}")).unwrap());
    let by_addresses = spread("rss = { fields = \"2-tuple\" }", "buckets:8").unwrap_err();
    assert!(by_addresses[0].contains("`spread`: the ranges reach 1 of 8"), "{by_addresses:?}");
    let errors = spread("", "queues:8").unwrap_err();
    assert!(errors[0].contains("write buckets:COUNT"), "{errors:?}");
}

#[test]
fn larger_frames_need_a_larger_mtu() {
    let sized = CORES.replace("src = \"198", "size = \"${size}\"\nsrc = \"198");
    let sized = sized.replace("queues = \"${queues}\"", "mtu = \"${mtu}\"");
    let sized = sized.replace("\"queues\"\nvalues = [1, \"2\"]", "\"mtu\"\nvalues = [1500, 3000]");
    let swept = sized.replace("${size}", "1514");
    let plan = plan(&swept, &[]);
    let sizes: Vec<u32> = plan.testbeds().iter().map(|t| t.size_bytes_max()).collect();
    assert_eq!(sizes, [1514, 3014, 1514, 3014]);
    let errors = try_plan(&sized.replace("${size}", "3014"), &[]).unwrap_err();
    assert!(errors[0].contains("the testbed's links carry at most 1514"), "{errors:?}");
    let only = sized.replace("${size}", "3014").replace("[1500, 3000]", "[3000, 3001]");
    assert!(try_plan(&only, &[]).is_ok());
}
