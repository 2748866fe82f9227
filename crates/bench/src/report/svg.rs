//! The SVG elements that the figures need, written as text.
//!
//! All text passes through [`escaped`]; colours, strokes and font sizes are classes that `figure.css`
//! defines, for light and dark.

use std::fmt::Write as _;

/// Text as it is allowed in an element or between the quotes of an attribute; characters that XML
/// cannot represent become U+FFFD.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(c),
            c if c < ' ' || ('\u{7f}'..='\u{9f}').contains(&c) => out.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate to a tenth of a pixel, the same text for the same position.
pub(super) fn px(value: f64) -> String {
    let tenth = (value * 10.0).round() / 10.0;
    let tenth = if tenth == 0.0 || !tenth.is_finite() { 0.0 } else { tenth };
    format!("{tenth}")
}

/// Where a text's `x` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture that grows downwards.
#[derive(Debug, Default)]
pub(super) struct Svg {
    body: String,
}

impl Svg {
    /// Begins a group; everything until [`Svg::close`] has its classes.
    pub(super) fn open(&mut self, class: &str) {
        let _ = write!(self.body, "<g class=\"{}\">", escaped(class));
    }

    /// Ends the latest group.
    pub(super) fn close(&mut self) {
        self.body.push_str("</g>\n");
    }

    /// A straight line.
    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let _ = write!(
            self.body,
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            px(from.0),
            px(from.1),
            px(to.0),
            px(to.1)
        );
    }

    /// A path; `tip` is its tooltip.
    pub(super) fn path(&mut self, class: &str, d: &str, tip: Option<&str>) {
        let _ = write!(self.body, "<path class=\"{class}\" d=\"{d}\"");
        match tip {
            Some(tip) => {
                let _ = write!(self.body, "><title>{}</title></path>", escaped(tip));
            }
            None => self.body.push_str("/>"),
        }
    }

    /// A text with its baseline at `y`.
    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            px(at.0),
            px(at.1),
            escaped(text)
        );
    }

    /// The whole picture.
    pub(super) fn finish(self, class: &str, width: f64, height: f64, label: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" viewBox=\"0 0 {} {}\" \
             width=\"{}\" height=\"{}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
            px(width),
            px(height),
            px(width),
            px(height),
            escaped(label),
            self.body
        )
    }
}

/// A rectangle as a path.
pub(super) fn rectangle(x: f64, y: f64, width: f64, height: f64) -> String {
    format!("M{} {}h{}v{}h{}z", px(x), px(y), px(width), px(height), px(-width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_is_escaped() {
        assert_eq!(escaped("<a b=\"c\">&'\u{0}"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;\u{fffd}");
    }

    #[test]
    fn a_coordinate_has_one_spelling() {
        assert_eq!(px(-0.01), "0");
        assert_eq!(px(12.04), "12");
        assert_eq!(px(12.25), "12.3");
        assert_eq!(px(f64::NAN), "0");
    }
}
