//! Configurations as they are written, and the specifications that they become.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::plan::{self, Overrides};
use crate::spec::files::DiskFiles;

const CONFIG: &str = r#"
SENDER_ADMIN="192.0.2.3"
RECEIVER_ADMIN="192.0.2.3"
DUT_ADMIN="192.0.2.9"
SENDER_LAB_IP="198.18.0.203"
SENDER_LAB_IF="igb2"
RECEIVER_LAB_IF="igb3"
DUT_LAB_IF_MAC_SENDER_SIDE="00:08:a2:09:33:da"
DUT_LAB_IF_MAC_RECEIVER_SIDE="00:08:A2:09:33:DB"
: ${AF:="4"}
: ${SENDER_LAB_NET:="198.18.10.1:2001-198.18.10.20"}
: ${RECEIVER_LAB_NET:="198.19.10.1:2001-198.19.10.100"}
: ${PKT_TO_SEND:="300000000"}
: ${PKT_SIZE:="60"}
REBOOT_TIMEOUT=120
IS_DUT_ONLINE_TARGET=${DUT_ADMIN}
IS_DUT_ONLINE_CMD="ping -c 2 ${SENDER_LAB_IP}"
RECEIVER_START_CMD="pkt-gen -f rx -i ${RECEIVER_LAB_IF} -w 4"
RECEIVER_STOP_CMD="pkill pkt-gen"
SENDER_START_CMD="pkt-gen -U -f tx -${AF} -i ${SENDER_LAB_IF} -n ${PKT_TO_SEND} -l ${PKT_SIZE} \
        -d ${RECEIVER_LAB_NET} -D ${DUT_LAB_IF_MAC_SENDER_SIDE} -s ${SENDER_LAB_NET} \
        -w 4"
"#;

/// What is evaluated and read, without a word.
fn read(request: &Request) -> Result<Sets, BenchLabError> {
    Sets::read(
        request,
        &Reader { cancel: &weir_machine::cancel::Cancel::default(), tell: &|_, _| {} },
    )
}

fn specification(request: &Request) -> Result<Specification, BenchLabError> {
    read(request)?.specification(request)
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            let path = folder.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn request(&self) -> Request {
        let dir = |name: &str| Some(self.path(name)).filter(|path| path.is_dir());
        Request {
            config: self.path("bench-lab.config"),
            pktgen_dir: dir("pktgen"),
            config_dir: dir("configs"),
            images_dir: dir("images"),
            iterations: 5,
            system: "freebsd".to_owned(),
            ..Request::default()
        }
    }

    /// The specification, which the reader of specifications has accepted.
    fn tables(&self) -> toml::Table {
        let made = specification(&self.request()).unwrap();
        let (path, overrides) = (self.path("lab.toml"), Overrides::default());
        if let Err(refused) = plan::from_text(&path, &made.text, &DiskFiles, &overrides) {
            panic!("{refused:#?}\n{}", made.text);
        }
        made.text.parse().unwrap_or_else(|error| panic!("{error}: {}", made.text))
    }

    fn refusal(&self) -> String {
        let made = specification(&self.request());
        made.expect_err("refused").to_string().replace(&*self.0.path().to_string_lossy(), "")
    }
}

#[test]
fn a_configuration_alone_is_one_series() {
    let folder = Folder::new(&[("bench-lab.config", CONFIG)]);
    let table = folder.tables();
    let testbed = &table["testbed"];
    assert_eq!(testbed["kind"].as_str(), Some("hosts"));
    let sender = &testbed["generator"][0];
    assert_eq!(sender["ssh"].as_str(), Some("root@192.0.2.3"));
    assert_eq!(
        sender["start"].as_str(),
        Some(
            "pkt-gen -N -U -f tx -4 -i igb2 -n ${count} -l ${size} -d \"${dst}\" \
             -D 00:08:a2:09:33:da -s \"${src}\" -w 4"
        )
    );
    assert_eq!(testbed["receiver"]["name"], sender["name"], "one machine has one name");
    assert_eq!(testbed["receiver"]["start"].as_str(), Some("pkt-gen -N -f rx -i igb3 -w 4"));
    assert_eq!(testbed["dut"]["boot_timeout"].as_str(), Some("600s"));
    assert_eq!(testbed["dut"]["sends"][0].as_str(), Some("00:08:a2:09:33:db"));
    assert_eq!(testbed["dut"]["online"].as_str(), Some("ping -c 2 198.18.0.203"));
    assert_eq!(table["traffic"][0]["src"].as_str(), Some("198.18.10.1:2001-198.18.10.20"));
    assert_eq!(table["campaign"]["iterations"].as_integer(), Some(5));
}

