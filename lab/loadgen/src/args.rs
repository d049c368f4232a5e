//! The options of the command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::errors::Error;
use crate::parameter::ParameterType;
use crate::schedule::Length;

const SECONDS: f64 = 10.0;
const SECONDS_MAX: f64 = 1e6;

/// Measure one statement of a PostgreSQL server, again and again.
///
/// Before the clock starts, connections are opened, and on each the statement is prepared and
/// executed at least once. With --rate, requests are due at that rate and latencies count from
/// there. What was measured goes to standard output. The exit code is 1 if a request failed, 130
/// after Ctrl-C.
#[derive(Debug, clap::Args)]
pub(crate) struct PostgresArgs {
    #[command(flatten)]
    pub(crate) args: Args,

    /// The type of $1; the server's choice if not given
    #[arg(long, value_name = "TYPE")]
    pub(crate) param_type: Option<ParameterType>,
}

/// Measure one statement of a MariaDB server, again and again.
///
/// As `postgres` does, with `?` for the parameter: SELECT id FROM items ORDER BY
/// VEC_DISTANCE_EUCLIDEAN(embedding, ?) LIMIT 10. A setting is one of the session, such as
/// mhnsw_ef_search=20; a required index is the key that EXPLAIN names.
#[derive(Debug, clap::Args)]
pub(crate) struct MysqlArgs {
    #[command(flatten)]
    pub(crate) args: Args,
}

/// The options for every kind of server.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the server is: postgres://user@host:port/database, or
    /// postgres://user@/database?host=/folder/of/socket; mysql://user@host:port/database, or
    /// mysql://user@/database?socket=/path/of/socket
    #[arg(long)]
    pub(crate) url: String,

    /// The statement, with at most one parameter: "SELECT id FROM items ORDER BY embedding <-> $1
    /// LIMIT 10"
    #[arg(long)]
    pub(crate) statement: String,

    /// Vectors for the parameter, one after the other and again: .fbin, .fvecs or .npy of float32
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: Option<PathBuf>,

    /// A setting of every connection; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) set: Vec<Setting>,

    /// Rows that an answer should have
    #[arg(long, short = 'k', value_name = "K", default_value_t = 10, value_parser = positive)]
    pub(crate) rows: usize,

    /// Connections, each with a thread
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    pub(crate) connections: usize,

    /// Seconds of requests before the measurement, which do not count; they begin in the middle of
    /// the queries
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = not_negative)]
    pub(crate) warmup: f64,

    /// Seconds to measure [default: 10]
    #[arg(long, conflicts_with = "count", value_parser = not_negative)]
    pub(crate) seconds: Option<f64>,

    /// Requests to measure, of all connections together, from the first query on
    #[arg(long)]
    pub(crate) count: Option<u64>,

    /// Requests per second of all connections together, whether the server keeps up or not
    #[arg(long, value_name = "PER_SECOND", value_parser = not_negative)]
    pub(crate) rate: Option<f64>,

    /// Measure the server's CPU too; it must run on this machine
    #[arg(long)]
    pub(crate) server_pid_cpu: bool,

    /// Measure the blocks that were read and hit in the whole database too
    #[arg(long)]
    pub(crate) blocks: bool,

    /// Fail unless the plan scans this index
    #[arg(long, value_name = "NAME")]
    pub(crate) require_index: Option<String>,

    /// Write every request to this .npy file: its query, its latency in nanoseconds, the ids of its
    /// answer
    #[arg(long, value_name = "FILE")]
    pub(crate) answers: Option<PathBuf>,

    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    /// The length of the measurement.
    pub(crate) fn length(&self) -> Result<Length, Error> {
        match (self.count, self.seconds.unwrap_or(SECONDS)) {
            (Some(0), _) => Err(Error::Use("--count 0 measures nothing".to_string())),
            (Some(count), _) => Ok(Length::Count(count)),
            (None, 0.0) => Err(Error::Use("--seconds 0 measures nothing".to_string())),
            (None, seconds) => Ok(Length::Time(Duration::from_secs_f64(seconds))),
        }
    }

    /// Requests per second, if they are fixed.
    pub(crate) fn rate(&self) -> Result<Option<f64>, Error> {
        match self.rate {
            Some(0.0) => Err(Error::Use("--rate 0 asks for nothing".to_string())),
            rate => Ok(rate),
        }
    }
}

/// A setting of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) value: String,
}

fn setting(text: &str) -> Result<Setting, String> {
    let (name, value) = text.split_once('=').ok_or("it is NAME=VALUE, for example hnsw.ef_search=40")?;
    let (name, value) = (name.trim().to_string(), value.trim().to_string());
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.') {
        return Err(format!("{name:?} is not the name of a setting"));
    }
    Ok(Setting { name, value })
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=10_000) => Ok(number),
        _ => Err("it is a number from 1 to 10000".to_string()),
    }
}

fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.0..=SECONDS_MAX).contains(&number) => Ok(number),
        _ => Err(format!("it is a number from 0 to {SECONDS_MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: PostgresArgs,
    }

    fn parse_all(more: &str) -> Result<PostgresArgs, String> {
        let words = "x --url postgres://me@host --statement S".split(' ').chain(more.split_whitespace());
        Line::try_parse_from(words).map(|line| line.args).map_err(|error| error.to_string())
    }

    fn parse(more: &str) -> Result<Args, String> {
        parse_all(more).map(|all| all.args)
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let args = parse("").unwrap();
        assert_eq!((args.rows, args.connections, args.warmup), (10, 1, 2.0));
        assert_eq!(args.length().unwrap(), Length::Time(Duration::from_secs(10)));
        assert_eq!(args.rate().unwrap(), None);
    }

    #[test]
    fn time_and_count_exclude_each_other() {
        assert_eq!(parse("--count 5").unwrap().length().unwrap(), Length::Count(5));
        assert!(parse("--count 5 --seconds 5").unwrap_err().contains("cannot be used with"));
    }

    #[test]
    fn settings_have_a_name_and_a_value() {
        let args = parse("--set hnsw.ef_search=40 --set search_path=a'b").unwrap();
        let set: Vec<_> = args.set.iter().map(|Setting { name, value }| (name.as_str(), value.as_str())).collect();
        assert_eq!(set, [("hnsw.ef_search", "40"), ("search_path", "a'b")]);
        for wrong in ["--set hnsw.ef_search", "--set =4", "--set a;b=4"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_that_measure_nothing_are_refused() {
        for wrong in ["--connections 0", "--rows 0", "--seconds -1", "--seconds nan", "--warmup inf", "--rate x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse("--count 0").unwrap().length().is_err());
        assert!(parse("--seconds 0").unwrap().length().is_err());
        assert!(parse("--rate 0").unwrap().rate().is_err());
    }

    #[test]
    fn the_parameter_has_two_types() {
        assert_eq!(parse_all("--param-type halfvec").unwrap().param_type, Some(ParameterType::Halfvec));
        assert!(parse("--param-type bit").unwrap_err().contains("vector, halfvec"));
    }
}
