//! From a configuration to what is served, without a network.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use super::config::{Kind, Loader};
use super::dnsmasq::{Event, Follower, check_names, configuration};
use super::http::State;
use super::*;

const PLACE: Place = Place { address: Ipv4Addr::new(192, 0, 2, 1), http_port: 8080 };

const FULL: &str = r#"
[serve]
range = "192.0.2.100-192.0.2.150"
lease = "10m"
dns = "192.0.2.53"

[serial]
speed = 19200

[menu]
title = "rack 7"
default = "local"
timeout = "30s"

[[entry]]
name = "local"
kind = "local"

[[entry]]
name = "debian"
title = "Debian 12 installer"
kind = "debian"
kernel = "debian/linux"
initrd = "debian/initrd.gz"
preseed = "debian/preseed.cfg"
append = "net.ifnames=0"

[[entry]]
name = "centos"
kind = "centos"
kernel = "centos/vmlinuz"
initrd = ["centos/initrd.img", "centos/drivers.img"]

[[entry]]
name = "mfsbsd"
kind = "mfsbsd"
image = "mfsbsd.img"

[[entry]]
name = "openbsd"
kind = "openbsd"
pxeboot = "openbsd/pxeboot"
kernel = "openbsd/bsd.rd"

[[entry]]
name = "net"
kind = "netbsd"
pxeboot = "netbsd/pxeboot_ia32_com0.bin"
kernel = "netbsd/netbsd-INSTALL.gz"

[[entry]]
name = "bsdrp"
title = "BSDRP onto ada0"
kind = "image"
image = "BSDRP.img.xz"
helper = "mfsbsd"
disk = "ada0"

[[entry]]
name = "memtest"
kind = "memdisk"
image = "memtest.iso"

[[entry]]
name = "again"
kind = "reboot"

[[host]]
mac = "02:00:00:00:00:AA"
entry = "debian"
"#;

fn full() -> Config {
    Config::parse("pxe.toml", FULL).unwrap()
}

