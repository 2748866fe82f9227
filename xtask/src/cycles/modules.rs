//! The modules of a crate: which names each defines or imports, and which it uses.
//!
//! A scanner of tokens, not a compiler: macros are read like other code, names that only a macro
//! makes are not known.

use super::graph::Graph;
use anyhow::{Context, Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The path of a module from the crate's root; the root's is empty.
type ModulePath = Vec<String>;

/// What a name of a module stands for.
enum Name {
    /// Something that is defined here.
    Item,
    /// A module below.
    Module(ModulePath),
    /// Something that is imported by this path.
    Import(Vec<String>),
}

#[derive(Default)]
struct Module {
    file: usize,
    names: BTreeMap<String, Name>,
    globs: Vec<Vec<String>>,
    /// Paths that are used, with their lines. Re-exports are not among them.
    used: Vec<(Vec<String>, usize)>,
}

/// All modules of a crate.
#[derive(Default)]
struct Modules {
    files: Vec<String>,
    by_path: BTreeMap<ModulePath, Module>,
}

/// The file that the crate's root module is in: of a program without a library, `main.rs`.
fn root_file(src: &Path) -> PathBuf {
    let library = src.join("lib.rs");
    if library.exists() { library } else { src.join("main.rs") }
}

/// The uses among the files below `src`, the folder of a library or a program.
pub fn graph(src: &Path) -> Result<Graph> {
    let mut modules = Modules::default();
    modules.read_file(src, &root_file(src), Vec::new())?;
    Ok(modules.graph())
}

impl Modules {
    fn read_file(&mut self, src: &Path, file: &Path, path: ModulePath) -> Result<()> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let tokens: TokenStream =
            text.parse().map_err(|error| anyhow!("{}: {error}", file.display()))?;
        let number = self.files.len();
        self.files.push(file.strip_prefix(src).unwrap_or(file).display().to_string());
        self.read_module(src, tokens, path, number)
    }

    fn read_module(
        &mut self,
        src: &Path,
        tokens: TokenStream,
        path: ModulePath,
        file: usize,
    ) -> Result<()> {
        let mut module = Module { file, ..Module::default() };
        let mut below = Vec::new();
        for item in items(tokens) {
            if let Some((name, body)) = item.module() {
                let child = [path.clone(), vec![name.clone()]].concat();
                module.names.insert(name, Name::Module(child.clone()));
                below.push((child, body));
            } else {
                item.enter(&mut module);
            }
        }
        self.by_path.insert(path, module);
        for (child, body) in below {
            match body {
                Some(tokens) => self.read_module(src, tokens, child, file)?,
                None => self.read_file(src, &file_of(src, &child)?, child)?,
            }
        }
        Ok(())
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph { names: self.files.clone(), ..Graph::default() };
        for (path, module) in &self.by_path {
            for (used, line) in &module.used {
                if let Some((file, name)) = self.resolve(path, used, 0) {
                    graph.add(module.file, file, &name, *line);
                }
            }
        }
        graph
    }

    /// The file that defines what `used` names in module `from`, and its name there. None for what
    /// is not of this crate, and for a module itself.
    fn resolve(&self, from: &[String], used: &[String], depth: usize) -> Option<(usize, String)> {
        // imports of one another that lead nowhere
        if depth > 16 {
            return None;
        }
        let (mut module, mut rest) = (from.to_vec(), used);
        match rest.first()?.as_str() {
            "crate" => (module, rest) = (Vec::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            _ => {
                while rest.first().is_some_and(|first| first == "super") {
                    module.pop();
                    rest = &rest[1..];
                }
            }
        }
        loop {
            let (first, others) = rest.split_first()?;
            let here = self.by_path.get(&module)?;
            match here.names.get(first) {
                Some(Name::Item) => return Some((here.file, first.clone())),
                Some(Name::Module(path)) => (module, rest) = (path.clone(), others),
                Some(Name::Import(path)) => {
                    let whole = [path.as_slice(), others].concat();
                    return self.resolve(&module, &whole, depth + 1);
                }
                None => {
                    let all = |glob: &Vec<String>| [glob.as_slice(), rest].concat();
                    let mut globs = here.globs.iter();
                    return globs.find_map(|glob| self.resolve(&module, &all(glob), depth + 1));
                }
            }
        }
    }
}

/// The file of a module that is declared without a body.
fn file_of(src: &Path, path: &[String]) -> Result<PathBuf> {
    let below: PathBuf = path.iter().collect();
    let (flat, nested) = (src.join(&below).with_extension("rs"), src.join(&below).join("mod.rs"));
    [flat, nested]
        .into_iter()
        .find(|file| file.exists())
        .ok_or_else(|| anyhow!("no file of the module {}", path.join("::")))
}

/// The tokens of one item without its attributes and its visibility.
struct Item {
    is_public: bool,
    tokens: Vec<TokenTree>,
}

/// The items of a module but those of tests.
fn items(tokens: TokenStream) -> Vec<Item> {
    let mut found = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while tokens.peek().is_some() {
        let mut item = Item { is_public: false, tokens: Vec::new() };
        let mut is_test = false;
        while let Some(token) = tokens.next() {
            if item.tokens.is_empty() {
                if is_punct(&token, '#') {
                    tokens.next_if(|next| is_punct(next, '!'));
                    let attribute = tokens.next().map(|next| next.to_string()).unwrap_or_default();
                    is_test |= attribute.replace([' ', '\n'], "").contains("cfg(test)");
                    continue;
                }
                if is_word(&token, "pub") {
                    item.is_public = true;
                    tokens.next_if(|next| is_group(next, Delimiter::Parenthesis));
                    continue;
                }
            }
            let ends = item.ends_with(&token);
            item.tokens.push(token);
            if ends {
                break;
            }
        }
        if !is_test && !item.tokens.is_empty() {
            found.push(item);
        }
    }
    found
}

impl Item {
    /// Whether the item ends with this token.
    fn ends_with(&self, token: &TokenTree) -> bool {
        let word = |n: usize| self.tokens.get(n).map(ToString::to_string).unwrap_or_default();
        let is_value = match word(0).as_str() {
            "use" | "type" | "static" => true,
            "const" => !["fn", "unsafe", "extern", "async"].contains(&word(1).as_str()),
            _ => false,
        };
        is_punct(token, ';') || (!is_value && is_group(token, Delimiter::Brace))
    }

    /// Name and body of a module; no body if it has a file of its own.
    fn module(&self) -> Option<(String, Option<TokenStream>)> {
        let [first, name, body] = self.tokens.as_slice() else { return None };
        if !is_word(first, "mod") {
            return None;
        }
        let body = match body {
            TokenTree::Group(group) => Some(group.stream()),
            _ => None,
        };
        Some((name.to_string(), body))
    }

    /// Enters what the item defines, imports and uses.
    fn enter(&self, module: &mut Module) {
        if self.tokens.first().is_some_and(|first| is_word(first, "use")) {
            for import in imports(&self.tokens[1..]) {
                import.enter(module, !self.is_public);
            }
            return;
        }
        if let Some(name) = self.defined() {
            module.names.insert(name, Name::Item);
        }
        uses(&self.tokens, module);
    }

    /// The name that the item defines.
    fn defined(&self) -> Option<String> {
        let mut words = self.tokens.iter();
        while let Some(token) = words.next() {
            let TokenTree::Ident(word) = token else {
                // the ABI of an extern fn
                if matches!(token, TokenTree::Literal(_)) {
                    continue;
                }
                return None;
            };
            match word.to_string().as_str() {
                "fn" | "struct" | "enum" | "union" | "trait" | "type" | "static" => {
                    let mut rest = words.filter(|token| !is_word(token, "mut"));
                    return rest.next().map(ToString::to_string);
                }
                "const" => {
                    let next = words.clone().next().map(ToString::to_string)?;
                    if !["fn", "unsafe", "extern", "async"].contains(&next.as_str()) {
                        return Some(next);
                    }
                }
                "unsafe" | "extern" | "async" | "auto" => {}
                "macro_rules" => return words.nth(1).map(ToString::to_string),
                _ => return None,
            }
        }
        None
    }
}

/// One name of a `use`.
struct Import {
    path: Vec<String>,
    name: String,
    line: usize,
}

impl Import {
    fn enter(self, module: &mut Module, is_use: bool) {
        if is_use {
            module.used.push((self.path.clone(), self.line));
        }
        if self.name == "*" {
            module.globs.push(self.path);
        } else {
            module.names.insert(self.name, Name::Import(self.path));
        }
    }
}

/// The names of a `use`, whose word and semicolon may be missing.
fn imports(tokens: &[TokenTree]) -> Vec<Import> {
    let mut found = Vec::new();
    tree(tokens, &[], &mut found);
    found
}

/// One branch of a tree of imports.
fn tree(tokens: &[TokenTree], above: &[String], found: &mut Vec<Import>) {
    let mut path = above.to_vec();
    let mut name = None;
    let mut line = 0;
    let mut words = tokens.iter();
    while let Some(token) = words.next() {
        match token {
            TokenTree::Ident(word) if word == "as" => {
                name = words.next().map(ToString::to_string);
            }
            TokenTree::Ident(word) => {
                line = word.span().start().line;
                if word != "self" || path.is_empty() {
                    path.push(word.to_string());
                }
            }
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                for branch in inner.split(|token| is_punct(token, ',')) {
                    tree(branch, &path, found);
                }
                return;
            }
            star if is_punct(star, '*') => {
                found.push(Import { path, name: "*".into(), line });
                return;
            }
            _ => {}
        }
    }
    if path.len() > above.len() || (!tokens.is_empty() && !path.is_empty()) {
        let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
        found.push(Import { path, name, line });
    }
}

