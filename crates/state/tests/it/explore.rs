//! Every order of events, breadth first: two clients, two files of two bytes, a local program on each file, a store, a
//! kernel that is asked and answers in steps of its own, crashes, reboots, releases and the passing of time.
//!
//! The explorer keeps, per state, the path that leads there and a hash of everything in it; a state is made again by
//! following its path. What must hold in each state is in [`check`]; what each step must not do is asserted in the step.
//! `STATES` for another number of them.

mod clients;
mod invariants;

use bowline_state::Mode;
use clients::{Action, Env, Reached, Scope};
use std::collections::HashSet;

const SCOPES: [Scope; 5] = [
    Scope {
        name: "one file, two bytes, a local program",
        files: 1,
        first_range: 0,
        tries: true,
        local: &[Mode::Read, Mode::Write],
        crashes: 0,
        leave: false,
        recorded: false,
        flights_max: 9,
        states: 120_000,
    },
    Scope {
        name: "two files, requests that wait",
        files: 2,
        first_range: 1,
        tries: false,
        local: &[],
        crashes: 0,
        leave: false,
        recorded: false,
        flights_max: 2,
        states: 80_000,
    },
    Scope {
        name: "one file, crashes, reboots, releases",
        files: 1,
        first_range: 1,
        tries: false,
        local: &[Mode::Write],
        crashes: 2,
        leave: true,
        recorded: false,
        flights_max: 2,
        states: 150_000,
    },
    Scope {
        name: "one file, crashes, both hosts recorded",
        files: 1,
        first_range: 1,
        tries: false,
        local: &[],
        crashes: 2,
        leave: false,
        recorded: true,
        flights_max: 2,
        states: 150_000,
    },
    Scope {
        name: "everything",
        files: 2,
        first_range: 0,
        tries: true,
        local: &[Mode::Read, Mode::Write],
        crashes: 2,
        leave: true,
        recorded: false,
        flights_max: 9,
        states: 505_000,
    },
];

/// How many states are looked at in all, unless the environment says otherwise. The scopes' numbers are for a million.
const STATES: usize = 1_000_000;
const MILLION: usize = 1_000_000;

/// The way to a state: the state before it and the last action.
struct Seen {
    before: u32,
    action: Action,
    depth: u8,
}

fn path(seen: &[Seen], at: usize) -> Vec<Action> {
    let mut path = Vec::new();
    let mut at = at;
    while at != 0 {
        path.push(seen[at].action);
        at = seen[at].before as usize;
    }
    path.reverse();
    path
}

/// Takes a step and says of a failure what led to it; nothing if the state is known.
fn step(env: &Env, action: Action, way: &[Action], known: &mut HashSet<u64>) -> Option<Env> {
    let taken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut after = env.clone();
        after.act(action);
        known.insert(after.digest()).then(|| {
            invariants::check(&after);
            after
        })
    }));
    taken.unwrap_or_else(|_| panic!("after {way:?} and then {action:?}"))
}

/// Looks at so many states of a scope, nearest first; answers how many there were.
fn explore(scope: Scope, states: usize, reached: &mut Reached) -> usize {
    let start = Env::new(scope);
    let mut known = HashSet::from([start.digest()]);
    let mut seen = vec![Seen { before: 0, action: Action::Tick, depth: 0 }];
    let mut next = 0;
    while next < seen.len() && seen.len() < states {
        let way = path(&seen, next);
        let mut env = start.clone();
        way.iter().for_each(|action| env.act(*action));
        for action in env.actions() {
            if let Some(after) = step(&env, action, &way, &mut known) {
                reached.note(&after, action);
                let depth = seen[next].depth + 1;
                seen.push(Seen { before: next as u32, action, depth });
            }
        }
        next += 1;
    }
    let depth = seen.last().map_or(0, |state| state.depth);
    let whole = if next == seen.len() { "all" } else { "the nearest" };
    println!("{}: {whole} {} states, to a depth of {depth}", scope.name, seen.len());
    seen.len()
}

#[test]
fn invariants_hold_in_every_order_of_events() {
    let mut reached = Reached::default();
    let all: usize = std::env::var("STATES").map_or(STATES, |states| states.parse().unwrap());
    let of = |scope: Scope| explore(scope, scope.states * all / MILLION, &mut reached);
    let states: usize = SCOPES.into_iter().map(of).sum();
    assert!(states >= all, "only {states} states");
    reached.assert_all();
}
