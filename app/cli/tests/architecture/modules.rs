//! The modules of a crate and who of them names whom, read from its source by a real parser. Not for judging the graph:
//! that is `knots`.
//!
//! A module names another by a path: in `use`, in code, in types, in the words of a macro. What a module only passes on
//! (`pub use`) is followed to where it is made. Modules and everything else under `#[cfg(test)]` are left out, and a
//! module and what lies inside it are one thing: neither names the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::buffer::{Cursor, TokenBuffer};
use syn::visit::Visit;

/// Names from the root of the crate down: of a module, or of something in it.
pub type Name = Vec<String>;

/// A crate's modules, and for each pair which names of the one the other uses.
#[derive(Default)]
pub struct Graph {
    /// The file of each module, `mod` blocks included.
    pub files: BTreeMap<Name, PathBuf>,
    /// Who, whom, and by which names.
    pub uses: BTreeMap<Name, BTreeMap<Name, BTreeSet<String>>>,
}

/// What a module says before anything is resolved.
#[derive(Default)]
struct Module {
    /// Names that it makes itself.
    makes: BTreeSet<String>,
    /// Names that it takes from elsewhere.
    takes: BTreeMap<String, Name>,
    /// Modules of which it takes everything.
    globs: Vec<Name>,
    /// Everything that it names.
    names: BTreeSet<Name>,
}

impl Graph {
    /// Reads a crate from its root file on.
    pub fn of(root: &Path) -> Self {
        let mut reader = Reader::default();
        reader.file(root, root.parent().unwrap(), Vec::new());
        let Reader { modules, files } = reader;
        let mut graph = Self { files, ..Self::default() };
        for (own, module) in &modules {
            for name in &module.names {
                let Some(owner) = owner(&modules, name, own, 16) else { continue };
                if !owner.starts_with(own) && !own.starts_with(&owner) {
                    let word = name.last().cloned().unwrap_or_default();
                    graph.uses.entry(own.clone()).or_default().entry(owner).or_default().insert(word);
                }
            }
        }
        graph
    }
}

/// The module in which a name is made. `None`: in another crate, or nowhere.
fn owner(modules: &BTreeMap<Name, Module>, name: &Name, from: &Name, depth: usize) -> Option<Name> {
    let mut at = Name::new();
    for (index, part) in name.iter().enumerate() {
        let inner: Name = at.iter().chain([part]).cloned().collect();
        if modules.contains_key(&inner) {
            at = inner;
            continue;
        }
        let module = &modules[&at];
        if module.makes.contains(part) || depth == 0 {
            return Some(at);
        }
        if let Some(target) = module.takes.get(part) {
            let target: Name = target.iter().chain(&name[index + 1..]).cloned().collect();
            // What a module takes for itself alone is named by itself alone; it was counted where it was taken.
            return if &at == from { None } else { owner(modules, &target, &at, depth - 1) };
        }
        let found = module.globs.iter().find_map(|glob| {
            let target: Name = glob.iter().chain(&name[index..]).cloned().collect();
            let home = owner(modules, &target, &at, depth - 1)?;
            makes(modules, &home, part).then_some(home)
        });
        return found.or(Some(at));
    }
    Some(at)
}

/// Whether a module has something of this name.
fn makes(modules: &BTreeMap<Name, Module>, home: &Name, part: &str) -> bool {
    home.last().is_some_and(|last| last == part) || modules[home].makes.contains(part)
}

#[derive(Default)]
struct Reader {
    modules: BTreeMap<Name, Module>,
    files: BTreeMap<Name, PathBuf>,
}

impl Reader {
    /// A file, whose own modules lie in `folder`.
    fn file(&mut self, path: &Path, folder: &Path, name: Name) {
        let text = std::fs::read_to_string(path).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()));
        let file = syn::parse_file(&text).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()));
        self.items(&file.items, path, folder, name);
    }

    fn items(&mut self, items: &[syn::Item], path: &Path, folder: &Path, name: Name) {
        let mut speaker = Speaker { own: name.clone(), module: Module::default() };
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            if let syn::Item::Mod(module) = item {
                let inner: Name = name.iter().cloned().chain([module.ident.to_string()]).collect();
                let place = folder.join(module.ident.to_string());
                match &module.content {
                    Some((_, items)) => self.items(items, path, &place, inner),
                    None => {
                        let named = module.attrs.iter().find_map(path_of).map(|named| path.with_file_name(named));
                        let beside = [named, Some(place.with_extension("rs")), Some(place.join("mod.rs"))];
                        let file = beside.into_iter().flatten().find(|file| file.is_file());
                        let file = file.unwrap_or_else(|| panic!("{}: no file of module {inner:?}", path.display()));
                        self.file(&file, &place, inner);
                    }
                }
            } else {
                speaker.visit_item(item);
            }
        }
        self.modules.insert(name.clone(), speaker.module);
        self.files.insert(name, path.to_owned());
    }
}

