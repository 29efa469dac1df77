//! Interrupts by their source: `vmstat -i` of the BSDs, `/proc/interrupts` of Linux.
//!
//! Only text in, numbers out.

use std::collections::BTreeMap;

/// `<name> <total> <rate>` of each line; the sum of all is left out.
pub(super) fn vmstat(text: &str) -> BTreeMap<String, u64> {
    text.lines()
        .filter_map(|line| {
            let mut words: Vec<&str> = line.split_whitespace().collect();
            let (_rate, total) = (words.pop()?.parse::<u64>().ok()?, words.pop()?.parse().ok()?);
            let name = words.join(" ");
            (!name.is_empty() && name != "Total").then_some((name, total))
        })
        .collect()
}

/// `<irq>: <count of each CPU>… <chip> <name>`: the sum over the CPUs by `<irq> <name>`.
pub(super) fn proc(text: &str) -> BTreeMap<String, u64> {
    let cpus = text.lines().next().map_or(0, |line| line.split_whitespace().count());
    text.lines()
        .skip(1)
        .filter_map(|line| {
            let (irq, rest) = line.trim().split_once(':')?;
            let words: Vec<&str> = rest.split_whitespace().collect();
            let counts = words.iter().take(cpus).map_while(|word| word.parse::<u64>().ok());
            let (mut sum, mut count) = (0, 0);
            for value in counts {
                sum += value;
                count += 1;
            }
            let name = words.get(count..).and_then(|words| words.last()).unwrap_or(&"");
            (count > 0).then(|| (format!("{irq} {name}").trim().to_owned(), sum))
        })
        .collect()
}
