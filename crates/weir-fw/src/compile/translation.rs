//! What a rule translates to, as `struct weir_fw_translation`, and FreeBSD's lists of translation
//! rules, which stand behind the filter rules of an image.
//!
//! What a pool means is asked of the evaluator, as everything else: `(interface)` stands for the
//! addresses that it has when the image is made, and another address makes another image.

use std::collections::BTreeSet;
use std::net::IpAddr;

use weir_bpf::firewall::layout::translation_flags as flags;
use weir_rules::ast::Translation as Kind;
use weir_rules::evaluate::{Evaluator, List, RuleRef, Step, source_hash_seed};
use weir_rules::ir::{Action, Address, Peer, Pool, PoolPorts, Rule, Ruleset};
use weir_rules::value::{Af, Direction, PoolKind, Text};

use super::criteria::{Names, mask4, mask6};
use super::{Builder, LEAST_STATES_COUNT_MAX, POOL_NETWORK_COUNT_MAX, Refused, refused};
use crate::image::{Choice, Criteria, RuleKind, Target, Translation, hooks};

/// Whether anything in a ruleset translates.
#[must_use]
pub(crate) fn is_in(ruleset: &Ruleset) -> bool {
    any(ruleset, |_| true)
}

/// Whether a table of a name gives addresses to a pool of a ruleset.
#[must_use]
pub(crate) fn takes_from(ruleset: &Ruleset, name: &str) -> bool {
    any(ruleset, |rule| tables_of(rule).any(|table| **table == *name))
}

/// Whether that is so of any rule that translates.
fn any(ruleset: &Ruleset, is_it: impl Fn(&Rule) -> bool) -> bool {
    let mut open = vec![&ruleset.main];
    while let Some(rules) = open.pop() {
        let lists = || [&rules.nat, &rules.rdr, &rules.binat].into_iter().flatten();
        if lists().any(|rule| rule.anchor.is_none() && is_it(rule)) {
            return true;
        }
        let mut filter = rules.filter.iter();
        if filter.any(|rule| (rule.nat.is_some() || rule.rdr.is_some()) && is_it(rule)) {
            return true;
        }
        let anchors = lists().chain(&rules.filter).filter_map(|rule| rule.anchor.as_ref());
        open.extend(anchors.filter_map(|anchor| anchor.body.as_deref()));
    }
    false
}

/// The tables that a rule's pools take their addresses from.
fn tables_of(rule: &Rule) -> impl Iterator<Item = &Text> {
    let hosts = [&rule.nat, &rule.rdr].into_iter().flatten().flat_map(|pool| &pool.hosts);
    hosts.filter_map(|host| match &host.address {
        Some(Address::Table(name)) => Some(name),
        _ => None,
    })
}

/// The tables that pools of rules take their addresses from: anchor (empty for the main ruleset)
/// and name.
pub(crate) fn pool_tables(evaluator: &Evaluator<'_>) -> BTreeSet<(Text, Text)> {
    let named = |found: RuleRef<'_>| {
        let place = |name: &Text| (evaluator.table_anchor(found.anchor, name), name.clone());
        tables_of(found.rule).map(place).collect::<Vec<_>>()
    };
    evaluator.rule_refs().flat_map(named).collect()
}

/// Whether it is a rule of FreeBSD's lists for translation, or an anchor's call there.
pub(super) fn is_listed(found: &RuleRef<'_>) -> bool {
    matches!(found.list, List::Nat | List::Rdr | List::Binat)
}

