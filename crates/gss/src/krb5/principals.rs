//! Maps principals to users of this machine.
//!
//! In this order: a row of the operator's table; the result of `auth_to_local` of krb5.conf(5); a user whose name is the
//! whole principal, as directory services provide it. A principal without a user acts as the anonymous user. Only a row
//! of the table can map a principal to root.

use rpc::PrincipalUser;
use std::io;
use std::path::Path;
use sys::name_service;

/// The most groups of a user.
const GROUPS_MAX: usize = 1024;
/// The largest table file.
const TABLE_MAX: u64 = 1 << 20;

/// The operator's table and the mapping rules of krb5.conf.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Principals {
    rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    /// A principal; one `*` stands for any characters.
    pattern: String,
    /// The user's name; `None`: the anonymous user.
    user: Option<String>,
}

/// Why a table is invalid.
#[derive(Debug)]
pub enum PrincipalsError {
    /// The file cannot be read.
    Io(io::Error),
    /// A line is not `PRINCIPAL USER`.
    Line(usize),
}

impl std::fmt::Display for PrincipalsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Line(line) => write!(
                f,
                "line {line}: write PRINCIPAL USER, as in alice@EXAMPLE.ORG alice, or - in place of the user for the \
                 anonymous user"
            ),
        }
    }
}

impl std::error::Error for PrincipalsError {}

impl Principals {
    /// Reads a table: one `PRINCIPAL USER` per line; `#` starts a comment.
    ///
    /// # Errors
    /// [`PrincipalsError`].
    pub fn read(path: &Path) -> Result<Self, PrincipalsError> {
        let too_large = std::fs::metadata(path).map_err(PrincipalsError::Io)?.len() > TABLE_MAX;
        if too_large {
            return Err(PrincipalsError::Io(io::Error::other("larger than 1 MiB")));
        }
        Self::parse(&std::fs::read_to_string(path).map_err(PrincipalsError::Io)?)
    }

    /// Parses a table.
    ///
    /// # Errors
    /// [`PrincipalsError::Line`].
    pub fn parse(text: &str) -> Result<Self, PrincipalsError> {
        let mut rows = Vec::new();
        for (n, line) in text.lines().enumerate() {
            let line = line.split_once('#').map_or(line, |(before, _)| before).trim();
            if line.is_empty() {
                continue;
            }
            let wrong = || PrincipalsError::Line(n.saturating_add(1));
            let (pattern, user) = line.split_once(char::is_whitespace).ok_or_else(wrong)?;
            let user = user.trim();
            if user.contains(char::is_whitespace) || pattern.matches('*').count() > 1 {
                return Err(wrong());
            }
            let user = (user != "-").then(|| user.to_owned());
            rows.push(Row { pattern: pattern.to_owned(), user });
        }
        Ok(Self { rows })
    }

    /// The user of a principal; `local_user` is the result of krb5.conf's rules. May block on name services.
    ///
    /// # Errors
    /// The user database does not answer, which differs from the answer that there is no such user.
    pub fn user(
        &self,
        principal: &str,
        local_user: Option<&str>,
    ) -> io::Result<Option<PrincipalUser>> {
        if let Some(row) = self.rows.iter().find(|row| row.is_for(principal)) {
            return row.user.as_deref().map_or(Ok(None), look_up);
        }
        let mut found = local_user.map_or(Ok(None), look_up)?;
        if found.is_none() {
            found = look_up(principal)?;
        }
        Ok(found.filter(|user| user.uid != 0))
    }
}

impl Row {
    fn is_for(&self, principal: &str) -> bool {
        match self.pattern.split_once('*') {
            None => self.pattern == principal,
            Some((begin, end)) => {
                principal.len() >= begin.len().saturating_add(end.len())
                    && principal.starts_with(begin)
                    && principal.ends_with(end)
            }
        }
    }
}

fn look_up(name: &str) -> io::Result<Option<PrincipalUser>> {
    let user = name_service::user_named(name, GROUPS_MAX)?;
    Ok(user.map(|user| PrincipalUser { uid: user.uid, gid: user.gid, groups: user.groups.into() }))
}

#[cfg(test)]
mod tests {
    use super::Principals;

    #[test]
    fn a_row_of_the_table_goes_before_everything_else() {
        let table = "# who is who\nroot/admin@LAB.TEST root\nhost/*@LAB.TEST -   # machines\ndaemon@LAB.TEST\tbin\n";
        let table = Principals::parse(table).unwrap();
        let uid = |principal, local| table.user(principal, local).unwrap().map(|user| user.uid);
        assert_eq!(uid("root/admin@LAB.TEST", None), Some(0));
        assert_eq!(uid("host/client.lab.test@LAB.TEST", Some("daemon")), None);
        assert_eq!(uid("daemon@LAB.TEST", Some("daemon")), Some(2), "bin");
        assert_eq!(uid("daemon@OTHER.TEST", Some("daemon")), Some(1));
        assert_eq!(uid("nobody.of.this.name@LAB.TEST", None), None);
    }

    #[test]
    fn nobody_becomes_root_without_a_row() {
        let table = Principals::default();
        assert_eq!(table.user("root@LAB.TEST", Some("root")).unwrap(), None);
    }

    #[test]
    fn a_line_that_is_not_two_words_is_named() {
        for (text, line) in [("alice@LAB.TEST", 1), ("\na b c", 2), ("a*b*c user", 1)] {
            let error = Principals::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("line {line}:")), "{error}");
        }
    }
}
