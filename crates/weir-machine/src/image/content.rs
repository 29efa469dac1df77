//! What an image has beyond its packages: how it boots, who may log in, what it calls its ports.
//!
//! Init is sysvinit with one script before the services instead of some thirty: an emulated
//! machine boots in a quarter of the time that systemd takes, and it is booted before every
//! measurement. Services of added packages start by their scripts in `/etc/init.d`. Constants only.

/// A file of the image: path from the root, permission bits, content.
pub(super) type Content = (&'static str, u32, &'static str);

/// Packages of every image, apart from the distribution's minimal base.
pub(super) const PACKAGES: [&str; 12] = [
    "linux-image-cloud-amd64",
    "initramfs-tools",
    "sysvinit-core",
    "udhcpc",
    "openssh-server",
    "rsync",
    "iproute2",
    "iputils-ping",
    "nftables",
    "ethtool",
    "procps",
    "kmod",
];

/// What no package needs to install: documents, and udev's part of the initial RAM disk, which
/// takes longer than all the rest of it under emulation. The modules that it would find are
/// listed in [`FILES`].
pub(super) const EXCLUDED: [&str; 5] = [
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/locale/*",
    "/usr/share/initramfs-tools/hooks/udev",
    "/usr/share/initramfs-tools/scripts/*/udev",
];

/// Label of the root file system.
pub(super) const LABEL: &str = "weir-root";

/// The kernel's command line. The disk is the first virtio disk, as the testbed attaches it;
/// interfaces are `eth0`, `eth1`, … in the order of the bus.
pub(super) const APPEND: &str = "root=/dev/vda rw console=ttyS0 net.ifnames=0";

/// What the serial console says when services are started.
pub(super) const CONSOLE_READY: &str = "login:";

/// Files that are there before the packages are configured.
pub(super) const FILES: [Content; 8] = [
    (
        "etc/initramfs-tools/conf.d/weir",
        0o644,
        "MODULES=list\nCOMPRESS=gzip\nRESUME=none\nFSTYPE=ext4\n",
    ),
    (
        "etc/initramfs-tools/modules",
        0o644,
        "virtio_pci\nvirtio_blk\nvirtio_scsi\nahci\nsd_mod\next4\n",
    ),
    ("etc/hostname", 0o644, "weir-dut\n"),
    ("etc/hosts", 0o644, "127.0.0.1 localhost weir-dut\n::1 localhost\n"),
    ("etc/fstab", 0o644, "LABEL=weir-root / ext4 defaults,noatime 0 1\n"),
    ("etc/inittab", 0o644, INITTAB),
    ("etc/weir/boot", 0o755, BOOT),
    ("etc/ssh/sshd_config.d/weir.conf", 0o644, "PasswordAuthentication no\nUseDNS no\n"),
];

const INITTAB: &str = "\
# One script prepares the machine; services start by /etc/init.d/rc as usual.
id:2:initdefault:
si::sysinit:/etc/weir/boot
~~:S:wait:/sbin/sulogin --force
l0:0:wait:/etc/init.d/rc 0
l1:1:wait:/etc/init.d/rc 1
l2:2:wait:/etc/init.d/rc 2
l6:6:wait:/etc/init.d/rc 6
ca:12345:ctrlaltdel:/sbin/shutdown -r now
c0:2:respawn:/sbin/getty -L ttyS0 115200 vt100
";

const BOOT: &str = "\
#!/bin/sh
# What this machine does before its services start; /etc/inittab runs it.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mounted() { mountpoint -q \"$1\"; }
mounted /proc || mount -t proc proc /proc
mounted /sys || mount -t sysfs sysfs /sys
mounted /dev || mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mounted /dev/pts || mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
mounted /dev/shm || mount -t tmpfs -o nosuid,nodev tmpfs /dev/shm
mounted /run || mount -t tmpfs -o nosuid,nodev,mode=755 tmpfs /run
mount -o remount,rw /
mkdir -p /run/lock /run/sshd
: > /run/utmp
hostname -F /etc/hostname
# Drivers of what is on the buses: there is no udev that would load them.
cat /sys/bus/pci/devices/*/modalias /sys/bus/virtio/devices/*/modalias 2>/dev/null |
\tsort -u | xargs modprobe -abq
# A network card on virtio is behind a second bus.
cat /sys/bus/virtio/devices/*/modalias 2>/dev/null | sort -u | xargs modprobe -abq
sysctl -q --system
ip link set lo up
# The first network card is the machine's own access; the others are the lab's.
ip link set eth0 up && udhcpc -i eth0 -b -S > /dev/null 2>&1
";
