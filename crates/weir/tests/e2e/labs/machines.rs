//! Machines behind real sshds: reached, run on, written to, rebooted, and lost in every way.

use std::time::{Duration, Instant};
use std::{fs, thread};

use weir_machine::access::{BoxSpec, Online, RemoteSpec, Reset, Upload, UploadMethod};
use weir_machine::cancel::Cancel;
use weir_machine::host::{Command, Host, HostError, Output, Program};
use weir_machine::ssh::machine::Machine;
use weir_machine::ssh::profile::Profiler;
use weir_machine::ssh::{Secrets, SshHost, connect, system};
use weir_results::content::Content;
use weir_results::dut::{System, Tree, TreeFile};

use super::ssh_hosts::{Next, SshHosts, skipped};

const LONG: Duration = Duration::from_secs(60);

fn remote(hosts: &SshHosts, name: &str) -> RemoteSpec {
    let (name, config) = (name.to_owned(), Some(hosts.config()));
    RemoteSpec { ssh: Some(name.clone()), name, config, processes: Vec::new() }
}

fn open(hosts: &SshHosts, name: &str) -> SshHost {
    connect(&remote(hosts, name), &Secrets::default(), &Cancel::default()).unwrap()
}

/// The DUT, with the resets that a test wants.
fn machine(hosts: &SshHosts, change: impl FnOnce(&mut BoxSpec)) -> Machine {
    let mut spec = BoxSpec {
        remote: remote(hosts, "dut"),
        system: System::Linux,
        receives: vec!["dut0".to_owned()],
        sends: vec!["dut1".to_owned()],
        reboot: Reset::Ssh { command: None },
        power: Reset::None,
        boot_timeout: LONG,
        boot_time: Duration::from_secs(1),
        online: Online { ping: None, command: None },
        upload: Upload { method: UploadMethod::Auto, before: None, after: None },
    };
    change(&mut spec);
    Machine::new(&spec, &Secrets::default(), &Cancel::default())
}

fn shell(line: &str) -> Command<'_> {
    Command { program: Program::Shell(line), stdin: "", timeout: LONG, cancellable: true }
}

fn run(host: &dyn Host, line: &str) -> Output {
    host.run(&shell(line)).unwrap()
}

fn tree(files: &[(&str, u32, &str)]) -> Tree {
    let file = |&(path, mode, text): &(&str, u32, &str)| TreeFile {
        path: path.to_owned(),
        mode,
        content: Content::new(text.as_bytes()),
    };
    Tree { path: "configs/test".to_owned(), files: files.iter().map(file).collect() }
}

/// Waits until something holds.
#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come true");
        thread::sleep(Duration::from_millis(20));
    }
}

/// An error with all of these in its text.
#[track_caller]
fn assert_says(error: &HostError, words: &[&str]) {
    for word in words {
        assert!(error.to_string().contains(word), "no {word:?} in: {error}");
    }
}

#[test]
fn a_machine_is_used_like_any_host() {
    let Some(hosts) = SshHosts::start("a_machine_is_used_like_any_host") else { return };
    let dut = open(&hosts, "dut");
    assert_eq!(dut.system().unwrap(), System::Linux);
    let output = run(&dut, "hostname; echo err >&2; exit 255");
    assert_eq!(output.exit_code, Some(255), "ssh's own exit code is distinguished: {output:?}");
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("dut\n", "err\n"));
    let command = Command { stdin: "from here", ..shell("cat") };
    assert_eq!(dut.run(&command).unwrap().stdout, "from here");
    let path = dut.write_file("rules.nft", "table inet a\n").unwrap();
    assert_eq!(run(&dut, &format!("cat {path}")).stdout, "table inet a\n");
    dut.set_sysctl("net.ipv4.ip_forward", "1").unwrap();
    assert_eq!(dut.sysctl("net.ipv4.ip_forward").unwrap(), "1");
    assert_eq!(dut.sysctls().unwrap()["net.ipv4.ip_forward"], "1");
    assert!(dut.stack_counters().unwrap()["ip"].contains_key("Ip.InHdrErrors"));

    let mut process = dut.spawn("sleep 1000 & echo $! >pid; echo started; wait", "p.log").unwrap();
    until("its start", || run(&dut, "cat pid").success());
    assert_eq!(process.ended().unwrap(), None);
    process.stop(Duration::from_secs(2)).unwrap();
    until("its end", || !run(&dut, "kill -0 $(cat pid)").success());
    let artefacts = dut.take_artefacts();
    // The shell may say as well that its child was terminated.
    assert!(artefacts.len() == 1 && artefacts[0].0 == "p.log", "{artefacts:?}");
    assert!(artefacts[0].1.starts_with(b"started\n"), "{artefacts:?}");
    assert!(!String::from_utf8_lossy(&artefacts[0].1).contains("weir-end"), "{artefacts:?}");

    let log = dut.take_log();
    assert!(log.lines().all(|line| line.split('\t').count() == 6), "{log}");
    assert!(log.contains("exit code 255\thostname; echo err >&2; exit 255\tdut\\nerr"), "{log}");
    let directory = dut.directory().to_owned();
    drop(dut);
    let other = open(&hosts, "dut");
    assert!(!run(&other, &format!("ls {directory}")).success(), "{directory} is left");
}

