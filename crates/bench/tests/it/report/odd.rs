//! Figures of unusual data: each must be well-formed, inside its frame, with no overlapping text.

use super::sample_results::{
    axis, bars, fact, findings as plain, original, plot, series, spread, thirteen,
};
use bench::report::figure;
use bench::result::{Findings, Plot, Point, Ratio, Series, Shape, Table, Target};

/// Ninety characters, as a variant's name may be after a few settings.
const LONG: &str =
    "udp-sockets=interface-cpu,wake-policy=adaptive,threads=128..128,pools=pernode,tcp-rcvbuf=16M";

/// An experiment in which every word is `name`.
pub fn named(name: &str) -> Findings {
    let mut f = plain("odd", name, name, 0);
    let mut all = vec![odd_bars().swap_remove(0), odd_lines().swap_remove(0)];
    for plot in &mut all {
        plot.title = name.into();
        plot.x.label = name.into();
        plot.y.unit = name.into();
        plot.series[0].name = name.into();
        plot.bars = plot.bars.iter().map(|_| name.to_string()).collect();
    }
    f.plots = all;
    f.commands = vec![name.into()];
    f.setup = vec![fact(name, name)];
    f.notes = vec![name.into()];
    f.trials[0].variant = name.into();
    f.trials[0].measures.insert(name.into(), 1.0);
    f.tables = vec![Table {
        title: name.into(),
        columns: vec![name.into()],
        rows: vec![vec![name.into()]],
    }];
    f.targets = vec![Target { condition: name.into(), found: name.into(), held: true }];
    f.ratios = vec![Ratio {
        measure: name.into(),
        of: name.into(),
        to: name.into(),
        at: None,
        median: f64::NAN,
        low: 1.0,
        high: f64::INFINITY,
        rounds: 0,
    }];
    f
}

/// An experiment of odd plots.
pub fn findings() -> Findings {
    let mut f =
        plain("odd", "Odd data", "What does a picture do with data that nobody expects?", 0);
    f.plots = odd_plots();
    f
}

fn lines(title: &str, log: bool, all: Vec<Series>) -> Plot {
    plot(title, Shape::Lines, axis("clients", "", log), axis("calls", "1/s", log), all)
}

/// Ten points that are hard to draw, and some that are invalid.
fn strange(log: bool) -> Plot {
    let mut s = series(
        "strange",
        &[
            (1.0, 5.0),
            (2.0, f64::NAN),
            (3.0, f64::INFINITY),
            (4.0, 7.0),
            (5.0, 0.0),
            (6.0, -4.0),
            (7.0, 9.0),
        ],
    );
    s.points.push(Point { x: 8.0, y: 6.0, low: Some(f64::NAN), high: Some(8.0) });
    s.points.push(Point { x: 9.0, y: 1e200, low: None, high: None });
    lines("Values that are not finite", log, vec![s])
}

/// `n` lines of seven points.
fn many(n: u32) -> Vec<Series> {
    let line = |s: u32| {
        let points: Vec<(f64, f64)> =
            (1..8).map(|x| (f64::from(x), f64::from(100 + s * 40 + x * 9))).collect();
        spread(&format!("variant number {s}"), &points, 0.04)
    };
    (0..n).map(line).collect()
}

/// Two lines over time, one of 100,000 points.
fn long() -> Plot {
    let walk: Vec<(f64, f64)> = (0..100_000)
        .map(|i| {
            let x = f64::from(i);
            (
                x / 1000.0,
                500.0 + 300.0 * (x / 9000.0).sin() + 90.0 * super::sample_results::noise(x),
            )
        })
        .collect();
    let all = vec![series("walk", &walk), original("original", &walk[..1000])];
    let (x, y) = (axis("time", "s", false), axis("calls", "1/s", false));
    plot("100,000 points", Shape::OverTime, x, y, all)
}

fn odd_plots() -> Vec<Plot> {
    let mut all = odd_bars();
    all.extend(odd_lines());
    all
}

