//! Tests of the engine from outside, on pages in memory. They are one program, because the engine
//! is generic over its pages: each program of tests compiles it again.

mod beside;
mod bounds;
mod calibration;
mod calibration_cost;
mod changes;
mod churn;
mod commits;
mod cursor;
mod equal;
mod filter_plans;
mod filtered_cursor;
mod filters;
mod hosted;
mod hosted_filters;
mod hosted_tags;
mod kept;
mod landmarks;
mod limited_cursor;
mod many_writers;
mod merged_leaves;
mod near_postings;
mod page_neighbors;
mod paused;
mod pending;
mod recall;
mod refusals;
mod resumed;
mod rows;
mod scale;
mod scan;
mod spilled;
mod support;
mod tags;
mod together;
mod turnover;
