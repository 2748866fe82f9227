//! The SVG elements that the figures need, written as text.
//!
//! All text passes through [`escaped`]; colours, strokes and font sizes are classes that `figure.css`
//! defines, for light and dark.

use std::fmt::Write as _;

/// Around a picture that is a document of its own, in pixels.
const MARGIN: f64 = 12.0;

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

    /// The whole picture, of a class, width and height, as an element of a page.
    pub(super) fn finish(self, size: (&str, f64, f64), label: &str) -> String {
        self.element(size, 0.0, "", label)
    }

    /// The same as a document: with its style, and on a background with a margin.
    pub(super) fn finish_alone(self, style: &str, size: (&str, f64, f64), label: &str) -> String {
        let (_, width, height) = size;
        let paper = rectangle(-MARGIN, -MARGIN, width + 2.0 * MARGIN, height + 2.0 * MARGIN);
        let head = format!("<style>{style}</style>\n<path class=\"paper\" d=\"{paper}\"/>\n");
        self.element(size, MARGIN, &head, label)
    }

    fn element(
        self,
        (class, width, height): (&str, f64, f64),
        margin: f64,
        head: &str,
        label: &str,
    ) -> String {
        let (wide, high) = (px(width + 2.0 * margin), px(height + 2.0 * margin));
        let (corner, label, body) = (px(-margin), escaped(label), self.body);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" viewBox=\"{corner} {corner} {wide} {high}\" \
             width=\"{wide}\" height=\"{high}\" role=\"img\" aria-label=\"{label}\">\n{head}{body}</svg>\n"
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
