//! The list of checks: for each its name, what a lack costs and how to mend it, and who looks.

use super::finding::Finding;
use super::host::Host;
use super::{Check, Status, cpu, kernel, tools};

/// One check.
#[derive(Debug)]
pub(super) struct Spec {
    /// `group.name`; never changes once released.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// Whether `weir lab` needs it: a lack is a failure then, and a warning otherwise.
    pub(super) required: bool,
    pub(super) cost: &'static str,
    pub(super) fix: &'static str,
    pub(super) look: fn(&Host) -> Finding,
}

impl Spec {
    /// Runs the check.
    pub(super) fn look_at(&self, host: &Host) -> Check {
        let finding = (self.look)(host);
        let status = match finding.status {
            Status::Fail if !self.required => Status::Warn,
            other => other,
        };
        let is_well = status == Status::Ok;
        Check {
            id: self.id,
            title: self.title,
            status,
            required: self.required,
            seen: finding.seen,
            cost: (!is_well).then_some(self.cost),
            fix: (status >= Status::Warn && !self.fix.is_empty()).then_some(self.fix),
        }
    }
}

/// The part of an id before the dot.
pub(super) fn group(id: &'static str) -> &'static str {
    id.split_once('.').map_or(id, |(group, _)| group)
}

/// All checks, grouped.
pub(super) const CHECKS: &[Spec] = &[
    Spec {
        id: "privilege.capabilities",
        title: "privileges",
        required: true,
        cost: "`weir lab` makes network namespaces and loads XDP programs: it refuses to run",
        fix: "run as root: sudo weir lab run …",
        look: tools::capabilities,
    },
    Spec {
        id: "privilege.namespaces",
        title: "network namespaces",
        required: true,
        cost: "the `netns` testbed cannot be built",
        fix: "inside a container, give it CAP_SYS_ADMIN and a writable /run",
        look: tools::namespaces,
    },
    Spec {
        id: "kernel.version",
        title: "kernel version",
        required: true,
        cost: "live frames came with Linux 5.18: without them there is no generator",
        fix: "install a newer kernel; on Debian 12, linux-image-amd64 is 6.1",
        look: kernel::version,
    },
    Spec {
        id: "kernel.live-frames",
        title: "XDP live frames (tried)",
        required: true,
        cost: "the generator uses them to inject packets: without them there is no traffic",
        fix: "kernel 5.18 or later with CONFIG_BPF_SYSCALL",
        look: kernel::live_frames,
    },
    Spec {
        id: "kernel.xdp-native",
        title: "native XDP on veth (tried)",
        required: true,
        cost: "generator and sink are native XDP programs and cannot run without it",
        fix: "kernel 4.19 or later with CONFIG_VETH and CONFIG_BPF_SYSCALL",
        look: kernel::xdp_native,
    },
    Spec {
        id: "kernel.threaded-napi",
        title: "threaded NAPI (tried)",
        required: true,
        cost: "the DUT could not be given CPUs of its own: generator and DUT would share a core",
        fix: "kernel 5.12 or later",
        look: kernel::threaded_napi,
    },
    Spec {
        id: "kernel.arena",
        title: "BPF arena (tried)",
        required: false,
        cost: "`weir fw run` refuses to start: its states are in one; everything else works",
        fix: "kernel 6.12 or later",
        look: kernel::arena,
    },
    Spec {
        id: "kernel.btf",
        title: "type information (BTF)",
        required: false,
        cost: "BPF programs that read kernel structures could not be adapted to this kernel",
        fix: "a kernel with CONFIG_DEBUG_INFO_BTF (Debian's have it)",
        look: kernel::btf,
    },
    Spec {
        id: "kernel.bpf-jit",
        title: "BPF compiler",
        required: false,
        cost: "generator and sink are interpreted: several times slower than they could be",
        fix: "sysctl net.core.bpf_jit_enable=1",
        look: kernel::bpf_jit,
    },
    Spec {
        id: "kernel.conntrack",
        title: "connection tracking limit",
        required: false,
        cost: "a stateful DUT drops new flows above the limit; labs/quick offers 100,000",
        fix: "sysctl net.netfilter.nf_conntrack_max=1048576",
        look: kernel::conntrack,
    },
    Spec {
        id: "kernel.mitigations",
        title: "CPU mitigations",
        required: false,
        cost: "part of every packet's cost; compare figures of equal mitigations only",
        fix: "",
        look: kernel::mitigations,
    },
    Spec {
        id: "tools.nft",
        title: "nft",
        required: true,
        cost: "rule sets of `linux` DUTs cannot be loaded; labs/quick has one",
        fix: "apt-get install nftables",
        look: tools::nft,
    },
    Spec {
        id: "cpu.count",
        title: "CPUs",
        required: true,
        cost: "generator and DUT would share a core, and the figure would be about both",
        fix: "at least two CPUs; three keep the receiver apart as well",
        look: cpu::count,
    },
    Spec {
        id: "cpu.smt",
        title: "hardware threads",
        required: false,
        cost: "two threads of one core share its units: the generator slows the DUT down",
        fix: "give generator and DUT CPUs of different cores in [testbed], or switch SMT off",
        look: cpu::smt,
    },
    Spec {
        id: "cpu.governor",
        title: "frequency governor",
        required: false,
        cost: "the clock follows the load: figures drift within and between trials",
        fix: "for f in /sys/devices/system/cpu/cpufreq/policy*/scaling_governor; \
              do echo performance >$f; done",
        look: cpu::governor,
    },
    Spec {
        id: "cpu.turbo",
        title: "turbo",
        required: false,
        cost: "the clock depends on temperature and neighbours: figures spread",
        fix: "echo 1 >/sys/devices/system/cpu/intel_pstate/no_turbo, \
              or echo 0 >/sys/devices/system/cpu/cpufreq/boost",
        look: cpu::turbo,
    },
    Spec {
        id: "cpu.hypervisor",
        title: "virtual machine",
        required: false,
        cost: "ratios between DUTs hold, absolute figures are this machine's only",
        fix: "",
        look: cpu::hypervisor,
    },
    Spec {
        id: "cpu.steal",
        title: "time stolen by the hypervisor",
        required: false,
        cost: "other guests take CPU time away: figures jump, verdicts turn `unstable`",
        fix: "a host that is not overcommitted, or CPUs pinned by the hypervisor",
        look: cpu::steal,
    },
    Spec {
        id: "cpu.clock",
        title: "clock source",
        required: false,
        cost: "the generator reads the clock while pacing: a slow clock lowers fixed rates",
        fix: "boot with tsc=reliable if the machine's TSC is sound",
        look: cpu::clock,
    },
    Spec {
        id: "memory.available",
        title: "memory",
        required: false,
        cost: "large flow counts make large connection tables: they may not fit",
        fix: "at least 1 GiB free",
        look: tools::memory,
    },
    Spec {
        id: "memory.huge-pages",
        title: "huge pages",
        required: false,
        cost: "none: nothing in weir needs them",
        fix: "",
        look: tools::huge_pages,
    },
];
