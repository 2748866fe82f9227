//! The form of a setting's row, and what is done with every row in the same way: parse, print, list, apply.
//!
//! [`settings!`] makes from one table the struct [`Values`], with a field of its own type for each
//! setting, and the array of [`Row`]s. A row reaches its field through [`Field`], so that callers that only
//! know a key and a text need no `match` over all settings.

use super::setting_type::SettingType;
use super::table::Values;
use crate::serve::parts::{Applied, ServerParts};
use std::fmt::Debug;
use std::sync::Arc;

/// Applies a new value to a running server. The values that will be in force if it succeeds come with it.
pub type Apply<A> = fn(&ServerParts, &A, &Values) -> Applied;

/// One setting.
pub struct Row {
    /// Its name.
    pub key: &'static str,
    /// The key followed by `=`, for completion.
    pub key_equals: &'static str,
    /// The values that it takes, in short.
    pub values: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// More about it, for the manual.
    pub manual: &'static str,
    /// The default in words, where it depends on the machine.
    pub default_text: Option<&'static str>,
    pub(super) field: &'static dyn Field,
}

impl Row {
    /// Values and purpose in one line.
    pub fn summary(&self) -> String {
        format!("{}: {}", self.values, self.help)
    }

    /// When `bowline set` takes effect: in the running server, or not before a restart.
    pub fn changes(&self) -> &'static str {
        if self.field.is_live() { "live" } else { "at start" }
    }

    /// Whether `bowline set` changes it in a running server.
    pub fn is_live(&self) -> bool {
        self.field.is_live()
    }

    /// All its values, each with its key: one for a plain setting, more for one with scopes.
    pub fn list(&self, values: &Values) -> Vec<(String, String)> {
        let listed = self.field.list(values).into_iter();
        listed.map(|(scope, value)| (format!("{}{scope}", self.key), value)).collect()
    }
}

/// A new value for a setting, checked.
#[derive(Clone)]
pub struct Assignment {
    pub(super) row: &'static Row,
    pub(super) change: Arc<dyn Change>,
}

impl Assignment {
    /// The setting's name with the scope, as in `tcp-rcvbuf@10.0.0.0/8`.
    pub fn key(&self) -> String {
        format!("{}{}", self.row.key, self.change.scope())
    }

    /// The new value.
    pub fn value(&self) -> String {
        self.change.text()
    }

    /// The value that it replaces.
    pub fn previous(&self, values: &Values) -> String {
        self.change.previous(values)
    }

    /// Puts the value among the others.
    pub fn store(&self, values: &mut Values) {
        self.change.store(values);
    }

    /// Applies it to a running server; `after` holds it already.
    ///
    /// # Errors
    /// Why it cannot be applied; nothing has changed then.
    pub fn apply(&self, parts: &ServerParts, after: &Values) -> Applied {
        self.change.apply(parts, after).unwrap_or_else(|| {
            Err(format!("{} is read only at the start: set it there and restart", self.row.key))
        })
    }
}

impl Debug for Assignment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.key(), self.value())
    }
}

/// A field of [`Values`], its type left out.
pub(super) trait Field: Sync {
    fn parse(&'static self, scope: Option<&str>, text: &str) -> Result<Arc<dyn Change>, String>;
    fn list(&self, values: &Values) -> Vec<(String, String)>;
    fn of_scope(&self, values: &Values, scope: &str) -> Result<(String, String), String>;
    fn is_live(&self) -> bool;
}

/// A new value of a field, its type left out.
pub(super) trait Change: Send + Sync {
    fn scope(&self) -> String;
    fn text(&self) -> String;
    fn previous(&self, values: &Values) -> String;
    fn store(&self, values: &mut Values);
    fn apply(&self, parts: &ServerParts, after: &Values) -> Option<Applied>;
}

/// How a row reaches its field, and how a new value is applied; `None`: only a restart does.
pub(super) struct TypedField<T: SettingType> {
    pub get: fn(&Values) -> &T,
    pub get_mut: fn(&mut Values) -> &mut T,
    pub apply: Option<Apply<T::Assigned>>,
}

struct TypedChange<T: SettingType> {
    field: &'static TypedField<T>,
    new: T::Assigned,
}

impl<T: SettingType> Field for TypedField<T> {
    fn parse(&'static self, scope: Option<&str>, text: &str) -> Result<Arc<dyn Change>, String> {
        let new = T::parse(scope, text)?;
        Ok(Arc::new(TypedChange { field: self, new }))
    }

    fn list(&self, values: &Values) -> Vec<(String, String)> {
        let listed = (self.get)(values).list();
        listed.iter().map(|one| (T::scope(one), one.to_string())).collect()
    }

    fn of_scope(&self, values: &Values, scope: &str) -> Result<(String, String), String> {
        let found = (self.get)(values).of_scope(scope)?;
        Ok((T::scope(&found), found.to_string()))
    }

    fn is_live(&self) -> bool {
        self.apply.is_some()
    }
}

impl<T: SettingType> Change for TypedChange<T> {
    fn scope(&self) -> String {
        T::scope(&self.new)
    }

    fn text(&self) -> String {
        self.new.to_string()
    }

    fn previous(&self, values: &Values) -> String {
        (self.field.get)(values).previous(&self.new).to_string()
    }

    fn store(&self, values: &mut Values) {
        (self.field.get_mut)(values).set(self.new.clone());
    }

    fn apply(&self, parts: &ServerParts, after: &Values) -> Option<Applied> {
        self.field.apply.map(|apply| apply(parts, &self.new, after))
    }
}

/// Makes [`Values`] and the rows from one table.
macro_rules! settings {
    ($($field:ident: $type:ty {
        key: $key:literal,
        values: $values:expr,
        default: $default:expr,
        default_text: $default_text:expr,
        apply: $apply:expr,
        help: $help:expr,
        manual: $manual:expr,
    })+) => {
        /// The values in force: plain data, a field for each row.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Values {
            $(#[doc = $help] pub $field: $type,)+
        }

        impl Default for Values {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        /// Every setting, in the order in which they are shown.
        pub static ROWS: [$crate::settings::Row; [$($key),+].len()] = [$(
            $crate::settings::Row {
                key: $key,
                key_equals: concat!($key, "="),
                values: $values,
                help: $help,
                manual: $manual,
                default_text: $default_text,
                field: &$crate::settings::row::TypedField::<$type> {
                    get: |values| &values.$field,
                    get_mut: |values| &mut values.$field,
                    apply: $apply,
                },
            },
        )+];
    };
}
pub(super) use settings;

#[cfg(test)]
mod tests {
    use super::{Assignment, Row, TypedField};
    use crate::logging::LogLevel;
    use crate::settings::{Values, parse_for};

    static AT_START: Row = Row {
        key: "level",
        key_equals: "level=",
        values: "LEVEL",
        help: "a setting without a way to change it later",
        manual: "",
        default_text: None,
        field: &TypedField::<LogLevel> {
            get: |values| &values.log_level,
            get_mut: |values| &mut values.log_level,
            apply: None,
        },
    };

    #[test]
    fn a_setting_that_is_read_at_start_is_not_live() {
        assert_eq!((AT_START.is_live(), AT_START.changes()), (false, "at start"));
        let new: Assignment = parse_for(&AT_START, None, "debug").unwrap();
        let mut values = Values::default();
        assert_eq!((new.previous(&values), new.value()), ("info".into(), "debug".into()));
        new.store(&mut values);
        assert_eq!(AT_START.list(&values), [("level".to_owned(), "debug".to_owned())]);
        assert_eq!(format!("{new:?}"), "level=debug");
    }
}
