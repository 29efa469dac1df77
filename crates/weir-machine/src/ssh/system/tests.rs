//! Answers in the formats of FreeBSD 14, OpenBSD 7 and Linux 6, written for these tests.

use std::collections::BTreeMap;

use super::*;
use crate::ssh::bsd;
use crate::ssh::sections::sections;

/// `netstat -I ix0 -bdnW` and `sysctl -e dev.ix.0`.
const FREEBSD_INTERFACE: &str = include_str!("fixtures/freebsd-interface.txt");

const FREEBSD_DOWN: &str = include_str!("fixtures/freebsd-interface-down.txt");

/// `netstat -I em0 -n` with `-e`, `-d` and `-b`.
const OPENBSD_INTERFACE: &str = include_str!("fixtures/openbsd-interface.txt");

const OPENBSD_OLD: &str = include_str!("fixtures/openbsd-interface-sums.txt");

const LINUX_INTERFACE: &str = include_str!("fixtures/linux-interface.txt");

fn read_one(system: System, name: &str, text: &str) -> BTreeMap<String, u64> {
    interface::read(system, name, &sections(text)).expect("an interface")
}

#[test]
fn freebsds_interfaces_are_read_by_their_headings() {
    let ix0 = read_one(System::Freebsd, "ix0", FREEBSD_INTERFACE);
    assert_eq!(ix0["rx_packets"], 123_456_789);
    assert_eq!((ix0["rx_errors"], ix0["rx_dropped"]), (2, 345));
    assert_eq!((ix0["tx_packets"], ix0["tx_errors"], ix0["tx_dropped"]), (4_200_000_000, 1, 17));
    assert_eq!(ix0["tx_bytes"], 252_000_000_000);
    assert_eq!(ix0["nic.queue1.rx_packets"], 61_728_395);
    assert_eq!(ix0["nic.mac_stats.rx_missed_packets"], 345);
    assert_eq!(ix0["nic.mac_stats.xoff_recvd"], 4);
    // What moves both ways would look like a counter that was reset.
    let levels: Vec<&String> =
        ix0.keys().filter(|k| k.contains("head") || k.contains("rate")).collect();
    assert!(levels.is_empty(), "{levels:?}");
    assert!(!ix0.keys().any(|k| k.contains("desc") || k.contains("override")), "{ix0:?}");
    assert_eq!(read_one(System::Freebsd, "igb1", FREEBSD_DOWN)["tx_packets"], 9);
    assert_eq!(interface::read(System::Freebsd, "ix1", &sections(FREEBSD_INTERFACE)), None);
}

#[test]
fn openbsds_interfaces_are_read_from_three_tables() {
    let em0 = read_one(System::Openbsd, "em0", OPENBSD_INTERFACE);
    assert_eq!((em0["rx_packets"], em0["tx_packets"]), (98_765_432, 87_654_321));
    assert_eq!((em0["rx_errors"], em0["rx_dropped"]), (5, 700));
    assert_eq!((em0["tx_errors"], em0["tx_dropped"]), (6, 8));
    assert_eq!(em0["rx_bytes"], 5_925_925_920);
    let old = read_one(System::Openbsd, "em0", OPENBSD_OLD);
    assert_eq!((old["rx_failed"], old["tx_failed"]), (30, 4));
}

#[test]
fn linux_interfaces_are_read_with_what_their_driver_counts() {
    let nic = read_one(System::Linux, "enp1s0f0", LINUX_INTERFACE);
    assert_eq!((nic["rx_packets"], nic["rx_missed_errors"]), (123_456_789, 345));
    assert_eq!(nic["nic.rx_queue_0_packets"], 61_728_394);
    assert_eq!((nic["nic.rx_flow_control_xoff"], nic["nic.tx_pkts_nic"]), (3, 12));
    assert!(!nic.contains_key("nic.fdir_match"), "{nic:?}");
}

