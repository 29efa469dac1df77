//! Where the queues of an interface are worked on: interrupts, NAPI threads, steering in software.
//!
//! Read from sysfs and procfs, whose directories are arguments; nothing is changed. What a driver
//! or a kernel does not tell is left out.
//!
//! Source: Documentation/networking/scaling.rst and Documentation/core-api/irq/irq-affinity.rst in
//! the kernel tree.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use weir_net::{CpuList, cpu, napi};

/// Where one receive queue is worked on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct QueuePlace {
    pub queue: u32,
    /// Number of its interrupt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub irq: Option<u32>,
    /// CPUs that the interrupt goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub irq_cpus: Option<String>,
    /// Process id of its NAPI thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub napi_thread: Option<i32>,
    /// CPUs that the thread may run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub napi_cpus: Option<String>,
    /// CPUs that receive packet steering spreads its flows over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rps_cpus: Option<String>,
    /// Entries of its table of receive flow steering; 0 if that is off.
    pub rfs_flow_count: u64,
}

impl QueuePlace {
    /// The CPUs that take its packets from the card: of the thread, or else of the interrupt.
    #[must_use]
    pub fn cpus(&self) -> Option<&str> {
        self.napi_cpus.as_deref().or(self.irq_cpus.as_deref())
    }
}

/// Where the queues of an interface are worked on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Places {
    /// Receive queues, in their order.
    pub queues: Vec<QueuePlace>,
    /// CPUs that send by each transmit queue, where that is set.
    pub xps_cpus: BTreeMap<u32, String>,
    /// The card's NUMA node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// Entries of the table of receive flow steering of the whole host; 0 if that is off.
    pub rfs_entry_count: u64,
    /// Process id of irqbalance(1), if it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub irqbalance: Option<i32>,
    /// Fragments of IPv4 and IPv6 packets that came in since the namespace was made.
    pub fragment_count: u64,
}

/// Where the kernel shows what it does.
#[derive(Debug, Clone)]
pub struct Roots {
    pub sys: PathBuf,
    pub proc: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into() }
    }
}

impl Roots {
    /// What is known of an interface's queues. NAPI threads are asked of the kernel by
    /// [`with_threads`].
    #[must_use]
    pub fn places(&self, interface: &str) -> Places {
        let device = self.sys.join("class/net").join(interface);
        let interrupts = self.interrupts(&device, interface);
        let queues = numbered(&device.join("queues"), "rx-").into_iter().map(|(queue, path)| {
            let irq = interrupts.get(&queue).copied();
            QueuePlace {
                queue,
                irq,
                irq_cpus: irq.and_then(|irq| self.irq_cpus(irq)),
                rps_cpus: text(&path.join("rps_cpus")).and_then(|mask| of_mask(&mask)),
                rfs_flow_count: number(&path.join("rps_flow_cnt")).unwrap_or(0),
                ..QueuePlace::default()
            }
        });
        let xps = numbered(&device.join("queues"), "tx-").into_iter();
        let xps_cpus =
            xps.filter_map(|(queue, path)| Some((queue, of_mask(&text(&path.join("xps_cpus"))?)?)));
        Places {
            queues: queues.collect(),
            xps_cpus: xps_cpus.collect(),
            numa_node: number(&device.join("device/numa_node")),
            rfs_entry_count: number(&self.proc.join("sys/net/core/rps_sock_flow_entries"))
                .unwrap_or(0),
            irqbalance: self.process("irqbalance"),
            fragment_count: self.fragment_count(),
        }
    }

    /// The interrupt of each receive queue.
    fn interrupts(&self, device: &Path, interface: &str) -> BTreeMap<u32, u32> {
        // Those of a virtio device are its PCI device's.
        let directories = ["device/msi_irqs", "device/../msi_irqs"];
        let of_card = |directory: &&str| {
            let numbers: Vec<u32> = numbered(&device.join(directory), "").into_keys().collect();
            (!numbers.is_empty()).then_some(numbers)
        };
        let of_card = directories.iter().find_map(of_card);
        let table = text(&self.proc.join("interrupts")).unwrap_or_default();
        let mut interrupts = BTreeMap::new();
        for line in table.lines() {
            let Some((irq, name)) = line.split_once(':').and_then(|(irq, rest)| {
                Some((irq.trim().parse::<u32>().ok()?, rest.split_whitespace().last()?))
            }) else {
                continue;
            };
            let is_of_card = match &of_card {
                Some(numbers) => numbers.contains(&irq),
                None => name.split(['-', '.', '@', ':']).any(|part| part == interface),
            };
            if let Some(queue) = queue_of(name).filter(|_| is_of_card) {
                interrupts.entry(queue).or_insert(irq);
            }
        }
        interrupts
    }