/// Collects what one module says.
struct Speaker {
    own: Name,
    module: Module,
}

impl Speaker {
    /// The name that a path means, from the root of the crate on. `None`: it begins with another crate, a type, or what
    /// is in scope, which a `use` brought there.
    fn absolute(&self, parts: &[String]) -> Option<Name> {
        let mut at = match parts.first()?.as_str() {
            "crate" => Name::new(),
            "self" | "super" => self.own.clone(),
            _ => return None,
        };
        for part in parts {
            match part.as_str() {
                "crate" | "self" => {}
                "super" => drop(at.pop()),
                part => at.push(part.to_owned()),
            }
        }
        Some(at)
    }

    fn say(&mut self, parts: &[String]) {
        if let Some(name) = self.absolute(parts) {
            self.module.names.insert(name);
        }
    }

    fn take(&mut self, before: &mut Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.take(before, &path.tree);
                before.pop();
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.take(before, tree)),
            syn::UseTree::Name(name) => self.taken(before, &name.ident, &name.ident),
            syn::UseTree::Rename(rename) => self.taken(before, &rename.ident, &rename.rename),
            syn::UseTree::Glob(_) => {
                self.say(before);
                if let Some(module) = self.inside(before) {
                    self.module.globs.push(module);
                }
            }
        }
    }

    fn taken(&mut self, before: &[String], name: &syn::Ident, alias: &syn::Ident) {
        let (mut parts, mut alias) = (before.to_vec(), alias.to_string());
        if name != "self" {
            parts.push(name.to_string());
        } else if alias == "self" {
            alias = parts.last().cloned().unwrap_or_default();
        }
        self.say(&parts);
        if let Some(target) = self.inside(&parts) {
            self.module.takes.insert(alias, target);
        }
    }

    /// As [`Self::absolute`], where the path may begin with a module inside of this one; that of another crate is
    /// harmless.
    fn inside(&self, parts: &[String]) -> Option<Name> {
        parts.first()?;
        Some(self.absolute(parts).unwrap_or_else(|| self.own.iter().chain(parts).cloned().collect()))
    }

    /// Paths among the words of a macro, which no parser knows.
    fn words(&mut self, mut cursor: Cursor<'_>) {
        let mut parts: Vec<String> = Vec::new();
        let mut colons = 0;
        while !cursor.eof() {
            if let Some((inner, _, _, next)) = cursor.any_group() {
                self.say(&std::mem::take(&mut parts));
                self.words(inner);
                cursor = next;
            } else if let Some((ident, next)) = cursor.ident() {
                if colons != 2 {
                    self.say(&std::mem::take(&mut parts));
                }
                parts.push(ident.to_string());
                (colons, cursor) = (0, next);
            } else if let Some((punct, next)) = cursor.punct() {
                colons = if punct.as_char() == ':' { colons + 1 } else { 0 };
                if colons == 0 {
                    self.say(&std::mem::take(&mut parts));
                }
                cursor = next;
            } else if let Some((_, next)) = cursor.token_tree() {
                self.say(&std::mem::take(&mut parts));
                (colons, cursor) = (0, next);
            } else {
                break;
            }
        }
        self.say(&parts);
    }
}

impl<'ast> Visit<'ast> for Speaker {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        let made = match item {
            syn::Item::Const(item) => Some(&item.ident),
            syn::Item::Enum(item) => Some(&item.ident),
            syn::Item::Fn(item) => Some(&item.sig.ident),
            syn::Item::Static(item) => Some(&item.ident),
            syn::Item::Struct(item) => Some(&item.ident),
            syn::Item::Trait(item) => Some(&item.ident),
            syn::Item::Type(item) => Some(&item.ident),
            syn::Item::Union(item) => Some(&item.ident),
            syn::Item::Macro(item) => item.ident.as_ref(),
            _ => None,
        };
        self.module.makes.extend(made.map(ToString::to_string));
        syn::visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.take(&mut Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.say(&parts);
        syn::visit::visit_path(self, path);
    }

    /// `pub(in crate::a)` names nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    /// Neither does a link in a comment.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_macro(&mut self, own: &'ast syn::Macro) {
        self.visit_path(&own.path);
        self.words(TokenBuffer::new2(own.tokens.clone()).begin());
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether it is built for tests alone: `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, unix))]`.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let words = list.tokens.to_string();
            let names = |word: &str| words.split(|letter: char| !letter.is_alphanumeric()).any(|own| own == word);
            names("test") && !names("not") && !names("any")
        }
        _ => false,
    })
}

/// The file that `#[path = "…"]` names.
fn path_of(attribute: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) = &pair.value else { return None };
    pair.path.is_ident("path").then(|| path.value())
}
