//! `os`: names of operating systems, which have to be in the fingerprints.

use super::{Expanded, Expander, Reported};
use crate::diagnostic::{Code, Diagnostic};
use crate::value::{Spanned, Text};

impl Expander<'_> {
    /// The systems of a rule. Where no fingerprints are known, names are not looked up.
    pub(super) fn systems(&mut self, list: &[Spanned<Text>]) -> Expanded<Vec<Option<Text>>> {
        let Some(first) = list.first() else { return Ok(vec![None]) };
        self.first_os.get_or_insert(first.span);
        let Some(fingerprints) = &self.fingerprints.found else {
            return Ok(list.iter().map(|os| Some(os.value.clone())).collect());
        };
        let mut result = Ok(Vec::with_capacity(list.len()));
        for os in list {
            if fingerprints.asked(&os.value).is_some() {
                if let Ok(found) = &mut result {
                    found.push(Some(os.value.clone()));
                }
                continue;
            }
            let message = format!("unknown os fingerprint `{}`", os.value);
            let problem = Diagnostic::error(Code::UnknownOs, os.span, message);
            let names = fingerprints.all_names();
            let problem = problem.nearest(&os.value, names.iter().map(|name| &**name));
            self.diagnostics.push(problem.help("`weir pfctl -s osfp` lists those that are loaded"));
            result = Err(Reported);
        }
        result
    }
}