/// Makes every file that the configuration names, with its path as content.
fn filled(dir: &Path) {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    let put = |name: &str, text: &str| {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for name in [
        "debian/linux",
        "debian/initrd.gz",
        "debian/preseed.cfg",
        "centos/vmlinuz",
        "centos/initrd.img",
        "centos/drivers.img",
        "openbsd/pxeboot",
        "openbsd/bsd.rd",
        "netbsd/pxeboot_ia32_com0.bin",
        "netbsd/netbsd-INSTALL.gz",
        "BSDRP.img.xz",
        "memtest.iso",
    ] {
        put(name, name);
    }
    let comment = "#".repeat(200);
    put("mfsbsd.img", &format!("\0\0{comment}\nmfs_type=\"mfs_root\"\n\0\0"));
}

/// What the entries need, without the boot loaders of this machine.
fn entry_needs(config: &Config, dir: &Path) -> Vec<need::Need> {
    need::needs(config, dir).into_iter().filter(|need| need.entry.is_some()).collect()
}

#[test]
fn the_menu_of_pxelinux_has_every_entry_on_the_serial_port() {
    let menu = pxelinux::menu(&full(), PLACE, None);
    for part in [
        "SERIAL 0 19200\nUI menu.c32\nPROMPT 0\nMENU TITLE rack 7\nMENU IMMEDIATE\n",
        "TIMEOUT 300\nONTIMEOUT local\n",
        "LABEL local\n  MENU LABEL ^1) local\n  MENU DEFAULT\n  LOCALBOOT 0\n",
        "LABEL debian\n  MENU LABEL ^2) Debian 12 installer\n  LINUX debian/linux\n  \
         INITRD debian/initrd.gz\n  APPEND console=tty0 console=ttyS0,19200n8 auto=true \
         priority=critical url=http://192.0.2.1:8080/debian/preseed.cfg net.ifnames=0\n  \
         SYSAPPEND 2\n",
        "  INITRD centos/initrd.img,centos/drivers.img\n",
        "^4) mfsbsd\n  LINUX memdisk\n  INITRD mfsbsd/mfsbsd.img\n  APPEND harddisk raw\n",
        "^5) openbsd\n  COM32 pxechn.c32\n  APPEND openbsd/pxeboot\n",
        "^7) BSDRP onto ada0\n  LINUX memdisk\n  INITRD mfsbsd/mfsbsd.img\n",
        "  INITRD memtest/memtest.iso\n  APPEND iso raw\n",
        "LABEL again\n  MENU LABEL ^9) again\n  COM32 reboot.c32\n",
    ] {
        assert!(menu.contains(part), "{part}\nis not in\n{menu}");
    }
    let with_default = pxelinux::menu(&full(), PLACE, Some("debian"));
    assert!(with_default.contains("TIMEOUT 50\nONTIMEOUT debian\n"), "{with_default}");
    assert_eq!(with_default.matches("MENU DEFAULT").count(), 1);
    assert_eq!(pxelinux::machine_file([2, 0, 0, 0, 0, 0xaa]), "01-02-00-00-00-00-aa");
}

#[test]
fn the_script_of_ipxe_boots_by_http_and_says_what_needs_a_bios() {
    let script = ipxe::script(&full(), PLACE);
    assert!(script.starts_with("#!ipxe\n"));
    for part in [
        "iseq ${netX/mac} 02:00:00:00:00:aa && goto debian ||\n",
        "item --key 2 debian 2) Debian 12 installer\n",
        "choose --default local --timeout 30000 selected && goto ${selected} || goto menu\n",
        ":centos\nimgfree\nkernel http://192.0.2.1:8080/centos/vmlinuz initrd=initrd0 \
         initrd=initrd1 console=tty0 console=ttyS0,19200n8 BOOTIF=01-${netX/mac:hexhyp} || goto \
         failed\ninitrd --name initrd0 http://192.0.2.1:8080/centos/initrd.img || goto failed\n",
        ":openbsd\niseq ${platform} pcbios || goto needs-bios\nchain --replace \
         tftp://192.0.2.1/openbsd/pxeboot || goto failed\n",
        "kernel http://192.0.2.1:8080/memdisk harddisk raw || goto failed\n\
         initrd http://192.0.2.1:8080/mfsbsd/mfsbsd.img || goto failed\n",
        "\n:local\nexit\n",
        "\n:needs-bios\n",
    ] {
        assert!(script.contains(part), "{part}\nis not in\n{script}");
    }
}

#[test]
fn what_is_served_is_what_is_named_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    fs::write(dir.path().join("secret"), "x").unwrap();
    let config = full();
    let needs = entry_needs(&config, dir.path());
    assert!(needs.iter().all(|need| need.trouble.is_none()), "{needs:#?}");
    let served = layout::make(&config, dir.path(), &needs, PLACE).unwrap();
    let read = |name: &str| fs::read_to_string(served.root.join(name)).unwrap();
    assert_eq!(read("debian/initrd.gz"), "debian/initrd.gz");
    assert_eq!(read("bsd"), "openbsd/bsd.rd");
    assert_eq!(read("netbsd"), "netbsd/netbsd-INSTALL.gz");
    assert_eq!(read("etc/boot.conf"), "stty com0 19200\nset tty com0\nboot tftp:/bsd\n");
    assert!(read("mfsbsd/mfsbsd.img").contains("comconsole_speed=\"19200\""));
    assert!(!fs::read_to_string(dir.path().join("mfsbsd.img")).unwrap().contains("comconsole"));
    assert!(read("pxelinux.cfg/01-02-00-00-00-00-aa").contains("ONTIMEOUT debian"));
    assert!(served.files.contains_key("boot.ipxe"));
    assert!(served.files.keys().all(|name| !name.contains("secret") && name != "pxe.toml"));
    for (name, file) in &served.files {
        assert_eq!(fs::read(file).unwrap(), fs::read(served.root.join(name)).unwrap(), "{name}");
        assert_eq!(need::unreadable(&served.root.join(name)), None, "{name}");
    }
    // The script that writes an image is one that the console takes.
    let [script] = &served.scripts[..] else { panic!("{:?}", served.scripts) };
    let text = fs::read_to_string(script).unwrap();
    crate::console::Script::parse("install", &text).unwrap();
    let fetched = "fetch -qo - 'http://192.0.2.1:8080/bsdrp/BSDRP.img.xz'";
    assert!(text.contains(fetched) && text.contains("| { xz -dc;"), "{text}");
    assert!(!served.files.keys().any(|name| name.contains("install-")));
    // One service at a time.
    let busy = layout::make(&config, dir.path(), &needs, PLACE).unwrap_err();
    assert!(busy.contains("another weir pxe"), "{busy}");
    drop(served);
    // Made again, for another address, nothing of the old one is left.
    let place = Place { address: Ipv4Addr::new(192, 0, 2, 2), ..PLACE };
    let again = layout::make(&config, dir.path(), &needs, place).unwrap();
    assert!(!fs::read_to_string(again.root.join("boot.ipxe")).unwrap().contains("192.0.2.1:"));
}