#[test]
fn several_machines_and_commands_at_once_share_their_connections() {
    let name = "several_machines_and_commands_at_once_share_their_connections";
    let Some(hosts) = SshHosts::start(name) else { return };
    let machines: Vec<SshHost> = ["gen", "dut", "recv"].map(|n| open(&hosts, n)).into();
    thread::scope(|scope| {
        for host in &machines {
            for number in 0..4 {
                scope.spawn(move || {
                    let output = run(host, &format!("sleep 0.1; hostname; echo {number}"));
                    assert_eq!(output.stdout, format!("{}\n{number}\n", host.name()));
                });
            }
        }
    });
    for host in &machines {
        let count = run(host, "grep -c 'Accepted publickey' /run/sshd.log").stdout;
        assert_eq!(count.trim(), "1", "{} was logged in to more than once", host.name());
    }
}

#[test]
fn a_wrong_host_key_is_refused_with_its_place() {
    let Some(hosts) = SshHosts::start("a_wrong_host_key_is_refused_with_its_place") else { return };
    hosts.forget_host_key("dut");
    let error =
        connect(&remote(&hosts, "dut"), &Secrets::default(), &Cancel::default()).unwrap_err();
    assert!(error.is_gone(), "{error}");
    let known = hosts.dir().join("known_hosts");
    assert_says(
        &error,
        &["dut: connecting: the host key", &known.to_string_lossy(), "ssh-keygen -R"],
    );
    fs::write(&known, "").unwrap();
    let error =
        connect(&remote(&hosts, "dut"), &Secrets::default(), &Cancel::default()).unwrap_err();
    assert_says(&error, &["not known here", "accept it"]);
    assert_eq!(fs::read_to_string(&known).unwrap(), "", "no key is accepted unseen");
}

#[test]
fn a_refused_key_is_reported_with_what_to_do() {
    let Some(hosts) = SshHosts::start("a_refused_key_is_reported_with_what_to_do") else { return };
    hosts.dut().refuse_keys();
    let error =
        connect(&remote(&hosts, "dut"), &Secrets::default(), &Cancel::default()).unwrap_err();
    assert!(error.is_gone(), "{error}");
    assert_says(&error, &["dut: connecting:", "refuses the login", "ssh-copy-id dut", "BatchMode"]);
}

#[test]
fn a_machine_that_is_down_at_the_start_is_reported() {
    let Some(hosts) = SshHosts::start("a_machine_that_is_down_at_the_start_is_reported") else {
        return;
    };
    hosts.dut().start_without_sshd(true);
    hosts.dut().crash();
    hosts.dut().wait_for_boot(2);
    let host = SshHost::new(&remote(&hosts, "dut"), &Secrets::default(), &Cancel::default());
    let host = host.patience(Duration::from_secs(2), Duration::from_secs(2));
    let error = host.connect().unwrap_err();
    assert!(error.is_gone(), "{error}");
    assert_says(&error, &["dut: connecting: dut", "ssh -F"]);
    let error = host.wait_online(Instant::now() + Duration::from_secs(3)).unwrap_err();
    assert!(error.is_gone(), "{error}");
    assert_says(&error, &["waiting for SSH"]);
    // It is found when it comes.
    hosts.dut().start_without_sshd(false);
    hosts.dut().crash();
    host.wait_online(Instant::now() + LONG).unwrap();
    assert_eq!(run(&host, "hostname").stdout, "dut\n");
}

