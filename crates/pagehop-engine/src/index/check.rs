//! Reads every page and proves the structure: what the format promises, and what a search relies on.
//!
//! Page by page: kinds, headers, own codes whose length is what the header says. Across pages: every edge leads
//! to another live node of the expected generation, no edge stands twice, and the code an edge carries is the
//! one its target's own code gives. Then a walk from the entry points counts what a search can reach.

use std::ops::ControlFlow;

use super::meta::{Meta, Model};
use super::{CheckReport, OnProgress, Progress};
use crate::Error;
use crate::page::layout::{FLAGS_LIVE, NodeId, NodeRef, PageKind};
use crate::page::{PageId, Pages, Reader};
use crate::quantize::centroids::Centroids;
use crate::quantize::edge::{self, EdgeFactors};
use crate::quantize::own;

/// Relative difference between two ways to add up the same numbers.
const TOLERANCE: f32 = 1e-3;

/// What a node's in-neighbors must carry.
#[derive(Clone, Copy, Debug)]
struct Expected {
    live: bool,
    generation: u8,
    centroid: u8,
    code_hash: u64,
    factors: EdgeFactors,
}

const ABSENT: Expected = Expected {
    live: false,
    generation: 0,
    centroid: 0,
    code_hash: 0,
    factors: EdgeFactors { add: 0.0, factor: 0.0 },
};

/// Holds about `36 + 4 * degree` bytes a node while it works.
pub(crate) fn check<P: Pages>(
    pages: &P,
    meta: &Meta,
    model: &Model,
    progress: OnProgress<'_>,
) -> Result<CheckReport, Error> {
    let first = meta.first_node_page().0;
    let slots = (meta.page_count - first) as usize * meta.layout.nodes_per_page;
    let mut check = Check {
        meta,
        centroids: &model.centroids,
        centroids_decoded: model.centroids.decode(),
        first_node: meta.layout.node_id(PageId(first), 0),
        expected: vec![ABSENT; slots],
        neighbors: vec![NodeId::MAX; slots * meta.layout.degree],
        report: CheckReport { pages: meta.page_count, ..CheckReport::default() },
    };
    let total = u64::from(meta.page_count - first) * 2;
    let mut reader = pages.reader();
    for pass in 0..2 {
        for page in first..meta.page_count {
            let done = u64::from(page - first) + pass * total / 2;
            if page % 256 == 0 && progress(Progress { phase: "check", done, total }).is_break() {
                return Err(Error::Interrupted);
            }
            let page = PageId(page);
            let body = reader.finish(page)?;
            if pass == 0 {
                check.nodes(page, &body)?
            } else {
                check.edges(page, &body)?
            }
            drop(body);
            reader.release();
        }
    }
    check.rows()?;
    let entries = model.entries.iter().map(|entry| entry.node).collect();
    check.reach(entries)?;
    let _: ControlFlow<()> = progress(Progress { phase: "check", done: total, total });
    Ok(check.report)
}

struct Check<'a> {
    meta: &'a Meta,
    centroids: &'a Centroids,
    centroids_decoded: Vec<f32>,
    first_node: NodeId,
    expected: Vec<Expected>,
    neighbors: Vec<NodeId>,
    report: CheckReport,
}