#[test]
fn what_is_missing_is_told_with_its_source() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    fs::remove_file(dir.path().join("openbsd/bsd.rd")).unwrap();
    fs::write(dir.path().join("centos/vmlinuz"), "").unwrap();
    fs::set_permissions(dir.path().join("memtest.iso"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(dir.path().join("mfsbsd.img"), "no such text").unwrap();
    let needs = entry_needs(&full(), dir.path());
    let trouble: BTreeMap<&str, &str> = needs
        .iter()
        .filter_map(|need| Some((need.served_as.as_str(), need.trouble.as_deref()?)))
        .collect();
    assert_eq!(trouble.len(), 4, "{trouble:?}");
    assert_eq!(trouble["openbsd/bsd.rd"], "missing");
    assert_eq!(trouble["centos/vmlinuz"], "is empty");
    assert!(trouble["memtest/memtest.iso"].contains("chmod o+r"));
    assert!(trouble["mfsbsd/mfsbsd.img"].contains("no loader.conf of mfsBSD"));
    let bsd = needs.iter().find(|need| need.served_as == "openbsd/bsd.rd").unwrap();
    assert!(bsd.source.contains("cdn.openbsd.org"));
    fs::set_permissions(dir.path().join("debian"), fs::Permissions::from_mode(0o700)).unwrap();
    let linux = need::unreadable(&dir.path().join("debian/linux")).unwrap();
    assert!(linux.contains("chmod o+x"), "{linux}");
    // Boot loaders are those of Debian's packages.
    let all = need::needs(&full(), dir.path());
    let memdisk = all.iter().find(|need| need.served_as == "memdisk").unwrap();
    assert_eq!(memdisk.source, "Debian package syslinux-common");
}

#[test]
fn the_configuration_of_dnsmasq_is_for_one_interface_and_without_dns() {
    let root = Path::new("/srv/pxe/.weir-pxe/root");
    let text = configuration(&full(), "eth7", PLACE, root);
    for line in [
        "port=0",
        "interface=eth7",
        "bind-interfaces",
        "dhcp-range=192.0.2.100,192.0.2.150,600s",
        "dhcp-leasefile=/srv/pxe/.weir-pxe/leases",
        "tftp-root=/srv/pxe/.weir-pxe/root",
        "dhcp-option=option:router",
        "dhcp-option=option:dns-server,192.0.2.53",
        "dhcp-host=02:00:00:00:00:aa,set:host",
        "dhcp-boot=tag:bios,pxelinux.0",
        // What NetBSD's loader asks for itself, it gets by TFTP.
        "dhcp-vendorclass=set:netbsd,NetBSD:",
        "dhcp-boot=tag:netbsd,tftp:netbsd",
        "dhcp-boot=tag:efi,tag:!ipxe,ipxe.efi",
        "dhcp-boot=tag:efi,tag:ipxe,http://192.0.2.1:8080/boot.ipxe",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\nis not in\n{text}");
    }
    assert!(!text.contains("dhcp-ignore"));
    let only = Config { only_hosts: true, loader: Loader::Ipxe, ..full() };
    let text = configuration(&only, "eth7", PLACE, root);
    assert!(text.contains("dhcp-ignore=tag:!host\n"));
    assert!(text.contains("dhcp-boot=tag:bios,tag:!ipxe,undionly.kpxe\n"));
    let mut others = full();
    others.entries.retain(|entry| entry.name != "net");
    assert!(!configuration(&others, "eth7", PLACE, root).contains("netbsd"));
}

#[test]
fn names_that_dnsmasq_would_read_as_something_else_are_refused() {
    let dir = Path::new("/srv/rack 7/pxe");
    for name in ["eth7", "br-lan", "enp1s0f0.7", "veth0@x"] {
        assert_eq!(check_names(name, dir), Ok(()));
    }
    for name in ["", "eth*", "eth0,lo", "eth 0", "eth\"0", "eth#"] {
        let error = check_names(name, dir).unwrap_err();
        assert!(error.starts_with(&format!("`{name}`")), "{error}");
    }
    for dir in ["/srv/a #b", "/srv/a,b", "/srv/\"a\"", "/srv/a\\b", "/srv/a\nport=53"] {
        let error = check_names("eth7", Path::new(dir)).unwrap_err();
        assert!(error.contains("dnsmasq cannot take"), "{error}");
    }
}

/// Runs the line that writes an image, with stand-ins for what only a machine in a rack has, and
/// returns what it shows at the end.
fn written(image: &str, fetch: &str, dd: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let text = FULL.replace("BSDRP.img.xz", image);
    let config = Config::parse("pxe.toml", &text).unwrap();
    let script = script::install(&config, PLACE, config.entry("bsdrp").unwrap()).unwrap();
    crate::console::Script::parse("install", &script).unwrap();
    let steps: toml::Table = toml::from_str(&script).unwrap();
    let steps = steps["step"].as_array().unwrap();
    let [.., write, end] = &steps[..] else { panic!("{script}") };
    let line = write["send_line"].as_str().unwrap();
    assert!(line.len() < 255, "longer than a terminal takes: {line}");
    let status = dir.path().join("status").display().to_string();
    let line = line.replace(script::STATUS, &status);
    let shell = format!("fetch() {{ {fetch}; }}; dd() {{ {dd}; }}; {line}");
    let output = std::process::Command::new("sh").args(["-c", &shell]).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let matches = |pattern: &toml::Value| {
        regex::Regex::new(pattern.as_str().unwrap()).unwrap().is_match(&shown)
    };
    assert!(matches(&end["fail"][0]), "{shown}");
    let is_written = matches(&end["expect"]);
    assert_eq!(is_written, shown.starts_with("WEIR-ENDED 0 0 0\n") || shown == "WEIR-ENDED 0 0\n");
    // The terminal's echo of the line is neither.
    assert!(!regex::Regex::new(end["fail"][0].as_str().unwrap()).unwrap().is_match(&line));
    shown
}

#[test]
fn whatever_fails_while_an_image_is_written_is_told_by_its_exit_status() {
    let copy = "cat >/dev/null";
    assert_eq!(written("a.img", "echo image", copy), "WEIR-ENDED 0 0\n");
    assert_eq!(written("a.img.gz", "echo image | gzip", copy), "WEIR-ENDED 0 0 0\n");
    assert_eq!(written("a.img", "return 3", copy), "WEIR-ENDED 0 3\n");
    // What is fetched is not compressed.
    let shown = written("a.img.gz", "echo image", copy);
    assert!(shown.starts_with("WEIR-ENDED 0 ") && shown != "WEIR-ENDED 0 0 0\n", "{shown}");
    let shown = written("a.img", "echo image", "cat >/dev/null; return 7");
    assert!(shown.starts_with("WEIR-ENDED 7 "), "{shown}");
}

#[test]
fn leases_outlive_the_service_and_nothing_else_does() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let config = full();
    let needs = entry_needs(&config, dir.path());
    let served = layout::make(&config, dir.path(), &needs, PLACE).unwrap();
    let run_dir = served.run_dir.clone();
    let lease = "1700000000 52:54:00:12:34:56 192.0.2.119 * *\n";
    fs::write(run_dir.join("leases"), lease).unwrap();
    fs::write(run_dir.join("dnsmasq.conf"), "old").unwrap();
    fs::write(served.root.join("old"), "old").unwrap();
    drop(served);
    let again = layout::make(&config, dir.path(), &needs, PLACE).unwrap();
    assert_eq!(fs::read_to_string(run_dir.join("leases")).unwrap(), lease);
    assert!(!again.root.join("old").exists() && !run_dir.join("dnsmasq.conf").exists());
}

