//! One plot as one SVG: the legend, the shape's own drawing, and what was left out of it.
//!
//! The figures are written by hand rather than by a plotting crate because they must adapt to the
//! reader: every colour is a class that `figure.css` resolves for light, dark and print, originals
//! are dashed by a class, and each plot is laid out twice, for a wide page and for a narrow one,
//! instead of being scaled down. Libraries write colours and sizes into each element.
//!
//! From top to bottom: legend (rows of as many names as fit, never over the data) → title of the y
//! axis, horizontal → plot → x axis → sentences about what is omitted. Each part advances
//! [`Canvas::y`], so parts cannot overlap.

use super::numbers::{better_direction_on, grouped, is_bytes, unit, with_unit};
use super::series_style::{SeriesStyle, styles};
use super::svg::{Anchor, Svg, rectangle};
use super::text_width::{fitted, lines, width};
use super::{bars, curves};
use crate::result::{Axis, Plot, Point, Series, Shape};

/// Font size in figures, in pixels; `figure.css` has the same.
pub(super) const TYPE_PX: f64 = 12.0;

/// A thirteenth series already repeats a colour; beyond this they cannot be distinguished.
const MAX_SERIES: usize = 24;

/// The style of figures, including the palette.
pub(super) const STYLE: &str = include_str!("figure.css");

/// The size of a figure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Class of the figure: pages show one of the two.
    class: &'static str,
    pub(super) width: f64,
    /// Height of the plot without axes and legend.
    pub(super) plot_height: f64,
}

/// For wide screens.
pub(super) const WIDE: Room = Room { class: "fig wide", width: 800.0, plot_height: 300.0 };

/// For phones.
pub(super) const NARROW: Room = Room { class: "fig narrow", width: 370.0, plot_height: 240.0 };

/// A figure under construction.
pub(super) struct Canvas {
    pub(super) svg: Svg,
    pub(super) room: Room,
    /// The current position; everything above is used.
    pub(super) y: f64,
    pub(super) missing: Missing,
}

/// Counts of omitted data.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Missing {
    /// Points that are not numbers, infinite, or too large to draw.
    pub(super) not_finite: usize,
    /// Points without a place on a logarithmic axis, or outside of 0 … 100 %.
    pub(super) no_place: usize,
    /// Points without a bar.
    pub(super) no_bar: usize,
    /// Points before and after thinning.
    pub(super) thinned: Option<(usize, usize)>,
    /// Series beyond [`MAX_SERIES`].
    pub(super) series: usize,
    /// Bars beyond the limit of `bars`.
    pub(super) bars: usize,
}

/// A plot as an SVG document of its own, with its style and background inside: it follows the light or dark theme of
/// the viewer, whatever the page around it does.
pub fn figure(plot: &Plot) -> String {
    let (svg, height, label) = drawn(plot, WIDE);
    svg.finish_alone(STYLE, (WIDE.class, WIDE.width, height), &label)
}

/// A plot as an SVG for a page that has [`STYLE`].
pub(super) fn draw(plot: &Plot, room: Room) -> String {
    let (svg, height, label) = drawn(plot, room);
    svg.finish((room.class, room.width, height), &label)
}

/// The drawing, its height, and a text that says what it shows.
fn drawn(plot: &Plot, room: Room) -> (Svg, f64, String) {
    let mut canvas = Canvas { svg: Svg::default(), room, y: 4.0, missing: Missing::default() };
    let shown = plot.series.get(..plot.series.len().min(MAX_SERIES)).unwrap_or_default();
    canvas.missing.series = plot.series.len() - shown.len();
    let styles = styles(shown);
    let names = short_names(&plot.title, shown);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if let Some(place) = single_x(plot) {
        bars_of_single_points(&mut canvas, plot, (shown, &names), place);
        remarks(&mut canvas);
        return finished(canvas, plot, &names);
    }
    let as_bars = matches!(plot.shape, Shape::StackedBars | Shape::GroupedBars);
    legend(&mut canvas, &names, &styles, as_bars);
    match plot.shape {
        Shape::StackedBars | Shape::GroupedBars => bars::draw(&mut canvas, plot, shown, &styles),
        Shape::Lines | Shape::OverTime | Shape::Percentiles => {
            curves::draw(&mut canvas, plot, shown, &styles);
        }
    }
    remarks(&mut canvas);
    finished(canvas, plot, &names)
}

fn finished(canvas: Canvas, plot: &Plot, names: &[&str]) -> (Svg, f64, String) {
    let label = format!("{}: {}", plot.title, names.join(", "));
    (canvas.svg, canvas.y + 4.0, label)
}

/// The x of a plot whose lines are all single points at the same x.
fn single_x(plot: &Plot) -> Option<f64> {
    if plot.shape != Shape::Lines || plot.series.len() < 2 {
        return None;
    }
    let mut places = plot.series.iter().flat_map(|s| &s.points).map(|p| p.x);
    let first = places.next().filter(|x| x.is_finite())?;
    places.all(|x| x == first).then_some(first)
}

