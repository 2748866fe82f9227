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
    /// Characters of a line; `None`: as many as there are.
    width_max: Option<usize>,
    /// The columns that are left out where there is no room, the first one first.
    optional: Vec<usize>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let columns = columns.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect();
        Self { columns, rows: Vec::new(), width_max: None, optional: Vec::new() }
    }

    /// The same, no wider than `width_max` characters where that can be reached by leaving out columns: those of
    /// `optional`, by their names, the first one first. A last line says which.
    #[must_use]
    pub fn fitting(mut self, width_max: Option<usize>, optional: &[&str]) -> Self {
        let place = |name: &&str| self.columns.iter().position(|(known, _)| known == name);
        self.optional = optional.iter().filter_map(place).collect();
        self.width_max = width_max;
        self
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

    /// The columns that are left out.
    fn hidden(&self, widths: &[usize]) -> Vec<usize> {
        let Some(width_max) = self.width_max else { return Vec::new() };
        let gaps = 2 * widths.len().saturating_sub(1);
        let mut needed = widths.iter().sum::<usize>() + gaps;
        let mut hidden = Vec::new();
        for column in &self.optional {
            if needed <= width_max {
                break;
            }
            needed = needed.saturating_sub(widths.get(*column).map_or(0, |width| width + 2));
            hidden.push(*column);
        }
        hidden
    }

    fn line(
        &self,
        f: &mut fmt::Formatter<'_>,
        cells: &[&str],
        widths: &[usize],
        hidden: &[usize],
    ) -> fmt::Result {
        let mut text = String::new();
        let columns = self.columns.iter().zip(widths).enumerate();
        for (index, ((_, align), wide)) in columns.filter(|(index, _)| !hidden.contains(index)) {
            let cell = cells.get(index).copied().unwrap_or_default();
            let gap = " ".repeat(wide.saturating_sub(width(cell)));
            if !text.is_empty() {
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
        let hidden = self.hidden(&widths);
        self.line(f, &names, &widths, &hidden)?;
        for row in &self.rows {
            let cells: Vec<&str> = row.iter().map(String::as_str).collect();
            self.line(f, &cells, &widths, &hidden)?;
        }
        let names: Vec<&str> =
            hidden.iter().filter_map(|index| names.get(*index)).copied().collect();
        if names.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "(not shown, the terminal is too narrow: {}; --wide shows all)",
            names.join(", ")
        )
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
    fn columns_are_left_out_where_there_is_no_room() {
        let columns = ["NAME", "FIRST", "SECOND"].map(|name| (name, Align::Left));
        let table = |width| {
            let mut table = Table::new(&columns).fitting(width, &["SECOND", "FIRST", "NONE"]);
            table.row(["name", "1", "2"]);
            table.to_string()
        };
        let all = "NAME  FIRST  SECOND\nname  1      2\n";
        assert_eq!((table(None).as_str(), table(Some(19)).as_str()), (all, all));
        assert!(
            table(Some(18)).starts_with(
                "NAME  FIRST\nname  1\n(not shown, the terminal is too narrow: SECOND;"
            )
        );
        assert!(
            table(Some(1))
                .starts_with("NAME\nname\n(not shown, the terminal is too narrow: SECOND, FIRST;")
        );
    }

    #[test]
    fn missing_cells_are_empty_and_control_characters_replaced() {
        let mut table = Table::new(&[("A", Align::Left), ("B", Align::Left)]);
        table.row(["x\x1b[2Jy\n"]);
        assert_eq!(table.to_string(), "A        B\nx?[2Jy?\n");
    }
}