#[test]
fn the_log_tells_who_asked_for_what() {
    // As dnsmasq 2.90 writes it.
    let log = "\
dnsmasq[3198]: started, version 2.90 DNS disabled
dnsmasq-dhcp[3198]: DHCP, IP range 192.0.2.100 -- 192.0.2.150, lease time 10m
dnsmasq-dhcp[3198]: 4711 available DHCP range: 192.0.2.100 -- 192.0.2.150
dnsmasq-dhcp[3198]: 4711 vendor class: PXEClient:Arch:00000:UNDI:002001
dnsmasq-dhcp[3198]: 4711 DHCPDISCOVER(br0) 52:54:00:12:34:56
dnsmasq-dhcp[3198]: 4711 tags: bios, br0
dnsmasq-dhcp[3198]: 4711 DHCPOFFER(br0) 192.0.2.119 52:54:00:12:34:56
dnsmasq-dhcp[3198]: 4711 DHCPREQUEST(br0) 192.0.2.119 52:54:00:12:34:56
dnsmasq-dhcp[3198]: 4711 DHCPACK(br0) 192.0.2.119 52:54:00:12:34:56
dnsmasq-dhcp: 9 DHCPDISCOVER(br0) 52:54:00:12:34:57 no address available
dnsmasq-dhcp[3198]: 10 DHCPDISCOVER(br0) 52:54:00:12:34:58 ignored
dnsmasq-dhcp[3198]: 11 DHCPNAK(br0) 192.0.9.1 52:54:00:12:34:59 wrong network
dnsmasq-tftp[3198]: sent /srv/root/pxelinux.0 to 192.0.2.119
dnsmasq-tftp[3198]: file /srv/root/pxelinux.cfg/01-52-54-00-12-34-56 not found for 192.0.2.119
dnsmasq-tftp[3198]: file /srv/root/bsd.mp not found for 192.0.2.119
dnsmasq-tftp[3198]: error 0 TFTP Aborted received from 192.0.2.119
dnsmasq-tftp[3198]: failed sending /srv/root/debian/linux to 192.0.2.119
";
    let mut follower = Follower::new(Path::new("/srv/root"));
    let events: Vec<Event> = log.lines().filter_map(|line| follower.line(line)).collect();
    let address = Ipv4Addr::new(192, 0, 2, 119);
    let refused =
        |mac: &str, reason: &str| Event::Refused { mac: mac.into(), reason: reason.into() };
    let expected = [
        Event::Asked {
            mac: "52:54:00:12:34:56".into(),
            firmware: Some("PXEClient:Arch:00000:UNDI:002001".into()),
        },
        Event::Address { mac: "52:54:00:12:34:56".into(), address },
        refused("52:54:00:12:34:57", "no address left in the range"),
        refused("52:54:00:12:34:58", "only machines of [[host]] are answered"),
        refused("52:54:00:12:34:59", "wrong network"),
        Event::Sent { address, file: "pxelinux.0".into() },
        Event::Looked { address, file: "pxelinux.cfg/01-52-54-00-12-34-56".into() },
        Event::Missing { address, file: "bsd.mp".into() },
        Event::Broken { address, reason: "error 0 TFTP Aborted received from 192.0.2.119".into() },
        Event::Broken {
            address,
            reason: "failed sending /srv/root/debian/linux to 192.0.2.119".into(),
        },
    ];
    assert_eq!(events, expected);
}

