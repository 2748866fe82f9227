//! The configuration file: TOML, one key for each option of `bowline serve`.

use super::file_error::FileError;
use crate::cli::{PortmapMode, listen_addr};
use crate::settings::{Assignment, parse, row};
use anyhow::Context;
use serde::de::value::StrDeserializer;
use serde::de::{Deserializer, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, de};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Longest configuration file, in bytes; a longer one is some other file.
const BYTES_MAX: u64 = 1 << 20;

/// The keys, checked.
#[derive(Debug, Default)]
pub struct File {
    /// `dirs`: what the command line names without an option.
    pub dirs: Vec<String>,
    /// `listen`.
    pub listen: Vec<Addr>,
    /// `port`.
    pub port: Option<Port>,
    /// `read-only`.
    pub read_only: Option<bool>,
    /// `client`.
    pub client: Vec<String>,
    /// `exports`.
    pub exports: Vec<PathBuf>,
    /// `portmap`.
    pub portmap: Option<PortmapMode>,
    /// `state-dir`.
    pub state_dir: Option<PathBuf>,
    /// `control`.
    pub control: Option<PathBuf>,
    /// `[set]`.
    pub set: Vec<Assignment>,
    /// `prove`.
    pub prove: Option<bool>,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Raw {
    #[serde(default, deserialize_with = "one_or_many")]
    dirs: Vec<String>,
    #[serde(default, deserialize_with = "one_or_many")]
    listen: Vec<Addr>,
    port: Option<Port>,
    read_only: Option<bool>,
    #[serde(default, deserialize_with = "one_or_many")]
    client: Vec<String>,
    #[serde(default, deserialize_with = "one_or_many")]
    exports: Vec<PathBuf>,
    portmap: Option<PortmapMode>,
    state_dir: Option<PathBuf>,
    control: Option<PathBuf>,
    #[serde(default)]
    set: BTreeMap<Spanned<String>, Spanned<toml::Value>>,
    prove: Option<bool>,
}

/// An address to listen on.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub struct Addr(pub IpAddr);

impl TryFrom<String> for Addr {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        listen_addr(&text).map(Self)
    }
}

/// A port, not 0.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u16")]
pub struct Port(pub u16);

impl TryFrom<u16> for Port {
    type Error = &'static str;

    fn try_from(port: u16) -> Result<Self, Self::Error> {
        if port == 0 { Err("the port must be 1 to 65535") } else { Ok(Self(port)) }
    }
}

/// Reads and checks a configuration file.
///
/// # Errors
/// That it cannot be read, or a [`FileError`].
pub fn read(path: &Path) -> anyhow::Result<File> {
    let named = || format!("cannot read the configuration {}", path.display());
    let length = std::fs::metadata(path).with_context(named)?.len();
    anyhow::ensure!(length <= BYTES_MAX, "{}: is larger than any configuration", path.display());
    let text = std::fs::read_to_string(path).with_context(named)?;
    Ok(from_text(path, &text)?)
}

/// Checks a configuration's text.
///
/// # Errors
/// [`FileError`].
pub fn from_text(path: &Path, text: &str) -> Result<File, FileError> {
    let wrong = |offset: usize, what: String| FileError::at(path.to_path_buf(), text, offset, what);
    let raw: Raw = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        wrong(offset, error.message().replace('\n', " "))
    })?;
    let mut set = Vec::with_capacity(raw.set.len());
    for (key, value) in raw.set {
        let span = value.span();
        let shown = match value.into_inner() {
            toml::Value::String(text) => text,
            other => other.to_string(),
        };
        row(key.get_ref()).map_err(|what| wrong(key.span().start, what))?;
        let value = parse(key.get_ref(), &shown).map_err(|what| wrong(span.start, what))?;
        set.push(Assignment(value));
    }
    Ok(File {
        dirs: raw.dirs,
        listen: raw.listen,
        port: raw.port,
        read_only: raw.read_only,
        client: raw.client,
        exports: raw.exports,
        portmap: raw.portmap,
        state_dir: raw.state_dir,
        control: raw.control,
        set,
        prove: raw.prove,
    })
}

/// A list, or one string for a list of one.
fn one_or_many<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct List<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a string or a list of strings")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
            let one: StrDeserializer<'_, E> = text.into_deserializer();
            T::deserialize(one).map(|one| vec![one])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut all = Vec::new();
            while let Some(one) = list.next_element()? {
                all.push(one);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_any(List(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::from_text;
    use crate::cli::Cli;
    use clap::CommandFactory;
    use std::path::Path;

    fn error(text: &str) -> String {
        from_text(Path::new("b.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_key_is_named_with_its_place() {
        let told = error("port = 2049\nprot = 1\n");
        assert!(told.starts_with("b.toml:2:1: ") && told.contains("prot"), "{told}");
        assert!(told.contains("portmap"), "says which keys there are: {told}");
    }

    #[test]
    fn a_wrong_value_is_named_with_its_place() {
        for (text, place) in [
            ("port = 0\n", "b.toml:1:8: "),
            ("listen = ['127.0.0.1', 'nowhere']\n", "b.toml:1:10: "),
            ("\nread-only = 'yes'\n", "b.toml:2:13: "),
            ("[set]\nmax-read = '3K'\n", "b.toml:2:12: "),
            ("[set]\nmax-reed = '4K'\n", "b.toml:2:1: "),
            ("portmap = 'maybe'\n", "b.toml:1:11: "),
            ("dirs = [1]\n", "b.toml:1:9: "),
            ("port = \n", "b.toml:1:8: "),
        ] {
            let told = error(text);
            assert!(told.starts_with(place), "{text:?}: {told}");
            assert!(!told.contains('\n'), "one line: {told}");
        }
    }

    #[test]
    fn every_option_of_serve_has_its_key() {
        let command = Cli::command();
        let serve = command.find_subcommand("serve").unwrap();
        let options = serve.get_arguments().filter_map(|a| a.get_long());
        for option in options.filter(|o| !matches!(*o, "config" | "help")) {
            let told = from_text(Path::new("b.toml"), &format!("{option} = {{}}\n"));
            if let Err(place) = told {
                assert!(!place.what.contains("unknown field"), "{option}: {place}");
            }
        }
    }
}