#[test]
fn losses_stand_after_the_point_where_they_are_counted() {
    let names = |list: &[&str]| -> Vec<String> { list.iter().map(|n| (*n).to_owned()).collect() };
    let (receives, sends) = (names(&["ix0"]), names(&["ix1"]));
    let rules = interface_drops(System::Freebsd, &receives, &sends);
    let counters = Counters::from([
        ("ix0".to_owned(), read_one(System::Freebsd, "ix0", FREEBSD_INTERFACE)),
        ("ix1".to_owned(), read_one(System::Freebsd, "ix0", FREEBSD_INTERFACE)),
    ]);
    let found: Vec<(&str, &str, Option<u64>)> =
        rules.iter().map(|r| (r.name.as_str(), r.after, r.counters.sum(&counters))).collect();
    assert_eq!(
        found,
        [
            ("ix0_rx_dropped", "accepted", Some(345)),
            ("ix0_rx_errors", "accepted", Some(2)),
            ("ix1_tx_dropped", "dut_received", Some(17)),
            ("ix1_tx_errors", "dut_received", Some(1)),
        ]
    );
    assert_eq!(received(&receives)[0].sum(&counters), Some(123_456_789));
    assert_eq!(sent(&sends)[0].sum(&counters), Some(4_200_000_000));
    assert!(interface_drops(System::Generic, &receives, &sends).is_empty());
}

/// `netstat -s -p ip` of FreeBSD.
const FREEBSD_STACK: &str = include_str!("fixtures/freebsd-stack.txt");

#[test]
fn every_loss_of_the_bsd_stack_is_found_in_the_singular_too() {
    let counters = bsd::read_stack(FREEBSD_STACK);
    assert_eq!(counters["ip"]["ip.packets forwarded"], 4_999_000);
    let lost: BTreeMap<String, u64> = stack_drops(System::Freebsd)
        .iter()
        .filter_map(|rule| Some((rule.name.clone(), rule.counters.sum(&counters)?)))
        .filter(|&(_, packets)| packets > 0)
        .collect();
    let expected = [
        ("ip_data_shorter_than_length", 1),
        ("ip_delivered_locally", 90),
        ("ip_unknown_protocol", 1),
        ("ip_not_forwardable", 7),
        ("ip_no_buffers_out", 2),
        ("ip6_not_forwardable", 1),
    ];
    assert_eq!(lost, expected.map(|(n, v)| (n.to_owned(), v)).into());
    let all = bsd::read_stack(FREEBSD_STACK);
    for (name, source, counter) in BSD_STACK_DROPS.iter().filter(|d| d.2.starts_with("ip.")) {
        let known = all[*source].contains_key(*counter) || name.contains("bad_address");
        assert!(known, "{counter} is not what netstat prints");
    }
}

/// `pfctl -si`, FreeBSD's with a logging interface.
const PF_INFO: &str = include_str!("fixtures/pf-info.txt");

/// `pfctl -vvsr`, FreeBSD's.
const PF_RULES: &str = include_str!("fixtures/pf-rules.txt");

#[test]
fn pf_tells_why_and_by_which_rule_it_drops() {
    assert!(pf::is_enabled(PF_INFO));
    assert!(!pf::is_enabled("Status: Disabled for 0 days 00:00:10   Debug: Urgent\n"));
    let info = pf::info(PF_INFO);
    assert_eq!((info["states_searches"], info["states_inserts"]), (123_456_789, 10_000));
    assert_eq!((info["memory"], info["congestion"], info["short"]), (33, 44, 2));
    assert!(!info.keys().any(|name| name.contains("current")), "a level is no counter: {info:?}");
    assert!(!info.values().any(|&value| value == 999 || value == 1_234_567), "{info:?}");
    let rules = pf::rules(PF_RULES);
    assert_eq!(rules["rule_1_packets"], 10_000);
    assert_eq!((rules["rule_0_packets"], rules["rule_2_packets"]), (70, 7));
    assert_eq!(rules["blocked_packets"], 77);
    for (_, _, counter) in pf::DROPS {
        let known = info.contains_key(counter) || rules.contains_key(counter);
        assert!(known || counter == "translate", "{counter} is not what pfctl prints");
    }
}

