//! Lines with whiskers, values over time, and latency percentiles: everything with an x axis of numbers.
//!
//! A point without a position is omitted, counted, and leaves a gap in its line, so that a line
//! never joins points across it. Long series are thinned: of the points in the same pixel column
//! the first, the smallest, the largest and the last remain, in their order, which gives the same
//! image as all of them. Series with whiskers stand side by side at each place, so that no whisker covers another.

use super::figure::{
    Canvas, Missing, TYPE_PX, axis_title, bottom_title, nothing, top_title, value_title,
};
use super::numbers::{bytes, is_bytes, short, with_unit};
use super::scale::{self, Kind, Scale, Tick};
use super::series_style::SeriesStyle;
use super::svg::{Anchor, px};
use super::text_width::width;
use crate::result::{Axis, Plot, Point, Series, Shape};

/// With more x values than this they are not labelled individually.
const MAX_NAMED_PLACES: usize = 16;

/// Beyond this many points, whiskers become a band.
const MAX_WHISKERS: usize = 60;

/// Space between the labels of neighbouring ticks, in pixels.
const LABEL_GAP: f64 = 9.0;

/// Space at both ends of the x axis of [`Shape::Lines`], for marks and what stands beside them.
const INSET: f64 = 12.0;

/// The distance of neighbouring whiskers at one place.
const WHISKER_STEP: f64 = 6.0;

/// Runs of points that a line may join.
type Runs = Vec<Vec<Point>>;

/// The plot's frame and scales.
struct Frame {
    x: Scale,
    y: Scale,
    left: f64,
    right: f64,
    /// How far the series that is being drawn stands beside its place.
    shift: f64,
}

impl Frame {
    /// The pixel of an x value.
    fn across(&self, x: f64) -> f64 {
        self.x.place(x) + self.shift
    }
}

/// Draws the plot of `series` (its own, or as many of them as are shown).
pub(super) fn draw(canvas: &mut Canvas, plot: &Plot, series: &[Series], styles: &[SeriesStyle]) {
    let x_kind = match plot.shape {
        Shape::Percentiles => Kind::Share,
        _ => kind_of(&plot.x),
    };
    let y_kind = kind_of(&plot.y);
    let all: Vec<Runs> =
        series.iter().map(|s| runs(&s.points, x_kind, y_kind, &mut canvas.missing)).collect();
    if all.iter().flatten().next().is_none() {
        nothing(canvas);
        return;
    }
    top_title(canvas, &value_title(&plot.y));
    let mut frame = axes(canvas, plot, &all, (x_kind, y_kind));
    let before: usize = all.iter().flatten().map(Vec::len).sum();
    let all: Vec<Runs> =
        all.iter().map(|runs| runs.iter().map(|run| thinned(run, &frame.x)).collect()).collect();
    let after: usize = all.iter().flatten().map(Vec::len).sum();
    canvas.missing.thinned = (after < before).then_some((before, after));
    let step = step(plot, &all, &frame.x);

    // The original's figures are drawn first, below ours.
    for original in [true, false] {
        for (index, ((runs, look), series)) in all.iter().zip(styles).zip(series).enumerate() {
            if look.original == original {
                canvas.svg.open(&look.class);
                let turn = (index, all.len());
                frame.shift = step * (index as f64 - (all.len() - 1) as f64 / 2.0);
                one(canvas, plot, &frame, (runs, look, series), turn);
                canvas.svg.close();
            }
        }
    }
}

fn kind_of(axis: &Axis) -> Kind {
    if axis.log { Kind::Log } else { Kind::Linear }
}