#[test]
fn a_machine_that_is_gone_in_the_middle_is_reported_and_found_again() {
    let name = "a_machine_that_is_gone_in_the_middle_is_reported_and_found_again";
    let Some(hosts) = SshHosts::start(name) else { return };
    let dut = open(&hosts, "dut");
    let mut process = dut.spawn("sleep 1000", "p.log").unwrap();
    let error = thread::scope(|scope| {
        let sleeping = scope.spawn(|| dut.run(&shell("echo begun >>/etc/begun; sleep 1000")));
        until("its begin", || hosts.dut().path("/etc/begun").exists());
        hosts.dut().crash();
        sleeping.join().unwrap().unwrap_err()
    });
    assert!(error.is_gone(), "{error}");
    assert_says(&error, &["dut: the connection broke while `echo begun", "console", "uptime"]);
    let error = process.stop(Duration::from_secs(1)).unwrap_err();
    assert!(error.is_gone(), "{error}");
    hosts.dut().wait_for_boot(2);
    dut.wait_online(Instant::now() + LONG).unwrap();
    assert_eq!(run(&dut, "cat /etc/begun").stdout, "begun\n", "nothing is run twice");
}

#[test]
fn a_silent_machine_is_given_up_and_ends_what_ran_there() {
    let name = "a_silent_machine_is_given_up_and_ends_what_ran_there";
    let Some(hosts) = SshHosts::start(name) else { return };
    let dut = SshHost::new(&remote(&hosts, "dut"), &Secrets::default(), &Cancel::default());
    let dut = dut.patience(Duration::from_secs(2), Duration::from_secs(1));
    dut.connect().unwrap();
    let mut process = dut.spawn("echo $$ >/etc/pid; sleep 1000", "p.log").unwrap();
    until("its start", || hosts.dut().path("/etc/pid").exists());
    // The cable to the manager is pulled: nothing arrives any more, no end either.
    hosts.pull_cable("dut", true);
    let mut error = None;
    until("the loss", || {
        error = process.ended().err();
        error.is_some()
    });
    let error = error.unwrap();
    assert!(error.is_gone(), "{error}");
    assert_says(&error, &["the connection broke while `echo $$"]);
    hosts.pull_cable("dut", false);
    dut.wait_online(Instant::now() + LONG).unwrap();
    assert_eq!(hosts.dut().boots(), 1);
    until("the end of what ran", || !run(&dut, "kill -0 $(cat /etc/pid)").success());
}

#[test]
fn a_tree_is_uploaded_and_in_effect_after_a_reboot() {
    let name = "a_tree_is_uploaded_and_in_effect_after_a_reboot";
    let Some(hosts) = SshHosts::start(name) else { return };
    let forwarding = "net.ipv4.ip_forward";
    for (round, method) in [UploadMethod::Tar, UploadMethod::Rsync].into_iter().enumerate() {
        if method == UploadMethod::Rsync && !run(&open(&hosts, "gen"), "command -v rsync").success()
        {
            // Counted as a test that ran in part: tar is what every machine has.
            break;
        }
        let machine = machine(&hosts, |spec| spec.upload.method = method);
        machine.connect().unwrap();
        let value = (1 - round).to_string();
        let long = format!("etc/weir.d/{}/{}", "d".repeat(60), "f".repeat(60));
        let mode = run(&machine, "stat -c %a / /etc /root").stdout;
        let files = [
            ("etc/rc.local", 0o755, "#!/bin/sh\necho ran >>/etc/ran\n".to_owned()),
            ("etc/sysctl.conf", 0o644, format!("{forwarding} = {value}\n")),
            ("root/it's a \"file\"", 0o600, "ä\n".to_owned()),
            (long.as_str(), 0o640, "x".repeat(100_000)),
        ];
        let files: Vec<_> = files.iter().map(|(p, m, t)| (*p, *m, t.as_str())).collect();
        machine.upload(&tree(&files)).unwrap();
        machine.write_file("passing", "x").unwrap();
        machine.fresh().unwrap();
        let boots = u32::try_from(round).unwrap() + 2;
        assert_eq!(hosts.dut().boots(), boots);
        assert_eq!(machine.sysctl(forwarding).unwrap(), value);
        assert_eq!(run(&machine, "grep -c ran /etc/ran").stdout, format!("{}\n", boots - 1));
        assert_eq!(run(&machine, &format!("stat -c %a /{long}")).stdout, "640\n");
        assert_eq!(run(&machine, "cat \"/root/it's a \\\"file\\\"\"").stdout, "ä\n");
        assert_eq!(run(&machine, "stat -c %a / /etc /root").stdout, mode, "of directories");
        assert!(!run(&machine, "cat passing").success(), "/tmp is empty after a start");
        let log = machine.take_log();
        assert!(log.contains("(rebooted)\t"), "{log}");
        let times: Vec<&str> = log.lines().filter_map(|line| line.split('\t').next()).collect();
        assert!(times.is_sorted(), "{log}");
    }
}