#[test]
fn ipfw_tells_which_rules_deny() {
    let text = "\
00100         0           0 allow ip from any to any via lo0
00200         3         180 set 1 deny ip from any to 127.0.0.0/8
01000  12345678   740740680 allow udp from any to any keep-state :default
02000        40        2400 prob 0.500000 unreach filter-prohib ip from any to any
65535       500       30000 deny ip from any to any
";
    let rules = ipfw::rules(text);
    assert_eq!(rules["rule_1000_packets"], 12_345_678);
    assert_eq!(rules["denied_packets"], 543);
    assert!(ipfw::rules("ipfw: retrieving config failed: Protocol not available\n").is_empty());
}

#[test]
fn interrupts_are_summed_by_their_source() {
    let vmstat = "\
interrupt                          total       rate
irq1: atkbd0                           2          0
cpu0:timer                       1234567       1000
irq256: ix0:rxq0                  987654        812
Total                            2222223       1812
";
    let values = interrupts::vmstat(vmstat);
    assert_eq!(values.len(), 3, "{values:?}");
    assert_eq!(values["irq256: ix0:rxq0"], 987_654);
    let openbsd = "interrupt        total     rate\nirq114/em0        1111       10\n";
    let openbsd = interrupts::vmstat(openbsd);
    assert_eq!(openbsd["irq114/em0"], 1111);
    let proc = concat!(
        "           CPU0       CPU1\n",
        "  24:       1000         23  IR-PCI-MSIX-0000:01:00.0   0-edge      enp1s0f0-TxRx-0\n",
        " NMI:          1          2   Non-maskable interrupts\n",
        " ERR:          0\n",
    );
    let values = interrupts::proc(proc);
    assert_eq!(values["24 enp1s0f0-TxRx-0"], 1023);
    assert_eq!(values["NMI interrupts"], 3);
    assert_eq!(values["ERR"], 0);
}

#[test]
fn temperatures_and_fans_of_each_system() {
    let linux = "\
/sys/class/hwmon/hwmon0/name:coretemp
/sys/class/hwmon/hwmon1/name:nct6775
/sys/class/hwmon/hwmon0/temp1_input:51000
/sys/class/hwmon/hwmon1/fan2_input:1234
CPU1 Temp        | 01h | ok  |  3.1 | 45 degrees C
FAN1             | 41h | ok  | 29.1 | 5400 RPM
FAN2             | 42h | ns  | 29.2 | No Reading
VCORE            | 20h | ok  |  3.1 | 1.80 Volts
";
    let (temperatures, fans) = sensors::read(System::Linux, linux);
    assert_eq!(temperatures["coretemp(hwmon0)/temp1"], 51.0);
    assert_eq!(temperatures["ipmi/CPU1 Temp"], 45.0);
    assert_eq!((fans["nct6775(hwmon1)/fan2"], fans["ipmi/FAN1"], fans.len()), (1234.0, 5400.0, 2));
    let freebsd = "dev.cpu.0.temperature: 47.0C\nhw.acpi.thermal.tz0.temperature: 27.9C\n\
                   dev.asmc.0.fan.0.speed: 1998\n";
    let (temperatures, fans) = sensors::read(System::Freebsd, freebsd);
    assert_eq!((temperatures["dev.cpu.0.temperature"], temperatures.len()), (47.0, 2));
    assert_eq!(fans["dev.asmc.0.fan.0.speed"], 1998.0);
    let openbsd = "hw.sensors.cpu0.temp0=45.00 degC\nhw.sensors.it0.fan0=1100 RPM\n\
                   hw.sensors.it0.volt0=1.10 VDC (VCORE_A)\n";
    let (temperatures, fans) = sensors::read(System::Openbsd, openbsd);
    assert_eq!((temperatures["cpu0.temp0"], fans["it0.fan0"]), (45.0, 1100.0));
    assert_eq!((temperatures.len(), fans.len()), (1, 1));
}
