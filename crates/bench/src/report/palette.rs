//! Tests of the palette in `figure.css`: contrast with the background, and distinguishable with
//! colour blindness.
//!
//! Simulation: Viénot, Brettel, Mollon (1999), protanopia and deuteranopia as a matrix over linear
//! RGB; distance: Euclid in Oklab (Ottosson 2020) times 100, in which about 2 can just be seen.

use super::figure::STYLE;

type Rgb = [f64; 3];

/// The custom properties of one theme, in the file's order: light is the first block, dark the second.
fn colours(theme: usize) -> Vec<(String, Rgb)> {
    let block = STYLE.split("--paper: ").nth(theme + 1).unwrap();
    let block = format!("--paper: {block}");
    let block = block.split('}').next().unwrap();
    block
        .split(';')
        .filter_map(|line| line.trim().strip_prefix("--")?.split_once(": #"))
        .map(|(name, hex)| {
            let part = |i: usize| {
                let value = f64::from(u8::from_str_radix(&hex[i..i + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            (name.to_string(), [part(0), part(2), part(4)])
        })
        .collect()
}

fn named(all: &[(String, Rgb)], name: &str) -> Rgb {
    all.iter().find(|(n, _)| n == name).unwrap().1
}

fn contrast(a: Rgb, b: Rgb) -> f64 {
    let light = |c: Rgb| 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
    let (a, b) = (light(a) + 0.05, light(b) + 0.05);
    a.max(b) / a.min(b)
}

fn through(matrix: [[f64; 3]; 3], c: Rgb) -> Rgb {
    matrix.map(|row| (row[0] * c[0] + row[1] * c[1] + row[2] * c[2]).clamp(0.0, 1.0))
}

fn oklab(c: Rgb) -> Rgb {
    let lms = [
        [0.412_221_47, 0.536_332_54, 0.051_445_99],
        [0.211_903_5, 0.680_699_55, 0.107_396_96],
        [0.088_302_46, 0.281_718_84, 0.629_978_7],
    ]
    .map(|row| (row[0] * c[0] + row[1] * c[1] + row[2] * c[2]).cbrt());
    [
        [0.210_454_26, 0.793_617_78, -0.004_072_05],
        [1.977_998_5, -2.428_592_2, 0.450_593_7],
        [0.025_904_04, 0.782_771_77, -0.808_675_77],
    ]
    .map(|row| row[0] * lms[0] + row[1] * lms[1] + row[2] * lms[2])
}

fn distance(a: Rgb, b: Rgb) -> f64 {
    let (a, b) = (oklab(a), oklab(b));
    100.0 * (0..3).map(|i| (a[i] - b[i]).powi(2)).sum::<f64>().sqrt()
}

const SIGHTED: [[f64; 3]; 3] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
const PROTANOPIA: [[f64; 3]; 3] =
    [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]];
const DEUTERANOPIA: [[f64; 3]; 3] =
    [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]];

#[test]
fn every_colour_has_enough_contrast() {
    for theme in [0, 1] {
        let all = colours(theme);
        let paper = named(&all, "paper");
        assert_eq!(all.iter().filter(|(n, _)| n.starts_with('s') && n != "soft").count(), 12);
        for (name, colour) in &all {
            let least = match name.as_str() {
                "paper" | "rule" => continue,
                "ink" => 12.0,
                "soft" => 4.5,
                _ => 3.0,
            };
            let contrast = contrast(*colour, paper);
            assert!(contrast >= least, "theme {theme}: {name} has a contrast of {contrast:.2}");
        }
    }
}

#[test]
fn six_colours_are_distinguishable_with_colour_blindness() {
    for theme in [0, 1] {
        let all = colours(theme);
        for (eye, matrix) in [SIGHTED, PROTANOPIA, DEUTERANOPIA].into_iter().enumerate() {
            for a in 0..6 {
                for b in 0..a {
                    let [a_rgb, b_rgb] =
                        [a, b].map(|i| through(matrix, named(&all, &format!("s{i}"))));
                    let apart = distance(a_rgb, b_rgb);
                    assert!(apart >= 12.0, "theme {theme}, eye {eye}: s{a} and s{b}: {apart:.1}");
                }
            }
        }
    }
}
