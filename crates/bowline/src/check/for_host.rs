//! `check --for-host`: what one host would get of each export, by the rules and name services that `serve` uses.

use crate::export_specs::path_text;
use crate::output::UsageError;
use export::{ClientRules, ExportSpec, NameService, ResolvedRule, SystemNameService};
use std::fmt::Write as _;
#[cfg(test)]
use std::io;
use std::net::IpAddr;

/// A host by its addresses.
pub struct Host {
    addresses: Vec<IpAddr>,
    /// Its name, where it was given by one.
    given_name: Option<String>,
    service: Box<dyn NameService>,
}

/// The host with this address or name.
///
/// # Errors
/// [`UsageError`]: it is no address, and no name with one.
pub fn find(host: &str) -> anyhow::Result<Host> {
    find_by(host, Box::new(SystemNameService))
}

fn find_by(host: &str, service: Box<dyn NameService>) -> anyhow::Result<Host> {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(Host { addresses: vec![address.to_canonical()], given_name: None, service });
    }
    let wrong =
        |why: String| UsageError(format!("--for-host {host}: {why}: write the host's address"));
    let found = service.addresses_of(host);
    let found =
        found.map_err(|error| wrong(format!("the name service does not answer ({error})")))?;
    let mut addresses: Vec<IpAddr> = found.iter().map(IpAddr::to_canonical).collect();
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.is_empty() {
        return Err(wrong("this name has no address".to_owned()).into());
    }
    Ok(Host { addresses, given_name: Some(host.to_owned()), service })
}

impl Host {
    /// A paragraph for each of its addresses: its name, and a line for each export.
    pub fn rights(&self, specs: &[ExportSpec]) -> String {
        let mut text = String::new();
        for address in &self.addresses {
            let _ =
                writeln!(text, "a client with the address {address}{}:", self.name_text(*address));
            for spec in specs {
                let _ =
                    writeln!(text, "  {}: {}", path_text(&spec.path), self.right(spec, *address));
            }
        }
        text
    }

    /// The names by which rules know an address: those that lead back to it.
    fn name_text(&self, address: IpAddr) -> String {
        match self.service.names_of(address) {
            Ok(names) if !names.is_empty() => format!(", named {}", names.join(" and ")),
            Ok(_) => {
                let given = self.given_name.as_ref();
                let given = given.map_or_else(String::new, |name| format!(" (not {name} either)"));
                format!(
                    ", which has no name that resolves back to it{given}: wildcards and netgroups of names do not match it"
                )
            }
            Err(error) => format!(", whose name cannot be looked up ({error})"),
        }
    }

    fn right(&self, spec: &ExportSpec, address: IpAddr) -> String {
        let rules = ClientRules::new(spec.rules.clone());
        let ResolvedRule { rule, failed } = rules.resolve(&*self.service, address);
        let unsure =
            if failed { "; a name service did not answer, so this may be wrong" } else { "" };
        match rule.and_then(|index| spec.rules.get(index)) {
            None => format!("nothing, no rule is for it{unsure}"),
            Some(rule) => {
                let ports = if rule.options.secure { ", only from ports below 1024" } else { "" };
                format!("by the rule for {} ({}){ports}{unsure}", rule.client, rule.options_text())
            }
        }
    }
}

/// Names for tests.
#[cfg(test)]
struct Names(&'static [(&'static str, &'static str)]);

#[cfg(test)]
impl NameService for Names {
    fn names_of(&self, client: IpAddr) -> io::Result<Vec<String>> {
        let own = self.0.iter().filter(|(_, address)| *address == client.to_string());
        Ok(own.map(|(name, _)| (*name).to_owned()).collect())
    }

    fn addresses_of(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if host == "slow" {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let own = self.0.iter().filter(|(name, _)| *name == host);
        Ok(own.filter_map(|(_, address)| address.parse().ok()).collect())
    }

    fn in_netgroup(&self, group: &str, host: &str) -> bool {
        group == "farm" && host == "a"
    }
}

#[cfg(test)]
mod tests {
    use super::{Names, find_by};
    use export::exports_file::parse_onto;

    const NAMES: &[(&str, &str)] = &[("a.example.org", "10.1.0.1"), ("b.example.org", "10.1.0.2")];
    const FILE: &[u8] = b"/one a.example.org(rw) *(ro,insecure)\n/two 10.1.0.2(rw)\n\
                          /three *.example.org(ro)\n/four @farm(ro)\n/five slow(rw)\n";

    fn rights(host: &str) -> String {
        let parsed = parse_onto(Vec::new(), FILE);
        assert_eq!(parsed.errors, []);
        find_by(host, Box::new(Names(NAMES))).unwrap().rights(&parsed.entries)
    }

    #[test]
    fn the_rule_of_each_export_is_named() {
        let text = rights("a.example.org");
        for part in [
            "address 10.1.0.1, named a.example.org:\n",
            "/one: by the rule for a.example.org (rw,",
            "only from ports below 1024\n",
            "/two: nothing, no rule is for it\n",
            "/three: by the rule for *.example.org (ro,",
            "/four: by the rule for @farm (ro,",
            "/five: nothing, no rule is for it; a name service did not answer",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(rights("10.1.0.1"), text);
        assert_eq!(rights("::ffff:10.1.0.1"), text);
    }

    #[test]
    fn a_host_without_a_name_is_matched_by_address() {
        let text = rights("10.9.9.9");
        for part in [
            "no name that resolves back",
            "/one: by the rule for * (ro,",
            "insecure,root_squash)\n",
            "/three: nothing",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_name_without_an_address_is_an_error() {
        let error = |host| find_by(host, Box::new(Names(NAMES))).err().unwrap().to_string();
        assert!(error("nowhere").contains("--for-host nowhere: this name has no address"));
        assert!(error("slow").contains("does not answer"));
    }
}
