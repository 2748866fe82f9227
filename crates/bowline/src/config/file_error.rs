//! An error in a text file, printed as compilers do: `file:line:column: message`, the line, a caret.

use std::fmt;
use std::path::PathBuf;

/// What is wrong, and the position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct FileError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// The line's text.
    pub text: String,
}

impl FileError {
    /// An error at byte `offset` of the file's `text`.
    pub fn at(file: PathBuf, text: &str, offset: usize, message: String) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |n| n + 1);
        let line = before.matches('\n').count() + 1;
        let column = before.get(start..).unwrap_or_default().chars().count() + 1;
        let text = text.lines().nth(line - 1).unwrap_or_default().to_owned();
        Self { file, line, column, message, text }
    }

    /// The line with a caret below the position, for a terminal.
    pub fn caret(&self) -> String {
        let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
        let indent: String = self.text.chars().take(self.column - 1).map(blank).collect();
        format!("    {}\n    {indent}^", self.text)
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file.display(), self.line, self.column, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::FileError;

    #[test]
    fn lines_and_columns_count_from_one() {
        let text = "one\ntwo\n\tthree x";
        let error = FileError::at("f".into(), text, text.len() - 1, "wrong".into());
        assert_eq!(error.to_string(), "f:3:8: wrong");
        assert_eq!(error.caret(), "    \tthree x\n    \t      ^");
        assert_eq!(FileError::at("f".into(), text, 0, "w".into()).to_string(), "f:1:1: w");
        assert_eq!(FileError::at("f".into(), "", 9, "w".into()).to_string(), "f:1:1: w");
    }
}