fn odd_lines() -> Vec<Plot> {
    let line = |title: &str, log, name: &str, points: &[(f64, f64)]| {
        lines(title, log, vec![series(name, points)])
    };
    let shares = |title: &str, all| {
        let (x, y) = (axis("share of calls", "%", true), axis("latency", "µs", true));
        plot(title, Shape::Percentiles, x, y, all)
    };
    let close = [(1e9, 1e15), (1e9 + 1.0, 1e15 + 1.0)];
    let far = [(1e-30, 1e-30), (1.0, 1.0), (1e30, 1e30)];
    vec![
        line("One series with a very long name", false, LONG, &[(1.0, 2.0), (2.0, 3.0)]),
        lines("Twelve series", false, many(12)),
        lines("Thirty series", true, many(30)),
        lines("No series", false, vec![]),
        lines("Empty series", false, vec![series("empty", &[]), series("also empty", &[])]),
        line("One point", false, "one", &[(16.0, 57_353.0)]),
        line("One point, logarithmic", true, "one", &[(16.0, 57_353.0)]),
        line("Equal values", false, "flat", &[(1.0, 7.0), (2.0, 7.0), (3.0, 7.0)]),
        line("All nought", false, "nought", &[(0.0, 0.0), (0.0, 0.0)]),
        line("All nought, logarithmic", true, "nought", &[(0.0, 0.0), (1.0, 0.0)]),
        strange(false),
        strange(true),
        line("Sixty decades", true, "far", &far),
        line("Large and close", false, "close", &close),
        line("Tiny", false, "tiny", &[(1e-12, 1e-12), (2e-12, 3e-12)]),
        long(),
        shares(
            "Shares",
            vec![
                series(
                    "all",
                    &[(0.0, 10.0), (50.0, 20.0), (90.0, 30.0), (99.999, 40.0), (100.0, 900.0)],
                ),
                series("outside", &[(-1.0, 10.0), (101.0, 20.0), (99.0, 30.0)]),
            ],
        ),
        shares("One share", vec![series("max", &[(100.0, 12.0)])]),
    ]
}

fn odd_bars() -> Vec<Plot> {
    let draw = |title: &str, shape, names: &[&str], all| {
        bars(title, shape, axis("calls", "1/s", false), names, all)
    };
    let names: Vec<String> = (0..12).map(|i| format!("{i} {LONG}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let values =
        |k: f64| (0..12).map(|i| (f64::from(i), 10.0 + k * f64::from(i))).collect::<Vec<_>>();
    let twelve: Vec<_> =
        (0..12).map(|s| spread(&format!("series {s}"), &values(f64::from(s) + 1.0), 0.1)).collect();
    let strays = [(0.0, -5.0), (1.0, 3.0), (7.0, 1.0), (0.5, 1.0)];
    let (grouped, stacked) = (Shape::GroupedBars, Shape::StackedBars);
    vec![
        draw("Long names of bars", grouped, &names, vec![series("a", &values(3.0))]),
        draw("Twelve series of twelve bars", grouped, &names, twelve.clone()),
        draw("Twelve parts", stacked, &names, twelve),
        draw("Below nought", grouped, &["a", "b"], vec![series("s", &strays)]),
        draw("Nought", stacked, &["a", "b"], vec![series("s", &[(0.0, 0.0), (1.0, 0.0)])]),
        draw("No bars", stacked, &[], vec![series("s", &[(0.0, 1.0)])]),
    ]
}

/// Every `<svg>` of a page, as text.
fn pictures(page: &str) -> Vec<String> {
    page.split("<svg")
        .skip(1)
        .filter_map(|rest| rest.split_once("</svg>"))
        .map(|(inside, _)| format!("<svg{inside}</svg>"))
        .collect()
}

/// Parses every figure of a page and checks its texts.
pub fn check_pictures(page: &str) {
    for picture in pictures(page) {
        check(&picture);
    }
}

/// A text's bounding box: left, top, right, bottom, and the words.
type Words = (f64, f64, f64, f64, String);

/// A conservative width: most sans-serif faces have 0.5 to 0.6 em for an average character.
fn width(text: &str) -> f64 {
    let em = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '|' | '\'' | 'I' | ' ' | '\u{a0}' => 0.3,
        'f' | 't' | 'r' | '(' | ')' | '-' | '/' => 0.4,
        'm' | 'M' | 'W' | 'w' | '%' | '…' => 0.9,
        c if c.is_ascii_uppercase() => 0.72,
        _ => 0.61,
    };
    text.chars().map(em).sum::<f64>() * 12.0
}

fn words(document: &roxmltree::Document<'_>) -> Vec<Words> {
    let texts =
        document.descendants().filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "text")));
    texts
        .map(|n| {
            let number = |name| n.attribute(name).unwrap().parse::<f64>().unwrap();
            let text = n.text().unwrap_or_default().to_string();
            let wide = width(&text);
            let left = match n.attribute("text-anchor").unwrap() {
                "start" => number("x"),
                "middle" => number("x") - wide / 2.0,
                _ => number("x") - wide,
            };
            (left, number("y") - 9.0, left + wide, number("y") + 2.0, text)
        })
        .collect()
}