impl Names<'_> {
    /// What a rule of an anchor translates a packet in a direction to, if it does.
    pub(super) fn translation(
        &mut self,
        rule: &Rule,
        anchor: &str,
        direction: Direction,
    ) -> Option<Translation> {
        // A table that only a pool names is in use, too.
        for name in tables_of(rule) {
            self.named_table(anchor, name);
        }
        if let Action::Translate { kind: Kind::Binat, .. } = rule.action {
            return Some(self.binat(rule, anchor, direction));
        }
        if let Some(af) = rule.af_to {
            return Some(self.family(rule, anchor, af));
        }
        let is_no = matches!(rule.action, Action::Translate { no: true, .. });
        let (pool, is_source) = match (&rule.nat, &rule.rdr, direction) {
            (Some(pool), _, Direction::Out) => (pool, true),
            (_, Some(pool), Direction::In) => (pool, false),
            _ if is_no => {
                return Some(Translation { flags: flags::NO, ..Translation::default() });
            }
            _ => return None,
        };
        let mut translation = Translation {
            flags: flags_of(rule.action)
                | if is_source { flags::SOURCE } else { 0 }
                | if pool.endpoint_independent { flags::MAPPED } else { 0 },
            choice: choice(pool),
            seed: seed(pool),
            targets: self.targets(pool, anchor),
            ..Translation::default()
        };
        translation.port_set = pool.map_e;
        match pool.ports {
            PoolPorts::Static => translation.flags |= flags::KEEP_PORT,
            PoolPorts::Range(first, last) => {
                translation.port = [first.min(last), first.max(last)];
            }
            PoolPorts::Default if is_source => translation.port = PoolPorts::NAT.into(),
            PoolPorts::Default => {}
        }
        translation.port_base = rule.to.port.map_or(0, |port| port.first);
        Some(translation)
    }

    /// `af-to`: sources are those of the first pool in the new family; the destination, of that
    /// family as well, stands in the place of the old one.
    fn family(&self, rule: &Rule, anchor: &str, af: Af) -> Translation {
        let (new, old) = if af == Af::Inet6 { (1, 0) } else { (0, 1) };
        let mut targets = [Vec::new(), Vec::new()];
        let sources = rule.nat.as_ref().map(|pool| self.targets(pool, anchor));
        targets[new] = sources.map_or_else(Vec::new, |all| all[new].clone());
        let found = rule.rdr.as_ref().map(|pool| self.targets(pool, anchor));
        let destination = found.and_then(|all| all[new].first().copied());
        let prefix_octets = match (af, &destination) {
            (Af::Inet6, Some(target)) => prefix_octets(target_bits(target)),
            _ => match rule.to.address {
                Address::Network(_, bits) => prefix_octets(bits),
                _ => prefix_octets(96),
            },
        };
        targets[old].extend(destination);
        let pool = rule.nat.as_deref();
        let ports = pool.map_or(PoolPorts::Default, |pool| pool.ports);
        Translation {
            flags: flags::SOURCE
                | flags::FAMILY
                | if ports == PoolPorts::Static { flags::KEEP_PORT } else { 0 },
            choice: pool.map_or(Choice::First, choice),
            seed: pool.map_or(0, seed),
            port: match ports {
                PoolPorts::Range(first, last) => [first.min(last), first.max(last)],
                PoolPorts::Default => PoolPorts::NAT.into(),
                PoolPorts::Static => [0; 2],
            },
            prefix_octets: Some(prefix_octets),
            targets,
            ..Translation::default()
        }
    }

    /// Out, the source gets the pool's network; in, the destination that of the rule's `from`.
    fn binat(&self, rule: &Rule, anchor: &str, direction: Direction) -> Translation {
        let targets = match direction {
            Direction::Out => rule.nat.as_ref().map(|pool| self.targets(pool, anchor)),
            Direction::In => Some(self.targets_of([(&rule.from.address, 1)], anchor)),
        };
        let source = if direction == Direction::Out { flags::SOURCE } else { 0 };
        Translation {
            flags: flags_of(rule.action) | flags::BINAT | source,
            choice: Choice::Bitmask,
            targets: targets.unwrap_or_default(),
            ..Translation::default()
        }
    }

    fn targets(&self, pool: &Pool, anchor: &str) -> [Vec<Target>; 2] {
        let weighted = pool.hosts.iter().filter_map(|host| {
            let address = host.address.as_ref()?;
            Some((address, host.weight.unwrap_or(1).max(1)))
        });
        self.targets_of(weighted, anchor)
    }

    /// The networks of some addresses with their weights, by family.
    fn targets_of<'t>(
        &self,
        addresses: impl IntoIterator<Item = (&'t Address, u16)>,
        anchor: &str,
    ) -> [Vec<Target>; 2] {
        let mut targets = [Vec::new(), Vec::new()];
        let mut reach = [0_u64; 2];
        for (address, weight) in addresses {
            let networks = match address {
                Address::Network(address, bits) => vec![(*address, *bits)],
                Address::Dynamic(dynamic) => self.evaluator.pool_networks_of(dynamic),
                Address::Table(name) => self.evaluator.networks_of_table(anchor, name),
                // Refused before.
                _ => Vec::new(),
            };
            for (address, bits) in networks {
                let family = usize::from(address.is_ipv6());
                let target = target(address, bits);
                let turns = match target.size {
                    0 => u64::MAX,
                    size => size.saturating_mul(weight.into()),
                };
                reach[family] = reach[family].saturating_add(turns);
                targets[family].push(Target { reach: reach[family], ..target });
            }
        }
        targets
    }
}

