//! What the kernel was shown of a file's locks, and the requests that change it.
//!
//! The table decides among NFS owners; the kernel is shown only the strongest mode that any of them holds on each
//! byte, by open-file-description locks of one descriptor, which excludes local programs. A [`LocalOp`] is a list of
//! pieces to be set one after the other with `F_OFD_SETLK`. Weakening a piece cannot fail; strengthening one can
//! conflict with a local program, and then [`LocalOp::undo`] restores the pieces before it.
//!
//! Invariant of [`Image`]: the pieces are disjoint and sorted.

use crate::key::FileKey;
use crate::range::{ByteRange, Mode};
use std::collections::BTreeMap;

/// One call of `fcntl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The bytes.
    pub range: ByteRange,
    /// What the kernel holds for us there now; `None`: nothing.
    pub from: Option<Mode>,
    /// What it shall hold.
    pub to: Option<Mode>,
}

/// What the kernel is to be told about one file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LocalOp {
    /// The file.
    pub file: FileKey,
    /// What to set, in this order.
    pub pieces: Vec<Piece>,
    /// Nothing is locked afterwards and nobody else is being asked: all of the file can be unlocked at once.
    pub last: bool,
}

impl LocalOp {
    /// What takes the first `done` pieces back, when the next one conflicted. Cannot fail: it only weakens.
    pub fn undo(&self, done: usize) -> Vec<Piece> {
        let taken = self.pieces.iter().take(done).rev();
        taken.map(|piece| Piece { from: piece.to, to: piece.from, ..*piece }).collect()
    }
}

/// The strongest mode that the kernel was shown, per byte.
#[derive(Debug, Clone, Default)]
pub(crate) struct Image(BTreeMap<u64, (u64, Mode)>);

impl Image {
    /// All pieces, in order.
    pub fn pieces(&self) -> impl Iterator<Item = (ByteRange, Mode)> + '_ {
        self.0
            .iter()
            .filter_map(|(start, (end, mode))| Some((ByteRange::new(*start, *end)?, *mode)))
    }

    /// The pieces of `range`, each with its mode, and the gaps between them.
    fn cover(&self, range: ByteRange) -> Vec<(ByteRange, Option<Mode>)> {
        let from =
            self.0.range(..range.start()).next_back().map_or(range.start(), |(start, _)| *start);
        let shown = self.0.range(from..=range.end());
        let shown = shown.filter_map(|(start, (end, mode))| {
            Some((ByteRange::new(*start, *end)?.intersection(range)?, *mode))
        });
        fill_gaps(range, shown)
    }

    /// What must be strengthened before `range` may be held in `mode`; nothing if the kernel shows enough.
    pub fn to_strengthen(&self, range: ByteRange, mode: Mode) -> Vec<Piece> {
        let weaker = self.cover(range).into_iter().filter(|(_, from)| *from < Some(mode));
        weaker.map(|(range, from)| Piece { range, from, to: Some(mode) }).collect()
    }

    /// What is to be weakened so that `range` shows no more than `wanted`, the strongest modes that are held there,
    /// sorted and disjoint.
    pub fn to_weaken(&self, range: ByteRange, wanted: &[(ByteRange, Mode)]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for (part, from) in self.cover(range).into_iter().filter(|(_, from)| from.is_some()) {
            let first = wanted.partition_point(|(held, _)| held.end() < part.start());
            let wanted = wanted.iter().skip(first).map_while(|(held, mode)| {
                let both = held.intersection(part)?;
                Some((both, *mode))
            });
            let wanted = fill_gaps(part, wanted).into_iter().filter(|(_, to)| *to < from);
            pieces.extend(wanted.map(|(range, to)| Piece { range, from, to }));
        }
        pieces
    }

    /// Notes that these pieces were set.
    pub fn apply(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            self.clear(piece.range);
            if let Some(mode) = piece.to {
                self.insert(piece.range, mode);
            }
        }
    }

    fn clear(&mut self, range: ByteRange) {
        let cut: Vec<_> =
            self.cover(range).into_iter().filter(|(_, mode)| mode.is_some()).collect();
        for (part, _) in cut {
            let found =
                self.0.range(..=part.start()).next_back().map(|(start, held)| (*start, *held));
            let Some((start, (end, mode))) = found else { continue };
            self.0.remove(&start);
            let held = ByteRange::new(start, end).map(|held| held.without(range));
            for rest in held.into_iter().flatten().flatten() {
                self.0.insert(rest.start(), (rest.end(), mode));
            }
        }
    }

    /// Inserts into a gap, merged with neighbours of the same mode.
    fn insert(&mut self, range: ByteRange, mode: Mode) {
        let (mut start, mut end) = (range.start(), range.end());
        if let Some((before, (last, same))) =
            self.0.range(..start).next_back().map(|(s, v)| (*s, *v))
            && same == mode
            && last.checked_add(1) == Some(start)
        {
            self.0.remove(&before);
            start = before;
        }
        if let Some(behind) = end.checked_add(1)
            && let Some((last, same)) = self.0.get(&behind).copied()
            && same == mode
        {
            self.0.remove(&behind);
            end = last;
        }
        self.0.insert(start, (end, mode));
    }
}

/// The parts of `range`: those given, which are sorted, disjoint and inside, and what is between them.
fn fill_gaps(
    range: ByteRange,
    parts: impl Iterator<Item = (ByteRange, Mode)>,
) -> Vec<(ByteRange, Option<Mode>)> {
    let mut all = Vec::new();
    let mut rest = Some(range);
    for (part, mode) in parts {
        let Some([before, behind]) = rest.map(|rest| rest.without(part)) else { break };
        // `without` puts what is left into the first place where nothing overlaps, which cannot be here
        all.extend(before.map(|gap| (gap, None)));
        all.push((part, Some(mode)));
        rest = behind;
    }
    all.extend(rest.map(|gap| (gap, None)));
    all
}

/// The strongest mode on each byte of `range` of these ranges, which may overlap; sorted and disjoint.
pub(crate) fn strongest(range: ByteRange, held: &[(ByteRange, Mode)]) -> Vec<(ByteRange, Mode)> {
    let mut image = Image::default();
    let clipped = |want: Mode| {
        let held = held.iter().filter(move |(_, mode)| *mode == want);
        held.filter_map(move |(held, _)| held.intersection(range))
    };
    // writers last, over the readers of the same bytes
    for (mode, part) in clipped(Mode::Read)
        .map(|part| (Mode::Read, part))
        .chain(clipped(Mode::Write).map(|part| (Mode::Write, part)))
    {
        image.apply(&[Piece { range: part, from: None, to: Some(mode) }]);
    }
    image.pieces().collect()
}
