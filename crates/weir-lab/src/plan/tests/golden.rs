//! Orders and views that must not drift: stores depend on them.

use super::*;
use crate::plan::view::PlanView;

/// Four series.
fn four(order: &str, iterations: u32, seed: u64) -> Plan {
    let text = format!(
        "[campaign]\nname = \"c\"\niterations = {iterations}\norder = \"{order}\"\nseed = {seed}\n\
         [testbed]\nkind = \"netns\"\n\
         [[sweep]]\nname = \"n\"\nvalues = [1, 2, 3, 4]\n\
         [[dut]]\nname = \"a\"\nkind = \"linux\"\n\
         [[traffic]]\nname = \"t\"\nsrc = \"198.18.10.${{n}}\"\ndst = \"198.19.10.1\"\n"
    );
    plan(&text, &[])
}

fn order(plan: &Plan) -> Vec<String> {
    plan.cells.iter().map(|cell| format!("{}/{}", cell.series_index + 1, cell.iteration)).collect()
}

#[test]
fn sequential_is_series_by_series() {
    let order = order(&four("sequential", 2, 1)).join(" ");
    assert_eq!(order, "1/1 1/2 2/1 2/2 3/1 3/2 4/1 4/2");
}

#[test]
fn interleaved_is_blocks_of_every_series() {
    let first = order(&four("interleaved", 3, 1));
    assert_eq!(first.join(" "), "4/1 1/1 3/1 2/1 4/2 2/2 3/2 1/2 4/3 3/3 1/3 2/3");
    for (index, block) in first.chunks(4).enumerate() {
        let mut block: Vec<_> = block.to_vec();
        block.sort();
        let iteration = index + 1;
        assert_eq!(block, (1..=4).map(|s| format!("{s}/{iteration}")).collect::<Vec<_>>());
    }
}

#[test]
fn no_series_is_favoured() {
    let plan = four("interleaved", 600, 1);
    let mut first = [0; 4];
    for block in plan.cells.chunks(4) {
        first[block[0].series_index] += 1;
    }
    assert!(first.iter().all(|count| (110..190).contains(count)), "{first:?}");
}

#[test]
fn more_iterations_keep_the_earlier_blocks() {
    let short = order(&four("interleaved", 3, 7));
    let long = order(&four("interleaved", 9, 7));
    assert_eq!(long[..12], short);
    assert_ne!(order(&four("interleaved", 9, 8)), long, "the seed matters");
}

#[test]
fn the_view_is_complete() {
    let plan = plan(GOOD, &[]);
    let view = serde_json::to_value(PlanView::new(&plan)).expect("a view");
    assert_eq!(view["trial"]["duration_ns"], 3_000_000_000_u64);
    assert_eq!(view["testbed"]["kind"], "netns");
    assert_eq!(view["series"][0]["cell_count"], 2);
    assert_eq!(view["series"][0]["traffic"]["flow_count"], 1);
    assert_eq!(view["cells"][1]["name"], "a.t/2");
    assert_eq!(view["cells"][1]["id"], plan.cells[1].id.as_str());
    assert_eq!(view["calibrations"][0]["name"], "t");
    // One calibration and two cells of 0.5 + 3 + 0.2 s, with 0.38 s of overhead each; 0.8 s of
    // reading and writing, and two looks of a twentieth of all that.
    assert_eq!(view["estimated_duration_ns"], 14_344_000_000_u64);
    assert_eq!(view["estimate"]["calibrations_ns"], 4_080_000_000_u64);
    assert_eq!(view["estimate"]["priming_ns"], 0);
}
