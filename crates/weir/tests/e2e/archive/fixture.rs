//! The project's own archive, in the formats of netbenches and with all of their traps.
//!
//! The published figures are written here by hand, as bench-lab-ministat.sh makes them of the logs.

use std::fs;
use std::path::Path;

/// Results of 2015, all in one folder: `.info` for people, old lines, traces of the shell.
const EARLY: &str = "box/results/fbsd10.2";

/// Results of today: raw files apart, new lines, several generators, searches.
const MODERN: &str = "box/results/fbsd16";

/// What the archive publishes and must come out again: path and text.
pub(super) const PUBLISHED: &[(&str, &str)] = &[
    ("box/results/fbsd10.2/32KBhash.pps", "1002\n1003\n1001\n"),
    ("box/results/fbsd10.2/65KBhash.pps", "2002.5\n2003.5\n2001.5\n"),
    (
        "box/results/fbsd10.2/gnuplot.data",
        "#index median minimum maximum\n65Ki 2002.5 2001.5 2003.5\n32Ki 1002 1001 1003\n",
    ),
    // In the order of `ls`: 1, 10, 2.
    ("box/results/fbsd16/11.0.pf-stateful.inet4.pps", "31\n40\n32\n33\n34\n35\n36\n37\n38\n39\n"),
    ("box/results/fbsd16/alone.pps", "1e+08\n5.5\n7\n"),
    ("box/results/fbsd16/vpn.equilibrium", "473\n471\n472\n"),
    ("box/results/fbsd16/vpn.equilibrium.max", "484\n482\n483\n"),
    (
        "box/results/fbsd16/gnuplot.data",
        "#index median minimum maximum\n11.0.pf-stateful.inet4 35.5 31 40\nalone 7 5.5 1e+08\n\
         vpn 472 471 473\n",
    ),
    ("box/results/fbsd16/gnuplot.data.max", "#index median minimum maximum\nvpn 483 482 484\n"),
];

/// An opening and a closing of a log that hold rates which must not count.
const OPENING_LINES: usize = 15;
const CLOSING_LINES: usize = 10;

/// A log of the old pkt-gen, with traces of the shell.
fn old(rates: &[u64]) -> String {
    let line =
        |rate: u64| format!("8.5 main_thread [1550] {rate} pps ({rate} pkts in 1001 usec)\n");
    let mut text =
        "CMD: pkt-gen -f tx -l 60 -s 198.18.10.1-198.18.10.4 -d 198.19.10.1-198.19.10.5\n\
                    + eval /usr/bin/ssh -x -a -q\n"
            .to_owned();
    text += &line(9_999_999).repeat(OPENING_LINES - 2);
    text.extend(rates.iter().map(|rate| line(*rate)));
    text + &line(1).repeat(CLOSING_LINES - 2) + "Terminated\n+ return 1\n"
}

/// A log of today's pkt-gen.
fn new(rates: &[&str]) -> String {
    let line = |rate: &str| {
        format!(
            "8.5 main_thread [2786] {rate} (7 pkts 3360 bps in 1000002 usec) 2.26 avg_batch 1018 \
             min_space\n"
        )
    };
    let mut text = "CMD on sm1.lab: pkt-gen -f tx -N -l 60\n".to_owned();
    text += &line("0 pps").repeat(OPENING_LINES - 1);
    text.extend(rates.iter().map(|rate| line(rate)));
    text + &line("9999999 pps").repeat(CLOSING_LINES)
}

fn write(root: &Path, path: &str, bytes: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("below the root")).expect("writable");
    fs::write(path, bytes).expect("writable");
}

/// The archive without anything wrong in it.
pub(super) fn sound(root: &Path) {
    for (path, text) in PUBLISHED {
        write(root, path, text);
    }
    for (name, base) in [("32KBhash", 1000), ("65KBhash", 2000)] {
        let info = format!(
            "Image: none\nCFG: configs//4Mstates-{name}\nFreeBSD box 10.2-RELEASE FreeBSD \
             10.2-RELEASE #2 amd64\nStart time: Fri Sep 11 20:13:31 CEST 2015\nEnd time: Fri Sep \
             11 20:23:26 CEST 2015\n"
        );
        write(root, &format!("{EARLY}/bench.{name}.info"), info);
        for (run, offset) in [(1, 2), (2, 3), (3, 1)] {
            let middle = base + offset;
            // An even number of samples has the mean of the middle pair for its median.
            let mut rates = vec![middle - 5, middle, middle + 5];
            rates.extend((base == 2000).then_some(middle + 1));
            write(root, &format!("{EARLY}/bench.{name}.{run}.receiver"), old(&rates));
            write(root, &format!("{EARLY}/bench.{name}.{run}.sender"), old(&[90_000; 5]));
        }
    }
    let raw = format!("{MODERN}/RAW");
    let name = "11.0.pf-stateful.inet4";
    let info = "IMAGE=\"11.0\"\nCFG=\"pf-stateful\"\nPKTGEN=\"inet4\"\nUNAME=\"FreeBSD apu2 \
                16.0-CURRENT amd64\"";
    write(root, &format!("{raw}/bench.{name}.info"), info);
    for run in 1..=10 {
        let rate = format!("{} pps", 30 + run);
        // All that both generators sent came through in the first run, and not in the others.
        let sent = format!("{} pps", if run == 1 { 15 } else { 90 });
        let files = format!("{raw}/bench.{name}.{run}");
        write(root, &format!("{files}.receiver"), new(&["0 pps", &rate, &rate, &rate]));
        write(root, &format!("{files}.sender"), new(&[sent.as_str(); 4]));
        write(root, &format!("{files}.sender_2"), new(&["16 pps"; 4]));
    }
    for (run, rate) in [(1, 473), (2, 471), (3, 472)] {
        let text = format!(
            "CMD on 192.168.1.1: equilibrium -4 -u\n  - Offering load = 500 Mb/s\nEstimated \
             Equilibrium Ethernet throughput= {rate} Mb/s (maximum value seen: {} Mb/s)\n",
            rate + 11
        );
        write(root, &format!("{raw}/bench.vpn.{run}.sender"), text);
    }
}

