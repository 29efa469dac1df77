//! Values are asserted on a tree made for the test, never on the machine's own.

use std::os::unix::fs::symlink;
use std::time::Duration;

use tempfile::TempDir;
use weir_bpf::ethtool;
use weir_net::{Netlink, VethEnd, napi};
use weir_results::machine_use::{DutTime, MachineUse};

use super::tasks::{Parts, Tasks};
use super::*;

/// A root directory with these files.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().expect("a directory for the test");
    for (path, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("is made");
        fs::write(path, content).expect("is written");
    }
    root
}

#[test]
fn the_environment_of_this_machine_names_kernel_and_cpus() {
    let env = read("weir test", Path::new("."), &json!({"kind": "none"}));
    assert_eq!(env["schema"], ENVIRONMENT_SCHEMA);
    assert!(env["host"]["kernel_release"].as_str().is_some_and(|r| !r.is_empty()));
    assert!(env["cpu"]["count"].as_u64().is_some_and(|n| n > 0));
    assert_eq!(env["testbed"]["kind"], "none");
    assert!(!machine::Counted::take().times.is_empty());
}

#[test]
fn settings_that_are_not_at_their_default_are_listed() {
    let root = tree(&[
        ("proc/sys/net/core/netdev_budget", "600\n"),
        ("proc/sys/net/core/netdev_budget_usecs", "8000\n"),
        ("proc/sys/net/core/netdev_max_backlog", "1000\n"),
        ("proc/sys/net/core/rps_default_mask", "00000000,00000000\n"),
        ("proc/sys/net/core/flow_limit_cpu_bitmap", "00,00000003\n"),
        ("proc/sys/net/netfilter/nf_conntrack_max", "77\n"),
    ]);
    let changed = sysctls_not_default(root.path());
    let names: Vec<&str> = changed.keys().copied().collect();
    assert_eq!(names, ["net.core.flow_limit_cpu_bitmap", "net.core.netdev_budget"]);
    assert_eq!(changed["net.core.netdev_budget"]["value"], "600");
    assert_eq!(changed["net.core.netdev_budget"]["default"], "300");
    let all = sysctls(root.path());
    assert_eq!(all["net.netfilter.nf_conntrack_max"].as_deref(), Some("77"));
    assert_eq!(all["net.core.busy_poll"], None);
}

#[test]
fn settings_stand_in_order_and_once() {
    assert!(SETTINGS.windows(2).all(|pair| pair[0].name < pair[1].name));
}

#[test]
fn programs_are_found_outside_the_path_but_only_programs() {
    let root = tree(&[("a/nft", ""), ("b/nft", ""), ("c/nft", "")]);
    let dirs = || ["a", "b", "c"].into_iter().map(|name| root.path().join(name));
    assert_eq!(find_program("nft", dirs()), None);
    for name in ["b", "c"] {
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(root.path().join(name).join("nft"), mode).expect("is made a program");
    }
    assert_eq!(find_program("nft", dirs()), Some(root.path().join("b/nft")));
    assert_eq!(find_program("nft", [PathBuf::from("b")].into_iter()), None);
}

#[test]
fn memory_fields_are_told_apart() {
    let root = tree(&[("proc/meminfo", "MemTotal:   2 kB\nMemAvailable:  1 kB\n")]);
    assert_eq!(memory_bytes(root.path(), "MemTotal"), Some(2048));
    assert_eq!(memory_bytes(root.path(), "MemAvailable"), Some(1024));
    assert_eq!(memory_bytes(root.path(), "Mem"), None);
}

#[test]
fn temperatures_come_from_monitors_and_thermal_zones() {
    let root = tree(&[
        ("sys/class/hwmon/hwmon0/name", "coretemp\n"),
        ("sys/class/hwmon/hwmon0/temp2_input", "41500\n"),
        ("sys/class/hwmon/hwmon0/temp2_label", "Core 0\n"),
        ("sys/class/hwmon/hwmon0/temp2_max", "90000\n"),
        ("sys/class/hwmon/hwmon1/name", "coretemp\n"),
        ("sys/class/hwmon/hwmon1/temp2_input", "43000\n"),
        ("sys/class/hwmon/hwmon1/temp2_label", "Core 0\n"),
        ("sys/class/hwmon/hwmon2/name", "nvme\n"),
        ("sys/class/hwmon/hwmon2/temp1_input", "-5000\n"),
        ("sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n"),
        ("sys/class/thermal/thermal_zone0/temp", "44000\n"),
        ("sys/class/thermal/thermal_zone1/type", "asleep\n"),
        ("sys/class/thermal/cooling_device0/type", "Processor\n"),
    ]);
    let expected = [
        ("coretemp/Core 0".to_owned(), 41.5),
        ("coretemp/Core 0 (hwmon1)".to_owned(), 43.0),
        ("nvme/temp1".to_owned(), -5.0),
        ("thermal_zone0/x86_pkg_temp".to_owned(), 44.0),
    ];
    assert_eq!(cpu::temperatures(&root.path().into()), BTreeMap::from(expected));
}