/// Well-formed, finite, texts separate and inside.
fn check(picture: &str) {
    let document = roxmltree::Document::parse(picture).unwrap_or_else(|e| panic!("{e}\n{picture}"));
    assert!(!picture.contains("NaN") && !picture.contains("inf "), "{picture}");
    let view = document.root_element().attribute("viewBox").unwrap();
    let view: Vec<f64> = view.split(' ').map(|v| v.parse().unwrap()).collect();
    let label = document.root_element().attribute("aria-label").unwrap_or_default();
    let all = words(&document);
    for (i, a) in all.iter().enumerate() {
        assert!(
            a.0 >= -1.0 && a.1 >= 0.0 && a.2 <= view[2] + 1.0 && a.3 <= view[3],
            "{label}: {a:?} of {view:?}"
        );
        for b in &all[..i] {
            let apart = a.2 <= b.0 || b.2 <= a.0 || a.3 <= b.1 || b.3 <= a.1;
            assert!(apart, "{label}: {a:?} lies on {b:?}");
        }
    }
}

#[test]
fn text_in_figures_does_not_overlap() {
    let mut all = thirteen();
    all.push(findings());
    check_pictures(&super::page(&all));
}

#[test]
fn figures_state_what_they_omit() {
    let said = |title: &str| {
        let plots = odd_plots();
        let plot = plots.iter().find(|p| p.title == title).unwrap();
        figure(plot)
    };
    assert!(
        said("Values that are not finite").contains("Left out: 3 points without a finite value.")
    );
    assert!(said("100,000 points").contains("101,000 points thinned to "));
    assert!(said("Below nought").contains("Left out: 2 points of no bar."));
    assert!(
        said("All nought, logarithmic").contains("Left out: 2 points with no place on this axis.")
    );
    assert!(said("Thirty series").contains("Left out: 6 further series."));
    assert!(said("No series").contains("Nothing was measured that could be drawn."));
}

#[test]
fn a_hundred_thousand_points_stay_small() {
    let plots = odd_plots();
    let plot = plots.iter().find(|p| p.title == "100,000 points").unwrap();
    let drawn = figure(plot);
    assert!(drawn.len() < 100_000, "{} bytes", drawn.len());
}

#[test]
fn a_single_figure_contains_its_style() {
    for plot in thirteen().iter().flat_map(|f| &f.plots) {
        let drawn = figure(plot);
        check(&drawn);
        assert!(drawn.contains("<style>") && drawn.contains("prefers-color-scheme: dark"));
        assert!(drawn.contains("class=\"paper\""), "it has a background, whatever is behind it");
    }
}

#[test]
fn whiskers_span_minimum_to_maximum() {
    let mut s = series("a", &[(1.0, 50.0), (2.0, 60.0)]);
    s.points[0].low = Some(0.0);
    s.points[0].high = Some(100.0);
    let drawn = figure(&lines("w", false, vec![s]));
    let document = roxmltree::Document::parse(&drawn).unwrap();
    let whisker = document.descendants().find(|n| n.attribute("class") == Some("whisker")).unwrap();
    let d = whisker.attribute("d").unwrap();
    // From the axis's foot (0) to its top (100), 300 pixels apart.
    let heights: Vec<f64> = d
        .split(['M', 'H', 'V'])
        .filter_map(|p| p.split_once(' '))
        .map(|(_, y)| y.parse().unwrap())
        .collect();
    let (low, high) = (heights[0], *heights.last().unwrap());
    assert!((low - high - 300.0).abs() < 0.2, "{d}");
}

#[test]
fn lines_of_one_point_become_bars_that_can_be_compared() {
    let all = vec![series("cap:1", &[(32.0, 5.0)]), series("cap:5", &[(32.0, 6.0)])];
    let drawn = figure(&lines("one place", false, all));
    check(&drawn);
    assert!(drawn.contains(">clients: 32<"), "{drawn}");
    assert_eq!(drawn.matches("class=\"part\"").count(), 2);
    assert_eq!(drawn.matches(">cap:5</text>").count(), 1);
}

#[test]
fn the_original_is_dashed_in_its_own_colour() {
    let both =
        vec![original("then", &[(1.0, 1.0), (2.0, 2.0)]), series("now", &[(1.0, 3.0), (2.0, 4.0)])];
    let drawn = figure(&lines("both", false, both));
    assert!(drawn.contains("<g class=\"orig o0\">") && drawn.contains("<g class=\"s0\">"));
    assert!(drawn.contains(".orig .line { stroke-dasharray"));
}
