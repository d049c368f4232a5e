//! The results of one list with each slack, and the least slack that reaches a recall.

use crate::calibration::MISSED_MIN;

/// Safety margin on the target recall, as a share of `half_interval`. Without a margin, half of the
/// calibrated settings would land below the target.
const MARGIN: f32 = 0.25;
/// Largest margin, as a share of the allowed miss (1 - recall). At high recalls a margin of 10% of
/// the allowed miss costs about 10% more hops.
const MARGIN_MAX: f32 = 0.05;

/// The result of a pair of list and slack.
#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) slack: f32,
    pub(super) recall: f32,
    /// Half the width of the 95% confidence interval of the recall.
    pub(super) half_interval: f32,
    pub(super) hops: f32,
}

impl Point {
    /// The recall that must be measured for `recall` to count as reached.
    fn target(&self, recall: f32) -> f32 {
        recall + (MARGIN * self.half_interval).min(MARGIN_MAX * (1.0 - recall))
    }
}

/// The least slack of one list that reaches a recall, between two of `points` where the one below
/// finds less.
///
/// Each point has an interval, and so a target, of its own: the one below may find as much as the
/// target of the next and still miss its own.
pub(super) fn first_to_reach(points: &[Point], recall: f32) -> Option<Point> {
    let at = points.iter().position(|point| point.recall >= point.target(recall))?;
    let (reached, target) = (points[at], points[at].target(recall));
    let below = at.checked_sub(1).map(|below| points[below]).filter(|below| below.recall < target);
    Some(below.map_or(reached, |below| between(below, reached, target)))
}

/// Interpolates between two slacks of one list, of which only the one above finds `wanted`.
fn between(below: Point, above: Point, wanted: f32) -> Point {
    // The miss (1 - recall) is roughly a power of the effort.
    let missed = |recall: f32| (1.0 - recall).max(MISSED_MIN).ln();
    let share = (missed(below.recall) - missed(wanted)) / (missed(below.recall) - missed(above.recall));
    let part = |below: f32, above: f32| if above.is_finite() { below + (above - below) * share } else { above };
    Point { slack: part(below.slack, above.slack), recall: wanted, hops: part(below.hops, above.hops), ..above }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(slack: f32, recall: f32, half_interval: f32) -> Point {
        Point { slack, recall, half_interval, hops: 10.0 + slack }
    }

    #[test]
    fn the_slack_is_between_the_two_that_frame_the_recall() {
        let points = [point(0.0, 0.85, 0.0), point(0.1, 0.88, 0.0), point(0.2, 0.92, 0.0), point(0.3, 0.95, 0.0)];
        let found = first_to_reach(&points, 0.9).expect("0.92 is found");
        assert!(0.1 < found.slack && found.slack < 0.2, "{}", found.slack);
        assert_eq!(first_to_reach(&points, 0.8).expect("0.85 is found").slack, 0.0);
        assert!(first_to_reach(&points, 0.98).is_none());
    }

    #[test]
    fn a_wide_interval_below_a_narrow_one_gives_a_slack_that_can_be_stored() {
        // The first points miss their own targets, but find at least the target of the next point.
        for (below, above) in [(0.900_88, 0.904), (0.9006, 0.9006), (0.902, 0.902)] {
            let points = [point(0.0, below, 0.02), point(0.0025, above, 0.0), point(f32::INFINITY, 0.95, 0.0)];
            let found = first_to_reach(&points, 0.9).expect("it is found");
            assert_eq!(found.slack, 0.0025, "{below} below {above}");
        }
        let certain = [point(0.0, 0.9995, 0.0), point(0.01, 1.0, 0.0)];
        assert!(first_to_reach(&certain, 0.999).expect("it is found").slack >= 0.0);
    }
}