impl Check<'_> {
    fn at(&self, node: NodeId) -> usize {
        (node - self.first_node) as usize
    }

    /// First pass: every node by itself, and what its in-neighbors must carry.
    fn nodes(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        let layout = &self.meta.layout;
        if body[0] != PageKind::Node as u8 {
            return Err(Error::corrupt(page, format!("a node page has kind 2, this one {}", body[0])));
        }
        let mut x = vec![0.0; layout.inner_dim];
        let mut values = vec![0; layout.inner_dim];
        let mut code = vec![0; layout.edge.words()];
        for slot in 0..layout.nodes_per_page {
            let node = NodeRef::new(layout, body, slot);
            let header = node.header();
            let bad = |what: String| Error::corrupt(page, format!("slot {slot}: {what}"));
            match header.flags {
                0 => continue,
                FLAGS_LIVE => {}
                other => return Err(bad(format!("flags {other:#x}"))),
            }
            if usize::from(header.centroid) >= self.centroids.len() {
                return Err(bad(format!("centroid {} of {}", header.centroid, self.centroids.len())));
            }
            if usize::from(header.degree) > layout.degree {
                return Err(bad(format!("degree {} of at most {}", header.degree, layout.degree)));
            }
            own::decode(header.step, node.hi(), node.lo(), &mut values, &mut x);
            let norm_sq = pagehop_kernels::dot_f32(&x, &x);
            if !close(norm_sq, header.norm_sq, header.norm_sq) {
                return Err(bad(format!("squared length {} in the header, {norm_sq} of the code", header.norm_sq)));
            }
            let center = &self.centroids_decoded[usize::from(header.centroid) * layout.inner_dim..];
            let factors = edge::encode(layout.edge, &x, &center[..layout.inner_dim], &mut code);
            let at = self.at(layout.node_id(page, slot));
            self.expected[at] = Expected {
                live: true,
                generation: header.generation,
                centroid: header.centroid,
                code_hash: hash(code.iter().copied()),
                factors,
            };
            self.report.nodes += 1;
        }
        Ok(())
    }

    /// Second pass: every edge against its target.
    fn edges(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        let layout = &self.meta.layout;
        let mut code = vec![0; layout.edge.words()];
        for slot in 0..layout.nodes_per_page {
            let id = layout.node_id(page, slot);
            if !self.expected[self.at(id)].live {
                continue;
            }
            let node = NodeRef::new(layout, body, slot);
            let degree = usize::from(node.header().degree);
            let mut targets: Vec<NodeId> =
                node.neighbors()[..degree].iter().map(|n| NodeId::from_le_bytes(*n)).collect();
            for (i, target) in targets.iter().enumerate() {
                let bad =
                    |what: String| Error::corrupt(page, format!("slot {slot}, edge {i} to node {target}: {what}"));
                let inside = (self.first_node..).contains(target) && self.at(*target) < self.expected.len();
                let expected = if inside { self.expected[self.at(*target)] } else { ABSENT };
                if !expected.live || *target == id {
                    return Err(bad("the target is not another live node".into()));
                }
                let edges = node.edges();
                edge::deinterleave(layout.edge, edges.codes, i, layout.degree, &mut code);
                let (add, factor) = (f32::from_le_bytes(edges.add[i]), f32::from_le_bytes(edges.factor[i]));
                let scale = expected.factors.add.abs().max(f32::MIN_POSITIVE);
                if node.generations()[i] != expected.generation || edges.centroid[i] != expected.centroid {
                    return Err(bad("generation or centroid is not the target's".into()));
                }
                if hash(code.iter().copied()) != expected.code_hash
                    || !close(add, expected.factors.add, scale)
                    || !close(factor, expected.factors.factor, expected.factors.factor)
                {
                    return Err(bad("the code is not the target's".into()));
                }
                let at = self.at(id) * layout.degree + i;
                self.neighbors[at] = *target;
            }
            self.report.edges += degree as u64;
            targets.sort_unstable();
            if targets.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(Error::corrupt(page, format!("slot {slot}: an edge stands twice")));
            }
        }
        Ok(())
    }

    fn rows(&self) -> Result<(), Error> {
        if self.report.nodes == self.meta.rows {
            return Ok(());
        }
        let what = format!("the meta page counts {} rows, the pages hold {}", self.meta.rows, self.report.nodes);
        Err(Error::corrupt(PageId(0), what))
    }

    fn reach(&mut self, mut stack: Vec<NodeId>) -> Result<(), Error> {
        let mut seen = vec![false; self.expected.len()];
        while let Some(node) = stack.pop() {
            let at = self.at(node);
            if !self.expected[at].live {
                return Err(Error::corrupt(PageId(1), format!("entry point {node} is not a live node")));
            }
            if !std::mem::replace(&mut seen[at], true) {
                self.report.reachable += 1;
                let neighbors = &self.neighbors[at * self.meta.layout.degree..][..self.meta.layout.degree];
                stack.extend(neighbors.iter().filter(|n| **n != NodeId::MAX));
            }
        }
        Ok(())
    }
}

fn close(a: f32, b: f32, scale: f32) -> bool {
    (a - b).abs() <= TOLERANCE * scale.abs()
}

/// FNV-1a over words.
fn hash(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0xCBF2_9CE4_8422_2325, |h, word| (h ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23))
}
