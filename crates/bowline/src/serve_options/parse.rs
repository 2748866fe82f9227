//! Parsers of options whose types do not parse themselves: `--listen`, and values in TOML.

use crate::settings::{Assignment, parse, row};
use serde::de::value::StrDeserializer;
use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use std::fmt;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};

/// An address to listen on, with or without the brackets of an IPv6 address.
///
/// # Errors
/// It is not an IP address.
pub fn listen_addr(text: &str) -> Result<IpAddr, String> {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    inner.parse().map_err(|_| {
        format!(
            "{text:?} is not an IP address: write one of this machine's addresses, for example \
             192.0.2.7 or [::1], 0.0.0.0 for all of IPv4, [::] for all of IPv6; set the port with --port"
        )
    })
}

/// A list, or one string for a list of one.
pub fn one_or_many<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct List<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// One address to listen on, or a list.
pub fn listen_addresses<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<IpAddr>, D::Error> {
    let texts: Vec<String> = one_or_many(deserializer)?;
    texts.iter().map(|text| listen_addr(text).map_err(D::Error::custom)).collect()
}

/// An address and a port to serve metrics on.
///
/// # Errors
/// It has no address or no port.
pub fn metrics_addr(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("{text:?} is not ADDR:PORT: write for example 127.0.0.1:9049, or [::1]:9049")
    })
}

/// An address and a port, in TOML.
pub fn metrics_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    metrics_addr(&String::deserialize(deserializer)?).map(Some).map_err(D::Error::custom)
}

/// A port other than 0.
pub fn port<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    match u16::deserialize(deserializer)? {
        0 => Err(D::Error::custom("the port must be 1 to 65535")),
        port => Ok(Some(port)),
    }
}

/// The table `[set]`. Key and value are checked one after the other, so that an error has the position of
/// the one that is wrong.
pub fn assignments<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Assignment>, D::Error> {
    struct Settings;

    impl<'de> Visitor<'de> for Settings {
        type Value = Vec<Assignment>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table of settings")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Assignment>, A::Error> {
            let mut all = Vec::new();
            while let Some(Key(key)) = map.next_key()? {
                all.push(map.next_value_seed(ValueOf(&key))?);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_map(Settings)
}

/// The name of a setting.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = String::deserialize(deserializer)?;
        row(&key).map_err(D::Error::custom)?;
        Ok(Self(key))
    }
}

/// The value of a setting: a string, or a number or truth value as it is written.
struct ValueOf<'k>(&'k str);

impl<'de> de::DeserializeSeed<'de> for ValueOf<'_> {
    type Value = Assignment;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Assignment, D::Error> {
        let text = match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => text,
            other => other.to_string(),
        };
        parse(self.0, &text).map_err(D::Error::custom)
    }
}