/// How many octets of an IPv6 address stand before the IPv4 address in it, by the length of its
/// prefix (RFC 6052, section 2.2); other lengths count as 96.
fn prefix_octets(bits: u8) -> u8 {
    match bits {
        32 | 40 | 48 | 56 | 64 => bits / 8,
        _ => 12,
    }
}

/// The length of a target's prefix.
fn target_bits(target: &Target) -> u8 {
    let ones = u128::from_be_bytes(target.mask).count_ones();
    u8::try_from(ones).unwrap_or(128)
}

fn flags_of(action: Action) -> u8 {
    match action {
        Action::Translate { no, pass, .. } => {
            (if no { flags::NO } else { 0 }) | if pass { flags::PASS } else { 0 }
        }
        _ => 0,
    }
}

/// With `sticky-address` a source keeps the address that its hash gives it.
fn choice(pool: &Pool) -> Choice {
    match pool.kind {
        None => Choice::First,
        Some(PoolKind::Bitmask) => Choice::Bitmask,
        Some(PoolKind::SourceHash(_)) => Choice::SourceHash,
        Some(_) if pool.sticky => Choice::SourceHash,
        Some(PoolKind::Random) => Choice::Random,
        Some(PoolKind::RoundRobin) => Choice::RoundRobin,
        Some(PoolKind::LeastStates) => Choice::LeastStates,
    }
}

/// What the addresses are hashed on with.
fn seed(pool: &Pool) -> u64 {
    let key = match &pool.kind {
        Some(PoolKind::SourceHash(key)) => key.as_ref(),
        _ => None,
    };
    source_hash_seed(key)
}

/// A network, which is reached by no turn yet.
fn target(address: IpAddr, bits: u8) -> Target {
    let (words, masks, size) = match address {
        IpAddr::V4(address) => {
            let (mut words, mut masks) = ([0; 16], [0; 16]);
            words[..4].copy_from_slice(&address.octets());
            masks[..4].copy_from_slice(&mask4(bits).to_be_bytes());
            (words, masks, 1_u64 << (32 - bits.min(32)))
        }
        IpAddr::V6(address) => {
            let host_bits = 128 - u32::from(bits.min(128));
            let size = 1_u64.checked_shl(host_bits).unwrap_or(0);
            (address.octets(), mask6(bits).to_be_bytes(), size)
        }
    };
    Target { addr: words, mask: masks, reach: 0, size }
}

impl<'a> Builder<'a> {
    /// FreeBSD's lists, behind the filter rules: `rdr`, `binat` in, `binat` out, `nat`. Gives where
    /// each of them ends.
    pub(super) fn lists(&mut self) -> Result<[u32; 4], Refused> {
        let evaluator = self.names.evaluator;
        let mut ends = [0; 4];
        for ((list, direction), end) in [
            (List::Rdr, Direction::In),
            (List::Binat, Direction::In),
            (List::Binat, Direction::Out),
            (List::Nat, Direction::Out),
        ]
        .into_iter()
        .zip(&mut ends)
        {
            for step in evaluator.steps(list) {
                self.list_step(step, direction)?;
            }
            *end = u32::try_from(self.criteria.len()).unwrap_or(u32::MAX);
        }
        Ok(ends)
    }