#[test]
fn the_read_only_root_of_a_nanobsd_is_as_it_was_after_an_upload() {
    let name = "the_read_only_root_of_a_nanobsd_is_as_it_was_after_an_upload";
    let Some(hosts) = SshHosts::start(name) else { return };
    let machine = machine(&hosts, |spec| spec.system = System::Freebsd);
    machine.host().wait_online(Instant::now() + LONG).unwrap();
    let tools = [
        ("mount", "[ \"$1\" != -p ] || { echo /dev/ada0s1a / ufs $(cat /etc/mode) 1 1; exit; }"),
        ("config", ":"),
    ];
    for (tool, line) in tools {
        let script = format!("#!/bin/sh\n{line}\necho {tool} \"$@\" >>/etc/order\n");
        let path = format!("/usr/local/bin/{tool}");
        fs::write(hosts.dut().path(&path), script).unwrap();
        run(&machine, &format!("chmod 755 {path}"));
    }
    run(&machine, "echo ro >/etc/mode");
    machine.upload(&tree(&[("etc/rc.conf", 0o644, "x\n")])).unwrap();
    let done = "mount -uw /\nconfig save\nmount -ur /\n";
    assert_eq!(run(&machine, "cat /etc/order; rm /etc/order").stdout, done);
    // What did not arrive is not saved.
    let error = machine.upload(&tree(&[("etc/rc.conf/x", 0o644, "x\n")])).unwrap_err();
    assert_says(&error, &["uploading the 1 files"]);
    assert_eq!(run(&machine, "cat /etc/order; rm /etc/order").stdout, "mount -uw /\nmount -ur /\n");
    // One that was cut off has left it writable.
    run(&machine, "echo rw >/etc/mode; : >/etc/nanobsd.conf");
    machine.upload(&tree(&[("etc/rc.conf", 0o644, "y\n")])).unwrap();
    assert_eq!(run(&machine, "cat /etc/order; rm /etc/order").stdout, "config save\nmount -ur /\n");
    // Others have nothing to save.
    run(&machine, "rm /etc/nanobsd.conf");
    machine.upload(&tree(&[("etc/rc.conf", 0o644, "z\n")])).unwrap();
    assert!(!run(&machine, "cat /etc/order").success(), "nothing was done around it");
}

#[test]
fn the_commands_around_an_upload_run_there() {
    let Some(hosts) = SshHosts::start("the_commands_around_an_upload_run_there") else { return };
    let machine = machine(&hosts, |spec| {
        spec.upload.before = Some("echo before >>/etc/order".to_owned());
        spec.upload.after = Some("cat /etc/weir.conf >>/etc/order".to_owned());
    });
    machine.connect().unwrap();
    machine.upload(&tree(&[("etc/weir.conf", 0o644, "after\n")])).unwrap();
    assert_eq!(run(&machine, "cat /etc/order").stdout, "before\nafter\n");
    // A read-only root is reported, and the machine is left as the command after the upload
    // leaves it.
    run(&machine, "mkdir -p /etc/ro && mount -t tmpfs -o ro none /etc/ro");
    let error = machine.upload(&tree(&[("etc/ro/weir.conf", 0o644, "x")])).unwrap_err();
    assert_says(&error, &["uploading the 1 files of configs/test", "read-only", "mount -uw /"]);
    assert_eq!(run(&machine, "cat /etc/order").stdout, "before\nafter\n".repeat(2));
    // If that fails as well, both are reported.
    run(&machine, "rm /etc/weir.conf");
    let error = machine.upload(&tree(&[("etc/ro/weir.conf", 0o644, "x")])).unwrap_err();
    assert_says(
        &error,
        &["uploading the 1 files", "read-only", "And after that: the command after"],
    );
    assert_says(&error, &["`after_upload`", "No such file"]);
}

