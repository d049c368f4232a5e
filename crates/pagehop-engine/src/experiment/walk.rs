//! The search of the experiments: one walk per query, and its recall after each hop.

use std::collections::HashSet;

use super::bed::{Bed, K, SharedCodes, WALK_HOPS_MAX, WALK_LIST, common, encode, keep, shape};
use super::graphs::{Net, Placement};
use crate::graph::list::CandidateList;
use crate::graph::{key, key_distance};
use crate::page::layout::NodeLayout;
use crate::quantize::edge::{self, BLOCK_EDGES, EdgeFactors, EdgeShape, QueryPlanes};
use crate::quantize::estimate::DEGREE_MAX;
use crate::quantize::point::RoundedPoint;

/// Edge codes relative to the node that holds the edge: one code per edge, the node's distance
/// known.
pub struct NodeCodes {
    shape: EdgeShape,
    degree: usize,
    words: Vec<u64>,
    factors: Vec<EdgeFactors>,
}

impl NodeCodes {
    /// Codes every edge of `net` in `bits` bits per dimension.
    pub fn new(bed: &Bed, net: &Net, bits: usize) -> Self {
        let codes = &bed.codes;
        let degree = net.0.degree;
        let (words, factors) = encode(codes, bits, codes.len() * degree, |i| {
            let (row, slot) = (i / degree, i % degree);
            let mut node = vec![0.0; codes.dim];
            codes.decode(row, &mut node);
            (net.0.neighbors(row).get(slot).map_or(row, |n| *n as usize), node)
        });
        Self { shape: shape(codes.dim, bits), degree, words, factors }
    }
}

/// What estimates the distances to a node's neighbors.
#[derive(Clone, Copy)]
pub enum Guide<'a> {
    /// The own codes of the neighbors: what no page layout can give.
    Exact,
    /// Shared codes, with the query quantized to this many digits.
    Shared(&'a SharedCodes, usize),
    /// Codes relative to the node.
    Node(&'a NodeCodes, usize),
}

/// Means over the queries at one slack.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// When the search stops.
    pub slack: f64,
    /// Share of the true neighbors found.
    pub recall: f64,
    /// Nodes expanded.
    pub hops: f64,
    /// Distances estimated.
    pub estimates: f64,
    /// Distinct pages, for each placement.
    pub pages: Vec<f64>,
}

/// Searches once for every query: a smaller slack stops the same walk earlier. `slacks` must
/// increase.
pub fn walk(
    bed: &Bed,
    net: &Net,
    start: &SharedCodes,
    guide: Guide<'_>,
    slacks: &[f64],
    placements: &[&Placement],
) -> Vec<Point> {
    let empty = |slack: &f64| Point { slack: *slack, pages: vec![0.0; placements.len()], ..Point::default() };
    let mut points: Vec<Point> = slacks.iter().map(empty).collect();
    let mut walk = Walk::new(bed, net, guide);
    for (query, truth) in bed.questions() {
        walk.run(start, query, truth, placements, &mut points);
    }
    let queries = (bed.truth.len() / K) as f64;
    for point in &mut points {
        point.recall /= queries * K as f64;
        let sums = [&mut point.hops, &mut point.estimates].into_iter().chain(&mut point.pages);
        sums.for_each(|sum| *sum /= queries);
    }
    points
}

struct Walk<'a> {
    bed: &'a Bed,
    net: &'a Net,
    guide: Guide<'a>,
    planes: QueryPlanes,
    point: RoundedPoint,
    /// Squared distance to each centroid.
    centroid_sq: Vec<f32>,
    gathered: Vec<u8>,
}

impl<'a> Walk<'a> {
    fn new(bed: &'a Bed, net: &'a Net, guide: Guide<'a>) -> Self {
        let planes = QueryPlanes::default();
        Self {
            bed,
            net,
            guide,
            planes,
            point: RoundedPoint::default(),
            centroid_sq: Vec::new(),
            gathered: Vec::new(),
        }
    }

