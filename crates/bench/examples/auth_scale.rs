//! `auth_scale [ROUNDS [MS]]`: nanoseconds per look-up of a flavour, by kind of sharing and number of
//! threads, in interleaved rounds; the median and the spread.

use bench::auth_table::{Sharing, look_up_ns};
use std::time::Duration;

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse().ok());
    let rounds = args.next().unwrap_or(5u64);
    let ms = Duration::from_millis(args.next().unwrap_or(200));
    let threads = [1, 2, 4, 8];
    let mut seen = vec![Vec::new(); Sharing::ALL.len() * threads.len()];
    for _ in 0..rounds {
        let each = Sharing::ALL.iter().flat_map(|s| threads.map(|t| (*s, t)));
        for ((sharing, threads), seen) in each.zip(&mut seen) {
            seen.push(look_up_ns(sharing, threads, ms));
        }
    }
    let mut seen = seen.into_iter();
    for sharing in Sharing::ALL {
        print!("{:9}", sharing.name());
        for threads in threads {
            let mut ns = seen.next().unwrap_or_default();
            ns.sort_by(f64::total_cmp);
            let at = |n: usize| ns.get(n).copied().unwrap_or(f64::NAN);
            let (low, middle, high) = (at(0), at(ns.len() / 2), at(ns.len().saturating_sub(1)));
            print!("  {threads} threads {middle:6.1} ns [{low:.1}-{high:.1}]");
        }
        println!();
    }
}
