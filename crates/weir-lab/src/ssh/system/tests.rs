//! Answers in the formats of FreeBSD 14, OpenBSD 7 and Linux 6, written for these tests.

use std::collections::BTreeMap;

use super::*;
use crate::ssh::bsd;
use crate::ssh::facts::sections;

/// `netstat -I ix0 -bdnW` and `sysctl -e dev.ix.0`.
const FREEBSD_INTERFACE: &str = "\
== ix0
Name    Mtu Network       Address              Ipkts Ierrs Idrop     Ibytes    Opkts Oerrs     Obytes  Coll  Drop
ix0    1500 <Link#1>      90:e2:ba:12:34:56 123456789     2   345 7407407340 4200000000     1 252000000000     0    17
ix0       - 198.18.0.0/24 198.18.0.10             12     -     -        1008       10     -          840     -     -
== nic ix0
dev.ix.0.%desc=Intel(R) X520 82599ES (SFI/SFP+)
dev.ix.0.mac_stats.rx_missed_packets=345
dev.ix.0.mac_stats.xoff_recvd=4
dev.ix.0.queue0.rx_packets=61728394
dev.ix.0.queue0.rxd_head=1023
dev.ix.0.queue0.interrupt_rate=31250
dev.ix.0.queue1.rx_packets=61728395
dev.ix.0.iflib.rxq0.rxq_fl0.credits=1023
dev.ix.0.iflib.override_ntxds=0
";

const FREEBSD_DOWN: &str = "\
== igb1
Name    Mtu Network       Address              Ipkts Ierrs Idrop     Ibytes    Opkts Oerrs     Obytes  Coll  Drop
igb1*  1500 <Link#2>      00:0d:b9:41:ca:3d        7     0     0        420        9     0        540     0     0
";

/// `netstat -I em0 -n` with `-e`, `-d` and `-b`.
const OPENBSD_INTERFACE: &str = "\
== em0
Name    Mtu   Network     Address              Ipkts Ierrs    Opkts Oerrs Colls
em0     1500  <Link>      00:0d:b9:41:ca:3c 98765432     5 87654321     6     0
em0     1500  198.18.0/24 198.18.0.1        98765432     5 87654321     6     0
Name    Mtu   Network     Address              Ipkts Idrop    Opkts Odrop Colls
em0     1500  <Link>      00:0d:b9:41:ca:3c 98765432   700 87654321     8     0
em0     1500  198.18.0/24 198.18.0.1        98765432   700 87654321     8     0
Name    Mtu   Network     Address               Ibytes     Obytes
em0     1500  <Link>      00:0d:b9:41:ca:3c 5925925920 5259259260
em0     1500  198.18.0/24 198.18.0.1        5925925920 5259259260
";

const OPENBSD_OLD: &str = "\
== em0
Name    Mtu   Network     Address              Ipkts Ifail    Opkts Ofail Colls
em0     1500  <Link>      00:0d:b9:41:ca:3c     1000    30     2000     4     0
";

const LINUX_INTERFACE: &str = "\
== enp1s0f0
/sys/class/net/enp1s0f0/statistics/rx_bytes:7407407340
/sys/class/net/enp1s0f0/statistics/rx_missed_errors:345
/sys/class/net/enp1s0f0/statistics/rx_packets:123456789
/sys/class/net/enp1s0f0/statistics/tx_dropped:17
/sys/class/net/enp1s0f0/statistics/tx_packets:4200000000
== nic enp1s0f0
NIC statistics:
     rx_queue_0_packets: 61728394
     rx_no_dma_resources: 345
     rx_flow_control_xoff: 3
     tx_pkts_nic: 12
     fdir_match: 9
";

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
const FREEBSD_STACK: &str = "\
== ip
ip:
\t5000100 total packets received
\t0 bad header checksums
\t0 with size smaller than minimum
\t1 with data size < data length
\t0 with ip length > max ip packet size
\t0 with header length < data size
\t0 with data length < header length
\t0 with bad options
\t0 with incorrect version number
\t0 fragments received
\t90 packets for this host
\t1 packet for unknown/unsupported protocol
\t4999000 packets forwarded (4998000 packets fast forwarded)
\t7 packets not forwardable
\t1 output packet discarded due to no route
\t2 output packets dropped due to no bufs, etc.
\t0 datagrams that can't be fragmented
== ip6
ip6:
\t12 total packets received
\t1 packet not forwardable
";