/// Lines of one point would be overlapping marks; as bars they can be compared. Each is labelled at
/// its side, so there is no legend.
fn bars_of_single_points(
    canvas: &mut Canvas,
    plot: &Plot,
    (shown, names): (&[Series], &[&str]),
    place: f64,
) {
    let styles: Vec<SeriesStyle> = styles(shown).into_iter().map(SeriesStyle::plain).collect();
    let at = |(index, series): (usize, &Series)| {
        let points = series.points.iter().map(|p| Point { x: index as f64, ..*p });
        Series { points: points.collect(), ..series.clone() }
    };
    let series: Vec<Series> = shown.iter().enumerate().map(at).collect();
    let bars = names.iter().map(|name| (*name).to_string()).collect();
    let label = format!("{}: {}", plot.x.label, with_unit(place, &plot.x.unit));
    let x = Axis { label, unit: String::new(), log: false };
    let turned = Plot { shape: Shape::GroupedBars, bars, x, series, ..plot.clone() };
    bars::draw(canvas, &turned, &turned.series, &styles);
}

/// The title of an axis with its unit; byte axes have it at every tick.
pub(super) fn axis_title(axis: &Axis) -> String {
    match (axis.label.is_empty(), axis.unit.is_empty()) {
        (_, true) => axis.label.clone(),
        (true, false) => unit(&axis.unit).to_string(),
        (false, false) if is_bytes(&axis.unit) => axis.label.clone(),
        (false, false) => format!("{} ({})", axis.label, unit(&axis.unit)),
    }
}

/// The title of the axis of values, with the better direction.
pub(super) fn value_title(axis: &Axis) -> String {
    let title = axis_title(axis);
    match better_direction_on(axis) {
        Some(direction) if title.is_empty() => direction.words().to_string(),
        Some(direction) => format!("{title}, {}", direction.words()),
        None => title,
    }
}

/// The names of the series without what all of ours have in common and the title says: `cap:5` of `cap:5, one CPU`, in a
/// figure about one CPU.
fn short_names(title: &str, series: &[Series]) -> Vec<String> {
    let mut names: Vec<String> = series.iter().map(|s| s.name.clone()).collect();
    let ours: Vec<usize> =
        series.iter().enumerate().filter(|(_, s)| !s.original).map(|(index, _)| index).collect();
    if ours.len() < 2 {
        return names;
    }
    let said = |text: &str| {
        title.split([' ', ',', ':']).any(|word| word == text) || title.contains(&format!(" {text}"))
    };
    while let Some(end) =
        common(&names, &ours, |name| name.rsplit_once(", ").map(|(rest, end)| (end, rest)))
        && said(&end)
    {
        shorten(&mut names, &ours, |name| name.rsplit_once(", ").map(|(rest, _)| rest));
    }
    while let Some(start) = common(&names, &ours, |name| name.split_once(' '))
        && said(&start)
    {
        shorten(&mut names, &ours, |name| name.split_once(' ').map(|(_, rest)| rest));
    }
    names
}

/// What `part` finds in all names of `ours`, if it is the same and something is left of each.
fn common(
    names: &[String],
    ours: &[usize],
    part: impl Fn(&str) -> Option<(&str, &str)>,
) -> Option<String> {
    let mut parts = ours.iter().map(|index| names.get(*index).and_then(|name| part(name)));
    let first = parts.next().flatten()?.0;
    let same = |found: Option<(&str, &str)>| {
        found.is_some_and(|(text, rest)| text == first && !rest.is_empty())
    };
    parts.all(same).then(|| first.to_string())
}

fn shorten(names: &mut [String], ours: &[usize], rest: impl Fn(&str) -> Option<&str>) {
    for index in ours {
        if let Some(name) = names.get_mut(*index)
            && let Some(left) = rest(name)
        {
            *name = left.to_string();
        }
    }
}

/// Names and samples in rows; nothing where the only series has no name.
fn legend(canvas: &mut Canvas, names: &[&str], styles: &[SeriesStyle], as_bars: bool) {
    const ROW: f64 = 20.0;
    let sample = if as_bars { 18.0 } else { 30.0 };
    let mut x = 0.0;
    let mut any = false;
    for (name, look) in names.iter().zip(styles) {
        if name.is_empty() {
            continue;
        }
        let name = fitted(name, TYPE_PX, canvas.room.width - sample - 12.0);
        let taken = sample + 6.0 + width(&name, TYPE_PX);
        if any && x + taken > canvas.room.width {
            x = 0.0;
            canvas.y += ROW;
        }
        any = true;
        let middle = canvas.y + 8.0;
        canvas.svg.open(&look.class);
        if as_bars {
            swatch(&mut canvas.svg, look, (x, middle - 6.0), (sample, 12.0), None);
        } else {
            canvas.svg.line("line", (x, middle), (x + sample, middle));
            let mark = look.mark_at(x + sample / 2.0, middle, 4.0);
            canvas.svg.path(look.mark_class, &mark, None);
        }
        canvas.svg.close();
        canvas.svg.text("name", (x + sample + 6.0, middle + 4.0), Anchor::Start, &name);
        x += taken + 18.0;
    }
    if any {
        canvas.y += ROW + if as_bars { 9.0 } else { 6.0 };
    }
}

