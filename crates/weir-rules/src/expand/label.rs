//! The macros of labels and tags: `$if`, `$srcaddr`, `$dstaddr`, `$srcport`, `$dstport`, `$proto`
//! and `$nr`.

use std::fmt::Write as _;

use super::{Expanded, Expander};
use crate::diagnostic::Code;
use crate::ir::{Address, Peer, Rule};
use crate::limits::{LABEL_SIZE_MAX, TAG_SIZE_MAX};
use crate::print;
use crate::value::{Operator, Text};

/// The macros, longest names first where one begins another.
const MACROS: &[&str] = &["$if", "$srcaddr", "$dstaddr", "$srcport", "$dstport", "$proto", "$nr"];

impl Expander<'_> {
    pub(super) fn expand_labels(&mut self, rule: &mut Rule, number: usize) -> Expanded<()> {
        let has = |text: &Text| text.contains('$');
        let options = &rule.options;
        let tagged = options.tagged.as_ref().map(|(_, tag)| tag);
        let any = options.labels.iter().chain(&options.tag).chain(tagged).any(has);
        if !any {
            return Ok(());
        }
        let mut options = std::mem::take(&mut rule.options);
        let mut result = Ok(());
        for label in &mut options.labels {
            result = result.and(self.expand_label(label, LABEL_SIZE_MAX, rule, number));
        }
        for tag in options.tag.iter_mut().chain(options.tagged.iter_mut().map(|(_, tag)| tag)) {
            result = result.and(self.expand_label(tag, TAG_SIZE_MAX, rule, number));
        }
        rule.options = options;
        result
    }

    fn expand_label(
        &mut self,
        label: &mut Text,
        size_max: usize,
        rule: &Rule,
        number: usize,
    ) -> Expanded<()> {
        let mut text = String::new();
        let mut rest = &**label;
        while let Some(at) = rest.find('$') {
            text.push_str(&rest[..at]);
            rest = &rest[at..];
            match MACROS.iter().find(|name| rest.starts_with(**name)) {
                Some(name) => {
                    self.label_macro(name, rule, number, &mut text);
                    rest = &rest[name.len()..];
                }
                None => {
                    text.push('$');
                    rest = &rest[1..];
                }
            }
        }
        text.push_str(rest);
        if text.len() > size_max {
            let message = format!("`{text}` is longer than {size_max} characters");
            return self.fail(Code::BadValue, rule.span, &message);
        }
        *label = text.into();
        Ok(())
    }

    fn label_macro(&self, name: &str, rule: &Rule, number: usize, text: &mut String) {
        match name {
            "$if" => {
                text.push_str(rule.interface.as_ref().map_or("any", |interface| &interface.name));
            }
            "$srcaddr" => address(&rule.from, rule, text),
            "$dstaddr" => address(&rule.to, rule, text),
            "$srcport" => port(&rule.from, text),
            "$dstport" => port(&rule.to, text),
            "$proto" => {
                let number = rule.protocol.unwrap_or(0);
                match self.resolver.protocol_name(number) {
                    Some(name) => text.push_str(&name),
                    None => text.push_str(&number.to_string()),
                }
            }
            _ => text.push_str(&number.to_string()),
        }
    }
}

fn address(peer: &Peer, rule: &Rule, text: &mut String) {
    if peer.not {
        text.push_str("! ");
    }
    match &peer.address {
        Address::Range(first, last) => {
            text.push_str(&print::ip(*first));
            text.push('-');
            text.push_str(&print::ip(*last));
        }
        other => text.push_str(&print::address(other, rule.af)),
    }
}

fn port(peer: &Peer, text: &mut String) {
    let Some(port) = peer.port else { return };
    let (a, b) = (port.first, port.second);
    // Writing to a string cannot fail.
    let _ = match port.operator {
        Operator::Inside => write!(text, "{a}><{b}"),
        Operator::Outside => write!(text, "{a}<>{b}"),
        Operator::Equal => write!(text, "{a}"),
        Operator::NotEqual => write!(text, "!={a}"),
        Operator::Less => write!(text, "<{a}"),
        Operator::LessEqual => write!(text, "<={a}"),
        Operator::Greater => write!(text, ">{a}"),
        Operator::GreaterEqual => write!(text, ">={a}"),
        Operator::Range => write!(text, "{a}:{b}"),
    };
}