#[test]
fn what_runs_before_an_upload_is_undone_when_it_fails() {
    let name = "what_runs_before_an_upload_is_undone_when_it_fails";
    let Some(hosts) = SshHosts::start(name) else { return };
    let machine = machine(&hosts, |spec| {
        spec.upload.before =
            Some("echo before >>/etc/order; echo no such mount >&2; exit 1".into());
        spec.upload.after = Some("echo after >>/etc/order".to_owned());
    });
    machine.connect().unwrap();
    let error = machine.upload(&tree(&[("etc/weir.conf", 0o644, "x")])).unwrap_err();
    assert_says(&error, &["the command before the upload", "`before_upload`", "no such mount"]);
    assert_eq!(run(&machine, "cat /etc/order").stdout, "before\nafter\n");
    assert!(!run(&machine, "cat /etc/weir.conf").success(), "nothing was carried");
}

#[test]
fn an_upload_onto_a_full_disk_is_reported() {
    let name = "an_upload_onto_a_full_disk_is_reported";
    let Some(hosts) = SshHosts::start_with_disks_of(name, "4m") else { return };
    let large = "x".repeat(8 << 20);
    for method in [UploadMethod::Tar, UploadMethod::Auto] {
        let machine = machine(&hosts, |spec| spec.upload.method = method);
        machine.connect().unwrap();
        let error = machine.upload(&tree(&[("etc/large", 0o644, &large)])).unwrap_err();
        assert!(!error.is_gone(), "{error}");
        assert_says(&error, &["dut: uploading the 1 files", "disk is full", "make room", "df -k"]);
        run(&machine, "rm -f /etc/large");
    }
}

#[test]
fn an_upload_that_is_cut_off_is_reported() {
    let Some(hosts) = SshHosts::start("an_upload_that_is_cut_off_is_reported") else { return };
    let machine = machine(&hosts, |spec| spec.upload.method = UploadMethod::Tar);
    machine.connect().unwrap();
    // A tar that takes a part and is content with it: only a comparison shows that.
    let fake = "cat >/usr/local/bin/tar; chmod 755 /usr/local/bin/tar";
    let script = "#!/bin/sh\nhead -c 700 | /usr/bin/tar \"$@\" 2>/dev/null\ncat >/dev/null\n";
    assert!(machine.run(&Command { stdin: script, ..shell(fake) }).unwrap().success());
    let error = machine.upload(&tree(&[("etc/weir.conf", 0o644, &"y".repeat(5_000))])).unwrap_err();
    assert_says(&error, &["/etc/weir.conf did not arrive as it was sent", "5000 bytes", "cut off"]);
    run(&machine, "rm /usr/local/bin/tar");

    // The machine dies while it takes an image.
    let image = hosts.dir().join("image");
    fs::write(&image, vec![1; 8 << 20]).unwrap();
    let line = "touch /etc/begun; sleep 1000; cat >/etc/image";
    let error = thread::scope(|scope| {
        let feeding = scope.spawn(|| machine.feed(line, &image, LONG));
        until("its begin", || hosts.dut().path("/etc/begun").exists());
        hosts.dut().crash();
        hosts.dut().wait_for_boot(2);
        feeding.join().unwrap().unwrap_err()
    });
    assert!(error.is_gone(), "{error}");
    assert_says(&error, &["the connection broke while `touch /etc/begun"]);
}