#[test]
fn sets_come_before_the_configuration_and_do_not_leak() {
    let folder = Folder::new(&[
        ("bench-lab.config", CONFIG),
        ("pktgen/1K", "SENDER_LAB_NET=198.18.10.1:2000-198.18.10.10\nPKT_SIZE=124 # without CRC\n"),
        ("pktgen/5K", "echo talks; RECEIVER_LAB_NET='198.19.10.1:2000-198.19.10.70'\n"),
        (
            "pktgen/v6",
            "AF=6\nSENDER_LAB_NET='\"[2001:2::1]-[2001:2::14]\"'\n\
             RECEIVER_LAB_NET='\"[2001:2:0:8010::1]-[2001:2:0:8010::64]\"'\n",
        ),
    ]);
    let table = folder.tables();
    let traffic = |index: usize| &table["traffic"][index];
    assert_eq!(traffic(0)["name"].as_str(), Some("1K"));
    assert_eq!(traffic(0)["size"].as_integer(), Some(124));
    assert_eq!(traffic(1)["size"].as_integer(), Some(60), "nothing is left of another set");
    assert_eq!(traffic(1)["src"].as_str(), Some("198.18.10.1:2001-198.18.10.20"));
    assert_eq!(traffic(2)["src"].as_str(), Some("[2001:2::1]-[2001:2::14]"));
    assert_eq!(traffic(2)["size"].as_integer(), Some(80), "what IPv6 needs, as is noted");
    let notes = specification(&folder.request()).unwrap().notes;
    assert!(
        notes.len() == 1 && notes[0].starts_with("v6: PKT_SIZE=\"60\" becomes 80"),
        "{notes:?}"
    );
    let start = table["testbed"]["generator"][0]["start"].as_str().unwrap();
    assert!(start.starts_with("case ${traffic} in 1K) pkt-gen -N -U -f tx -4 "), "{start}");
    assert!(start.contains(";; v6) pkt-gen -N -U -f tx -6 "), "{start}");
}

#[test]
fn folders_and_images_are_sets() {
    let folder = Folder::new(&[
        ("bench-lab.config", CONFIG),
        ("configs/forwarding/etc/rc.conf", "gateway_enable=YES\n"),
        ("configs/pf/etc/rc.conf", "pf_enable=YES\n"),
        ("images/BSDRP-293643-upgrade-amd64-serial.img.xz", "abc"),
        ("images/BSDRP-294235-upgrade-amd64-serial.img", ""),
        ("images/BSDRP-294235-full-amd64-serial.img", ""),
    ]);
    let table = folder.tables();
    assert_eq!(table["dut"][0]["name"].as_str(), Some("forwarding"));
    assert!(table["dut"][1]["tree"].as_str().unwrap().ends_with("configs/pf"));
    assert_eq!(table["image"].as_array().unwrap().len(), 2);
    assert_eq!(table["image"][0]["name"].as_str(), Some("293643"));
    assert_eq!(
        table["image"][0]["install"].as_str(),
        Some("xzcat | upgrade && grep -q 'Upgrade complete' /var/log/messages")
    );
    // The root of nanobsd is made writable and read-only again by weir itself.
    assert_eq!(table["testbed"]["dut"].get("before_upload"), None);
    assert_eq!(
        table["image"][1]["install"].as_str(),
        Some("upgrade && grep -q 'Upgrade complete' /var/log/messages")
    );
    // Of three letters, and of nothing, as FIPS 180-4 and sha256sum(1) have them.
    for (image, begin) in [(0, "ba7816bf8f01cfea"), (1, "e3b0c44298fc1c14")] {
        let sha256 = table["image"][image]["sha256"].as_str().unwrap();
        assert!(sha256.starts_with(begin) && sha256.len() == 64, "{sha256}");
    }
}

