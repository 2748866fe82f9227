//! A balanced tree of byte ranges that may overlap, in the order of their starts.
//!
//! An AVL tree; each node knows the largest end below it, so that a search for what overlaps a range skips the
//! subtrees that end before it. The height is at most 1.44 log2(n), whatever the order of insertion, which bounds the
//! recursion.

use crate::table::Entry;
use std::cmp::Ordering;
use std::ops::ControlFlow;

type Link = Option<Box<Node>>;

#[derive(Debug, Clone)]
struct Node {
    entry: Entry,
    /// The largest end of this entry and of all below it.
    max_end: u64,
    height: u32,
    left: Link,
    right: Link,
}

/// The tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    root: Link,
    len: usize,
}

impl Tree {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry; its key must be new.
    pub fn insert(&mut self, entry: Entry) {
        self.root = Some(insert(self.root.take(), entry));
        self.len += 1;
    }

    /// Takes the entry with this key out.
    pub fn remove(&mut self, key: (u64, u64)) -> Option<Entry> {
        let (root, removed) = remove(self.root.take()?, key);
        self.root = root;
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// Shows every entry that has a byte from `start` to `end`, in order, until `visit` breaks.
    pub fn visit<B>(
        &self,
        (start, end): (u64, u64),
        visit: &mut impl FnMut(&Entry) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        walk(&self.root, start, end, visit)
    }
}

fn walk<B>(
    link: &Link,
    start: u64,
    end: u64,
    visit: &mut impl FnMut(&Entry) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let Some(node) = link else { return ControlFlow::Continue(()) };
    if node.max_end < start {
        return ControlFlow::Continue(());
    }
    walk(&node.left, start, end, visit)?;
    if node.entry.range.start() > end {
        return ControlFlow::Continue(());
    }
    if node.entry.range.end() >= start {
        visit(&node.entry)?;
    }
    walk(&node.right, start, end, visit)
}

impl Node {
    /// Recomputes what the node knows of its children.
    fn update(&mut self) {
        let (left, right) = (self.left.as_ref(), self.right.as_ref());
        let ends = [left, right].into_iter().flatten().map(|child| child.max_end);
        self.max_end = ends.fold(self.entry.range.end(), u64::max);
        self.height = 1 + height(&self.left).max(height(&self.right));
    }
}

fn height(link: &Link) -> u32 {
    link.as_ref().map_or(0, |node| node.height)
}

fn insert(link: Link, entry: Entry) -> Box<Node> {
    let Some(mut node) = link else {
        let max_end = entry.range.end();
        return Box::new(Node { entry, max_end, height: 1, left: None, right: None });
    };
    if entry.key() < node.entry.key() {
        node.left = Some(insert(node.left.take(), entry));
    } else {
        node.right = Some(insert(node.right.take(), entry));
    }
    balance(node)
}

fn remove(mut node: Box<Node>, key: (u64, u64)) -> (Link, Option<Entry>) {
    let removed = match key.cmp(&node.entry.key()) {
        Ordering::Equal => return (join(node.left, node.right), Some(node.entry)),
        Ordering::Less => take_from(&mut node.left, key),
        Ordering::Greater => take_from(&mut node.right, key),
    };
    (Some(balance(node)), removed)
}

fn take_from(link: &mut Link, key: (u64, u64)) -> Option<Entry> {
    let (rest, removed) = remove(link.take()?, key);
    *link = rest;
    removed
}

/// One tree of two whose heights differ by one at the most, all of `left` being before `right`.
fn join(left: Link, right: Link) -> Link {
    let Some(right) = right else { return left };
    let (rest, mut first) = take_first(right);
    first.left = left;
    first.right = rest;
    Some(balance(first))
}

fn take_first(mut node: Box<Node>) -> (Link, Box<Node>) {
    match node.left.take() {
        None => (node.right.take(), node),
        Some(left) => {
            let (rest, first) = take_first(left);
            node.left = rest;
            (Some(balance(node)), first)
        }
    }
}

/// Rotates where one child is two higher than the other.
fn balance(mut node: Box<Node>) -> Box<Node> {
    let (left, right) = (height(&node.left), height(&node.right));
    if left > right + 1 {
        if let Some(child) = node.left.take() {
            let straight = height(&child.left) >= height(&child.right);
            node.left = Some(if straight { child } else { rotate_left(child) });
        }
        return rotate_right(node);
    }
    if right > left + 1 {
        if let Some(child) = node.right.take() {
            let straight = height(&child.right) >= height(&child.left);
            node.right = Some(if straight { child } else { rotate_right(child) });
        }
        return rotate_left(node);
    }
    node.update();
    node
}

fn rotate_right(mut node: Box<Node>) -> Box<Node> {
    let Some(mut top) = node.left.take() else {
        node.update();
        return node;
    };
    node.left = top.right.take();
    node.update();
    top.right = Some(node);
    top.update();
    top
}

fn rotate_left(mut node: Box<Node>) -> Box<Node> {
    let Some(mut top) = node.right.take() else {
        node.update();
        return node;
    };
    node.right = top.left.take();
    node.update();
    top.left = Some(node);
    top.update();
    top
}

#[cfg(test)]
impl Tree {
    /// Checks order, balance and what the nodes know of their children.
    pub fn check(&self) {
        fn below(link: &Link) -> (usize, u32, u64) {
            let Some(node) = link else { return (0, 0, 0) };
            let (left, right) = (below(&node.left), below(&node.right));
            assert!(left.1.abs_diff(right.1) <= 1, "out of balance");
            let ahead = node.left.as_ref().is_none_or(|child| child.entry.key() < node.entry.key());
            assert!(ahead, "out of order");
            let height = 1 + left.1.max(right.1);
            let max_end = node.entry.range.end().max(left.2).max(right.2);
            assert_eq!((node.height, node.max_end), (height, max_end));
            (1 + left.0 + right.0, height, max_end)
        }
        assert_eq!(below(&self.root).0, self.len);
    }
}