#[test]
fn every_loss_of_the_bsd_stack_is_found_in_the_singular_too() {
    let counters = bsd::read_stack(FREEBSD_STACK);
    assert_eq!(counters["ip"]["ip.packets forwarded"], 4_999_000);
    let lost: BTreeMap<String, u64> = stack_drops(System::Freebsd)
        .iter()
        .filter_map(|rule| Some((rule.name.clone(), rule.counters.sum(&counters)?)))
        .filter(|&(_, packets)| packets > 0)
        .collect();
    let wanted = [
        ("ip_data_shorter_than_length", 1),
        ("ip_delivered_locally", 90),
        ("ip_unknown_protocol", 1),
        ("ip_not_forwardable", 7),
        ("ip_no_route_out", 1),
        ("ip_no_buffers_out", 2),
        ("ip6_not_forwardable", 1),
    ];
    assert_eq!(lost, wanted.map(|(n, v)| (n.to_owned(), v)).into());
    let all = bsd::read_stack(FREEBSD_STACK);
    for (name, source, counter) in BSD_STACK_DROPS.iter().filter(|d| d.2.starts_with("ip.")) {
        let known = all[*source].contains_key(*counter) || name.contains("bad_address");
        assert!(known, "{counter} is not what netstat prints");
    }
}

/// `pfctl -si`, FreeBSD's with a logging interface.
const PF_INFO: &str = "\
Status: Enabled for 0 days 00:12:34           Debug: Urgent

Interface Stats for ix0               IPv4             IPv6
  Bytes In                         1234567                0
  Packets In
    Passed                           10000                0
    Blocked                             77                0

State Table                          Total             Rate
  current entries                     5000               
  searches                       123456789       163696.0/s
  inserts                            10000           13.3/s
  removals                            5000            6.6/s
Source Tracking Table
  current entries                        0               
  searches                             999            1.3/s
  inserts                                0            0.0/s
  removals                               0            0.0/s
Counters
  match                              10077           13.4/s
  bad-offset                             0            0.0/s
  fragment                               0            0.0/s
  short                                  2            0.0/s
  normalize                              0            0.0/s
  memory                                33            0.0/s
  bad-timestamp                          0            0.0/s
  congestion                            44            0.1/s
  ip-option                              0            0.0/s
  proto-cksum                            0            0.0/s
  state-mismatch                         1            0.0/s
  state-insert                           0            0.0/s
  state-limit                            0            0.0/s
  src-limit                              0            0.0/s
  synproxy                               0            0.0/s
  map-failed                             0            0.0/s
";

/// `pfctl -vvsr`, FreeBSD's.
const PF_RULES: &str = "\
@0 scrub in all fragment reassemble
  [ Evaluations: 10100     Packets: 10090     Bytes: 605400      States: 0     ]
  [ Inserted: uid 0 pid 1234 State Creations: 0     ]
@0 block drop in all
  [ Evaluations: 10077     Packets: 70        Bytes: 4200        States: 0     ]
  [ Inserted: uid 0 pid 1234 State Creations: 0     ]
  [ Last Active Time: N/A ]
@1 pass in on ix0 inet proto udp from any to 198.19.0.0/16 keep state
  [ Evaluations: 10077     Packets: 10000     Bytes: 600000      States: 5000  ]
  [ Inserted: uid 0 pid 1234 State Creations: 5000  ]
@2(1100000000) block drop out quick on ix1 inet from any to 203.0.113.0/24
  [ Evaluations: 5000      Packets: 7         Bytes: 420         States: 0     ]
  [ Inserted: uid 0 pid 1234 State Creations: 0     ]
";

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
    let openbsd = interrupts::vmstat(
        "interrupt                       total     rate\nirq114/em0                    1111       10\nTotal                         1111       10\n",
    );
    assert_eq!(openbsd["irq114/em0"], 1111);
    let proc = "           CPU0       CPU1       \n  24:       1000         23  IR-PCI-MSIX-0000:01:00.0   0-edge      enp1s0f0-TxRx-0\n NMI:          1          2   Non-maskable interrupts\n ERR:          0\n";
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