#[test]
fn an_image_that_cannot_be_read_to_its_end_is_refused() {
    let folder =
        Folder::new(&[("bench-lab.config", CONFIG), ("images/BSDRP-1-upgrade-amd64.img", "abc")]);
    let cancel = weir_machine::cancel::Cancel::default();
    cancel.request(2);
    let stopped = Sets::read(&folder.request(), &Reader { cancel: &cancel, tell: &|_, _| {} });
    let said = stopped.expect_err("nothing is read any more").to_string();
    assert!(said.contains("upgrade-amd64.img: cannot be read: stopped by a signal"), "{said}");
}

#[test]
fn a_reference_endpoint_that_would_be_configured_is_refused() {
    let folder = Folder::new(&[
        ("bench-lab.config", CONFIG),
        ("configs/ipsec/dut/etc/rc.conf", "\n"),
        ("configs/ipsec/refendpoint/etc/rc.conf", "\n"),
    ]);
    let said = folder.refusal();
    assert!(said.starts_with("/configs/ipsec/refendpoint: the machine beside the path"), "{said}");
}

#[test]
fn lines_print_plain_numbers_until_they_are_stopped() {
    let more = "SENDER_START_CMD='sudo /opt/pkt-gen -f tx -N -i igb2'\n\
                RECEIVER_START_CMD='pkt-gen -f rx -i igb3 -W -w 2'\nMAIL=ops@example.org\n";
    let folder = Folder::new(&[("bench-lab.config", &format!("{CONFIG}{more}"))]);
    let testbed = &folder.tables()["testbed"];
    let sender = testbed["generator"][0]["start"].as_str();
    assert_eq!(sender, Some("sudo /opt/pkt-gen -n ${count} -f tx -N -i igb2"));
    assert_eq!(testbed["receiver"]["start"].as_str(), Some("pkt-gen -N -f rx -i igb3 -w 2"));
    let made = specification(&folder.request()).unwrap();
    let begin = ["SENDER_START_CMD has no `-n`", "-W is left out", "SENDER_START_CMD has no `-s`"];
    for (note, begin) in made.notes.iter().zip(begin) {
        assert!(note.starts_with(begin), "{:?}", made.notes);
    }
    assert_eq!(made.notes.len(), 4, "and no `-d`: {:?}", made.notes);
    assert_eq!(made.mail.as_deref(), Some("ops@example.org"));
}

#[test]
fn a_line_that_depends_on_what_changes_is_refused() {
    let more = "[ ${PKT_SIZE} -lt 100 ] && EXTRA='-S 0'\n\
                SENDER_START_CMD=\"pkt-gen -f tx -l ${PKT_SIZE} ${EXTRA}\"\n";
    let said = Folder::new(&[("bench-lab.config", &format!("{CONFIG}{more}"))]).refusal();
    assert!(said.contains("SENDER_START_CMD") && said.contains("one set for each case"), "{said}");
}

#[test]
fn a_dut_of_any_system_takes_the_sets() {
    let folder =
        Folder::new(&[("bench-lab.config", CONFIG), ("configs/forwarding/etc/rc.conf", "\n")]);
    for system in ["freebsd", "openbsd", "linux", "generic"] {
        let request = Request { system: system.to_owned(), ..folder.request() };
        let text = specification(&request).unwrap().text;
        let (path, overrides) = (folder.path("lab.toml"), Overrides::default());
        let (plan, _) = plan::from_text(&path, &text, &DiskFiles, &overrides)
            .unwrap_or_else(|refused| panic!("{system}: {refused:#?}"));
        assert_eq!(plan.series.len(), 1);
    }
}

