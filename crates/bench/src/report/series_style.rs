//! The style that distinguishes series: a colour, and without colour a mark, a dash or a hatching.
//!
//! Colours are classes (`s0` … `s11`, `o0` … `o3` for the original experiment's figures, all grey and
//! dashed); `figure.css` gives each a value for light and one for dark, and a test there compares
//! them with the background and with each other as colour-blind readers see them.

use super::svg::{px, rectangle};
use crate::result::Series;

/// Our colours; a thirteenth series begins again with other marks.
const COLOURS: usize = 12;

/// Dash patterns of the original's series.
const DASHES: usize = 4;

/// Shapes of marks, filled; hollow ones double them.
const MARKS: usize = 6;

/// Kinds of hatching, plain among them.
const HATCHINGS: usize = 6;

/// The style of one series.
#[derive(Debug, Clone)]
pub(super) struct SeriesStyle {
    /// Classes of its group.
    pub(super) class: String,
    /// Class of its marks.
    pub(super) mark_class: &'static str,
    /// Which shape.
    mark: usize,
    /// Which hatching.
    hatching: usize,
    /// Whether it is of the original experiment.
    pub(super) original: bool,
}

/// The styles of a figure's series: ours and the original's are numbered separately, so that adding
/// the original's figures changes no colour.
pub(super) fn styles(series: &[Series]) -> Vec<SeriesStyle> {
    let (mut ours, mut theirs) = (0, 0);
    series
        .iter()
        .map(|series| {
            let count = if series.original { &mut theirs } else { &mut ours };
            let index = *count;
            *count += 1;
            look(index, series.original)
        })
        .collect()
}

fn look(index: usize, original: bool) -> SeriesStyle {
    if original {
        let class = format!("orig o{}", index % DASHES);
        return SeriesStyle {
            class,
            mark_class: "hollow",
            mark: index % MARKS,
            hatching: 0,
            original,
        };
    }
    let hollow = (index / MARKS) % 2 == 1;
    SeriesStyle {
        class: format!("s{}", index % COLOURS),
        mark_class: if hollow { "hollow" } else { "mark" },
        mark: index % MARKS,
        hatching: index % HATCHINGS,
        original,
    }
}

impl SeriesStyle {
    /// The same without hatching, for bars that have their names beside them.
    pub(super) fn plain(self) -> Self {
        Self { hatching: 0, ..self }
    }

    /// The outline of a mark at a position.
    pub(super) fn mark_at(&self, x: f64, y: f64, size: f64) -> String {
        let corner = |dx: f64, dy: f64| format!("{} {}", px(x + dx * size), px(y + dy * size));
        let polygon = |corners: &[(f64, f64)]| {
            let corners: Vec<String> = corners.iter().map(|(dx, dy)| corner(*dx, *dy)).collect();
            format!("M{}z", corners.join("L"))
        };
        match self.mark {
            0 => {
                let r = px(size);
                let across = px(size * 2.0);
                format!(
                    "M{}a{r} {r} 0 1 0 {across} 0a{r} {r} 0 1 0 -{across} 0z",
                    corner(-1.0, 0.0)
                )
            }
            1 => rectangle(x - size * 0.9, y - size * 0.9, size * 1.8, size * 1.8),
            2 => polygon(&[(0.0, -1.25), (1.15, 0.85), (-1.15, 0.85)]),
            3 => polygon(&[(0.0, -1.35), (1.35, 0.0), (0.0, 1.35), (-1.35, 0.0)]),
            4 => polygon(&[(0.0, 1.25), (1.15, -0.85), (-1.15, -0.85)]),
            _ => {
                let (a, b) = (0.42, 1.25);
                polygon(&[
                    (-a, -b),
                    (a, -b),
                    (a, -a),
                    (b, -a),
                    (b, a),
                    (a, a),
                    (a, b),
                    (-a, b),
                    (-a, a),
                    (-b, a),
                    (-b, -a),
                    (-a, -a),
                ])
            }
        }
    }

    /// The strokes of the hatching inside of a rectangle; `None` for the plain one. The lines are cut here rather than by
    /// a pattern, whose id would have to be unique in a page of many figures.
    pub(super) fn hatching_of(&self, x: f64, y: f64, width: f64, height: f64) -> Option<String> {
        const GAP: f64 = 7.0;
        /// A bar is never longer than a figure is wide; this only bounds the loop.
        const MOST: usize = 400;
        let mut d = String::new();
        let mut stroke = |from: (f64, f64), to: (f64, f64)| {
            d.push_str(&format!("M{} {}L{} {}", px(from.0), px(from.1), px(to.0), px(to.1)));
        };
        let right = x + width;
        let slanted = |stroke: &mut dyn FnMut((f64, f64), (f64, f64)), rising: bool| {
            for k in 1..MOST {
                let foot = x + k as f64 * GAP;
                if foot - height >= right {
                    break;
                }
                let (left, end) = ((foot - height).max(x), foot.min(right));
                let (near, far) = (foot - end, foot - left);
                let (y_left, y_right) = if rising {
                    (y + far, y + near)
                } else {
                    (y + height - far, y + height - near)
                };
                stroke((left, y_left), (end, y_right));
            }
        };
        match self.hatching {
            0 => return None,
            1 => slanted(&mut stroke, true),
            2 => slanted(&mut stroke, false),
            3 => (1..MOST)
                .map(|k| x + k as f64 * GAP * 0.7)
                .take_while(|at| *at < right)
                .for_each(|at| stroke((at, y), (at, y + height))),
            4 => [1.0, 2.0]
                .into_iter()
                .map(|k| y + height * k / 3.0)
                .for_each(|at| stroke((x, at), (right, at))),
            _ => {
                slanted(&mut stroke, true);
                slanted(&mut stroke, false);
            }
        }
        (!d.is_empty()).then_some(d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn series(original: bool) -> Series {
        Series { name: "a".into(), original, points: Vec::new() }
    }

    #[test]
    fn twelve_series_differ_without_their_colour() {
        let styles = styles(&vec![series(false); 12]);
        let marks: HashSet<_> =
            styles.iter().map(|l| (l.mark_at(0.0, 0.0, 4.0), l.mark_class)).collect();
        assert_eq!(marks.len(), 12);
        let classes: HashSet<_> = styles.iter().map(|l| &l.class).collect();
        assert_eq!(classes.len(), 12);
    }

    #[test]
    fn original_series_do_not_change_our_colours() {
        let both = styles(&[series(true), series(false), series(true), series(false)]);
        let ours = styles(&[series(false), series(false)]);
        assert_eq!(both[1].class, ours[0].class);
        assert_eq!(both[3].class, ours[1].class);
        assert!(both[0].class.contains("orig") && both[0].class != both[2].class);
    }

    #[test]
    fn hatching_stays_inside_its_bar() {
        for index in 0..HATCHINGS {
            for (width, height) in [(1.0, 14.0), (50.0, 12.0), (600.0, 20.0)] {
                let Some(d) = look(index, false).hatching_of(10.0, 20.0, width, height) else {
                    continue;
                };
                for pair in d.split(['M', 'L']).filter(|p| !p.is_empty()) {
                    let (x, y) = pair.split_once(' ').unwrap();
                    let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                    assert!((9.9..=10.1 + width).contains(&x), "{index} {x} {width}");
                    assert!((19.9..=20.1 + height).contains(&y), "{index} {y} {height}");
                }
            }
        }
    }
}
