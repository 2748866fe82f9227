//! Text tables with aligned columns, as wide as their content and no wider.

use std::fmt;

/// Which end of a column its cells stand at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
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

    /// Adds a row. Cells that are missing are empty. Control characters of a cell (a peer may
    /// have chosen them) show as `?`.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(|cell| printable(cell.as_ref())).collect());
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn widths(&self) -> Vec<usize> {
        let cell_width = |row: &Vec<String>, place: usize| row.get(place).map_or(0, |c| width(c));
        let widest = |place: usize| self.rows.iter().map(|r| cell_width(r, place)).max();
        let columns = self.columns.iter().enumerate();
        columns.map(|(place, (name, _))| width(name).max(widest(place).unwrap_or(0))).collect()
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, cells: &[&str], widths: &[usize]) -> fmt::Result {
        let mut text = String::new();
        for (place, ((_, align), wide)) in self.columns.iter().zip(widths).enumerate() {
            let cell = cells.get(place).copied().unwrap_or_default();
            let gap = " ".repeat(wide.saturating_sub(width(cell)));
            if place > 0 {
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

/// Characters of a cell: near enough to its width for what we print.
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
    fn columns_line_up() {
        let mut table = Table::new(&[("NAME", Align::Left), ("N", Align::Right)]);
        table.row(["a", "1"]);
        table.row(["long µ", "100"]);
        assert_eq!(table.to_string(), "NAME      N\na         1\nlong µ  100\n");
    }

    #[test]
    fn missing_cells_and_control_characters_do_no_harm() {
        let mut table = Table::new(&[("A", Align::Left), ("B", Align::Left)]);
        table.row(["x\x1b[2Jy\n"]);
        assert_eq!(table.to_string(), "A        B\nx?[2Jy?\n");
    }
}