#[test]
fn times_and_addresses_are_those_that_are_asked_for() {
    let folder = Folder::new(&[("bench-lab.config", CONFIG), ("pktgen/1K", "")]);
    let mut request = folder.request();
    request.warmup = Some(Duration::from_secs(2));
    request.duration = Some(Duration::from_millis(7_500));
    let text = specification(&request).unwrap().text;
    assert!(text.contains("warmup = \"2s\"\nduration = \"7500ms\"\n"), "{text}");
    let sets = read(&request).unwrap();
    assert_eq!(sets.dut_address().unwrap(), "root@192.0.2.9");
    assert_eq!(unnamed(&request), [DUT], "the configurations have no directory");
}

#[test]
fn fragments_are_run_once_for_all_that_is_made_of_them() {
    let folder = Folder::new(&[]);
    let runs = folder.path("runs");
    let talks = format!("{CONFIG}echo run >>'{}'\n", runs.display());
    fs::write(folder.path("bench-lab.config"), talks).unwrap();
    let count = || fs::read_to_string(&runs).unwrap().lines().count();
    let request = folder.request();
    let sets = read(&request).unwrap();
    let once = count();
    sets.dut_address().unwrap();
    for system in ["generic", "openbsd"] {
        let request = Request { system: system.to_owned(), ..folder.request() };
        let text = sets.specification(&request).unwrap().text;
        assert!(text.contains(&format!("system = \"{system}\"")), "{text}");
    }
    assert_eq!(count(), once);
}

#[test]
fn a_fragment_may_end_with_a_condition_that_does_not_hold() {
    let last = "[ \"${DUT_ADMIN}\" = nobody ] && SENDER_ADMIN=nobody\n";
    let folder = Folder::new(&[("bench-lab.config", &format!("{CONFIG}{last}"))]);
    let generator = folder.tables()["testbed"]["generator"][0].clone();
    assert_eq!(generator["ssh"].as_str(), Some("root@192.0.2.3"));
}

#[test]
fn several_senders_are_several_generators() {
    let more = "SENDER_ADMIN_2=192.0.2.4\nSENDER_2_START_CMD=\"/opt/pkt-gen -f tx -i ix0\"\n\
                SENDER_START_CMD_2=\"pkt-gen -f tx -i igb2 -s ${SENDER_LAB_NET}\"\n\
                SENDER_STOP_CMD='pkill pkt-gen'\n";
    let folder = Folder::new(&[("bench-lab.config", &format!("{CONFIG}{more}"))]);
    let table = folder.tables();
    let generators = table["testbed"]["generator"].as_array().unwrap();
    let all = |field: &str| -> Vec<&str> {
        generators.iter().map(|generator| generator[field].as_str().unwrap_or_default()).collect()
    };
    assert_eq!(all("ssh"), ["root@192.0.2.3", "root@192.0.2.3", "root@192.0.2.4"]);
    assert_eq!(all("interface"), ["igb2", "igb2", "ix0"]);
    assert_eq!(all("stop"), ["pkill pkt-gen"; 3]);
}

#[test]
fn without_the_duts_other_address_nobody_counts_what_leaves_it_and_that_is_told() {
    let unset = format!("{CONFIG}DUT_LAB_IF_MAC_RECEIVER_SIDE=\n");
    let folder = Folder::new(&[("bench-lab.config", &unset)]);
    assert!(folder.tables()["testbed"]["dut"].get("sends").is_none());
    let notes = specification(&folder.request()).unwrap().notes;
    assert!(notes.len() == 1 && notes[0].contains("MAC_RECEIVER_SIDE is not set"), "{notes:?}");
    // No counter of a generic system is read.
    let folder = Folder::new(&[("bench-lab.config", CONFIG)]);
    let request = Request { system: "generic".to_owned(), ..folder.request() };
    let made = specification(&request).unwrap();
    assert!(!made.text.contains("sends"), "{}", made.text);
    assert!(made.notes.len() == 1 && made.notes[0].contains("is not used"), "{:?}", made.notes);
}