    fn irq_cpus(&self, irq: u32) -> Option<String> {
        let directory = self.proc.join("irq").join(irq.to_string());
        let list = |name| text(&directory.join(name)).filter(|list| !list.is_empty());
        list("effective_affinity_list").or_else(|| list("smp_affinity_list"))
    }

    /// The process with this name, if there is one.
    fn process(&self, name: &str) -> Option<i32> {
        let entries = fs::read_dir(&self.proc).ok()?;
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut pids = pids.filter(|pid: &i32| {
            text(&self.proc.join(pid.to_string()).join("comm")).is_some_and(|comm| comm == name)
        });
        pids.next()
    }

    fn fragment_count(&self) -> u64 {
        let snmp = text(&self.proc.join("net/snmp")).unwrap_or_default();
        let mut ip = snmp.lines().filter_map(|line| line.strip_prefix("Ip: "));
        let v4 = ip.next().zip(ip.next()).and_then(|(names, values)| {
            let mut pairs = names.split_whitespace().zip(values.split_whitespace());
            pairs.find(|(name, _)| *name == "ReasmReqds")?.1.parse::<u64>().ok()
        });
        let snmp6 = text(&self.proc.join("net/snmp6")).unwrap_or_default();
        let v6 = snmp6
            .lines()
            .find_map(|line| line.strip_prefix("Ip6ReasmReqds")?.trim().parse::<u64>().ok());
        v4.unwrap_or(0) + v6.unwrap_or(0)
    }
}

/// Adds the NAPI threads of an interface of the calling thread's namespace. The kernel numbers the
/// instances in the order of the queues; where there are not as many as queues, none is added.
pub fn with_threads(places: &mut Places, interface: &str) {
    let Ok(threads) = napi::threads(interface) else { return };
    if threads.len() != places.queues.len() {
        return;
    }
    for (place, thread) in places.queues.iter_mut().zip(threads) {
        place.napi_thread = Some(thread.pid);
        let cpus = cpu::affinity(thread.pid).ok().flatten();
        place.napi_cpus = cpus.map(|cpus: CpuList| cpus.to_string());
    }
}

/// The receive queue that an interrupt's name is for: `virtio0-input.1`, `eth1-TxRx-3`,
/// `mlx5_comp2@pci:0000:01:00.0`, `eth0-rx-0`, `ens5-Tx-Rx-4`, `i40e-eth1-TxRx-5`.
fn queue_of(name: &str) -> Option<u32> {
    let name = name.split('@').next()?;
    let lower = name.to_ascii_lowercase();
    const OTHERS: [&str; 6] = ["output", "config", "ctrl", "async", "misc", "fdir"];
    if OTHERS.iter().any(|other| lower.contains(other)) {
        return None;
    }
    let is_receive = lower.contains("rx") || lower.contains("input") || !lower.contains("tx");
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    if !is_receive || digits == 0 || digits == name.len() {
        return None;
    }
    // The number of an interface is none of a queue.
    let (stem, number) = name.split_at(name.len() - digits);
    let is_marked = stem.ends_with(['-', '.', '_']) || lower.contains("comp");
    number.parse().ok().filter(|_| is_marked)
}

/// The entries of a directory that begin with a word and go on with a number.
fn numbered(directory: &Path, word: &str) -> BTreeMap<u32, PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| {
        let name = entry.file_name();
        Some((name.to_str()?.strip_prefix(word)?.parse().ok()?, entry.path()))
    };
    entries.filter_map(number).collect()
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

