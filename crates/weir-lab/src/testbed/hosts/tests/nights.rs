//! What else ends or stops a night where nobody looks: a generator that never ends, a DUT that died
//! before the next image, one that is not configured yet, an image
//! that somebody replaces.

use super::*;

#[test]
fn a_generator_that_does_not_stop_after_its_packets_voids_the_trial() {
    // Its line has no `${count}`.
    let (before, after) = SPEC.split_once("driver = \"weir\"").expect("a generator");
    let endless = "driver = \"command\"\nstart = \"exec weir gen --json\"\n\
                   packets = '\"offered_packets\":([0-9]+)'";
    let lab = lab_of(&format!("{before}{endless}{after}"));
    let verdict = lab.judged();
    assert_eq!(verdict.kind, VerdictKind::Invalid);
    for part in ["still sending", "10 packets", "`${count}`", "correct `start`"] {
        assert!(verdict.reason.contains(part), "{part:?} is not in: {}", verdict.reason);
    }
}

#[test]
fn a_dut_that_died_is_started_afresh_before_the_next_image() {
    let lab = lab_of(&SPEC.replace("[[dut]]", IMAGE));
    lab.world.silent.lock().unwrap().push("box until its reset".to_owned());
    let verdict = lab.judged();
    assert_eq!(verdict.kind, VerdictKind::GeneratorBound, "{}", verdict.reason);
    assert_eq!(lab.world.ran("fed: install-it"), 1);
    // One that stays dead costs its cells, and is no attempt to install the image.
    let lab = lab_of(&SPEC.replace("[[dut]]", IMAGE));
    lab.world.silent.lock().unwrap().push("box".to_owned());
    for _ in 0..3 {
        let verdict = lab.judged();
        assert_eq!(verdict.kind, VerdictKind::Invalid);
        assert!(verdict.reason.contains("DUT gone"), "{}", verdict.reason);
    }
    assert_eq!(lab.world.ran("fed"), 0);
}

#[test]
fn a_dut_that_gets_its_configuration_first_need_not_be_online_before() {
    let row = |lab: &Lab| {
        let rows = lab.testbed.look();
        rows.into_iter().find(|row| row.what == "online").expect("a row")
    };
    assert_eq!(row(&lab()).detail, "it is");
    let row = row(&lab_of(&SPEC.replace("[[dut]]", IMAGE)));
    assert!(row.passed && row.detail.contains("once it has its configuration"), "{row:?}");
}

#[test]
fn an_image_that_is_replaced_while_the_campaign_runs_ends_it() {
    let mut lab = lab_of(&SPEC.replace("[[dut]]", IMAGE));
    let dir = tempfile::tempdir().unwrap();
    lab.testbed.folder = dir.path().to_owned();
    std::fs::write(dir.path().join("v1.img"), "one").unwrap();
    let reader = Reader { cancel: &Cancel::default(), tell: &|_, _| {} };
    let images = [&lab.plan.images[0]];
    assert_eq!(lab.testbed.material(&images, &reader).unwrap().files.len(), 1);
    std::fs::write(dir.path().join("v1.img"), "two").unwrap();
    let failed = lab.run().expect_err("no other cell can run");
    assert!(failed.error.to_string().contains("was replaced while"), "{}", failed.error);
    assert_eq!(lab.world.ran("fed"), 0);
}
