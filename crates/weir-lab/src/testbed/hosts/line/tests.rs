use weir_machine::access::RemoteSpec;

use super::*;
use crate::model::DriverSpec;
use crate::plan::{Overrides, from_text};
use crate::spec::files::MemoryFiles;

fn end(kind: DriverKind) -> EndSpec {
    EndSpec {
        remote: RemoteSpec { name: "g".into(), ssh: Some("g".into()), ..RemoteSpec::default() },
        interface: "ix0".into(),
        mac: None,
        next_hop_mac: Some("02:00:00:00:00:01".into()),
        driver: DriverSpec {
            kind,
            program: None,
            options: None,
            start: None,
            stop: None,
            packets: None,
        },
    }
}

fn traffic(fields: &str) -> Traffic {
    let text = format!(
        "[campaign]\nname = \"c\"\niterations = 1\n[testbed]\nkind = \"netns\"\n[[dut]]\nname = \
         \"d\"\nkind = \"linux\"\n[[traffic]]\nname = \"t\"\n{fields}\n"
    );
    let files = MemoryFiles::default();
    let plan = from_text("lab.toml".as_ref(), &text, &files, &Overrides::default());
    plan.unwrap_or_else(|e| panic!("{e:?}")).0.series[0].traffic.clone()
}

const FLOWS: &str =
    "src = \"198.18.10.1:2000-198.18.10.70\"\ndst = \"198.19.10.1:2000-198.19.10.70\"";

fn line(kind: DriverKind, count: Option<u64>, rate: Rate) -> String {
    let traffic = traffic(FLOWS);
    let ask = Ask { traffic: &traffic, rate, count, sample: Duration::from_millis(500) };
    generator(&end(kind), ask, "traffic.toml")
}

#[test]
fn each_program_is_started_in_its_own_way() {
    assert_eq!(
        line(DriverKind::Weir, Some(10), Rate::Pps(1000.0)),
        "exec weir gen -i ix0 --stream traffic.toml --rate 1kpps --interval 500ms --json --count 10"
    );
    assert_eq!(
        line(DriverKind::PktGen, None, Rate::Pps(1000.0)),
        "exec pkt-gen -f tx -N -i ix0 -l 60 -s 198.18.10.1:2000-198.18.10.70 \
         -d 198.19.10.1:2000-198.19.10.70 -D 02:00:00:00:00:01 -T 500 -n 0 -R 1000"
    );
    assert_eq!(
        line(DriverKind::Trafgen, Some(10), Rate::Max),
        "exec trafgen -o ix0 -c traffic.toml -P 1 -n 10"
    );
    let rx = receiver(&end(DriverKind::PktGen), "t", Duration::from_secs(1));
    assert_eq!(rx, "exec pkt-gen -f rx -N -i ix0 -T 1000");
    let sink = receiver(&end(DriverKind::Weir), "t", Duration::from_secs(1));
    assert_eq!(sink, "exec weir sink -i ix0 --interval 1000ms --json");
}

#[test]
fn a_line_of_the_users_gets_what_the_run_has() {
    let mut mine = end(DriverKind::Command);
    mine.driver.start = Some("tx ${interface} ${dst_mac} ${rate_pps} ${count} > $HOME/x".into());
    let traffic = traffic(FLOWS);
    let ask = Ask { traffic: &traffic, rate: Rate::Max, count: Some(7), sample: Duration::ZERO };
    let line = generator(&mine, ask, "");
    assert_eq!(line, "tx ix0 02:00:00:00:00:01 0 7 > $HOME/x");
}

#[test]
fn what_a_program_cannot_send_is_refused() {
    let refused = |kind, fields: &str| refusal(kind, &traffic(fields));
    assert_eq!(refused(DriverKind::PktGen, FLOWS), None);
    let tcp = format!("{FLOWS}\nproto = \"tcp\"");
    assert_eq!(refused(DriverKind::PktGen, &tcp).as_deref(), Some("pkt-gen sends UDP"));
    assert_eq!(refused(DriverKind::Weir, &tcp), None);
    let imix = format!("{FLOWS}\nsize = \"imix\"");
    let said = refused(DriverKind::PktGen, &imix);
    assert_eq!(said.as_deref(), Some("pkt-gen sends frames of one size"));
    assert!(refused(DriverKind::Trafgen, FLOWS).is_some_and(|why| why.contains("one range")));
    let ports = "src = \"198.18.10.1:2000-198.18.10.1:2009\"\ndst = \"198.19.10.1:9\"";
    assert_eq!(refused(DriverKind::Trafgen, ports), None);
}

#[test]
fn streams_are_read_back_by_weir_gen() {
    let traffic = traffic(FLOWS);
    let (_, text) = description(&end(DriverKind::Weir), &traffic).expect("a file");
    let tables = weir_gen::stream_file::read(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert_eq!(tables.len(), 1);
    assert_eq!(tables[0].description.get("dst_mac"), Some("02:00:00:00:00:01"));
    assert_eq!(tables[0].description.get("src"), Some("198.18.10.1:2000-198.18.10.70"));
}

#[test]
fn trafgens_packet_has_the_size_and_the_ports() {
    let ports = "src = \"198.18.10.1:2000-198.18.10.1:2009\"\ndst = \"198.19.10.1:9\"\nsize = 128";
    let (_, text) = description(&end(DriverKind::Trafgen), &traffic(ports)).expect("a file");
    assert_eq!(
        text,
        "{ eth(da=02:00:00:00:00:01), ipv4(ttl=64, df, sa=198.18.10.1, da=198.19.10.1), \
         udp(sp=dinc(2000, 2009), dp=9), fill(0x00, 86) }\n"
    );
}