#[test]
fn http_serves_the_list_and_tells_every_request() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kernel");
    let content = vec![7_u8; 600_000];
    fs::write(&file, &content).unwrap();
    let (sender, asked) = mpsc::channel();
    let files = BTreeMap::from([("debian/linux".to_owned(), file)]);
    let any = "127.0.0.1:0".parse().unwrap();
    let address = http::serve(any, Some("lo"), files, sender).unwrap();
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    };
    let get = |method: &str, path: &str| {
        ask(&format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    };
    let report = || asked.recv_timeout(Duration::from_secs(60)).unwrap();
    let answer = get("GET", "/debian/linux");
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert!(answer.ends_with(&content));
    let sent = report();
    assert_eq!((sent.status, sent.state, sent.sent_bytes), (200, State::Sent, 600_000));
    let answer = String::from_utf8(get("HEAD", "/debian/linux")).unwrap();
    assert!(
        answer.contains("content-length: 600000\r\n") && answer.ends_with("\r\n\r\n"),
        "{answer}"
    );
    let size = report();
    assert_eq!((size.state, size.size_bytes, size.sent_bytes), (State::SizeOnly, 600_000, 0));
    for path in ["/", "/debian", "/../etc/passwd", "/debian/../debian/linux"] {
        let answer = get("GET", path);
        assert!(answer.starts_with(b"HTTP/1.1 404 "), "{}", String::from_utf8_lossy(&answer));
        let report = report();
        assert_eq!((report.status, format!("/{}", report.file).as_str()), (404, path));
    }
    assert!(get("POST", "/debian/linux").starts_with(b"HTTP/1.1 405 "));
    assert!(ask("rubbish\r\n\r\n").starts_with(b"HTTP/1.1 400 "));
}