/// The distance between neighbouring series at one place: none without whiskers, and no more than the places leave.
fn step(plot: &Plot, all: &[Runs], x: &Scale) -> f64 {
    let points = || all.iter().flatten().flatten();
    let spread = points().any(|p| p.low.is_some() || p.high.is_some());
    let many = all.iter().any(|runs| runs.iter().map(Vec::len).sum::<usize>() > MAX_WHISKERS);
    if plot.shape != Shape::Lines || all.len() < 2 || !spread || many {
        return 0.0;
    }
    let mut places: Vec<f64> = points().map(|p| x.place(p.x)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let gaps = places.windows(2).filter_map(|pair| Some(pair.last()? - pair.first()?));
    let gap = gaps.fold(f64::INFINITY, f64::min);
    let between = (all.len() - 1) as f64;
    WHISKER_STEP.min(0.7 * gap / all.len() as f64).min(2.0 * (INSET - 2.0) / between)
}

/// The points that have a position, in runs; whiskers without an end are dropped.
fn runs(points: &[Point], x_kind: Kind, y_kind: Kind, missing: &mut Missing) -> Runs {
    let mut runs: Runs = Vec::new();
    let mut joined = false;
    for point in points {
        let finite = Kind::Linear.rank(point.x).is_some() && Kind::Linear.rank(point.y).is_some();
        if !finite || x_kind.rank(point.x).is_none() || y_kind.rank(point.y).is_none() {
            joined = false;
            *(if finite { &mut missing.no_place } else { &mut missing.not_finite }) += 1;
            continue;
        }
        let end = |v: Option<f64>| v.filter(|v| Kind::Linear.rank(*v).is_some());
        let point = Point { low: end(point.low), high: end(point.high), ..*point };
        match runs.last_mut() {
            Some(run) if joined => run.push(point),
            _ => runs.push(vec![point]),
        }
        joined = true;
    }
    runs
}

/// At most four points for each pixel.
fn thinned(run: &[Point], x: &Scale) -> Vec<Point> {
    let column = |p: &Point| x.place(p.x).floor() as i64;
    let mut kept = Vec::new();
    for same in run.chunk_by(|a, b| column(a) == column(b)) {
        if same.len() <= 4 {
            kept.extend_from_slice(same);
            continue;
        }
        let by_y = |a: &(usize, &Point), b: &(usize, &Point)| a.1.y.total_cmp(&b.1.y);
        let least = same.iter().enumerate().min_by(by_y).map_or(0, |(i, _)| i);
        let most = same.iter().enumerate().max_by(by_y).map_or(0, |(i, _)| i);
        let mut indices = [0, least, most, same.len() - 1];
        indices.sort_unstable();
        let mut last = None;
        for index in indices {
            if last != Some(index) {
                kept.extend(same.get(index));
            }
            last = Some(index);
        }
    }
    kept
}

/// Smallest and largest of values that have a rank.
fn span(values: impl Iterator<Item = f64>, kind: Kind) -> (f64, f64) {
    let ranked = values.filter(|v| kind.rank(*v).is_some());
    let (low, high) =
        ranked.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low <= high { (low, high) } else { (1.0, 1.0) }
}

/// Draws grid, ticks and titles, and returns the frame of the data.
fn axes(canvas: &mut Canvas, plot: &Plot, all: &[Runs], kinds: (Kind, Kind)) -> Frame {
    let points = || all.iter().flatten().flatten();
    let room = canvas.room;
    let y_values = points().flat_map(|p| [Some(p.y), p.low, p.high]).flatten();
    let (low, high) = span(y_values, kinds.1);
    let wanted = (room.plot_height / 55.0) as usize;
    let (y, y_ticks) = match kinds.1 {
        Kind::Log => scale::log(low, high, wanted, &plot.y.unit, false),
        // A bar or line that does not begin at zero makes small differences look large.
        _ if low == 0.0 && high == 0.0 => scale::linear(0.0, 1.0, wanted, &plot.y.unit),
        _ => scale::linear(low.min(0.0), high.max(0.0), wanted, &plot.y.unit),
    };
    let widest =
        |ticks: &[Tick]| ticks.iter().map(|t| width(&t.label, TYPE_PX)).fold(0.0, f64::max);
    let left = widest(&y_ticks) + 10.0;
    let top = canvas.y;
    let bottom = top + room.plot_height;

    let mut places: Vec<f64> = points().map(|p| p.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let (x, round) = x_axis(plot, &places, kinds.0, room.width);
    let named = named_places(plot, &places);
    let inset = if plot.shape == Shape::Lines { INSET } else { 0.0 };
    let margin = widest(named.as_deref().unwrap_or(&round)).max(widest(&round)) / 2.0;
    let right = room.width - margin.max(8.0);
    let x = x.between(left + inset, right - inset);
    let y = y.between(bottom, top);
    let x_ticks = named.filter(|ticks| apart(ticks, &x)).unwrap_or_else(|| every(&round, &x));

    canvas.svg.open("axes");
    for tick in &y_ticks {
        let at = y.place(tick.value);
        let class = if tick.value == 0.0 && kinds.1 == Kind::Linear { "base" } else { "grid" };
        canvas.svg.line(class, (left, at), (right, at));
        canvas.svg.text("tick", (left - 7.0, at + 4.0), Anchor::End, &tick.label);
    }
    canvas.svg.line("base", (left, bottom), (right, bottom));
    for tick in &x_ticks {
        let at = x.place(tick.value);
        canvas.svg.line("base", (at, bottom), (at, bottom + 5.0));
        canvas.svg.text("tick", (at, bottom + 18.0), Anchor::Middle, &tick.label);
    }
    canvas.svg.close();
    canvas.y = bottom + 24.0;
    bottom_title(canvas, &axis_title(&plot.x), left.min(right - 100.0), right);
    canvas.y += 6.0;
    Frame { x, y, left, right, shift: 0.0 }
}

/// The x axis with its round ticks.
fn x_axis(plot: &Plot, places: &[f64], kind: Kind, room: f64) -> (Scale, Vec<Tick>) {
    let (low, high) = span(places.iter().copied(), kind);
    let wanted = (room / 90.0) as usize;
    match kind {
        Kind::Log => scale::log(low, high, wanted, &plot.x.unit, true),
        Kind::Share => {
            let finite =
                places.iter().filter_map(|x| kind.rank(*x)).filter(|rank| rank.is_finite());
            scale::shares(finite.fold(0.0, f64::max), high == 100.0)
        }
        Kind::Linear if plot.shape == Shape::OverTime && low >= 0.0 && low <= high / 2.0 => {
            scale::inside(0.0, high, wanted, &plot.x.unit)
        }
        Kind::Linear => scale::inside(low, high, wanted, &plot.x.unit),
    }
}

/// The x values themselves as ticks, where there are few: the numbers of clients that were tried.
fn named_places(plot: &Plot, places: &[f64]) -> Option<Vec<Tick>> {
    if plot.shape != Shape::Lines || places.len() > MAX_NAMED_PLACES {
        return None;
    }
    let label = |v: f64| if is_bytes(&plot.x.unit) { bytes(v) } else { short(v) };
    Some(places.iter().map(|v| Tick { value: *v, label: label(*v) }).collect())
}

/// Whether no labels overlap.
fn apart(ticks: &[Tick], scale: &Scale) -> bool {
    ticks.windows(2).all(|pair| match pair {
        [a, b] => {
            let half = (width(&a.label, TYPE_PX) + width(&b.label, TYPE_PX)) / 2.0;
            scale.place(b.value) - scale.place(a.value) >= half + LABEL_GAP
        }
        _ => true,
    })
}

/// All ticks, or every second, or every third … so that they stand apart.
fn every(ticks: &[Tick], scale: &Scale) -> Vec<Tick> {
    (1..=ticks.len().max(1))
        .map(|stride| ticks.iter().step_by(stride).cloned().collect::<Vec<_>>())
        .find(|some| apart(some, scale))
        .unwrap_or_default()
}

/// One series: spread, line, marks.
fn one(
    canvas: &mut Canvas,
    plot: &Plot,
    frame: &Frame,
    (runs, look, series): (&Runs, &SeriesStyle, &Series),
    turn: (usize, usize),
) {
    let count: usize = runs.iter().map(Vec::len).sum();
    for run in runs {
        spread(canvas, frame, run, count);
    }
    for run in runs.iter().filter(|run| run.len() > 1) {
        let places: Vec<String> = run
            .iter()
            .map(|p| format!("{} {}", px(frame.across(p.x)), px(frame.y.place(p.y))))
            .collect();
        let class = if plot.shape == Shape::Lines { "line" } else { "line thin" };
        canvas.svg.path(class, &format!("M{}", places.join("L")), Some(&series.name));
    }
    let marked = marked(plot.shape, runs, frame, turn);
    for point in marked {
        let mark = look.mark_at(frame.across(point.x), frame.y.place(point.y), 4.0);
        canvas.svg.path(look.mark_class, &mark, Some(&tip(plot, series, point)));
    }
}

/// Whiskers for few points, a band for many.
fn spread(canvas: &mut Canvas, frame: &Frame, run: &[Point], count: usize) {
    let ends = |p: &Point| match (p.low, p.high) {
        (None, None) => None,
        (low, high) => Some((low.unwrap_or(p.y), high.unwrap_or(p.y))),
    };
    if count <= MAX_WHISKERS {
        let mut d = String::new();
        for (point, (low, high)) in run.iter().filter_map(|p| Some((p, ends(p)?))) {
            let x = frame.across(point.x);
            let (bottom, top) = (frame.y.place(low), frame.y.place(high));
            let cap = 4.0;
            d.push_str(&format!(
                "M{x0} {b}H{x1}M{x} {b}V{t}M{x0} {t}H{x1}",
                x0 = px(x - cap),
                x1 = px(x + cap),
                x = px(x),
                b = px(bottom),
                t = px(top)
            ));
        }
        if !d.is_empty() {
            canvas.svg.path("whisker", &d, None);
        }
        return;
    }
    for part in run.chunk_by(|a, b| ends(a).is_some() == ends(b).is_some()) {
        let edge =
            |p: &Point, v: f64| format!("{} {}", px(frame.across(p.x)), px(frame.y.place(v)));
        let upper = part.iter().filter_map(|p| Some(edge(p, ends(p)?.1)));
        let lower = part.iter().rev().filter_map(|p| Some(edge(p, ends(p)?.0)));
        let outline: Vec<String> = upper.chain(lower).collect();
        if outline.len() > 3 {
            canvas.svg.path("band", &format!("M{}z", outline.join("L")), None);
        }
    }
}

/// The points with a mark: all of a sparse line; a few of a dense one, staggered by series, so that
/// lines can be distinguished without colour; and every isolated point.
fn marked<'a>(
    shape: Shape,
    runs: &'a Runs,
    frame: &Frame,
    (index, of): (usize, usize),
) -> Vec<&'a Point> {
    let count: usize = runs.iter().map(Vec::len).sum();
    let width = frame.right - frame.left;
    let dense = shape != Shape::Lines || count as f64 > width / 9.0;
    if !dense {
        return runs.iter().flatten().collect();
    }
    let alone = runs.iter().filter(|run| run.len() == 1).flatten();
    let mut marked: Vec<&Point> = alone.take(MAX_WHISKERS).collect();
    if of < 2 {
        return marked;
    }
    let step = width / 5.0;
    let mut next = frame.left + step * (index as f64 + 0.5) / of as f64;
    for point in runs.iter().filter(|run| run.len() > 1).flatten() {
        let x = frame.across(point.x);
        if x >= next {
            marked.push(point);
            next += step * (((x - next) / step).floor() + 1.0);
        }
    }
    marked
}

