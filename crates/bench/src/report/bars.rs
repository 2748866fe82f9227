//! Horizontal bars: stacked, or side by side in groups.
//!
//! They are horizontal because of their names: a name of any length is beside its bars, or above them
//! where the page is narrow, and more bars make the figure taller without slanted names. The value is
//! at the end of each bar (of a stack: the sum), so that it need not be estimated.

use super::figure::{Canvas, TYPE_PX, axis_title, bottom_title, nothing, swatch, value_title};
use super::numbers::{bytes, is_bytes, short, with_unit};
use super::scale::{self, Kind, Scale, Tick};
use super::series_style::SeriesStyle;
use super::svg::{Anchor, px};
use super::text_width::{fitted, width};
use crate::result::{Plot, Point, Series, Shape};

/// A taller figure than this many groups becomes a table.
const MAX_GROUPS: usize = 100;

/// Space between groups, in pixels.
const GROUP_GAP: f64 = 12.0;

/// Space between the bars of a group.
const BAR_GAP: f64 = 2.0;

/// A part of a bar.
#[derive(Debug, Clone, Copy)]
struct Part {
    series: usize,
    value: f64,
    spread: Option<(f64, f64)>,
}

/// The bars under one name, and the parts of each.
struct Group<'a> {
    name: &'a str,
    bars: Vec<Vec<Part>>,
}

/// Positions of values and names.
struct Frame {
    scale: Scale,
    left: f64,
    thickness: f64,
    /// Names are above their bars instead of beside them.
    above: bool,
}

/// Draws the bars of `series` (the plot's own, or as many of them as are shown).
pub(super) fn draw(canvas: &mut Canvas, plot: &Plot, series: &[Series], styles: &[SeriesStyle]) {
    let groups = groups(canvas, plot, series);
    if groups.iter().all(|g| g.bars.is_empty()) {
        nothing(canvas);
        return;
    }
    let top = canvas.y;
    let (frame, ticks) = frame(canvas, plot, &groups);
    if !plot.x.label.is_empty() {
        let title = fitted(&axis_title(&plot.x), TYPE_PX, canvas.room.width);
        canvas.svg.text("title", (0.0, canvas.y + 11.0), Anchor::Start, &title);
        canvas.y += 22.0;
    }
    let top = if frame.above { canvas.y } else { top.max(canvas.y - 6.0) };
    let height: f64 = groups.iter().map(|g| tall(g, &frame)).sum();
    grid(canvas, &frame, &ticks, top, canvas.y + height);
    for group in &groups {
        one(canvas, plot, series, styles, &frame, group);
    }
    numbers(canvas, plot, &frame, &ticks);
}

/// The bars in the order of their names; points without a bar are counted.
fn groups<'a>(canvas: &mut Canvas, plot: &'a Plot, series: &[Series]) -> Vec<Group<'a>> {
    let stacked = plot.shape == Shape::StackedBars;
    let kind = if plot.y.log && !stacked { Kind::Log } else { Kind::Linear };
    let mut groups: Vec<Group<'_>> =
        plot.bars.iter().map(|name| Group { name, bars: Vec::new() }).take(MAX_GROUPS).collect();
    canvas.missing.bars = plot.bars.len() - groups.len();
    for (index, series) in series.iter().enumerate() {
        for point in &series.points {
            let Some(part) = part_of(canvas, point, index, kind, stacked) else { continue };
            let whole = point.x >= 0.0 && point.x.fract() == 0.0 && point.x < 1e9;
            let at = if whole { point.x as usize } else { usize::MAX };
            match groups.get_mut(at) {
                Some(group) => match group.bars.first_mut() {
                    Some(bar) if stacked => bar.push(part),
                    _ => group.bars.push(vec![part]),
                },
                None if at >= plot.bars.len() => canvas.missing.no_bar += 1,
                None => {}
            }
        }
    }
    groups
}

