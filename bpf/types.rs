//! Makes Rust constants of C types, by way of BTF: what the build scripts of weir-bpf and
//! weir-oracle share.

use std::ffi::OsStr;
use std::fmt::{Display, Write as _};
use std::path::Path;

use libbpf_rs::HasSize as _;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Enum, Enum64, MemberAttr, Struct};

/// The types of an object file, and the Rust text that was made of them so far.
pub(crate) struct Types {
    btf: Btf<'static>,
    /// Of all constants and modules: `pub`, or less.
    visibility: &'static str,
    pub(crate) text: String,
}

/// What sizes and offsets count.
pub(crate) struct Unit {
    pub(crate) bytes: u32,
    /// What the size of a structure is called, and the type of it and of offsets.
    pub(crate) size: &'static str,
    pub(crate) kind: &'static str,
}

/// Of structures that are read and written as 64-bit words.
pub(crate) const WORDS: Unit = Unit { bytes: 8, size: "WORDS", kind: "usize" };

impl Types {
    pub(crate) fn open(object: &Path, visibility: &'static str) -> Result<Self, String> {
        let failed = |error| format!("{}: {error}", object.display());
        let btf = Btf::from_path(object).map_err(failed)?;
        Ok(Self { btf, visibility, text: String::new() })
    }

    /// Adds a module with the size of a structure and the offsets of its fields, but of those that
    /// do not begin with a unit.
    pub(crate) fn structure(
        &mut self,
        name: &str,
        module: &str,
        unit: &Unit,
    ) -> Result<(), String> {
        let (size_bytes, fields) = self.fields(name)?;
        self.begin(&format!("Size of `struct {name}`, and offsets of its fields"), module);
        self.constant("The size", unit.size, unit.kind, size_bytes / unit.bytes as usize);
        for (field, bits) in fields.iter().filter(|(_, bits)| bits % (unit.bytes * 8) == 0) {
            let constant = field.to_uppercase();
            self.constant(&format!("`{field}`"), &constant, unit.kind, bits / 8 / unit.bytes);
        }
        self.text += "}\n";
        Ok(())
    }

    /// Adds a module with the values of an enumeration, whose names lose a prefix.
    pub(crate) fn enumeration(
        &mut self,
        name: &str,
        module: &str,
        prefix: &str,
        kind: &str,
    ) -> Result<(), String> {
        self.begin(&format!("Values of `enum {name}`"), module);
        self.values(name, &[prefix], kind)?;
        self.text += "}\n";
        Ok(())
    }

    /// Adds the values of an enumeration. Names lose the first of the prefixes that they have.
    pub(crate) fn values(
        &mut self,
        enumeration: &str,
        prefixes: &[&str],
        kind: &str,
    ) -> Result<(), String> {
        for (name, value) in self.enumerators(enumeration)? {
            let short = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
            let short =
                short.ok_or_else(|| format!("`{name}` begins with none of {prefixes:?}"))?;
            self.constant(&format!("`{name}`"), short, kind, value);
        }
        Ok(())
    }

    fn begin(&mut self, says: &str, module: &str) {
        let _ = writeln!(self.text, "/// {says}.\n{} mod {module} {{", self.visibility);
    }

    fn constant(&mut self, says: &str, name: &str, kind: &str, value: impl Display) {
        let visibility = self.visibility;
        let _ = writeln!(self.text, "/// {says}.\n{visibility} const {name}: {kind} = {value};");
    }

    /// The size of a structure in bytes, and its fields that are used, with their offsets in bits.
    fn fields(&self, name: &str) -> Result<(usize, Vec<(String, u32)>), String> {
        let found: Option<Struct<'_>> = self.btf.type_by_name(name);
        let found = found.ok_or_else(|| missing(name))?;
        let mut fields = Vec::new();
        for member in found.iter() {
            let field = text(member.name);
            let MemberAttr::Normal { offset: bits } = member.attr else {
                return Err(format!("`{name}.{field}` is a bit field"));
            };
            if !field.is_empty() && !field.ends_with("unused") {
                fields.push((field, bits));
            }
        }
        Ok((found.size(), fields))
    }

    fn enumerators(&self, name: &str) -> Result<Vec<(String, i128)>, String> {
        if let Some(found) = self.btf.type_by_name::<Enum<'_>>(name) {
            return Ok(found.iter().map(|each| (text(each.name), each.value.into())).collect());
        }
        let found: Option<Enum64<'_>> = self.btf.type_by_name(name);
        let found = found.ok_or_else(|| missing(name))?;
        Ok(found.iter().map(|each| (text(each.name), each.value)).collect())
    }
}

fn text(name: Option<&OsStr>) -> String {
    name.unwrap_or_default().to_string_lossy().into_owned()
}

fn missing(name: &str) -> String {
    format!("bpf/layout.bpf.c has no type `{name}`")
}
