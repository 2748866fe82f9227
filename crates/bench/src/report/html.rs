//! Pieces of HTML that more than one part of the page uses.

use super::svg::escaped;

/// `<tag>text</tag>`, escaped.
pub(super) fn tagged(tag: &str, text: &str) -> String {
    format!("<{tag}>{}</{tag}>", escaped(text))
}

/// Escaped, with the text between backticks set as code.
pub(super) fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        // An unpaired backtick is literal.
        return escaped(text);
    }
    let set = |(i, part): (usize, &&str)| {
        if i % 2 == 1 { tagged("code", part) } else { escaped(part) }
    };
    parts.iter().enumerate().map(set).collect()
}

/// Names with values in two columns.
pub(super) fn facts<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = String::from("<dl class=\"facts\">\n");
    for (name, value) in pairs {
        let value = if value.is_empty() { "unknown" } else { value };
        out.push_str(&format!("<div>{}{}</div>\n", tagged("dt", name), tagged("dd", value)));
    }
    out.push_str("</dl>\n");
    out
}

/// A table of texts. Columns of numbers are right-aligned, so that their digits are aligned.
pub(super) fn table(caption: &str, columns: &[String], rows: &[Vec<String>]) -> String {
    let wide = columns.len().max(rows.iter().map(Vec::len).max().unwrap_or(0));
    let numeric: Vec<bool> = (0..wide)
        .map(|column| {
            let mut cells = rows.iter().filter_map(|row| row.get(column)).filter(|c| !c.is_empty());
            let some = cells.clone().next().is_some();
            some && cells.all(|cell| is_number(cell))
        })
        .collect();
    let cell = |tag: &str, column: usize, text: &str| {
        let class = if numeric.get(column) == Some(&true) { " class=\"n\"" } else { "" };
        format!("<{tag}{class}>{}</{tag}>", escaped(text))
    };
    let mut out = String::from("<div class=\"scroll\" tabindex=\"0\"><table>\n");
    if !caption.is_empty() {
        out.push_str(&tagged("caption", caption));
        out.push('\n');
    }
    out.push_str("<thead><tr>");
    for (index, name) in columns.iter().enumerate() {
        // a heading has a text, for those who are read it
        out.push_str(&cell(if name.is_empty() { "td" } else { "th" }, index, name));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for index in 0..wide {
            out.push_str(&cell("td", index, row.get(index).map_or("", String::as_str)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// Whether a cell is a number, perhaps with a unit or a spread behind it.
fn is_number(cell: &str) -> bool {
    let cell = cell.trim();
    if matches!(cell, "–" | "—" | "-") {
        return true;
    }
    let digits = cell.trim_start_matches(['+', '-', '\u{2212}', '<', '>', '~', '≈']);
    let letters = cell.chars().filter(|c| c.is_alphabetic()).count();
    digits.starts_with(|c: char| c.is_ascii_digit()) && letters <= 6
}

/// RFC 3339 in a readable form: `2026-11-21 10:04 UTC`. Anything else is unchanged.
pub(super) fn moment(text: &str) -> String {
    let parts = text.strip_suffix('Z').and_then(|t| t.split_once('T'));
    match parts.and_then(|(day, time)| Some((day, time.get(..5)?))) {
        Some((day, time)) => format!("{day} {time} UTC"),
        None => text.to_string(),
    }
}

/// Rows as comma-separated values (RFC 4180), to be copied.
pub(super) fn comma_separated(rows: &[Vec<String>]) -> String {
    let quoted = |cell: &String| {
        if cell.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.clone()
        }
    };
    rows.iter().map(|row| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_columns_of_numbers_are_right_aligned() {
        let columns = vec!["policy".to_string(), "calls/s".to_string()];
        let rows = vec![
            vec!["cap:5".to_string(), "74,965".to_string()],
            vec!["<none>".to_string(), "–".to_string()],
        ];
        let html = table("Rates & more", &columns, &rows);
        assert!(html.contains("<td>cap:5</td><td class=\"n\">74,965</td>"), "{html}");
        assert!(html.contains("&lt;none&gt;") && html.contains("Rates &amp; more"), "{html}");
    }

    #[test]
    fn a_short_row_is_filled() {
        let html = table("", &["a".into(), "b".into()], &[vec!["x".into()]]);
        assert!(html.contains("<td>x</td><td></td>"), "{html}");
    }

    #[test]
    fn backticks_are_code_in_pairs() {
        assert_eq!(prose("a `b<` c"), "a <code>b&lt;</code> c");
        assert_eq!(prose("a ` c"), "a ` c");
    }

    #[test]
    fn cells_with_commas_are_quoted() {
        let rows = vec![vec!["a,b".to_string(), "say \"x\"".to_string(), "1".to_string()]];
        assert_eq!(comma_separated(&rows), "\"a,b\",\"say \"\"x\"\"\",1\n");
    }

    #[test]
    fn dates_and_times_are_short() {
        assert_eq!(moment("2026-11-21T10:04:59Z"), "2026-11-21 10:04 UTC");
        assert_eq!(moment("yesterday"), "yesterday");
        assert_eq!(moment("Z"), "Z");
    }
}