/// A filled bar or a part of one.
pub(super) fn swatch(
    svg: &mut Svg,
    look: &SeriesStyle,
    at: (f64, f64),
    size: (f64, f64),
    tip: Option<&str>,
) {
    // Dashes of neighbours must not overlap.
    let inset = if look.original && size.0 > 3.0 { 0.8 } else { 0.0 };
    let outline = rectangle(at.0 + inset, at.1 + inset, size.0 - 2.0 * inset, size.1 - 2.0 * inset);
    svg.path("part", &outline, tip);
    if let Some(strokes) = look.hatching_of(at.0, at.1, size.0, size.1) {
        svg.path("hatch", &strokes, None);
    }
}

/// The title of the axis that is at the top left, horizontal.
pub(super) fn top_title(canvas: &mut Canvas, title: &str) {
    for line in lines(title, TYPE_PX, canvas.room.width) {
        canvas.svg.text("title", (0.0, canvas.y + 11.0), Anchor::Start, &line);
        canvas.y += 16.0;
    }
    canvas.y += 11.0;
}

/// The title of the axis below the plot, between two places.
pub(super) fn bottom_title(canvas: &mut Canvas, title: &str, from: f64, to: f64) {
    for line in lines(title, TYPE_PX, to - from) {
        canvas.svg.text("title", ((from + to) / 2.0, canvas.y + 11.0), Anchor::Middle, &line);
        canvas.y += 16.0;
    }
}

/// Shown for a plot without data.
pub(super) fn nothing(canvas: &mut Canvas) {
    let middle = (canvas.room.width / 2.0, canvas.y + 34.0);
    let frame = rectangle(0.5, canvas.y + 0.5, canvas.room.width - 1.0, 60.0);
    canvas.svg.path("void", &frame, None);
    canvas.svg.text("note", middle, Anchor::Middle, "Nothing was measured that could be drawn.");
    canvas.y += 64.0;
}

/// The omitted data, as text.
fn remarks(canvas: &mut Canvas) {
    for sentence in canvas.missing.sentences() {
        canvas.y += 2.0;
        for line in lines(&sentence, TYPE_PX, canvas.room.width) {
            canvas.svg.text("note", (0.0, canvas.y + 11.0), Anchor::Start, &line);
            canvas.y += 16.0;
        }
    }
}

impl Missing {
    fn sentences(self) -> Vec<String> {
        let points = |count: usize| match count {
            1 => "1 point".to_string(),
            n => format!("{} points", grouped(n as f64, 0)),
        };
        let mut all = Vec::new();
        if self.not_finite > 0 {
            all.push(format!("Left out: {} without a finite value.", points(self.not_finite)));
        }
        if self.no_place > 0 {
            all.push(format!("Left out: {} with no place on this axis.", points(self.no_place)));
        }
        if self.no_bar > 0 {
            all.push(format!("Left out: {} of no bar.", points(self.no_bar)));
        }
        if self.bars > 0 {
            all.push(format!("Left out: {} further bars.", self.bars));
        }
        if self.series > 0 {
            all.push(format!("Left out: {} further series.", self.series));
        }
        if let Some((of, to)) = self.thinned {
            all.push(format!(
                "{} thinned to {}; every step keeps its smallest and its largest.",
                points(of),
                grouped(to as f64, 0)
            ));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{Series, short_names};

    fn names(title: &str, all: &[(&str, bool)]) -> Vec<String> {
        let series = |(name, original): &(&str, bool)| Series {
            name: (*name).into(),
            original: *original,
            points: Vec::new(),
        };
        short_names(title, &all.iter().map(series).collect::<Vec<_>>())
    }

    #[test]
    fn a_legend_leaves_out_what_the_title_says() {
        let all = [("chain, one CPU", false), ("cap:5, one CPU", false), ("2009, before", true)];
        assert_eq!(names("Calls, one CPU", &all), ["chain", "cap:5", "2009, before"]);
        assert_eq!(names("Calls", &all), ["chain, one CPU", "cap:5, one CPU", "2009, before"]);
        let all = [("tcp copy, loopback", false), ("tcp zero copy, loopback", false)];
        assert_eq!(names("Data, tcp over loopback", &all), ["copy", "zero copy"]);
        assert_eq!(names("one", &[("a, one", false)]), ["a, one"]);
        assert_eq!(names("same", &[("same", false), ("same", false)]), ["same", "same"]);
    }
}