#[test]
fn a_transfer_that_breaks_off_is_told_as_that() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("image");
    let size_bytes = 512 << 20;
    // A hole: more than all buffers on the way hold.
    fs::File::create(&file).unwrap().set_len(size_bytes).unwrap();
    let (sender, asked) = mpsc::channel();
    let files = BTreeMap::from([("bsdrp/image".to_owned(), file)]);
    let address = http::serve("127.0.0.1:0".parse().unwrap(), None, files, sender).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /bsdrp/image HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let report = || asked.recv_timeout(Duration::from_secs(60)).unwrap();
    stream.read_exact(&mut [0; 4096]).unwrap();
    // It takes a while, so that it began is told as well.
    assert_eq!((report().state, reports_nothing(&asked)), (State::Begun, true));
    drop(stream);
    let broken = report();
    assert_eq!((broken.state, broken.size_bytes), (State::Broken, size_bytes));
    assert!((1..size_bytes).contains(&broken.sent_bytes), "{broken:?}");
}

#[test]
fn what_became_of_a_file_keeps_its_word() {
    let states = [State::Begun, State::Sent, State::Broken, State::SizeOnly, State::Refused];
    let words = r#"["begun","sent","broken","told","refused"]"#;
    assert_eq!(serde_json::to_string(&states).unwrap(), words);
}

fn reports_nothing(asked: &mpsc::Receiver<http::Asked>) -> bool {
    asked.try_recv().is_err()
}

#[test]
fn what_cannot_be_served_is_refused_by_name() {
    let serve = "[serve]\nrange = \"192.0.2.100-192.0.2.150\"\n";
    let local = "[[entry]]\nname = \"l\"\nkind = \"local\"\n";
    let openbsd = |name: &str| {
        format!(
            "[[entry]]\nname = \"{name}\"\nkind = \"openbsd\"\npxeboot = \"p\"\nkernel = \"k\"\n"
        )
    };
    let entry = |text: &str| format!("{serve}[[entry]]\n{text}");
    let cases = [
        (local.to_owned(), "serve"),
        (serve.to_owned(), "no [[entry]]"),
        (format!("[serve]\nrange = \"192.0.2.9-192.0.2.1\"\n{local}"), "above"),
        (format!("[serve]\nrange = \"192.0.2.0/24\"\n{local}"), "is not a range"),
        (format!("[serve]\nrange = \"192.0.2.9-198.51.100.1\"\n{local}"), "in one network"),
        (format!("{serve}gateway = \"192.0.2.100\"\n{local}"), "gateway: 192.0.2.100 is in the"),
        (format!("{serve}gateway = \"10.0.0.1\"\n{local}"), "gateway: 10.0.0.1 and the range"),
        (format!("{serve}lease = \"10s\"\n{local}"), "shortest"),
        (format!("{serve}only_hosts = true\n{local}"), "no machine would be"),
        (format!("{serve}tftp = 69\n{local}"), "tftp"),
        (format!("{serve}[serial]\nspeed = 110\n{local}"), "[serial]"),
        (format!("{serve}[menu]\ndefault = \"x\"\n{local}"), "no entry `x`"),
        (format!("{serve}[menu]\ntimeout = \"3s\"\n{local}"), "needs a `default`"),
        (format!("{serve}{local}{local}"), "two with that name"),
        (format!("{serve}{}{}", openbsd("o1"), openbsd("o2")), "directory of its own"),
        (format!("{serve}{local}[[host]]\nmac = \"2\"\nentry = \"l\"\n"), "[[host]] 2"),
        (entry("name = \"a\"\nkind = \"plan9\"\n"), "`plan9` is not a kind"),
        (entry("name = \"a b\"\nkind = \"local\"\n"), "a-z"),
        (entry("name = \"menu\"\nkind = \"local\"\n"), "taken"),
        (entry("name = \"a\"\nkind = \"local\"\nkernel = \"x\"\n"), "no field `kernel`"),
        (entry("name = \"a\"\nkind = \"linux\"\n"), "`kernel` is missing"),
        (entry("name = \"a\"\nkind = \"linux\"\nkernel = \"a\\nb\"\n"), "control"),
        (entry("name = \"a\"\nkind = \"mfsbsd\"\nimage = \"m.img.gz\"\n"), "unpack"),
        (
            entry(
                "name = \"a\"\nkind = \"image\"\nimage = \"i\"\nhelper = \"x\"\ndisk = \"ada0\"\n",
            ),
            "no entry `x`",
        ),
        (
            entry(
                "name = \"a\"\nkind = \"image\"\nimage = \"i\"\nhelper = \"a\"\ndisk = \"a;b\"\n",
            ),
            "is not a FreeBSD disk",
        ),
    ];
    for (text, part) in cases {
        assert_refused(&text, part);
    }
    assert!(matches!(full().entry("memtest").unwrap().kind, Kind::Memdisk { .. }));
}

