//! Names that must not come back: those that a first-time reader does not understand,
//! and those that are too general.

use anyhow::{Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::path::Path;

/// Names of types that readers interpret in different ways.
const TYPES: [&str; 37] = [
    "Above",
    "Adopted",
    "Alone",
    "Bed",
    "Beside",
    "Book",
    "Claimant",
    "Company",
    "Cut",
    "Desk",
    "Fate",
    "Kit",
    "Loan",
    "Look",
    "Mail",
    "MaySleep",
    "OnlySealed",
    "Parcel",
    "Place",
    "Places",
    "Roster",
    "Seat",
    "Site",
    "Standing",
    "Sleep",
    "Lodger",
    "Purse",
    "Sweeper",
    "Switched",
    "Terms",
    "Thing",
    "Torn",
    "Trouble",
    "Turn",
    "Way",
    "What",
    "Wish",
];
/// Names of functions, fields and constants.
const WORDS: [&str; 15] = [
    "UNDOES",
    "about_to_sleep",
    "be_either",
    "be_nice",
    "bury",
    "heed",
    "hoist",
    "judge",
    "living",
    "pour",
    "see_out",
    "strand",
    "tell_of",
    "vanish",
    "door",
];
/// Endings of types that do not say what the type does.
const EMPTY_ENDINGS: [&str; 6] = ["Helper", "Helpers", "Keeper", "Manager", "Util", "Utils"];
/// Findings in all Rust sources.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for dir in ["crates", "xtask", "fuzz"] {
        for path in crate::source_files::files(&root.join(dir), "rs")? {
            let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            let text = std::fs::read_to_string(&path)?;
            let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{shown}: {error}"))?;
            let mut found = BTreeMap::new();
            source(tokens, &mut found);
            for (name, line) in found {
                findings
                    .push(format!("{shown}:{line}: `{name}` says nothing: name it by what it is"));
            }
        }
    }
    Ok(findings)
}

/// Unwanted names, each with the first line where it is.
fn source(tokens: TokenStream, found: &mut BTreeMap<String, usize>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => source(group.stream(), found),
            TokenTree::Ident(ident) => {
                let name = ident.to_string();
                if is_unwanted(&name) {
                    found.entry(name).or_insert(ident.span().start().line);
                }
            }
            _ => {}
        }
    }
}

fn is_unwanted(name: &str) -> bool {
    let ends = |ending: &&str| name.ends_with(*ending);
    TYPES.contains(&name) || WORDS.contains(&name) || EMPTY_ENDINGS.iter().any(ends)
}

#[cfg(test)]
mod tests {
    use super::source;

    #[test]
    fn unwanted_names_are_found_in_all_tokens() {
        let mut found = super::BTreeMap::new();
        let text =
            "struct Kit { door: u8 }\nfn f() { x(y.heed()) } // Kit\nconst A: &str = \"Desk\";";
        source(text.parse().unwrap(), &mut found);
        let found: Vec<_> = found.iter().map(|(name, line)| (name.as_str(), *line)).collect();
        assert_eq!(found, [("Kit", 1), ("door", 1), ("heed", 2)]);
    }
}