#[test]
fn an_image_whose_way_is_cut_is_not_installed() {
    let name = "an_image_whose_way_is_cut_is_not_installed";
    let Some(hosts) = SshHosts::start(name) else { return };
    let dut = SshHost::new(&remote(&hosts, "dut"), &Secrets::default(), &Cancel::default());
    let dut = dut.patience(Duration::from_secs(2), Duration::from_secs(1));
    dut.connect().unwrap();
    let image = hosts.dir().join("image");
    fs::write(&image, vec![1; 8 << 20]).unwrap();
    let line = "touch /etc/begun; while ! test -e /etc/go; do sleep 0.1; done; cat >/etc/image; \
                touch /etc/whole";
    let error = thread::scope(|scope| {
        let feeding = scope.spawn(|| dut.feed(line, &image, LONG));
        until("its begin", || hosts.dut().path("/etc/begun").exists());
        hosts.pull_cable("dut", true);
        feeding.join().unwrap().unwrap_err()
    });
    assert!(error.is_gone(), "{error}");
    // What was under way is read, and then there is neither more nor an end.
    fs::write(hosts.dut().path("/etc/go"), "").unwrap();
    hosts.pull_cable("dut", false);
    dut.wait_online(Instant::now() + LONG).unwrap();
    until("the end of what ran", || !run(&dut, "pgrep -f 'touch /etc/whol[e]'").success());
    assert!(!run(&dut, "test -e /etc/whole").success(), "it saw an end of its input");
}

#[test]
fn a_machine_that_never_comes_back_is_gone_unless_its_power_can_be_switched() {
    let name = "a_machine_that_never_comes_back_is_gone_unless_its_power_can_be_switched";
    let Some(hosts) = SshHosts::start(name) else { return };
    let short = Duration::from_secs(4);
    let power = Reset::Command { command: hosts.power_command("dut") };
    let without = machine(&hosts, |spec| spec.boot_timeout = short);
    without.connect().unwrap();
    hosts.dut().then(Next::StayOff);
    let error = without.fresh().unwrap_err();
    assert!(error.is_gone(), "{error}");
    assert_says(&error, &["dut: rebooting: it is not online after 4s", "console", "resume"]);

    // Its power is switched once, and that is not enough.
    let with = machine(&hosts, |spec| {
        spec.boot_timeout = short;
        spec.power = power.clone();
    });
    let error = with.fresh().unwrap_err();
    assert!(error.is_gone(), "{error}");
    assert_says(&error, &["rebooting, and switching its power", "boot_timeout"]);
    let log = with.take_log();
    assert_eq!(log.matches("\tmanager\t").count(), 1, "{log}");
    assert_eq!(hosts.dut().boots(), 1);

    // A switch that refuses leaves it as gone as it was, with both reasons.
    let refused = machine(&hosts, |spec| {
        spec.boot_timeout = short;
        spec.power = Reset::Command { command: "echo no outlet >&2; exit 3".to_owned() };
    });
    let error = refused.fresh().unwrap_err();
    assert!(error.is_gone(), "{error}");
    assert_says(&error, &["dut: rebooting: it is not online", "And ", "no outlet"]);

    // And this time it is.
    hosts.dut().then(Next::Start);
    hosts.dut().wait_for_boot(2);
    let patient = machine(&hosts, |spec| {
        spec.boot_timeout = Duration::from_secs(10);
        spec.power = power;
    });
    patient.host().wait_online(Instant::now() + LONG).unwrap();
    patient.connect().unwrap();
    hosts.dut().then(Next::WaitForPower);
    patient.fresh().unwrap();
    assert_eq!(hosts.dut().boots(), 3);
    assert_eq!(run(&patient, "hostname").stdout, "dut\n");
}

