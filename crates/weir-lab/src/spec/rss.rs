//! `rss` in `[testbed]`: by which key, table and fields packets are spread over the queues of the
//! DUT's devices. What cannot be done is refused here, before anything is made.

use weir_wire::rss::{Fields as HashFields, Key, Table};

use crate::diagnostic::Report;
use crate::model::RssSpec;
use crate::spec::fields::Fields;

/// The table's name in messages.
const WHAT: &str = "`rss` of [testbed]";

/// Reads the field of a testbed of namespaces whose devices have so many queues.
pub(super) fn rss(
    testbed: &Fields<'_, '_>,
    queue_count: u32,
    report: &mut Report,
) -> Option<Box<RssSpec>> {
    let fields = Fields::of(WHAT, testbed.get("rss")?, report)?;
    fields.refuse_unknown(&["key", "table", "fields"], report);
    let key = parsed(&fields, "key", Key::microsoft(), report);
    let hashed = parsed(&fields, "fields", HashFields::FourTuple, report);
    let share = u16::try_from(queue_count).unwrap_or(u16::MAX);
    let equal = Table::equal(share, weir_wire::rss::table::BUCKET_COUNT_DEFAULT).ok()?;
    let table = parsed(&fields, "table", equal, report)?;
    if table.queue_count() > queue_count as usize {
        let message = format!(
            "the table names queue {}, but the devices have {queue_count}",
            table.queue_count() - 1
        );
        let help = format!("`queues = {}` in [testbed], or a table of fewer", table.queue_count());
        report.error_help(&fields.span_of("table"), message, help);
        return None;
    }
    let spec =
        RssSpec { key: key?.to_string(), table: table.to_string(), fields: hashed?.to_string() };
    Some(Box::new(spec))
}

/// A field that is read from a text; the default where it is not there.
fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    fields: &Fields<'_, '_>,
    name: &str,
    default: T,
    report: &mut Report,
) -> Option<T> {
    if fields.get(name).is_none() {
        return Some(default);
    }
    let text = fields.text(name, report)?;
    match text.text.parse() {
        Ok(value) => Some(value),
        Err(error) => {
            report.error(&text.span, format!("`{name}`: {error}"));
            None
        }
    }
}
