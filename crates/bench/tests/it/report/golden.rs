//! Small figures and a small page, compared with golden files: a change of them is reviewed.

use super::sample_results::{axis, bars, findings, original, plot, series, spread};
use bench::report::figure;
use bench::result::{Plot, Shape};
use std::path::PathBuf;

/// Compares with `tests/it/report/golden/NAME`, or writes it if `BLESS` is set.
fn held_against(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/report/golden").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    let differs = expected.lines().zip(text.lines()).find(|(a, b)| a != b);
    assert!(expected == text, "{name} differs, first in\n{differs:?}\nBLESS=1 writes it anew");
}

/// Without the style, which is a file of its own.
fn bare(text: &str) -> String {
    match (text.find("<style>"), text.find("</style>")) {
        (Some(from), Some(to)) => format!("{}{}", &text[..from], &text[to + 8..]),
        _ => text.to_string(),
    }
}

/// One plot of each shape.
pub fn plots() -> Vec<(&'static str, Plot)> {
    let rate = || axis("calls", "1/s", false);
    let points = [(16.0, 57_353.0), (24.0, 57_787.0), (32.0, 57_921.0)];
    let faster = [(16.0, 74_965.0), (24.0, 79_397.0), (32.0, 80_746.0)];
    let latency = [(0.0, 40.0), (50.0, 90.0), (99.0, 300.0), (99.9, 900.0), (100.0, 4000.0)];
    let window = [(0.0, 14_480.0), (1.0, 262_144.0), (2.0, 4_600_000.0), (3.0, 4_500_000.0)];
    let shares = axis("share of calls", "%", true);
    vec![
        (
            "lines.svg",
            plot(
                "Rate",
                Shape::Lines,
                axis("clients", "", false),
                rate(),
                vec![spread("cap:5", &faster, 0.05), original("original: before", &points)],
            ),
        ),
        (
            "stacked-bars.svg",
            bars(
                "By interface",
                Shape::StackedBars,
                axis("bandwidth", "MB/s", false),
                &["one", "each"],
                vec![
                    series("eth0", &[(0.0, 48.7), (1.0, 90.6)]),
                    series("eth1", &[(0.0, 48.6), (1.0, 7.3)]),
                    original("eth2, 2004", &[(1.0, 107.0)]),
                ],
            ),
        ),
        (
            "grouped-bars.svg",
            bars(
                "Rates",
                Shape::GroupedBars,
                rate(),
                &["cap:1", "cap:5"],
                vec![
                    spread("16 clients", &[(0.0, 50.0), (1.0, 70.0)], 0.1),
                    series("64 clients", &[(0.0, 55.0), (1.0, 81.5)]),
                ],
            ),
        ),
        (
            "over-time.svg",
            plot(
                "Window",
                Shape::OverTime,
                axis("time", "s", false),
                axis("window", "B", false),
                vec![series("auto", &window)],
            ),
        ),
        (
            "percentiles.svg",
            plot(
                "Latency",
                Shape::Percentiles,
                shares,
                axis("latency", "µs", true),
                vec![series("chain", &latency)],
            ),
        ),
    ]
}

#[test]
fn a_figure_of_each_kind_matches_its_golden_file() {
    for (name, plot) in plots() {
        held_against(name, &bare(&figure(&plot)));
    }
}

#[test]
fn a_page_matches_its_golden_file() {
    let mut f = findings("rsync-walk", "Clients walking a tree", "How many calls per second?", 4);
    f.plots = plots().into_iter().take(1).map(|(_, plot)| plot).collect();
    held_against("page.html", &bare(&super::page(&[f])));
}