    /// One query; adds what it cost and found to `points`, in order of slack.
    fn run(
        &mut self,
        start: &SharedCodes,
        query: &[f32],
        truth: &[u32],
        placed: &[&Placement],
        points: &mut [Point],
    ) {
        self.prepare(query);
        let entry = start.entry(&self.point);
        let mut list = CandidateList::default();
        list.reset(WALK_LIST);
        list.insert(0.0, entry);
        let mut nearest = Vec::new();
        let mut pages: Vec<HashSet<u32>> = vec![HashSet::new(); placed.len()];
        let (mut expanded, mut estimated) = (HashSet::new(), 0);
        let add = |point: &mut Point, nearest: &[u64], hops: usize, estimated: usize, pages: &[HashSet<u32>]| {
            point.recall += common(nearest, truth) as f64;
            point.hops += hops as f64;
            point.estimates += estimated as f64;
            point.pages.iter_mut().zip(pages).for_each(|(sum, pages)| *sum += pages.len() as f64);
        };
        let mut next = 0;
        let mut estimates = [0.0; DEGREE_MAX];
        while let Some((estimate, node)) = list.expand() {
            let beyond = |point: &Point| {
                nearest.len() == K
                    && f64::from(estimate) > f64::from(key_distance(nearest[K - 1])) * (1.0 + point.slack)
            };
            while next < points.len() && beyond(&points[next]) {
                add(&mut points[next], &nearest, expanded.len(), estimated, &pages);
                next += 1;
            }
            if next == points.len() || expanded.len() == WALK_HOPS_MAX {
                break;
            }
            // Only codes relative to the node can list a row twice, under two estimates.
            if !expanded.insert(node) {
                continue;
            }
            let distance = self.bed.distance(&self.point, node as usize);
            let neighbors = self.net.0.neighbors(node as usize);
            self.estimate(node as usize, distance, &mut estimates);
            for (estimate, neighbor) in estimates.iter().zip(neighbors) {
                if *estimate < list.bound() && *neighbor != entry {
                    list.insert(*estimate, *neighbor);
                }
            }
            estimated += neighbors.len();
            keep(&mut nearest, key(distance, node));
            pages.iter_mut().zip(placed).for_each(|(pages, placed)| {
                pages.insert(placed.0[node as usize]);
            });
        }
        for point in &mut points[next..] {
            add(point, &nearest, expanded.len(), estimated, &pages);
        }
    }

    fn prepare(&mut self, query: &[f32]) {
        self.point.round(query);
        match self.guide {
            Guide::Exact => {}
            Guide::Shared(shared, digits) => {
                self.planes.prepare(shared.table.shape, digits, query);
                self.centroid_sq = shared.distances(&self.point).collect();
            }
            Guide::Node(codes, digits) => self.planes.prepare(codes.shape, digits, query),
        }
    }

    /// Estimates of the distances to the neighbors of `node`, which is `distance` away itself.
    fn estimate(&mut self, node: usize, distance: f32, estimates: &mut [f32; DEGREE_MAX]) {
        let neighbors = self.net.0.neighbors(node);
        let (shape, degree) = match self.guide {
            Guide::Exact => {
                for (estimate, neighbor) in estimates.iter_mut().zip(neighbors) {
                    *estimate = self.bed.distance(&self.point, *neighbor as usize);
                }
                return;
            }
            Guide::Shared(shared, _) => (shared.table.shape, 0),
            Guide::Node(codes, _) => (codes.shape, codes.degree),
        };
        // Code and factors of an edge, and the query's distance to the origin of its residual.
        let edge = |slot: usize| match self.guide {
            Guide::Shared(SharedCodes { table, .. }, _) => {
                let row = neighbors[slot] as usize;
                (table.code(row), table.factors[row], self.centroid_sq[usize::from(table.centroid[row])])
            }
            Guide::Node(codes, _) => {
                let at = node * degree + slot;
                (&codes.words[at * shape.words()..][..shape.words()], codes.factors[at], distance)
            }
            Guide::Exact => unreachable!("exact distances need no codes"),
        };
        let slots = neighbors.len().next_multiple_of(BLOCK_EDGES);
        self.gathered.resize(slots * shape.code_bytes(), 0);
        for slot in 0..neighbors.len() {
            edge::interleave(shape, edge(slot).0, slot, slots, &mut self.gathered);
        }
        let mut counts = [0u32; DEGREE_MAX];
        self.planes.count(&self.gathered, slots, &mut counts[..slots]);
        let (base, per_count) = self.planes.constants();
        for (slot, estimate) in estimates[..neighbors.len()].iter_mut().enumerate() {
            let (_, EdgeFactors { add, factor }, known) = edge(slot);
            *estimate = known + add - factor * (base - per_count * counts[slot] as f32);
        }
    }
}

/// The point of exactly `recall`, between those that were measured; `None` beyond the last.
pub fn at_recall(points: &[Point], recall: f64) -> Option<Point> {
    let after = points.iter().position(|point| point.recall >= recall)?;
    let Some(before) = after.checked_sub(1) else {
        return Some(points[after].clone());
    };
    let (a, b) = (&points[before], &points[after]);
    let share = (recall - a.recall) / (b.recall - a.recall);
    let mix = |a: f64, b: f64| a + share * (b - a);
    Some(Point {
        slack: mix(a.slack, b.slack),
        recall,
        hops: mix(a.hops, b.hops),
        estimates: mix(a.estimates, b.estimates),
        pages: a.pages.iter().zip(&b.pages).map(|(a, b)| mix(*a, *b)).collect(),
    })
}

/// Nodes of this shape that fit on a page; 0 if none does.
pub fn nodes_per_page(dim: usize, degree: usize, bits: usize) -> usize {
    let fits = |nodes_per_page: &usize| {
        NodeLayout { inner_dim: dim, degree, edge: shape(dim, bits), nodes_per_page: *nodes_per_page }.is_valid()
    };
    (1..).take_while(fits).last().unwrap_or(0)
}

/// Degree, bits and nodes per page that the engine chooses.
pub fn default_layout(dim: usize) -> (usize, usize, usize) {
    let layout = NodeLayout::choose(dim);
    (layout.degree, layout.edge.bits, layout.nodes_per_page)
}
