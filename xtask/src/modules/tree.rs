//! The modules of a crate as its sources declare them, and which module names which.
//!
//! Only what is built into the product counts: a module is found through the `mod` that declares
//! it, so one behind `#[cfg(test)]` is not there. A module written in braces belongs to its file.

use std::collections::{BTreeMap, BTreeSet};

use crate::mask;
use crate::paths::{self, Path, Token};
use crate::workspace::SourceFile;

/// A module's path below its crate, without the crate's name; the root's is empty.
pub(super) type Name = Vec<String>;

/// A module that is a file.
#[derive(Debug, Default)]
struct Module {
    /// Of the repository.
    file: String,
    /// Names that its own text gives to items, modules in braces among them.
    defines: BTreeSet<String>,
    /// Paths that it names, with how many modules in braces stand around each.
    paths: Vec<(usize, Path)>,
    /// Those of its `use`s.
    uses: Vec<(usize, Path)>,
}

/// One module that names another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reference {
    pub(super) from: Name,
    pub(super) to: Name,
    /// Where, for the first time.
    pub(super) file: String,
    /// From 1.
    pub(super) line: usize,
}

/// All modules of a crate.
#[derive(Debug, Default)]
pub(super) struct Tree {
    modules: BTreeMap<Name, Module>,
}