    fn list_step(&mut self, step: Step, direction: Direction) -> Result<(), Refused> {
        let (Step::Rule(id) | Step::Enter(id)) = step else {
            self.leave(None);
            return Ok(());
        };
        if matches!(step, Step::Enter(_)) {
            self.open.push(self.criteria.len());
        }
        let found = self.names.evaluator.rule(id);
        found.map_or(Ok(()), |found| self.listed(&found, direction))
    }

    /// One of their rules, or an anchor's call, as it is for a direction.
    fn listed(&mut self, found: &RuleRef<'a>, direction: Direction) -> Result<(), Refused> {
        // Those with `no` are asked as they stand, and so are anchors.
        let is_plain = matches!(found.rule.action, Action::Translate { no: true, .. })
            || found.rule.anchor.is_some();
        let is_back = found.list == List::Binat && direction == Direction::In && !is_plain;
        let turned = is_back.then(|| turned(found.rule));
        let criteria = self.names.criteria(turned.as_ref().unwrap_or(found.rule), found.anchor);
        let hook = if direction == Direction::In { hooks::IN } else { hooks::OUT };
        let other = hooks::IN | hooks::OUT;
        let hooks = criteria.hooks & !other | hook;
        let criteria = Criteria { hooks, ..criteria };
        if found.rule.anchor.is_some() {
            return self.row(found, criteria, Some(RuleKind::Anchor));
        }
        self.row(found, criteria, Some(RuleKind::Translate))?;
        self.translate(found, direction)
    }

    /// Gives the last row what its rule translates to.
    pub(super) fn translate(
        &mut self,
        found: &RuleRef<'a>,
        direction: Direction,
    ) -> Result<(), Refused> {
        let mut translation = self.names.translation(found.rule, found.anchor, direction);
        let count = |translation: &Translation| translation.targets.iter().map(Vec::len).sum();
        let count: usize = translation.as_ref().map_or(0, count);
        if count > POOL_NETWORK_COUNT_MAX {
            let message = format!(
                "a pool of {count} networks: the data path takes at most {POOL_NETWORK_COUNT_MAX}"
            );
            return Err(refused(found.rule.span, message));
        }
        if let Some(translation) = &mut translation
            && translation.choice == Choice::LeastStates
        {
            translation.seed = addresses_of(translation, found.rule)?;
        }
        if let Some(last) = self.translations.last_mut() {
            *last = translation;
        }
        Ok(())
    }
}

/// How many addresses a pool with `least-states` has, of which a new flow looks at each.
fn addresses_of(translation: &Translation, rule: &Rule) -> Result<u64, Refused> {
    let sizes = translation.targets.iter().map(|targets| {
        let sizes =
            targets.iter().map(|target| if target.size == 0 { u64::MAX } else { target.size });
        sizes.fold(0, u64::saturating_add)
    });
    let count = sizes.max().unwrap_or(0);
    if count > LEAST_STATES_COUNT_MAX {
        let message = format!(
            "a pool with `least-states` of {count} addresses: the data path looks at \
             {LEAST_STATES_COUNT_MAX} at most"
        );
        return Err(refused(rule.span, message));
    }
    Ok(count)
}

/// `binat` for packets that come in: from where others go to, to the address outside.
fn turned(rule: &Rule) -> Rule {
    let pool = rule.nat.as_ref().and_then(|pool| pool.hosts.first());
    let outside = pool.and_then(|host| host.address.clone()).unwrap_or_default();
    let to = Peer { address: outside, ..Peer::default() };
    Rule { from: rule.to.clone(), to, ..rule.clone() }
}