/// A point as a part of a bar; a stack cannot contain negative values.
fn part_of(
    canvas: &mut Canvas,
    point: &Point,
    series: usize,
    kind: Kind,
    stacked: bool,
) -> Option<Part> {
    if Kind::Linear.rank(point.y).is_none() || Kind::Linear.rank(point.x).is_none() {
        canvas.missing.not_finite += 1;
        return None;
    }
    if kind.rank(point.y).is_none() || (stacked && point.y < 0.0) {
        canvas.missing.no_place += 1;
        return None;
    }
    let finite = |v: Option<f64>| v.filter(|v| Kind::Linear.rank(*v).is_some());
    let spread = match (finite(point.low), finite(point.high)) {
        _ if stacked => None,
        (None, None) => None,
        (low, high) => Some((low.unwrap_or(point.y), high.unwrap_or(point.y))),
    };
    Some(Part { series, value: point.y, spread })
}

/// Scale, margins and thickness.
fn frame(canvas: &Canvas, plot: &Plot, groups: &[Group<'_>]) -> (Frame, Vec<Tick>) {
    let room = canvas.room.width;
    let bars = || groups.iter().flat_map(|g| &g.bars);
    let ends = bars().flat_map(|bar| {
        let sum = bar.iter().map(|p| p.value).sum::<f64>();
        [Some(sum), ends_of(bar).map(|s| s.0), ends_of(bar).map(|s| s.1)].into_iter().flatten()
    });
    let stacked = plot.shape == Shape::StackedBars;
    let kind = if plot.y.log && !stacked { Kind::Log } else { Kind::Linear };
    let ranked = ends.filter(|v| kind.rank(*v).is_some());
    let (low, high) =
        ranked.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    let wanted = (room / 130.0) as usize;
    let (scale, ticks) = match kind {
        // The least bar must have a length.
        Kind::Log => scale::log(low * 0.7, high, wanted, &plot.y.unit, false),
        _ if low >= 0.0 && high <= 0.0 => scale::linear(0.0, 1.0, wanted, &plot.y.unit),
        _ => scale::linear(low.min(0.0), high.max(0.0), wanted, &plot.y.unit),
    };
    let widest = |texts: &mut dyn Iterator<Item = f64>| texts.fold(0.0, f64::max);
    let names = widest(&mut groups.iter().map(|g| width(g.name, TYPE_PX)));
    let above = names > room * 0.3;
    let values = widest(&mut bars().map(|bar| width(&value_of(plot, bar), TYPE_PX)));
    let half_tick = ticks.last().map_or(0.0, |t| width(&t.label, TYPE_PX) / 2.0);
    let first_tick = ticks.first().map_or(0.0, |t| width(&t.label, TYPE_PX) / 2.0);
    let left = if above { first_tick } else { (names + 10.0).max(first_tick) };
    let right = room - (values + 8.0).max(half_tick + 2.0);
    let most = groups.iter().map(|g| g.bars.len()).max().unwrap_or(1);
    let thickness = match most {
        0..=1 => 20.0,
        2..=4 => 15.0,
        _ => 12.0,
    };
    let scale = scale.between(left, right);
    (Frame { scale, left, thickness, above }, ticks)
}

/// The spread of a bar that has one part.
fn ends_of(bar: &[Part]) -> Option<(f64, f64)> {
    bar.first().and_then(|part| part.spread)
}

/// The text at a bar's end.
fn value_of(plot: &Plot, bar: &[Part]) -> String {
    let sum = bar.iter().map(|p| p.value).sum();
    if is_bytes(&plot.y.unit) { bytes(sum) } else { short(sum) }
}

/// The height that a group takes, its gap included.
fn tall(group: &Group<'_>, frame: &Frame) -> f64 {
    let bars = group.bars.len().max(1) as f64;
    let name = if frame.above { 18.0 } else { 0.0 };
    name + bars * (frame.thickness + BAR_GAP) + GROUP_GAP
}

/// The lines behind the bars.
fn grid(canvas: &mut Canvas, frame: &Frame, ticks: &[Tick], top: f64, bottom: f64) {
    canvas.svg.open("axes");
    for tick in ticks {
        let at = frame.scale.place(tick.value);
        let class = if tick.value == 0.0 { "base" } else { "grid" };
        canvas.svg.line(class, (at, top), (at, bottom));
    }
    canvas.svg.close();
}

/// The numbers below the bars and the axis's title.
fn numbers(canvas: &mut Canvas, plot: &Plot, frame: &Frame, ticks: &[Tick]) {
    canvas.svg.open("axes");
    let mut free = f64::NEG_INFINITY;
    for tick in ticks {
        let at = frame.scale.place(tick.value);
        let half = width(&tick.label, TYPE_PX) / 2.0;
        if at - half >= free {
            canvas.svg.text("tick", (at, canvas.y + 13.0), Anchor::Middle, &tick.label);
            free = at + half + 8.0;
        }
    }
    canvas.svg.close();
    canvas.y += 22.0;
    bottom_title(canvas, &value_title(&plot.y), frame.left, canvas.room.width);
    canvas.y += 4.0;
}

/// One group: its name and its bars.
fn one(
    canvas: &mut Canvas,
    plot: &Plot,
    series: &[Series],
    styles: &[SeriesStyle],
    frame: &Frame,
    group: &Group<'_>,
) {
    let end = canvas.y + tall(group, frame);
    if frame.above {
        let name = fitted(group.name, TYPE_PX, canvas.room.width - frame.left);
        canvas.svg.text("name over", (frame.left + 4.0, canvas.y + 12.0), Anchor::Start, &name);
        canvas.y += 18.0;
    } else {
        let middle = (canvas.y + end - GROUP_GAP - BAR_GAP) / 2.0;
        canvas.svg.text("name", (frame.left - 9.0, middle + 4.0), Anchor::End, group.name);
    }
    for bar in &group.bars {
        let reach = parts(canvas, plot, series, styles, frame, (group.name, bar));
        let text = value_of(plot, bar);
        let baseline = canvas.y + frame.thickness / 2.0 + 4.0;
        canvas.svg.text("value", (reach + 6.0, baseline), Anchor::Start, &text);
        canvas.y += frame.thickness + BAR_GAP;
    }
    canvas.y = end;
}

/// The parts of one bar from its start; returns the pixel where it ends.
fn parts(
    canvas: &mut Canvas,
    plot: &Plot,
    series: &[Series],
    styles: &[SeriesStyle],
    frame: &Frame,
    (name, bar): (&str, &[Part]),
) -> f64 {
    let mut foot = 0.0;
    let mut reach = frame.scale.place(0.0);
    for part in bar {
        let (Some(look), Some(series)) = (styles.get(part.series), series.get(part.series)) else {
            continue;
        };
        let (a, b) = (frame.scale.place(foot), frame.scale.place(foot + part.value));
        let mut tip = format!("{}\n{name}: {}", series.name, with_unit(part.value, &plot.y.unit));
        if let Some((low, high)) = part.spread {
            tip.push_str(&format!(" ({} – {})", short(low), short(high)));
        }
        canvas.svg.open(&look.class);
        let size = ((b - a).abs(), frame.thickness);
        swatch(&mut canvas.svg, look, (a.min(b), canvas.y), size, Some(&tip));
        reach = reach.max(a).max(b);
        if let Some((low, high)) = part.spread {
            let (low, high) = (frame.scale.place(low), frame.scale.place(high));
            let middle = canvas.y + frame.thickness / 2.0;
            whisker(canvas, low, high, middle);
            reach = reach.max(high);
        }
        canvas.svg.close();
        foot += part.value;
    }
    reach
}

/// A spread along a bar.
fn whisker(canvas: &mut Canvas, low: f64, high: f64, middle: f64) {
    let (top, bottom) = (px(middle - 3.5), px(middle + 3.5));
    let (low, high, middle) = (px(low), px(high), px(middle));
    let d = format!("M{low} {top}V{bottom}M{low} {middle}H{high}M{high} {top}V{bottom}");
    canvas.svg.path("whisker over", &d, None);
}
