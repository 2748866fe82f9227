//! Links between the documents and to the source: what a page points at must exist.

use anyhow::Result;
use std::path::Path;

/// Findings: relative links in Markdown files that lead nowhere.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for page in crate::source_files::files(root, "md")? {
        let text = std::fs::read_to_string(&page)?;
        let dir = page.parent().unwrap_or(root);
        for (number, line) in text.lines().enumerate() {
            for target in targets(line) {
                let file = target.split('#').next().unwrap_or(target);
                if !file.is_empty() && !file.contains("://") && !dir.join(file).exists() {
                    let page = page.strip_prefix(root).unwrap_or(&page).display();
                    findings.push(format!("{page}:{}: {target} does not exist", number + 1));
                }
            }
        }
    }
    Ok(findings)
}

/// The targets of `[text](target)` in a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

#[cfg(test)]
mod tests {
    use super::targets;

    #[test]
    fn finds_every_target_of_a_line() {
        let line = "see [a](x/y.rs), [b](z.md#part) and (not this)";
        assert_eq!(targets(line).collect::<Vec<_>>(), ["x/y.rs", "z.md#part"]);
    }
}
