//! Which file uses which, and the cycles among them.

use std::collections::{BTreeMap, BTreeSet};

/// The files of a crate and their uses of one another.
#[derive(Default)]
pub struct Graph {
    /// File names, by number.
    pub names: Vec<String>,
    /// (user, used) → name and the first line where it is used.
    pub uses: BTreeMap<(usize, usize), BTreeMap<String, usize>>,
}

impl Graph {
    /// Notes that a name of `to` is used in a line of `from`.
    pub fn add(&mut self, from: usize, to: usize, name: &str, line: usize) {
        if from != to {
            let names = self.uses.entry((from, to)).or_default();
            names.entry(name.to_owned()).or_insert(line);
        }
    }

    /// Sets of two and more files each of which reaches all others of its set, largest first.
    pub fn cycles(&self) -> Vec<Vec<usize>> {
        let all: BTreeSet<usize> = (0..self.names.len()).collect();
        self.cycles_without(&all, None)
    }

    /// The uses among these files.
    pub fn uses_within(&self, files: &[usize]) -> Vec<(usize, usize)> {
        let within = |file| files.contains(file);
        self.uses.keys().filter(|(from, to)| within(from) && within(to)).copied().collect()
    }

    /// For each use of a cycle, how many files the largest cycle has without it; smallest first.
    pub fn by_remaining_cycle(&self, cycle: &[usize]) -> Vec<(usize, usize, usize)> {
        let files: BTreeSet<usize> = cycle.iter().copied().collect();
        let mut found: Vec<_> = self
            .uses_within(cycle)
            .into_iter()
            .map(|(from, to)| {
                let left = self.cycles_without(&files, Some((from, to)));
                (left.first().map_or(1, Vec::len), from, to)
            })
            .collect();
        found.sort_unstable();
        found
    }

    /// The cycles among `files` if one use were not there.
    fn cycles_without(
        &self,
        files: &BTreeSet<usize>,
        without: Option<(usize, usize)>,
    ) -> Vec<Vec<usize>> {
        let reach: BTreeMap<usize, BTreeSet<usize>> =
            files.iter().map(|file| (*file, self.reached(*file, files, without))).collect();
        let mut cycles: Vec<Vec<usize>> = Vec::new();
        let mut seen = BTreeSet::new();
        for file in files {
            if seen.contains(file) || !reach[file].contains(file) {
                continue;
            }
            let both = |other: &usize| reach[other].contains(file);
            let cycle: Vec<usize> = reach[file].iter().copied().filter(both).collect();
            seen.extend(cycle.iter().copied());
            cycles.push(cycle);
        }
        cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
        cycles
    }

    /// All files that `start` uses, directly or through others.
    fn reached(
        &self,
        start: usize,
        files: &BTreeSet<usize>,
        without: Option<(usize, usize)>,
    ) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut todo = vec![start];
        while let Some(from) = todo.pop() {
            for &(_, to) in self.uses.range((from, 0)..(from + 1, 0)).map(|(key, _)| key) {
                if files.contains(&to) && Some((from, to)) != without && reached.insert(to) {
                    todo.push(to);
                }
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::Graph;

    fn graph(uses: &[(usize, usize)]) -> Graph {
        let mut graph =
            Graph { names: (0..6).map(|n| n.to_string()).collect(), ..Graph::default() };
        for (from, to) in uses {
            graph.add(*from, *to, "x", 1);
        }
        graph
    }

    #[test]
    fn finds_each_cycle_once() {
        let graph = graph(&[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3), (4, 5), (5, 5)]);
        assert_eq!(graph.cycles(), [vec![0, 1, 2], vec![3, 4]]);
    }

    #[test]
    fn a_use_that_closes_the_cycle_is_found() {
        let graph = graph(&[(0, 1), (1, 2), (2, 3), (3, 0), (1, 0)]);
        let found = graph.by_remaining_cycle(&[0, 1, 2, 3]);
        assert_eq!(found[0], (1, 0, 1));
    }

    #[test]
    fn a_tree_has_no_cycle() {
        assert!(graph(&[(0, 1), (0, 2), (1, 2), (2, 3)]).cycles().is_empty());
    }
}