/// Words before the name of an item.
const ITEMS: &[&str] =
    &["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "macro_rules"];

/// A `use` that leads to a `use` …: more than this is a circle of them.
const HOPS_MAX: usize = 16;

impl Tree {
    /// Reads the crate whose sources are below `source` (`crates/weir-wire/src`).
    pub(super) fn read(source: &str, files: &[SourceFile]) -> Self {
        let mut tree = Self::default();
        for root in ["lib.rs", "main.rs"] {
            let path = format!("{source}/{root}");
            if let Some(file) = files.iter().find(|file| file.path == path) {
                tree.add(&Name::new(), file, source, files);
            }
        }
        tree
    }

    /// The files that are part of the product.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.modules.values().map(|module| module.file.as_str())
    }

    fn add(&mut self, name: &Name, file: &SourceFile, source: &str, files: &[SourceFile]) {
        let code = mask::without_tests(&file.code());
        let tokens = paths::tokens(&code);
        let module = Module::read(&file.path, &tokens);
        let children = declared(&tokens);
        self.modules.insert(name.clone(), module);
        for child in children {
            let mut below = name.clone();
            below.push(child);
            let stem = format!("{source}/{}", below.join("/"));
            let places = [format!("{stem}.rs"), format!("{stem}/mod.rs")];
            if let Some(file) = files.iter().find(|file| places.contains(&file.path)) {
                self.add(&below, file, source, files);
            }
        }
    }

    /// Which modules name which, each pair once, without what a module names of itself.
    pub(super) fn references(&self) -> Vec<Reference> {
        let mut found = BTreeMap::new();
        for (name, module) in &self.modules {
            for (braces, path) in &module.paths {
                for to in self.targets(name, *braces, path) {
                    let line = found.entry((name.clone(), to)).or_insert(path.line);
                    *line = path.line.min(*line);
                }
            }
        }
        let reference = |((from, to), line): ((Name, Name), usize)| {
            let file = self.modules.get(&from).map_or_else(String::new, |m| m.file.clone());
            Reference { from, to, file, line }
        };
        found.into_iter().filter(|((from, to), _)| from != to).map(reference).collect()
    }

    /// The modules that a path in `from` leads through or to: the one it names, and where that has
    /// the item from.
    fn targets(&self, from: &Name, braces: usize, path: &Path) -> BTreeSet<Name> {
        let mut found = BTreeSet::new();
        if let Some(absolute) = self.absolute(from, braces, &path.words) {
            self.follow(&absolute, HOPS_MAX, &mut found);
        }
        found
    }

    /// A path of this crate from the root of the crate; none if it is another crate's, or a name
    /// that a `use` of the same file has brought.
    fn absolute(&self, from: &Name, braces: usize, words: &[String]) -> Option<Vec<String>> {
        let (first, rest) = words.split_first()?;
        let mut base = from.clone();
        match first.as_str() {
            "crate" => return Some(rest.to_vec()),
            "self" => {}
            "super" => {
                // The first ones lead out of the modules in braces.
                let ups = 1 + rest.iter().take_while(|word| *word == "super").count();
                base.truncate(from.len().checked_sub(ups.saturating_sub(braces))?);
                base.extend_from_slice(&rest[ups - 1..]);
                return Some(base);
            }
            child => {
                base.push(child.to_owned());
                self.modules.contains_key(&base).then_some(())?;
            }
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    /// Goes along a path from the root, through what modules re-export.
    fn follow(&self, absolute: &[String], hops: usize, found: &mut BTreeSet<Name>) {
        let mut at = Name::new();
        let mut rest = absolute;
        while let Some((word, after)) = rest.split_first() {
            at.push(word.clone());
            if !self.modules.contains_key(&at) {
                at.pop();
                break;
            }
            rest = after;
        }
        found.insert(at.clone());
        let (Some((item, after)), Some(module)) = (rest.split_first(), self.modules.get(&at))
        else {
            return;
        };
        if item == "*" || hops == 0 || module.defines.contains(item) {
            return;
        }
        let named = module.uses.iter().filter(|(_, path)| path.name() == Some(item));
        let mut next: Vec<_> = named
            .filter_map(|(braces, path)| self.absolute(&at, *braces, &path.words))
            .map(|mut path| {
                path.extend_from_slice(after);
                path
            })
            .collect();
        if next.is_empty() {
            next = self.wildcards(&at, item);
        }
        for path in next.iter().filter(|path| path.as_slice() != absolute) {
            self.follow(path, hops - 1, found);
        }
    }

    /// Where `use …::*` of a module may have an item from: the modules that define it.
    fn wildcards(&self, at: &Name, item: &str) -> Vec<Vec<String>> {
        let module = self.modules.get(at);
        let uses = module.iter().flat_map(|module| &module.uses);
        uses.filter(|(_, path)| path.words.last().is_some_and(|word| word == "*"))
            .filter_map(|(braces, path)| self.absolute(at, *braces, &path.words))
            .filter_map(|mut path| {
                path.pop();
                let defines = self.modules.get(&path)?.defines.contains(item);
                path.push(item.to_owned());
                defines.then_some(path)
            })
            .collect()
    }
}

impl Module {
    fn read(file: &str, tokens: &[Token]) -> Self {
        let mut module = Self { file: file.to_owned(), ..Self::default() };
        let text = |index: usize| tokens.get(index).map_or("", |token| token.text.as_str());
        // Depths of the braces that modules opened.
        let mut inner: Vec<usize> = Vec::new();
        let (mut depth, mut index) = (0_usize, 0);
        while index < tokens.len() {
            match text(index) {
                "{" => {
                    depth += 1;
                    if index >= 2 && text(index - 2) == "mod" {
                        inner.push(depth);
                    }
                }
                "}" => {
                    inner.pop_if(|opened| *opened == depth);
                    depth = depth.saturating_sub(1);
                }
                word if ITEMS.contains(&word) && paths::is_word(text(index + 1)) => {
                    module.defines.insert(text(index + 1).to_owned());
                }
                "macro_rules" => {
                    module.defines.insert(text(index + 2).to_owned());
                }
                _ if paths::begins(tokens, index) => {
                    let found = paths::at(tokens, index).into_iter();
                    let found: Vec<_> = found.map(|path| (inner.len(), path)).collect();
                    if index > 0 && text(index - 1) == "use" {
                        module.uses.extend(found.iter().cloned());
                        module.paths.extend(found);
                    } else if found.iter().any(|(_, path)| path.words.len() > 1) {
                        module.paths.extend(found);
                    }
                }
                _ => {}
            }
            index += 1;
        }
        module
    }
}

/// The modules that `mod name;` declares.
fn declared(tokens: &[Token]) -> Vec<String> {
    let triples = tokens.windows(3);
    let declarations = triples.filter(|t| t[0].text == "mod" && t[2].text == ";");
    declarations.map(|t| t[1].text.clone()).collect()
}
