//! Two imported archives of any size, and how long it takes to compare them.

use weir_machine::cancel::Cancel;

use super::archive::{self, RUN_COUNT};
use super::command::{self, Taken};
use super::rows::COMPARE_TIME;
use super::{Result, Samples, Settings};

/// What the row's name promises, of each of the two.
const CELL_COUNT: f64 = 10_000.0;

/// Makes two archives, imports them, and compares the stores once a round, with the page.
pub(super) fn measure(
    settings: &Settings,
    cancel: &Cancel,
    say: &mut dyn FnMut(&str),
    samples: &mut Samples,
) -> Result<()> {
    let dir = tempfile::Builder::new().prefix("weir-bench-stats-").tempdir()?;
    let series_count = super::scaled(CELL_COUNT * settings.scale / f64::from(RUN_COUNT));
    let mut stores = Vec::new();
    for name in ["before", "after"] {
        say(&format!("importing an archive of {} cells", series_count * RUN_COUNT));
        let (source, store) = (dir.path().join(name), dir.path().join(format!("{name}-store")));
        archive::make(&source, series_count, cancel)?;
        let paths = [source.to_string_lossy(), store.to_string_lossy()];
        let arguments = ["lab", "import", &paths[0], "--out", &paths[1], "--json"];
        command::run(&settings.weir, &arguments, cancel)?;
        std::fs::remove_dir_all(&source)?;
        stores.push(store.to_string_lossy().into_owned());
    }
    let page = dir.path().join("compare.html").to_string_lossy().into_owned();
    for round in 1..=settings.repeats {
        let arguments = ["lab", "compare", &stores[0], &stores[1], "--json", "--out", &page];
        let Taken { time_s, .. } = command::run(&settings.weir, &arguments, cancel)?;
        say(&format!("compare {round} of {}: {time_s:.2} s", settings.repeats));
        samples.entry(COMPARE_TIME).or_default().push(time_s);
    }
    Ok(())
}
