//! Text tables with aligned columns, each as wide as its content.

use std::fmt;

/// How the cells of a column are aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// To the left: text.
    Left,
    /// To the right: numbers.
    Right,
}

/// A table under construction; [`fmt::Display`] prints it.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let columns = columns.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect();
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row. Missing cells are empty. Control characters, which a client may have chosen, print as
    /// `?`.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(|cell| printable(cell.as_ref())).collect());
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn widths(&self) -> Vec<usize> {
        let cell_width = |row: &Vec<String>, column: usize| row.get(column).map_or(0, |c| width(c));
        let widest = |column: usize| self.rows.iter().map(|r| cell_width(r, column)).max();
        let columns = self.columns.iter().enumerate();
        columns.map(|(index, (name, _))| width(name).max(widest(index).unwrap_or(0))).collect()
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, cells: &[&str], widths: &[usize]) -> fmt::Result {
        let mut text = String::new();
        for (index, ((_, align), wide)) in self.columns.iter().zip(widths).enumerate() {
            let cell = cells.get(index).copied().unwrap_or_default();
            let gap = " ".repeat(wide.saturating_sub(width(cell)));
            if index > 0 {
                text.push_str("  ");
            }
            match align {
                Align::Left => text.extend([cell, &gap]),
                Align::Right => text.extend([gap.as_str(), cell]),
            }
        }
        writeln!(f, "{}", text.trim_end())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        self.line(f, &names, &widths)?;
        for row in &self.rows {
            let cells: Vec<&str> = row.iter().map(String::as_str).collect();
            self.line(f, &cells, &widths)?;
        }
        Ok(())
    }
}

/// The number of characters, taken for the width.
fn width(text: &str) -> usize {
    text.chars().count()
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::{Align, Table};

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&[("NAME", Align::Left), ("N", Align::Right)]);
        table.row(["a", "1"]);
        table.row(["long µ", "100"]);
        assert_eq!(table.to_string(), "NAME      N\na         1\nlong µ  100\n");
    }

    #[test]
    fn missing_cells_are_empty_and_control_characters_replaced() {
        let mut table = Table::new(&[("A", Align::Left), ("B", Align::Left)]);
        table.row(["x\x1b[2Jy\n"]);
        assert_eq!(table.to_string(), "A        B\nx?[2Jy?\n");
    }
}
