//! What the type of a setting can do: parse, print and take assignments.

use std::fmt::Display;
use std::str::FromStr;

/// The type of a setting: plain, with one value for the whole server, or with a value for each of several
/// scopes, which follow an `@` in its name.
pub trait SettingType: Clone + PartialEq + Send + Sync + 'static {
    /// What one assignment sets: a value, with its scope if there are any. Prints as the value alone.
    type Assigned: Clone + Display + Send + Sync + 'static;

    /// Parses a value for a scope.
    ///
    /// # Errors
    /// What is wrong with the scope or the value.
    fn parse(scope: Option<&str>, text: &str) -> Result<Self::Assigned, String>;

    /// The value of a scope.
    ///
    /// # Errors
    /// There can be no such scope.
    fn of_scope(&self, scope: &str) -> Result<Self::Assigned, String>;

    /// What an assignment would replace.
    fn previous(&self, new: &Self::Assigned) -> Self::Assigned;

    /// Takes an assignment.
    fn set(&mut self, new: Self::Assigned);

    /// Every scope that has a value.
    fn list(&self) -> Vec<Self::Assigned>;

    /// The scope of an assignment with its `@`; empty for the whole server.
    fn scope(assigned: &Self::Assigned) -> String;
}

const NO_SCOPE: &str = "it has one value for the whole server: nothing may follow its name";

impl<T> SettingType for T
where
    T: FromStr + Display + Clone + PartialEq + Send + Sync + 'static,
    T::Err: Display,
{
    type Assigned = T;

    fn parse(scope: Option<&str>, text: &str) -> Result<T, String> {
        match scope {
            None => text.parse().map_err(|error: T::Err| error.to_string()),
            Some(_) => Err(NO_SCOPE.to_owned()),
        }
    }

    fn of_scope(&self, _: &str) -> Result<T, String> {
        Err(NO_SCOPE.to_owned())
    }

    fn previous(&self, _: &T) -> T {
        self.clone()
    }

    fn set(&mut self, new: T) {
        *self = new;
    }

    fn list(&self) -> Vec<T> {
        vec![self.clone()]
    }

    fn scope(_: &T) -> String {
        String::new()
    }
}
