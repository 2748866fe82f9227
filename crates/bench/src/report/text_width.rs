//! Estimates the width of a text without a browser.
//!
//! The widths are those of DejaVu Sans, the widest of the usual sans-serif fonts, so that text fits in
//! every browser. Invariant: a text is never wider in the figure than [`width`] returns.

/// The width of `text` at a size of `size` pixels.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(advance).sum::<f64>() * size
}

/// A character's advance as a share of the font's size.
fn advance(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '\'' => 0.28,
        ' ' | '\u{a0}' | '.' | ',' | ':' | ';' | 'I' | 'J' | '|' | '/' | '\\' | '·' => 0.34,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' | '!' => 0.42,
        'm' | 'M' | 'W' | '%' | '@' | '…' => 1.0,
        'w' | '+' | '=' | '<' | '>' | '~' | '×' | '\u{2212}' | '±' | '↑' | '↓' => 0.84,
        'A'..='Z' | '&' | '#' => 0.78,
        'a'..='z' | '0'..='9' | '_' | '"' | '*' | '$' | '?' | 'µ' | '–' => 0.64,
        c if c.is_ascii() => 0.7,
        c if (c as u32) < 0x2e80 => 0.8,
        _ => 1.1,
    }
}

/// `text`, or shortened with an ellipsis in its middle, where names differ least.
pub(super) fn fitted(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_string();
    }
    let chars: Vec<char> = text.chars().collect();
    let mut kept = chars.len();
    while kept > 2 {
        kept -= 1;
        let head = kept.div_ceil(2);
        let tail = kept - head;
        let short: String = chars
            .iter()
            .take(head)
            .chain(&['…'])
            .chain(chars.iter().skip(chars.len() - tail))
            .collect();
        if width(&short, size) <= room {
            return short;
        }
    }
    "…".to_string()
}

/// `text` in lines of at most `room` pixels; a word that is longer than a line is truncated.
pub(super) fn lines(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let longer = if line.is_empty() { word.to_string() } else { format!("{line} {word}") };
        if width(&longer, size) <= room || line.is_empty() {
            line = longer;
        } else {
            lines.push(fitted(&line, size, room));
            line = word.to_string();
        }
    }
    if !line.is_empty() {
        lines.push(fitted(&line, size, room));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_keeps_both_ends() {
        let name = "one-socket-per-interface-and-per-cpu";
        let short = fitted(name, 12.0, 120.0);
        assert!(width(&short, 12.0) <= 120.0, "{short}");
        assert!(
            short.starts_with("one-") && short.ends_with("cpu") && short.contains('…'),
            "{short}"
        );
        assert_eq!(fitted("cap:5", 12.0, 120.0), "cap:5");
        assert_eq!(fitted("anything", 12.0, 1.0), "…");
    }

    #[test]
    fn lines_are_wrapped_at_the_width() {
        let text = "three points left out because they are not finite";
        let parts = lines(text, 12.0, 150.0);
        assert!(parts.len() > 1);
        assert!(parts.iter().all(|l| width(l, 12.0) <= 150.0));
        assert_eq!(parts.join(" "), text);
        assert!(lines("  ", 12.0, 150.0).is_empty());
    }
}