#[test]
fn throttling_is_counted_where_the_machine_counts_it() {
    let root = tree(&[
        ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n"),
        ("sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "7\n"),
        ("sys/devices/system/cpu/cpu10/thermal_throttle/core_throttle_count", "0\n"),
        ("sys/devices/system/cpu/cpu1/online", "0\n"),
        ("sys/devices/system/cpu/cpufreq/boost", "1\n"),
    ]);
    let expected = [
        ("cpu0/core_throttle_count".to_owned(), 3),
        ("cpu0/package_throttle_count".to_owned(), 7),
        ("cpu10/core_throttle_count".to_owned(), 0),
    ];
    assert_eq!(cpu::throttle_counts(&root.path().into()), BTreeMap::from(expected));
}

#[test]
fn topology_says_who_shares_a_core_a_node_and_a_cache() {
    let dir = "sys/devices/system/cpu";
    let mut files = vec![
        ("proc/cpuinfo".to_owned(), "processor : 0\nmodel name : X\nflags : a hypervisor\n"),
        ("sys/devices/system/node/node1/cpulist".to_owned(), "0-1\n"),
        ("sys/devices/system/node/node1/cpu0/online".to_owned(), "1\n"),
        (format!("{dir}/intel_pstate/no_turbo"), "1\n"),
        (format!("{dir}/cpu1/cpufreq/scaling_governor"), "performance\n"),
        (format!("{dir}/cpu1/cache/index0/shared_cpu_list"), "1\n"),
        (format!("{dir}/cpu1/cache/index0/level"), "1\n"),
    ];
    for cpu in ["cpu0", "cpu1"] {
        files.push((format!("{dir}/{cpu}/topology/thread_siblings_list"), "0-1\n"));
        files.push((format!("{dir}/{cpu}/cache/index3/level"), "3\n"));
        files.push((format!("{dir}/{cpu}/cache/index3/type"), "Unified\n"));
        files.push((format!("{dir}/{cpu}/cache/index3/size"), "2048K\n"));
        files.push((format!("{dir}/{cpu}/cache/index3/shared_cpu_list"), "0-1\n"));
    }
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let cpu = cpu::cpu(tree(&files).path());
    assert_eq!(cpu["turbo"], "off");
    assert_eq!(cpu["virtual_machine"], true);
    assert_eq!(cpu["frequency"][1]["governor"], "performance");
    assert_eq!(cpu["topology"][0]["siblings"], "0-1");
    assert_eq!(cpu["topology"][0]["numa_node"], 1);
    assert_eq!(cpu["topology"][1]["numa_node"], Value::Null);
    assert_eq!(cpu["numa_nodes"], json!({"1": "0-1"}));
    let shared = json!({"level": "3", "type": "Unified", "size_bytes": 2 << 20, "cpus": "0-1"});
    assert_eq!(cpu["caches"][0]["size_bytes"], Value::Null);
    assert_eq!(cpu["caches"][1], shared);
    assert_eq!(cpu["caches"].as_array().map(Vec::len), Some(2));
}

const BEFORE: &str = "\
cpu  300 30 300 900 9 3 60 12 0 0
cpu0 100 10 100 300 5 1 20 4 0 0
cpu1 200 20 200 600 4 2 40 8 0 0
intr 12345 0 1
ctxt 99
";
/// CPU 0: 40 ticks, 10 of them stolen, 8 in user mode, 10 in the kernel, 10 in interrupts; its
/// iowait went backwards. CPU 1: 60
/// ticks, all idle.
const AFTER: &str = "\
cpu  306 32 310 962 8 4 69 22 0 0
cpu0 106 12 110 302 4 2 29 14 0 0
cpu1 200 20 200 660 4 2 40 8 0 0
";

#[test]
fn cpu_times_are_those_of_the_single_cpus() {
    let times = cpu::parse_times(BEFORE);
    assert_eq!(times.keys().copied().collect::<Vec<_>>(), [0, 1]);
    let expected = CpuTimes {
        user_ticks: 100,
        nice_ticks: 10,
        system_ticks: 100,
        idle_ticks: 300,
        iowait_ticks: 5,
        irq_ticks: 1,
        softirq_ticks: 20,
        steal_ticks: 4,
    };
    assert_eq!(times[&0], expected);
    assert_eq!(
        cpu::parse_times("cpu0 1 2 3\ncpu1 1 2 3 4 5 6 7 x\ncpux 1 2 3 4 5 6 7 8\n").len(),
        0
    );
}

/// Readings at [`BEFORE`] and [`AFTER`], 400 ms of CPU 0 apart, in which these threads ran:
/// process, name, and run time on CPU 0.
fn readings(ran: &[(i32, &str, u64)]) -> [machine::Counted; 2] {
    let reading = |stat: &str, ran: &[(i32, &str, u64)], stalled_us: u64| {
        let mut files = vec![
            ("proc/stat".to_owned(), stat.to_owned()),
            ("proc/pressure/cpu".to_owned(), format!("some avg10=0.00 total={stalled_us}\n")),
            ("proc/pressure/memory".to_owned(), "some avg10=0.00 total=5\n".to_owned()),
        ];
        for (process, name, run_ns) in ran {
            let dir = format!("proc/{process}/task/{process}");
            let middle = " 0".repeat(12);
            let (start, end) = ("77", " 0".repeat(16));
            let stat = format!("{process} ({name}) R 1 1 1 0 -1 0{middle} {start}{end} 0 0 0");
            files.push((format!("{dir}/stat"), stat));
            files.push((format!("{dir}/schedstat"), format!("{run_ns} 0 0")));
        }
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let root = tree(&files);
        let files = Files::from(root.path());
        machine::Counted { tasks: Some(Tasks::read(&files)), ..machine::Counted::read(&files) }
    };
    let idle: Vec<(i32, &str, u64)> =
        ran.iter().map(|&(process, name, _)| (process, name, 1)).collect();
    let ran: Vec<(i32, &str, u64)> =
        ran.iter().map(|&(process, name, run_ns)| (process, name, run_ns + 1)).collect();
    [reading(BEFORE, &idle, 1_000), reading(AFTER, &ran, 201_000)]
}

/// What was done between these readings.
fn used_by(ran: &[(i32, &str, u64)], parts: &Parts) -> MachineUse {
    let [before, after] = readings(ran);
    machine::machine_use(&before, &after, &[], (&[0, 1], Some(parts)))
}

#[test]
fn a_dut_has_the_time_of_its_threads_and_the_sinks_is_a_part_of_it() {
    let dut = Parts { processes: vec![10], ..Parts::default() };
    let time = |run_ns, has_sink| {
        let [before, after] = readings(&[(10, "napi", run_ns), (30, "hog", 1_000)]);
        machine::dut_time(&before, &after, &dut, (&[0], has_sink))
    };
    // 280 ms of CPU 0 were work, 90 of them softirqs: the threads cannot have run beside those.
    let elapsed_ns = 400_000_000;
    let all = DutTime { run_ns: 280_000_000, sink_ns: Some(90_000_000), elapsed_ns };
    assert_eq!(time(280_000_000, true), Some(all));
    assert_eq!(time(280_000_000, false), Some(DutTime { sink_ns: None, ..all }));
    // A kernel that measures softirqs has them beside the threads.
    let apart = DutTime { run_ns: 190_000_000, sink_ns: Some(0), elapsed_ns };
    assert_eq!(time(190_000_000, true), Some(apart));
    // Somebody else had the rest, and has ended: whose the softirqs are cannot be told.
    let hidden = DutTime { run_ns: 100_000_000, sink_ns: None, elapsed_ns };
    assert_eq!(time(100_000_000, true), Some(hidden));
    // A machine of its own, of which nobody read the threads.
    let [before, after] = readings(&[]).map(|read| machine::Counted { tasks: None, ..read });
    assert_eq!(machine::dut_time(&before, &after, &dut, (&[0], true)), None);
    // The longest that a CPU counted: CPU 1 has 60 ticks.
    let busy = DutTime { run_ns: 280_000_000, sink_ns: None, elapsed_ns: 600_000_000 };
    assert_eq!(machine::busy_time(&before, &after), Some(busy));
    assert_eq!(machine::busy_time(&Default::default(), &Default::default()), None);
}

#[test]
fn what_else_ran_on_a_cpu_is_told_with_its_name() {
    // 38 of 40 ticks were not idle: 10 stolen, 10 in interrupts, 18 in threads.
    let parts = Parts { processes: vec![10], ..Parts::default() };
    let foreign = |ran: &[(i32, &str, u64)]| {
        let used = used_by(ran, &parts);
        let ratio = used.cpus[&0].foreign_ratio.expect("threads are known");
        assert_eq!(used.cpus[&1].foreign_ratio, Some(0.0));
        (ratio, used.foreign)
    };
    let near = |ratio: f64, expected: f64| assert!((ratio - expected).abs() < 1e-3, "{ratio}");
    // All of it the trial's, which has the time of interrupts and stolen time, too.
    let (ratio, tasks) = foreign(&[(10, "weir", 380_000_000)]);
    near(ratio, 0.0);
    assert!(tasks.is_empty(), "{tasks:?}");
    // Half of it somebody's who is still there.
    let (ratio, tasks) = foreign(&[(10, "weir", 200_000_000), (30, "hog", 100_000_000)]);
    near(ratio, 0.25);
    assert_eq!((tasks[0].name.as_str(), tasks[0].process, tasks[0].cpu), ("hog", 30, 0));
    near(tasks[0].ratio, 0.25);
    // Eight ticks somebody's who has ended; two of them may be of the counting.
    let (ratio, tasks) = foreign(&[(10, "weir", 100_000_000)]);
    near(ratio, 0.15);
    assert!(tasks.is_empty(), "{tasks:?}");
    // Never more than the CPU did beside the trial.
    let (ratio, _) = foreign(&[(10, "weir", 360_000_000), (30, "hog", 390_000_000)]);
    near(ratio, 0.05);
}

#[test]
fn pressure_is_a_part_of_the_time_that_passed() {
    let used = used_by(&[], &Parts::default());
    let pressure = used.pressure.expect("the machine counts it");
    assert!((pressure.cpu_ratio - 0.5).abs() < 1e-9, "{pressure:?}");
    assert_eq!(pressure.memory_ratio, 0.0);
}

#[test]
fn queue_settings_are_those_of_the_right_namespace() {
    let root = tree(&[
        ("sys/class/net/d0/ifindex", "7\n"),
        ("sys/class/net/d0/speed", "10000\n"),
        ("sys/class/net/d0/threaded", "1\n"),
        ("sys/class/net/d0/tx_queue_len", "1000\n"),
        ("sys/class/net/d0/queues/rx-0/rps_cpus", "3\n"),
        ("sys/class/net/d0/queues/rx-1/rps_cpus", "0\n"),
        ("sys/class/net/d0/queues/tx-0/xps_cpus", "1\n"),
        ("sys/class/net/down/ifindex", "8\n"),
        ("sys/class/net/down/speed", "-1\n"),
    ]);
    let d0 = devices::sysfs_settings(root.path(), "d0", 7).expect("it is interface 7");
    assert_eq!(d0["speed_bps"], 10_000_000_000_u64);
    assert_eq!(d0["tx_queue_length"], 1000);
    assert_eq!(d0["napi_threaded"], true);
    assert_eq!(d0["rx_queue_count"], 2);
    assert_eq!(d0["tx_queue_count"], 1);
    assert_eq!(d0["rx_queues"]["rx-0"]["rps_cpus"], "3");
    assert_eq!(d0["tx_queues"]["tx-0"]["xps_cpus"], "1");
    assert_eq!(d0["gro_flush_timeout_ns"], Value::Null);
    let down = devices::sysfs_settings(root.path(), "down", 8).expect("it is interface 8");
    assert_eq!(down["speed_bps"], Value::Null);
    let error = devices::sysfs_settings(root.path(), "d0", 8).expect_err("it is interface 7");
    assert!(error.contains("another one"), "{error}");
    symlink("/nonexistent", root.path().join("sys/class/net/gone")).expect("is made");
    assert!(devices::sysfs_settings(root.path(), "gone", 9).is_err());
}

#[test]
fn devices_are_read_back_as_they_are_set() {
    let Some(namespace) = weir_oracle::netns::namespace("devices") else { return };
    let (plain, tuned) = namespace
        .run(|| {
            let netlink = Netlink::open().expect("netlink opens");
            let (a, b) = (VethEnd::new("a0").mtu(1400), VethEnd::new("b0").mtu(1400));
            netlink.create_veth(&a, &b, 2).expect("a veth is made");
            let plain = devices(&["a0", "none"]);
            netlink.set_up("a0").expect("goes up");
            netlink.set_up("b0").expect("goes up");
            ethtool::set_gro("a0", true).expect("GRO goes on");
            napi::set_threaded("a0", true).expect("NAPI gets threads");
            let first = weir_net::cpu::online().expect("a CPU is online").first();
            let cpus = weir_net::CpuList::new([first]).expect("one CPU");
            napi::pin_expecting("a0", 2, &cpus, Duration::from_secs(10))
                .expect("threads are pinned");
            (plain, (devices(&["a0", "b0"]), first))
        })
        .expect("the namespace can be entered");
    assert!(plain["none"]["errors"]["link"].as_str().is_some_and(|e| e.contains("none")));
    assert_eq!(plain["a0"]["operational_state"], "down");
    assert_eq!(plain["a0"]["napi_threaded"], false);
    let (tuned, first) = tuned;
    let a0 = &tuned["a0"];
    assert_eq!(a0["errors"], json!({}), "{a0:#}");
    assert_eq!(a0["driver"], "veth");
    assert_eq!(a0["mtu_bytes"], 1400);
    assert_eq!(a0["is_up"], true);
    assert_eq!(a0["rx_queue_count"], 2);
    assert_eq!(a0["gro"], true);
    assert_eq!(a0["features"]["rx-gro"], true);
    assert_eq!(a0["napi_threaded"], true);
    assert_eq!(a0["napi_thread_cpus"], json!([first.to_string(), first.to_string()]));
    assert_eq!(tuned["b0"]["napi_threaded"], false);
    assert_eq!(tuned["b0"]["napi_thread_cpus"], json!([]));
}

/// A machine with two CPUs, and what was read there later.
fn two_readings() -> (TempDir, TempDir) {
    let cpu = "sys/devices/system/cpu";
    let softirqs = |rx: u64| {
        format!("            CPU0 CPU1\n  NET_TX:  1  1\n  NET_RX:  {rx}  9\n  bad\n   RCU: 5 x\n")
    };
    let stat = |softirq: u64, idle: u64| {
        format!(
            "cpu  9\ncpu0 10 0 20 {idle} 0 5 {softirq} 1 0 0\ncpu1 0 0 0 7 0 0 0 0 0 0\nintr 1\n"
        )
    };
    let at = |stat: &str, softirqs: &str, khz: &str, celsius: &str, state: &str| {
        tree(&[
            ("proc/stat", stat),
            ("proc/softirqs", softirqs),
            (&format!("{cpu}/cpu0/cpufreq/scaling_cur_freq"), khz),
            (&format!("{cpu}/cpu0/thermal_throttle/core_throttle_count"), "3\n"),
            ("sys/class/hwmon/hwmon0/name", "nct6775\n"),
            ("sys/class/hwmon/hwmon0/temp1_input", celsius),
            ("sys/class/hwmon/hwmon0/fan2_input", "1250\n"),
            ("sys/class/hwmon/hwmon0/fan3_input", "0\n"),
            ("sys/class/hwmon/hwmon0/fan3_label", "front\n"),
            ("sys/class/thermal/cooling_device0/type", "Fan\n"),
            ("sys/class/thermal/cooling_device0/cur_state", "1\n"),
            ("sys/class/thermal/cooling_device1/type", "Processor\n"),
            ("sys/class/thermal/cooling_device1/cur_state", state),
            ("sys/class/thermal/cooling_device2/type", "intel_powerclamp\n"),
            ("sys/class/thermal/cooling_device2/cur_state", "-1\n"),
        ])
    };
    (
        at(&stat(10, 100), &softirqs(100), "3600000\n", "41000\n", "0\n"),
        at(&stat(60, 125), &softirqs(1_100), "2800000\n", "83500\n", "2\n"),
    )
}

#[test]
fn a_trial_tells_load_softirqs_and_how_warm_the_machine_became() {
    let (before, after) = two_readings();
    let sensors = [before.path(), after.path()].map(|root| machine::Sensors::read(&root.into()));
    let counted = [before.path(), after.path()].map(|root| machine::Counted::read(&root.into()));
    let used = machine::machine_use(&counted[0], &counted[1], &sensors, (&[0, 1, 7], None));
    // CPU 1 did nothing that is a tick, and there is no CPU 7.
    assert_eq!(used.cpus.keys().collect::<Vec<_>>(), [&0]);
    let cpu = &used.cpus[&0];
    assert!((cpu.busy_ratio - 50.0 / 75.0).abs() < 1e-9, "{cpu:?}");
    assert!((cpu.softirq_ratio - 50.0 / 75.0).abs() < 1e-9, "{cpu:?}");
    assert_eq!((cpu.user_ratio, cpu.stolen_ratio), (0.0, 0.0));
    assert_eq!(cpu.softirq_counts, BTreeMap::from([("NET_RX".to_owned(), 1_000)]));
    let span = |min, max| weir_results::machine_use::Span { min, max };
    assert_eq!(cpu.frequency_khz, Some(span(2_800_000.0, 3_600_000.0)));
    assert_eq!(used.temperatures_celsius["nct6775/temp1"], span(41.0, 83.5));
    assert_eq!(used.fans_rpm["nct6775/fan2"], span(1_250.0, 1_250.0));
    assert_eq!(used.fans_rpm["nct6775/front"], span(0.0, 0.0));
    // A fan that turns is no slowing down, a processor's cooling state is.
    assert_eq!(used.slowed_for_heat, ["cooling_device1/Processor"]);
    assert!(used.counts_throttling);
    let cool = machine::machine_use(&counted[0], &counted[1], &sensors[..1], (&[0], None));
    assert_eq!(cool.slowed_for_heat, Vec::<String>::new());
}

/// Prints a tree as `grep -sH ''` prints its files.
fn printed(root: &Path) -> String {
    let mut text = String::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder).into_values() {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(root).expect("it is below").display().to_string();
            let lines = fs::read_to_string(&path).expect("readable");
            text.extend(lines.lines().map(|line| format!("/{name}:{line}\n")));
        }
    }
    text
}