#[test]
fn an_answer_does_not_prove_a_reboot() {
    let Some(hosts) = SshHosts::start("an_answer_does_not_prove_a_reboot") else { return };
    // Nobody answers when it is asked for, and later the same start as before does.
    let asked = hosts.dir().join("asked");
    let answered_later = |machine: &Machine| {
        machine.host().disconnect();
        hosts.refuse_connections("dut", true);
        let result = thread::scope(|scope| {
            let rebooting = scope.spawn(|| machine.fresh());
            until("its reboot", || asked.exists());
            hosts.refuse_connections("dut", false);
            rebooting.join().unwrap()
        });
        fs::remove_file(&asked).unwrap();
        result
    };
    let idle = |spec: &mut BoxSpec| {
        spec.reboot = Reset::Command { command: format!("touch {}", asked.display()) };
        spec.boot_timeout = Duration::from_secs(5);
    };
    let known = machine(&hosts, idle);
    known.connect().unwrap();
    let error = answered_later(&known).unwrap_err();
    assert_says(&error, &["it is still up and has not been down", "correct `reboot`"]);
    // A machine that was never seen before: it is up for longer than it was waited for.
    let error = answered_later(&machine(&hosts, idle)).unwrap_err();
    assert_says(&error, &["it is still up and has not been down", "correct `reboot`"]);
    assert_eq!(hosts.dut().boots(), 1);
}

#[test]
fn a_reboot_that_could_not_be_asked_for_is_asked_for_again() {
    let name = "a_reboot_that_could_not_be_asked_for_is_asked_for_again";
    let Some(hosts) = SshHosts::start(name) else { return };
    let machine = machine(&hosts, |_| {});
    machine.connect().unwrap();
    machine.host().disconnect();
    hosts.refuse_connections("dut", true);
    thread::scope(|scope| {
        let rebooting = scope.spawn(|| machine.fresh());
        // The question for its start, and one at least for its reboot.
        until("refusals", || hosts.refused("dut") >= 2);
        hosts.refuse_connections("dut", false);
        rebooting.join().unwrap().unwrap();
    });
    assert_eq!(hosts.dut().boots(), 2, "it was rebooted");
    // And if that does not help, it says so.
    let short = self::machine(&hosts, |spec| spec.boot_timeout = Duration::from_secs(3));
    short.connect().unwrap();
    short.host().disconnect();
    hosts.refuse_connections("dut", true);
    let error = short.fresh().unwrap_err();
    assert!(error.is_gone(), "{error}");
    assert_says(&error, &["`reboot` could not be delivered", "boot_timeout"]);
    assert_eq!(hosts.dut().boots(), 2);
}

#[test]
fn a_reboot_that_does_not_happen_is_reported() {
    let Some(hosts) = SshHosts::start("a_reboot_that_does_not_happen_is_reported") else { return };
    let idle = machine(&hosts, |spec| {
        spec.reboot = Reset::Ssh { command: Some("true".to_owned()) };
        spec.boot_timeout = Duration::from_secs(3);
    });
    idle.connect().unwrap();
    let error = idle.fresh().unwrap_err();
    assert!(!error.is_gone(), "the machine is well: {error}");
    assert_says(&error, &["3s after `true` it is still up", "correct `reboot`"]);
    let failing = machine(&hosts, |spec| {
        spec.reboot = Reset::Command { command: "echo no such outlet >&2; exit 3".to_owned() };
    });
    failing.connect().unwrap();
    let error = failing.fresh().unwrap_err();
    assert_says(&error, &["rebooting by", "exit code 3", "no such outlet"]);
    assert_eq!(hosts.dut().boots(), 1);
}

#[test]
fn online_means_what_the_specification_says() {
    let Some(hosts) = SshHosts::start("online_means_what_the_specification_says") else { return };
    let waiting = machine(&hosts, |spec| {
        spec.online.command = Some("test -e /run/ready || { echo wait; exit 1; }".to_owned());
        spec.boot_timeout = Duration::from_secs(3);
    });
    waiting.connect().unwrap();
    let error = waiting.online().unwrap_err();
    assert_says(&error, &["is not online after 3s", "test -e /run/ready", "it says: wait"]);
    // It is ready later than its SSH server.
    let ready = "#!/bin/sh\n(sleep 1; touch /run/ready) >/dev/null 2>&1 &\n";
    let waiting =
        machine(&hosts, |spec| spec.online.command = waiting.spec().online.command.clone());
    waiting.upload(&tree(&[("etc/rc.local", 0o755, ready)])).unwrap();
    waiting.fresh().unwrap();
    assert!(run(&waiting, "test -e /run/ready").success());
    // 192.0.2.3 answers in the manager's namespace alone.
    let pinging = machine(&hosts, |spec| {
        spec.online.ping = Some("192.0.2.3".to_owned());
        spec.boot_timeout = Duration::from_secs(1);
    });
    assert_says(&pinging.online().unwrap_err(), &["192.0.2.3 does not answer to ping"]);
    let netns = weir_net::Netns::open(hosts.namespace()).unwrap();
    netns.run(|| pinging.online()).unwrap().unwrap();
}