/// The CPUs of a mask as sysfs writes it, as a list; `None` if there is none.
fn of_mask(mask: &str) -> Option<String> {
    let digits: Vec<u32> = mask.chars().filter_map(|digit| digit.to_digit(16)).collect();
    let cpus = digits.iter().rev().enumerate().flat_map(|(place, digit)| {
        (0..4).filter(move |bit| digit >> bit & 1 == 1).map(move |bit| place * 4 + bit)
    });
    CpuList::new(cpus).map(|cpus| cpus.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_named_in_many_ways() {
        for (name, queue) in [
            ("virtio1-input.2", Some(2)),
            ("virtio1-output.2", None),
            ("virtio1-config", None),
            ("eth1-TxRx-3", Some(3)),
            ("eth1-rx-0", Some(0)),
            ("eth1-tx-0", None),
            ("i40e-ens1f0-TxRx-11", Some(11)),
            ("mlx5_comp7@pci:0000:01:00.0", Some(7)),
            ("mlx5_async0@pci:0000:01:00.0", None),
            ("ens5-Tx-Rx-4", Some(4)),
            ("eth1", None),
            ("17", None),
        ] {
            assert_eq!(queue_of(name), queue, "{name}");
        }
    }

    #[test]
    fn masks_are_lists() {
        assert_eq!(of_mask("00000001,00000003").as_deref(), Some("0-1,32"));
        assert_eq!(of_mask("f0").as_deref(), Some("4-7"));
        assert_eq!(of_mask("00"), None);
    }

    /// Writes files below a directory.
    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let directory = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let roots =
            Roots { sys: directory.path().join("sys"), proc: directory.path().join("proc") };
        (directory, roots)
    }

    #[test]
    fn a_card_of_two_queues_is_read() {
        let (_directory, roots) = tree(&[
            ("sys/class/net/eth1/queues/rx-0/rps_cpus", "3\n"),
            ("sys/class/net/eth1/queues/rx-0/rps_flow_cnt", "0\n"),
            ("sys/class/net/eth1/queues/rx-1/rps_cpus", "0\n"),
            ("sys/class/net/eth1/queues/rx-1/rps_flow_cnt", "512\n"),
            ("sys/class/net/eth1/queues/tx-0/xps_cpus", "1\n"),
            ("sys/class/net/eth1/queues/tx-1/xps_cpus", "0\n"),
            ("sys/class/net/eth1/device/numa_node", "1\n"),
            ("sys/class/net/eth1/device/msi_irqs/41", "msix\n"),
            ("sys/class/net/eth1/device/msi_irqs/42", "msix\n"),
            (
                "proc/interrupts",
                concat!(
                    "           CPU0       CPU1\n",
                    "  40:          1          0  PCI-MSIX  eth0-TxRx-0\n",
                    "  41:          1          0  PCI-MSIX  eth1-TxRx-0\n",
                    "  42:          1          0  PCI-MSIX  eth1-TxRx-1\n",
                    " NMI:          0          0   Non-maskable interrupts\n",
                ),
            ),
            ("proc/irq/41/effective_affinity_list", "0\n"),
            ("proc/irq/42/smp_affinity_list", "0-1\n"),
            ("proc/sys/net/core/rps_sock_flow_entries", "32768\n"),
            ("proc/77/comm", "irqbalance\n"),
            ("proc/78/comm", "sshd\n"),
            ("proc/net/snmp", "Ip: Forwarding ReasmReqds\nIp: 1 17\nIcmp: a\nIcmp: 1\n"),
            ("proc/net/snmp6", "Ip6InReceives\t9\nIp6ReasmReqds\t3\n"),
        ]);
        let places = roots.places("eth1");
        let [first, second] = &places.queues[..] else { panic!("{places:?}") };
        assert_eq!((first.irq, first.irq_cpus.as_deref()), (Some(41), Some("0")));
        assert_eq!((first.rps_cpus.as_deref(), first.rfs_flow_count), (Some("0-1"), 0));
        assert_eq!((second.irq, second.irq_cpus.as_deref()), (Some(42), Some("0-1")));
        assert_eq!((second.rps_cpus.as_deref(), second.rfs_flow_count), (None, 512));
        assert_eq!(places.xps_cpus, BTreeMap::from([(0, "0".to_owned())]));
        assert_eq!((places.numa_node, places.rfs_entry_count), (Some(1), 32_768));
        assert_eq!((places.irqbalance, places.fragment_count), (Some(77), 20));
        assert_eq!(
            roots.places("absent"),
            Places { queues: Vec::new(), xps_cpus: BTreeMap::new(), numa_node: None, ..places }
        );
    }
}