#[test]
fn a_variable_that_no_line_refers_to_is_told_to_have_no_effect() {
    let notes = |more: &str| {
        let folder = Folder::new(&[("bench-lab.config", &format!("{CONFIG}{more}"))]);
        specification(&folder.request()).unwrap().notes
    };
    assert!(notes("").is_empty(), "AF and SENDER_LAB_IP are in lines: {:?}", notes(""));
    let set = "RECEIVER_LAB_IP=198.19.0.203\n: ${SENDER_MAC:=02:00:00:00:00:07}\n\
               RECEIVER_LAB_IF_MAC=02:00:00:00:00:08\n# $RECEIVER_LAB_IP is nowhere\n";
    let names = |notes: &[String]| -> Vec<String> {
        let no_effect = notes.iter().filter(|note| note.contains("\" has no effect: "));
        no_effect.map(|note| note.split('=').next().unwrap_or_default().to_owned()).collect()
    };
    let said = notes(set);
    assert_eq!(names(&said), ["RECEIVER_LAB_IP", "SENDER_MAC", "RECEIVER_LAB_IF_MAC"]);
    assert!(said[0].starts_with("RECEIVER_LAB_IP=\"198.19.0.203\" has"), "{said:?}");
    let used =
        format!("{set}SENDER_START_CMD=\"pkt-gen -f tx -i igb2 -S ${{SENDER_MAC}} ${{AF}}\"\n");
    assert_eq!(names(&notes(&used)), ["RECEIVER_LAB_IP", "RECEIVER_LAB_IF_MAC"]);
    // A name that is another one's beginning is not that one.
    let other = "SENDER_MAC=1\nRECEIVER_STOP_CMD=\"pkill ${SENDER_MAC_2}\"\n";
    assert_eq!(names(&notes(other)), ["SENDER_MAC"]);
    // Lines of a file that is read in turn may use it.
    assert!(notes(&format!("{set}. /dev/null\n")).is_empty());
}

#[test]
fn what_the_shell_would_do_stays_for_the_shell() {
    let line = "RECEIVER_STOP_CMD='kill ${PID}'\n";
    let folder = Folder::new(&[("bench-lab.config", &format!("{CONFIG}{line}"))]);
    let stop = folder.tables()["testbed"]["receiver"]["stop"].as_str().unwrap().to_owned();
    assert_eq!(stop, "kill $${PID}", "no reference of ours");
}

