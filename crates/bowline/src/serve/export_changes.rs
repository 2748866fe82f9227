//! What `bowline exportfs` changes in the list of exports: one client of one export, or all.
//!
//! Pure: the list is that of the configuration in force, and [`super::export_loader`] applies the result.

use crate::export_specs::{self, ServerUser, path_text};
use anyhow::{anyhow, bail};
use export::exports_file::{RULES_MAX, line, parse};
use export::{Client, ExportSpec};

/// The export that a client, a directory and options name, with its one rule, and notes about it.
///
/// # Errors
/// One of them is wrong.
pub fn parsed(
    client: &str,
    path: &str,
    options: &str,
) -> anyhow::Result<(ExportSpec, Vec<String>)> {
    let client = parsed_client(client)?;
    let mut found = parse(&line(&client.to_string(), path, options));
    if let Some(error) = found.errors.first() {
        bail!("{client}:{path}: {}", error.text);
    }
    let notes = found.notes.into_iter().map(|note| note.text).collect();
    match (found.entries.pop(), found.entries.is_empty()) {
        (Some(spec), true) if spec.rules.iter().map(|rule| &rule.client).eq([&client]) => {
            Ok((spec, notes))
        }
        _ => bail!("{client}:{path} is not one client and one directory"),
    }
}

/// A client as exportfs(8) has it: nothing is every machine, an IPv6 address may have brackets.
fn parsed_client(text: &str) -> anyhow::Result<Client> {
    let plain = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, bits)) if address.contains(':') => format!("{address}{bits}"),
        Some(_) | None => text.to_owned(),
    };
    Ok(Client::parse(if plain.is_empty() { "*" } else { &plain })?)
}

/// Adds an export, or the clients of one that is there; clients that it has get the new options.
///
/// # Errors
/// The path is that of another directory, or there are too many clients.
pub fn add(specs: &mut Vec<ExportSpec>, new: ExportSpec) -> anyhow::Result<()> {
    let Some(known) = specs.iter_mut().find(|known| known.path == new.path) else {
        specs.push(new);
        return Ok(());
    };
    if known.source != new.source {
        bail!("{} is exported already, from {}", path_text(&new.path), known.source);
    }
    for rule in new.rules {
        let full = known.rules.len() >= RULES_MAX;
        match known.rules.iter_mut().find(|known| known.client == rule.client) {
            Some(known) => *known = rule,
            None if full => {
                bail!("{}: more than {RULES_MAX} clients for one export", path_text(&known.path))
            }
            None => known.rules.push(rule),
        }
    }
    known.fsid = new.fsid.or(known.fsid);
    known.locations = new.locations.or_else(|| known.locations.take());
    known.mount_point = new.mount_point.or_else(|| known.mount_point.take());
    Ok(())
}

/// Ends an export to some clients; an export without clients is none.
///
/// # Errors
/// It is not exported to them.
pub fn remove(specs: &mut Vec<ExportSpec>, client: &str, path: &str) -> anyhow::Result<()> {
    let gone = parsed_client(client)?;
    let none = || anyhow!("{path} is not exported to {gone}: `bowline exportfs` lists what is");
    let normal = path.trim_end_matches('/');
    let normal = if normal.is_empty() { "/" } else { normal };
    let spec = specs.iter_mut().find(|spec| spec.path == normal.as_bytes()).ok_or_else(none)?;
    let rule = spec.rules.iter().position(|rule| rule.client == gone).ok_or_else(none)?;
    spec.rules.remove(rule);
    specs.retain(|spec| !spec.rules.is_empty());
    Ok(())
}

/// The new export as this server can serve it.
pub fn as_served(
    mut new: ExportSpec,
    read_only: bool,
    squash_to: Option<ServerUser>,
) -> ExportSpec {
    export_specs::apply_server_wide_options(std::slice::from_mut(&mut new), read_only, squash_to);
    new
}

#[cfg(test)]
mod tests {
    use super::{add, as_served, parsed, remove};
    use export::exports_file::parse;

    fn printed(specs: &[export::ExportSpec]) -> Vec<String> {
        let rule = |spec: &export::ExportSpec| {
            spec.rules.iter().map(|r| format!("{}({})", r.client, r.options.text())).collect()
        };
        let rules = |spec| -> Vec<String> { rule(spec) };
        let line = |spec| rules(spec).join(" ");
        specs.iter().map(line).collect()
    }

    #[test]
    fn clients_are_added_changed_and_removed_one_by_one() {
        let mut specs = parse(b"/srv/a 192.0.2.1(ro)\n").entries;
        let export = |client, path, options| parsed(client, path, options).unwrap().0;
        add(&mut specs, export("192.0.2.2", "/srv/a", "rw")).unwrap();
        add(&mut specs, export("192.0.2.1", "/srv/a/", "rw,no_root_squash")).unwrap();
        add(&mut specs, export("", "/srv/b c", "fsid=7")).unwrap();
        assert_eq!(specs.len(), 2);
        assert_eq!(specs[0].rules.len(), 2);
        assert!(printed(&specs)[0].contains("no_root_squash"), "{:?}", printed(&specs));
        assert!(specs[0].rules.iter().all(|rule| !rule.options.read_only));
        assert_eq!((specs[1].path.as_slice(), specs[1].fsid.is_some()), (&b"/srv/b c"[..], true));
        assert!(remove(&mut specs, "192.0.2.9", "/srv/a").is_err());
        assert!(remove(&mut specs, "*", "/srv/a").is_err());
        remove(&mut specs, "*", "/srv/b c").unwrap();
        remove(&mut specs, "192.0.2.1", "/srv/a").unwrap();
        assert_eq!(specs.len(), 1);
        remove(&mut specs, "192.0.2.2", "/srv/a/").unwrap();
        assert!(specs.is_empty());
    }

    #[test]
    fn addresses_of_version_6_have_brackets_or_not() {
        for client in ["[2001:db8::]/32", "2001:db8::/32"] {
            assert_eq!(
                parsed(client, "/a", "").unwrap().0.rules[0].client.to_string(),
                "2001:db8::/32"
            );
        }
        assert_eq!(
            parsed("[a-c]*.lab", "/a", "").unwrap().0.rules[0].client.to_string(),
            "[a-c]*.lab"
        );
    }

    #[test]
    fn words_that_would_be_others_in_a_file_are_refused() {
        for (client, path, options) in [
            ("192.0.2.1", "/a", "rw) *(rw"),
            ("192.0.2.1", "/a", "rw)"),
            ("192.0.2.1", "/a", "rw\n/etc *(rw)"),
            ("192.0.2.1(rw", "/a", ""),
            ("a b", "/a", ""),
            ("-rw", "/a", ""),
            ("192.0.2.1", "a", ""),
            ("192.0.2.1", "/a/../etc", ""),
            ("192.0.2.1", "/a", "wr"),
        ] {
            assert!(parsed(client, path, options).is_err(), "{client} {path} {options}");
        }
    }

    #[test]
    fn another_directory_under_the_path_stays() {
        let mut specs = parsed("*", "/srv/a", "").unwrap();
        specs.0.source = export::Source::scheme("mem", "");
        let mut list = vec![specs.0];
        assert!(add(&mut list, parsed("*", "/srv/a", "rw").unwrap().0).is_err());
        let new = as_served(parsed("*", "/srv/x", "rw").unwrap().0, true, None);
        assert!(new.rules[0].options.read_only);
    }
}