#[track_caller]
fn assert_refused(text: &str, part: &str) {
    let error = Config::parse("pxe.toml", text).unwrap_err();
    assert!(error.starts_with("pxe.toml: ") && error.contains(part), "{text}\n{error}");
}

#[test]
fn what_a_boot_loader_would_read_as_something_else_is_refused() {
    let serve = "[serve]\nrange = \"192.0.2.100-192.0.2.150\"\n";
    let local = "[[entry]]\nname = \"l\"\nkind = \"local\"\n";
    let entry = |text: &str| format!("{serve}[[entry]]\n{text}");
    let cases = [
        (entry("name = \"memdisk\"\nkind = \"local\"\n"), "taken"),
        (entry("name = \"needs-bios\"\nkind = \"local\"\n"), "taken"),
        (entry("name = \"a\"\nkind = \"local\"\ntitle = \"Debian && more\"\n"), "take `&&`"),
        (entry("name = \"a\"\nkind = \"local\"\ntitle = \"a || b\"\n"), "take `||`"),
        (entry("name = \"a\"\nkind = \"local\"\ntitle = \"for ${user}\"\n"), "take `${`"),
        (entry("name = \"a\"\nkind = \"local\"\ntitle = \"rack #7\"\n"), "take `#7`"),
        (entry("name = \"a\"\nkind = \"local\"\ntitle = \"a ^b\"\n"), "no `^`"),
        (format!("{serve}[menu]\ntitle = \"a && b\"\n{local}"), "[menu] title: `a && b`"),
        (
            entry("name = \"a\"\nkind = \"linux\"\nkernel = \"k\"\nappend = \"x || reboot\"\n"),
            "take `||`",
        ),
        (entry("name = \"a\"\nkind = \"linux\"\nkernel = \"my kernel\"\n"), "rename it"),
        (entry("name = \"a\"\nkind = \"linux\"\nkernel = \"d/..\"\n"), "rename it"),
        (
            entry("name = \"a\"\nkind = \"linux\"\nkernel = \"k\"\ninitrd = [\"i\", \"a,b\"]\n"),
            "`a,b`",
        ),
        (
            entry("name = \"a\"\nkind = \"linux\"\nkernel = \"k\"\ninitrd = [\"1/i\", \"2/i\"]\n"),
            "the same name",
        ),
        (entry("name = \"a\"\nkind = \"memdisk\"\nimage = \"100%.img\"\n"), "`100%.img`"),
    ];
    for (text, part) in cases {
        assert_refused(&text, part);
    }
}