#[test]
fn what_cannot_be_used_is_refused_with_its_place() {
    for (line, expected) in [
        ("SENDER_LAB_IF=", "/bench-lab.config: SENDER_LAB_IF is not set"),
        ("REBOOT_TIMEOUT=long", "REBOOT_TIMEOUT=\"long\": it is a number of rounds"),
        ("SENDER_START_CMD='iperf3 -c 10.0.0.1'", "weir reads the lines of pkt-gen"),
        ("IS_DUT_ONLINE_TARGET=192.0.2.77", "asks the DUT itself"),
        ("PKT_SIZE=big SENDER_START_CMD='pkt-gen -f tx -i igb2'", "PKT_SIZE=\"big\""),
        ("PKT_SIZE=1500", "an assignment behind the line"),
        ("DUT_LAB_IF_MAC_RECEIVER_SIDE=igb3", "DUT_LAB_IF_MAC_RECEIVER_SIDE=\"igb3\""),
        (
            "SENDER_START_CMD_2='pkt-gen -f tx -i igb3 -D 00:08:a2:09:33:db'",
            "a campaign for each direction",
        ),
        ("if [ 1 = 1; then", "the shell says: "),
        ("CUSTOM_CMD='tcpdump -ni igb2'", "weir runs nothing of the kind"),
        ("DURING_CMD=top", "weir reads the counters"),
        ("exit 3", "the shell says: nothing, and ends with a failure"),
    ] {
        let said = with(line).refusal();
        assert!(said.contains(expected), "{line}: {said}");
    }
    assert!(Folder::new(&[]).refusal().contains("/bench-lab.config: No such file"));
    let empty = Folder::new(&[("bench-lab.config", CONFIG), ("configs/README", "")]);
    assert!(empty.refusal().contains("/configs: no directory in it"), "{}", empty.refusal());
    let wrong = Folder::new(&[
        ("bench-lab.config", CONFIG),
        ("configs/dut/etc/rc.conf", ""),
        ("configs/refendpoint/etc/rc.conf", ""),
    ]);
    assert!(wrong.refusal().contains("name the directory above it"), "{}", wrong.refusal());
    let other = Folder::new(&[
        ("bench-lab.config", &CONFIG.replace("DUT_ADMIN=", ": ${DUT_ADMIN:=}; DUT_ADMIN=")),
        ("pktgen/a", ""),
        ("pktgen/b", "SENDER_LAB_IF=x"),
    ]);
    // The configuration has the last word, so the set changes nothing.
    assert_eq!(other.tables()["traffic"].as_array().unwrap().len(), 2);
    let differs = CONFIG.replace("SENDER_LAB_IF=\"igb2\"", ": ${SENDER_LAB_IF:=igb2}");
    let other = Folder::new(&[
        ("bench-lab.config", &differs),
        ("pktgen/a", ""),
        ("pktgen/b", "SENDER_LAB_IF=ix0"),
    ]);
    assert!(
        other.refusal().contains("SENDER_LAB_IF differs from that of a"),
        "{}",
        other.refusal()
    );
}

/// [`CONFIG`] with more lines behind it.
fn with(more: &str) -> Folder {
    Folder::new(&[("bench-lab.config", &format!("{CONFIG}{more}\n"))])
}