/// The tooltip of a point.
fn tip(plot: &Plot, series: &Series, point: &Point) -> String {
    let mut text = format!(
        "{}\n{}: {}\n{}: {}",
        series.name,
        plot.x.label,
        with_unit(point.x, &plot.x.unit),
        plot.y.label,
        with_unit(point.y, &plot.y.unit)
    );
    if let (Some(low), Some(high)) = (point.low, point.high) {
        text.push_str(&format!(" ({} – {})", short(low), short(high)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, y: f64) -> Point {
        Point { x, y, low: None, high: None }
    }

    #[test]
    fn points_that_are_not_finite_leave_a_gap_and_are_counted() {
        let points = [
            point(0.0, 1.0),
            point(1.0, f64::NAN),
            point(2.0, 2.0),
            point(3.0, 0.0),
            point(4.0, 1.0),
        ];
        let mut missing = Missing::default();
        let runs = runs(&points, Kind::Linear, Kind::Log, &mut missing);
        assert_eq!(runs.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!((missing.not_finite, missing.no_place), (1, 1));
    }

    #[test]
    fn thinning_keeps_every_extreme() {
        let mut points: Vec<Point> =
            (0..100_000).map(|i| point(f64::from(i), f64::from(i % 7))).collect();
        points[54_321].y = 1000.0;
        points[54_400].y = -1000.0;
        let scale = Scale::new(Kind::Linear, 0.0, 99_999.0).between(0.0, 700.0);
        let kept = thinned(&points, &scale);
        assert!(kept.len() <= 4 * 701, "{}", kept.len());
        assert!(kept.iter().any(|p| p.y == 1000.0) && kept.iter().any(|p| p.y == -1000.0));
        assert_eq!(kept.first(), points.first());
        assert_eq!(kept.last(), points.last());
        assert!(kept.windows(2).all(|w| w[0].x < w[1].x));
    }
}