/// Notes the paths in the body of an item, those of its own imports among them.
fn uses(tokens: &[TokenTree], module: &mut Module) {
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                uses(&inner, module);
            }
            TokenTree::Ident(word) if word == "use" => {
                let len = tokens[at..].iter().take_while(|token| !is_punct(token, ';')).count();
                for import in imports(&tokens[at + 1..at + len]) {
                    module.used.push((import.path, import.line));
                }
                at += len;
                continue;
            }
            TokenTree::Ident(word) => {
                let line = word.span().start().line;
                let path = path_at(&tokens[at..]);
                let is_member = at > 0 && is_punct(&tokens[at - 1], '.');
                let is_foreign =
                    at > 1 && is_punct(&tokens[at - 1], ':') && is_punct(&tokens[at - 2], ':');
                at += 3 * path.len() - 2;
                if !is_member && !is_foreign {
                    module.used.push((path, line));
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
}

/// The path that begins the tokens: names with `::` between them.
fn path_at(tokens: &[TokenTree]) -> Vec<String> {
    let mut path = Vec::new();
    let mut rest = tokens;
    while let [TokenTree::Ident(word), after @ ..] = rest {
        path.push(word.to_string());
        match after {
            [a, b, next @ ..] if is_punct(a, ':') && is_punct(b, ':') => rest = next,
            _ => break,
        }
    }
    path
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

fn is_word(token: &TokenTree, wanted: &str) -> bool {
    matches!(token, TokenTree::Ident(word) if word == wanted)
}

fn is_group(token: &TokenTree, wanted: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == wanted)
}

#[cfg(test)]
mod tests {
    use super::graph;
    use std::path::Path;

    /// The uses among files with these texts, as `from>to:name`.
    fn uses_of(files: &[(&str, &str)]) -> Vec<String> {
        let dir = std::env::temp_dir().join(format!("xtask-{:?}", std::thread::current().id()));
        for (name, text) in files {
            let file = dir.join(name);
            std::fs::create_dir_all(file.parent().unwrap_or(Path::new("/"))).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let graph = graph(&dir).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        let shown = |((from, to), names): (&(usize, usize), &std::collections::BTreeMap<_, _>)| {
            let names: Vec<&String> = names.keys().collect();
            format!("{}>{}:{names:?}", graph.names[*from], graph.names[*to])
        };
        graph.uses.iter().map(shown).collect()
    }

    #[test]
    fn imports_and_paths_lead_to_the_file_of_the_definition() {
        let found = uses_of(&[
            ("lib.rs", "mod a;\nmod b;\npub use b::deep::Deep;\nfn lock() {}\n"),
            (
                "a.rs",
                "use crate::Deep;\nuse crate::b;\nfn f() { b::g(crate::lock()); x.lock(); }\n",
            ),
            ("b.rs", "pub mod deep;\npub fn g() { use deep::Deep as Other; }\n"),
            ("b/deep.rs", "pub struct Deep { a: super::super::a::None }\n"),
        ]);
        assert_eq!(
            found,
            [
                "a.rs>lib.rs:[\"lock\"]",
                "a.rs>b.rs:[\"g\"]",
                "a.rs>b/deep.rs:[\"Deep\"]",
                "b.rs>b/deep.rs:[\"Deep\"]"
            ]
        );
    }

    #[test]
    fn tests_reexports_and_other_crates_are_not_uses() {
        let found = uses_of(&[
            ("lib.rs", "mod a;\npub use a::A;\n#[cfg(test)]\nmod tests { use crate::a::A; }\n"),
            ("a.rs", "use std::fmt;\npub struct A;\n#[cfg(test)]\nuse crate::nowhere::B;\n"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn names_in_macros_and_globs_are_found() {
        let found = uses_of(&[
            ("lib.rs", "mod a;\nmod b;\n"),
            (
                "a.rs",
                "use crate::b::*;\nfn f() { assert!(matches!(x, crate::b::B { .. }), \"{}\", C); }\n",
            ),
            ("b.rs", "pub struct B;\npub const C: u8 = 1;\n"),
        ]);
        assert_eq!(found, ["a.rs>b.rs:[\"B\", \"C\"]"]);
    }
}