#[test]
fn options_of_other_programs_stay_what_they_are() {
    let start = |line: &str| {
        let table = with(&format!("SENDER_START_CMD=\"{line}\"")).tables();
        table["testbed"]["generator"][0]["start"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        start("nice -n 5 pkt-gen -f tx -i ix0"),
        "nice -n 5 pkt-gen -n ${count} -N -f tx -i ix0"
    );
    assert_eq!(
        start("nice -n -20 pkt-gen -N -i ix0 -n300000000"),
        "nice -n -20 pkt-gen -N -i ix0 -n${count}"
    );
    assert_eq!(
        start("pkt-gen -N -n  300000000 -i 'ix0' -s ${SENDER_LAB_NET}"),
        "pkt-gen -N -n  ${count} -i 'ix0' -s \"${src}\""
    );
    assert_eq!(
        start("cd /root/netmap/apps/pkt-gen && ./pkt-gen -n 3 -i ix0"),
        "cd /root/netmap/apps/pkt-gen && ./pkt-gen -N -n ${count} -i ix0"
    );
    for line in ["ssh gen pkt-gen -f tx", "pkill pkt-gen", "pkt-gen -f tx & pkt-gen -f tx"] {
        let said = with(&format!("SENDER_START_CMD='{line}'")).refusal();
        assert!(said.contains("does not see where it starts one pkt-gen"), "{line}: {said}");
    }
}

#[test]
fn a_size_is_the_one_that_is_sent() {
    let read = |more: &str| {
        let folder = with(more);
        let table = folder.tables();
        let size = table["traffic"][0]["size"].as_integer().unwrap();
        (size, specification(&folder.request()).unwrap().notes)
    };
    let line = "-i ix0 -n ${PKT_TO_SEND} -s ${SENDER_LAB_NET} -d ${RECEIVER_LAB_NET}";
    let (size, notes) = read(&format!("SENDER_START_CMD=\"pkt-gen -f tx -l 1500 {line}\""));
    assert_eq!(size, 1500);
    let expected = ["PKT_SIZE=\"60\" is not used by SENDER_START_CMD, which has `-l 1500`"];
    assert_eq!(notes, expected);
    let unset = format!("SENDER_START_CMD=\"pkt-gen -f tx {line} -l1500\"\nPKT_SIZE=");
    assert_eq!(read(&unset), (1500, Vec::new()));
    let (size, notes) = read(&format!("SENDER_START_CMD=\"pkt-gen -f tx {line}\""));
    assert_eq!((size, notes.len()), (60, 0), "pkt-gen's own");
    // A line of another program's does not count.
    let (size, _) = read(&format!("SENDER_START_CMD=\"cpuset -l 0-3 pkt-gen -f tx {line}\""));
    assert_eq!(size, 60);
    for (more, expected) in [
        ("-l '$(cat size)'", "weir cannot tell the size of its frames"),
        ("-l 1500 -l 60", "weir cannot tell the size of its frames"),
        ("-l 40", "its frames have 40 bytes, and the smallest that weir has for such ranges"),
    ] {
        let said = with(&format!("SENDER_START_CMD=\"pkt-gen -f tx {more}\"")).refusal();
        assert!(said.contains(expected), "{more}: {said}");
    }
    let said = with("SENDER_START_CMD='pkt-gen -f tx'\nPKT_SIZE=1500").refusal();
    assert!(said.contains("SENDER_START_CMD has no `-l`, and pkt-gen sends"), "{said}");
    let two = "SENDER_START_CMD_2=\"pkt-gen -f tx -i igb4 -l 1500\"";
    let said = with(two).refusal();
    assert!(said.contains("have 1500 bytes, and those of SENDER_START_CMD 60"), "{said}");
}

#[test]
fn a_size_that_the_line_has_is_not_raised() {
    let plain = CONFIG.replace(": ${PKT_SIZE:=\"60\"}", "PKT_SIZE=62");
    let plain = plain.replace("198.18.10.1:2001-198.18.10.20", "[2001:2::1]-[2001:2::14]");
    let plain = plain.replace("198.19.10.1:2001-198.19.10.100", "[2001:2:0:8010::1]");
    let said = Folder::new(&[("bench-lab.config", &plain)]).refusal();
    assert!(said.contains("its frames have 62 bytes") && said.contains("have 80: "), "{said}");
    let large = Folder::new(&[("bench-lab.config", &plain.replace("=62", "=124"))]);
    assert_eq!(large.tables()["traffic"][0]["size"].as_integer(), Some(124));
}

#[test]
fn ranges_that_are_not_sent_are_told() {
    let notes = |more: &str| specification(&with(more).request()).unwrap().notes;
    let line = "pkt-gen -f tx -i igb2 -n ${PKT_TO_SEND}";
    let said = notes(&format!("SENDER_START_CMD=\"{line} -s 10.0.0.7 -d ${{RECEIVER_LAB_NET}}\""));
    assert_eq!(said.len(), 1, "{said:?}");
    let begin = "SENDER_START_CMD has `-s 10.0.0.7`: its packets are not those of SENDER_LAB_NET=";
    assert!(said.iter().any(|note| note.starts_with(begin)), "{said:?}");
    // The same in other words.
    let plain = "SENDER_LAB_NET=198.18.10.1\n";
    let line = format!("{plain}SENDER_START_CMD=\"{line} -${{AF}} -s ${{SENDER_LAB_NET}}");
    assert_eq!(notes(&format!("{line} -d ${{RECEIVER_LAB_NET}}\"")), [""; 0]);
}

#[test]
fn the_first_senders_interface_is_the_variable() {
    for line in ["pkt-gen -f tx -i netmap:ix0-1 -D 02:00:00:00:00:05", "sudo -i pkt-gen -i ix0/T"] {
        let generator =
            with(&format!("SENDER_START_CMD='{line}'")).tables()["testbed"]["generator"][0].clone();
        assert_eq!(generator["interface"].as_str(), Some("igb2"), "{line}");
        assert_eq!(generator["next_hop_mac"].as_str(), Some("00:08:a2:09:33:da"), "{line}");
    }
    let second = "SENDER_ADMIN_2=192.0.2.4\nSENDER_2_START_CMD='sudo -i pkt-gen -i netmap:ix1-3 \
                  -D02:00:00:00:00:05'";
    let generator = with(second).tables()["testbed"]["generator"][1].clone();
    assert_eq!(generator["interface"].as_str(), Some("ix1"));
    assert_eq!(generator["next_hop_mac"].as_str(), Some("02:00:00:00:00:05"));
    let differs = CONFIG.to_owned() + "SENDER_START_CMD_2=\"pkt-gen -f tx -i ix${AF}\"\n";
    let sets = [("bench-lab.config", differs.as_str()), ("pktgen/a", ""), ("pktgen/b", "AF=6")];
    let said = Folder::new(&sets).refusal();
    assert!(said.contains("its `-i` is not the same in all sets"), "{said}");
}

#[test]
fn sums_that_no_line_depends_on_are_none_of_weirs_business() {
    let sum = "HALF=$((PKT_TO_SEND/2)) LARGE=$((PKT_SIZE+4))\n";
    let table = with(sum).tables();
    let start = table["testbed"]["generator"][0]["start"].as_str().unwrap();
    assert!(start.contains("-n ${count} -l ${size} -d \"${dst}\""), "{start}");
    let said = with(&format!("{sum}SENDER_START_CMD=\"pkt-gen -f tx -n ${{HALF}}\"")).refusal();
    assert!(said.contains("a condition, a sum or an assignment behind the line"), "{said}");
    let said = with(&format!("{sum}[ ${{PKT_SIZE}} -lt 2000 ] || exit 3")).refusal();
    assert!(said.contains("a condition or a sum depends on SENDER_LAB_NET, "), "{said}");
}

#[test]
fn a_default_may_refer_to_a_variable() {
    let notes = |more: &str| specification(&with(more).request()).unwrap().notes;
    let refers = "RECEIVER_LAB_IP=198.19.0.203\n: ${OTHER:=\"${RECEIVER_LAB_IP}:2000\"}";
    assert_eq!(notes(refers), [""; 0]);
    let defaulted = ": ${RECEIVER_LAB_IP:=198.19.0.203} ${SENDER_MAC:=1}";
    assert_eq!(notes(defaulted).len(), 2, "{:?}", notes(defaulted));
}

#[test]
fn published_configurations_are_read() {
    let Some(root) = crate::fixture::netbenches() else { return };
    let sets = root.join("pktgen.configs");
    let mut read = 0;
    for pktgen in fs::read_dir(&sets).unwrap().flatten().map(|entry| entry.path()) {
        let is_set = |path: &Path| path.is_file();
        let has_sets =
            fs::read_dir(&pktgen).is_ok_and(|all| all.flatten().any(|entry| is_set(&entry.path())));
        if !has_sets {
            continue;
        }
        let request = Request {
            config: root.join("scripts/bench-lab-2nodes.config"),
            pktgen_dir: Some(pktgen.clone()),
            config_dir: Some(root.join("Atom_C2558_4Cores/Intel_i350/pf-states_hashsize/configs")),
            iterations: 5,
            system: "freebsd".to_owned(),
            ..Request::default()
        };
        let made = specification(&request).unwrap_or_else(|e| panic!("{}: {e}", pktgen.display()));
        let overrides = Overrides::default();
        if let Err(refused) = plan::from_text(&pktgen, &made.text, &DiskFiles, &overrides) {
            panic!("{}: {refused:#?}", pktgen.display());
        }
        let table: toml::Table = made.text.parse().unwrap();
        assert!(!table["traffic"].as_array().unwrap().is_empty());
        assert!(table["dut"].as_array().unwrap().len() > 5);
        read += 1;
    }
    assert!(read > 5, "{read} directories of pkt-gen sets");
}