/// The folder in which everything is wrong.
const TRAPS: &str = "box/results/traps";

/// What the import must say of [`traps`], in its order.
pub(super) const SKIPPED: &[&str] = &[
    "bench.cut.1.receiver:31: the file is cut short: its last line is incomplete",
    "bench.empty.1.receiver: the file is empty",
    "bench.info.info:2: CFG has no closing quote: the file is cut short",
    "bench.mixed.2.sender:1: mixed units: it is in bps, the series in pps",
    "bench.noise.1.receiver:16: a line of 10000000 bytes: those above 65536 are not read",
    "bench.noise.1.receiver:17: not UTF-8: the line is not read",
    "bench.noise.1.receiver:18: `inf pps` is not a rate: the line is not read",
    "bench.scales.1.receiver:16: mixed units: 1 scaled rates among plain ones are not read",
    "bench.twice.1.receiver: a duplicate of box/results/traps/RAW/bench.twice.1.receiver, which \
     was imported",
    "medians.pps:2: `nan` is not a finite rate",
    "medians.pps:3: `-inf` is not a finite rate",
    "medians.pps:4: `1,5` is not a number",
];

/// Runs of [`traps`] and their verdicts; the others have none.
pub(super) const VERDICTS: &[(&str, &str, &str)] = &[
    ("crash", "invalid", "ouch, thread 0 exited with error"),
    ("empty", "invalid", "a median needs 3"),
    ("few", "invalid", "2 samples are left"),
    ("lone", "invalid", "no log of a generator"),
    ("mute", "invalid", "no file says whether the DUT was alive"),
    ("overloaded", "overloaded", "the DUT answered after the traffic"),
    ("silent", "invalid", "the generator sent nothing"),
    ("unreached", "invalid", "the DUT did not answer after the traffic"),
];

/// Adds a folder of results to the archive in which everything is wrong.
pub(super) fn traps(root: &Path) {
    let sent = new(&["90 pps"; 4]);
    let run = |name: &str, received: &[u8]| {
        write(root, &format!("{TRAPS}/bench.{name}.1.receiver"), received);
        write(root, &format!("{TRAPS}/bench.{name}.1.sender"), &sent);
    };
    let with_end = |text: String, end: &str| text + end;
    let good = new(&["50 pps"; 5]);
    run("cut", with_end(good.clone(), "9.5 main_thread [2786] 9").as_bytes());
    run("empty", b"");
    run("few", new(&["50 pps", "50 pps"]).as_bytes());
    run(
        "crash",
        with_end(good.clone(), "1.0 main [1] ouch, thread 0 exited with error\n").as_bytes(),
    );
    let zeros = new(&["0 pps"; 5]);
    run("mute", zeros.as_bytes());
    run("overloaded", zeros.as_bytes());
    write(root, &format!("{TRAPS}/bench.overloaded.1.after"), "interrupt total\n");
    run("unreached", zeros.as_bytes());
    let refusal = "ssh: connect to host dut port 22: Operation timed out\n";
    write(root, &format!("{TRAPS}/bench.unreached.1.after"), refusal);
    write(root, &format!("{TRAPS}/bench.silent.1.receiver"), &zeros);
    let silence = zeros.replace("9999999 pps", "0 pps");
    write(root, &format!("{TRAPS}/bench.silent.1.sender"), silence);
    write(root, &format!("{TRAPS}/bench.lone.1.receiver"), &zeros);
    let scaled = new(&["1.067 Mpps", "1.068 Mpps", "1.069 Mpps", "998.5 Kpps"]);
    run("scaled", scaled.replace("9999999 pps", "9.999 Mpps").as_bytes());
    run("scales", new(&["1.067 Mpps", "50 pps", "50 pps", "50 pps"]).as_bytes());
    run("codes", new(&["50 pps"; 5]).replace("8.5 main", "\x1b[?1h\x1b[0m8.5 main").as_bytes());
    let mut noise = new(&[]).lines().take(OPENING_LINES).fold(String::new(), |t, l| t + l + "\n");
    noise.push_str(&"x".repeat(10_000_000));
    let mut noise = noise.into_bytes();
    noise.extend(b"\n\xff\xfe\n8.5 main_thread [2786] inf pps (7 pkts in 1 usec)\n");
    noise.extend(good.lines().skip(OPENING_LINES).fold(String::new(), |t, l| t + l + "\n").bytes());
    run("noise", &noise);
    run("mixed", good.as_bytes());
    let end =
        "Estimated Equilibrium Ethernet throughput= 473 Mb/s (maximum value seen: 484 Mb/s)\n";
    write(root, &format!("{TRAPS}/bench.mixed.2.sender"), end);
    run("info", good.as_bytes());
    write(root, &format!("{TRAPS}/bench.info.info"), "IMAGE=\"\"\nCFG=\"pf");
    write(root, &format!("{TRAPS}/RAW/bench.twice.1.receiver"), &good);
    write(root, &format!("{TRAPS}/PMC/bench.twice.1.receiver"), &good);
    write(root, &format!("{TRAPS}/medians.pps"), "1\nnan\n-inf\n1,5\n2\n3\n");
}
