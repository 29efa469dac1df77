//! What stands for `${name}` in the lines that start and stop generators and receivers.

use std::sync::Arc;

use crate::diagnostic::{Report, Source};
use crate::spec::template::Template;

/// A line with its references replaced. Those that it may not have were refused with the
/// specification, and stay.
pub(super) fn render(line: &str, values: &[(&str, String)]) -> String {
    let source = Arc::new(Source { name: "a line".to_owned(), text: line.to_owned() });
    let mut unheard = Report::new(Arc::clone(&source));
    Template::in_file(&source, &mut unheard).render(|name| {
        values.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_has_is_put_in_and_the_shells_own_stays() {
        let values = [("interface", "ix0".to_owned()), ("count", "10".to_owned())];
        let line = "tx -i ${interface} -n ${count} > ${HOME}/log; echo $$";
        assert_eq!(render(line, &values), "tx -i ix0 -n 10 > ${HOME}/log; echo $$");
    }
}