#[test]
fn a_password_of_a_power_switch_is_nowhere() {
    let Some(hosts) = SshHosts::start("a_password_of_a_power_switch_is_nowhere") else { return };
    let switch = hosts.power_command("dut");
    let machine = machine(&hosts, |spec| {
        let line = format!("test \"$PDU_PASSWORD\" = hunter2 && echo on $PDU_PASSWORD && {switch}");
        spec.reboot = Reset::Command { command: line };
    });
    let secrets = Secrets::new(vec![("PDU_PASSWORD".to_owned(), "hunter2".to_owned())]).unwrap();
    let spec = machine.spec().clone();
    let machine = Machine::new(&spec, &secrets, &Cancel::default());
    machine.connect().unwrap();
    machine.fresh().unwrap();
    assert_eq!(hosts.dut().boots(), 2);
    let log = machine.take_log();
    assert!(log.contains("on ***PDU_PASSWORD***") && !log.contains("hunter2"), "{log}");
}

#[test]
fn a_profile_shows_what_ran() {
    let name = "a_profile_shows_what_ran";
    let Some(hosts) = SshHosts::start(name) else { return };
    let dut = open(&hosts, "dut");
    if !run(&dut, "perf record -a -e cpu-clock -o /tmp/try -- true").success() {
        skipped(name, "perf is not here, or may not sample");
        return;
    }
    let mut busy = dut.spawn("while :; do :; done", "busy.log").unwrap();
    let mut profiler = Profiler::new(System::Linux, Some("-e cpu-clock")).unwrap();
    profiler.start(&dut, Duration::from_secs(1)).unwrap();
    let artefacts = profiler.collect(&dut, "a busy shell").unwrap();
    busy.stop(Duration::from_secs(1)).unwrap();
    let names: Vec<&str> = artefacts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["profile.folded", "flamegraph.svg"]);
    let folded = String::from_utf8(artefacts[0].1.clone()).unwrap();
    assert!(folded.lines().any(|line| line.starts_with("sh;") || line == "sh"), "{folded}");
    assert!(String::from_utf8_lossy(&artefacts[1].1).contains("a busy shell"));
    let mut wrong = Profiler::new(System::Linux, Some("-e no-such-event")).unwrap();
    wrong.start(&dut, Duration::from_secs(1)).unwrap();
    let error = wrong.collect(&dut, "nothing").unwrap_err();
    assert_says(&error, &["dut: profiling: `exec perf record", "profile.log"]);
}

#[test]
fn a_machine_shows_its_interfaces_and_itself() {
    let Some(hosts) = SshHosts::start("a_machine_shows_its_interfaces_and_itself") else { return };
    let machine = machine(&hosts, |_| {});
    machine.connect().unwrap();
    let (receives, sends) = (&machine.spec().receives, &machine.spec().sends);
    let before = machine.interface_counters(receives).unwrap();
    let send = "for i in 1 2 3; do bash -c 'echo >/dev/udp/198.18.0.1/9'; done";
    assert!(run(&open(&hosts, "gen"), send).success());
    let after = machine.interface_counters(receives).unwrap();
    let count =
        |c: &weir_results::counters::Counters| system::received(receives)[0].sum(c).unwrap();
    assert!(count(&after) >= count(&before) + 3, "{before:?} {after:?}");
    assert!(!machine.interface_drops().is_empty() && sends == &["dut1"]);
    let error = machine.interface_counters(&["em7".to_owned()]).unwrap_err();
    assert_says(&error, &["em7", "no such interface", "`receives`"]);
    let environment = machine.environment().unwrap();
    assert!(environment["shown"]["uname"][0].as_str().unwrap().contains("Linux dut"));
    let other = machine.spec().clone();
    let other = BoxSpec { system: System::Freebsd, ..other };
    let error =
        Machine::new(&other, &Secrets::default(), &Cancel::default()).connect().unwrap_err();
    assert_says(&error, &["it runs linux, not freebsd", "`system`"]);
}