#[test]
fn copies_that_another_machine_printed_say_the_same() {
    let (root, _) = two_readings();
    let (here, there) = (Files::from(root.path()), Files::printed(&printed(root.path())));
    assert_eq!(machine::Counted::read(&there), machine::Counted::read(&here));
    assert_eq!(machine::Sensors::read(&there), machine::Sensors::read(&here));
    assert_eq!(machine::Sensors::read(&there).fans_rpm["nct6775/front"], 0.0);
    let nothing = Files::printed("grep: no such file\n");
    assert_eq!(machine::Sensors::read(&nothing), machine::Sensors::default());
}

#[test]
fn sensors_are_read_until_they_are_no_longer_watched() {
    let (root, _) = two_readings();
    let watch = machine::SensorWatch::start_in(root.path().into(), Duration::from_millis(1));
    let readings = watch.expect("a thread starts").stop();
    assert!(readings.len() >= 2, "the first and the last one");
    assert!(readings.iter().all(|r| *r == machine::Sensors::read(&root.path().into())));
    // What a virtual machine shows.
    let bare = tree(&[("proc/stat", "cpu0 1 0 0 1 0 0 0 0 0 0\n")]);
    let sensors = machine::Sensors::read(&bare.path().into());
    assert_eq!(sensors, machine::Sensors::default());
    let counted = machine::Counted::read(&bare.path().into());
    let used = machine::machine_use(&counted, &counted, &[sensors], (&[0], None));
    assert!(!used.counts_throttling);
    assert!(used.cpus.is_empty() && used.temperatures_celsius.is_empty());
}

#[test]
fn turbo_is_that_of_all_policies() {
    let base = "sys/devices/system/cpu";
    let turbo = |files: &[(&str, &str)]| {
        let files: Vec<(String, &str)> =
            files.iter().map(|(name, text)| (format!("{base}/{name}"), *text)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (n.as_str(), *t)).collect();
        let root = tree(&files);
        cpu::cpu(root.path())["turbo"].as_str().map(str::to_owned)
    };
    let (zero, one) = ("cpufreq/policy0/boost", "cpufreq/policy1/boost");
    assert_eq!(turbo(&[("cpufreq/boost", "1\n")]).as_deref(), Some("on"));
    assert_eq!(turbo(&[("cpufreq/boost", "0\n"), (zero, "1\n")]).as_deref(), Some("off"));
    assert_eq!(turbo(&[("cpufreq/boost", "1\n"), (zero, "0\n")]).as_deref(), Some("off"));
    assert_eq!(turbo(&[(zero, "1\n"), (one, "0\n")]).as_deref(), Some("some CPUs"));
    assert_eq!(turbo(&[("online", "0\n")]), None);
}
