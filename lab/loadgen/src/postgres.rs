//! PostgreSQL: the statements that read its types, plans, blocks and processes.

mod client;
mod plan;
mod scram;
mod wire;

use crate::address::{Address, Scheme};
use crate::args::Setting;
use crate::client::{Client, Prepared, Rows, Trouble, during};
use crate::errors::Error;
use crate::parameter::{ParameterType, Queries};
use crate::plan::{Plan, PlanCounts};
use crate::usage::{self, Worker};

pub(crate) use client::Connection;

use client::STATEMENT;

impl Client for Connection {
    const SCHEME: Scheme = Scheme::Postgres;

    fn open(address: &Address) -> Result<Self, Trouble> {
        Self::connect(address)
    }

    fn server_version(&self) -> &str {
        &self.server_version
    }

    fn simple(&mut self, sql: &str) -> Result<Rows, Trouble> {
        self.query(sql)
    }

    fn prepare(&mut self, sql: &str, wanted: Option<ParameterType>) -> Result<Prepared, Error> {
        let declared = wanted.map(|kind| type_oid(self, kind)).transpose()?;
        let described = self.parse(sql, declared.as_slice()).map_err(during("--statement"))?;
        let parameter = match described.parameter_oids[..] {
            [] => None,
            [oid] => Some(parameter_type(self, oid, wanted)?),
            _ => {
                let count = described.parameter_oids.len();
                return Err(Error::Use(format!("--statement: it has {count} parameters; it may have $1 alone")));
            }
        };
        Ok(Prepared { parameter })
    }

    fn execute(&mut self, parameter: Option<&[u8]>, ids: &mut Vec<Option<i64>>) -> Result<(), Trouble> {
        self.ask(parameter, ids)
    }

    fn set_sql(setting: &Setting) -> String {
        format!("SET {} = '{}'", setting.name, setting.value.replace('\'', "''"))
    }

    fn show_sql(name: &str) -> String {
        format!("SHOW {name}")
    }

    fn plan(&mut self, _: &str, queries: Option<&Queries>) -> Result<Plan, Trouble> {
        let parameter = queries.map(|queries| format!("('{}')", queries.first_text)).unwrap_or_default();
        let rows = self.simple(&format!("EXPLAIN EXECUTE {STATEMENT}{parameter}"))?;
        let lines: Vec<String> = rows.into_iter().filter_map(|row| row.into_iter().next()?).collect();
        Ok(plan::read(&lines.join("\n")))
    }

    fn plan_counts(&mut self) -> Option<PlanCounts> {
        let sql =
            format!("SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE name = '{STATEMENT}'");
        let row = self.simple(&sql).ok()?.into_iter().next().unwrap_or_default();
        let mut counts = row.into_iter().map(|value| value.and_then(|text| text.parse().ok()).unwrap_or(0));
        let mut next = || counts.next().unwrap_or(0);
        Some(PlanCounts { generic_count: next(), custom_count: next() })
    }

    /// Without this, PostgreSQL may publish the counters seconds later.
    fn publish(&mut self) -> Result<(), Trouble> {
        self.simple("SELECT pg_stat_force_next_flush()").map(drop)
    }

    /// Blocks of the whole database.
    fn blocks(&mut self) -> Result<(f64, f64), Trouble> {
        let sql = "SELECT blks_read, blks_hit FROM pg_stat_database WHERE datname = current_database()";
        let row = self.simple(sql)?.into_iter().next().unwrap_or_default();
        let numbers: Option<Vec<f64>> = row.into_iter().map(|value| value?.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[read, hit]) => Ok((read, hit)),
            _ => Err(Trouble::Refused("pg_stat_database does not know this database".to_string())),
        }
    }

    fn worker(&mut self) -> Result<Worker, Error> {
        let text = self.simple_value("SELECT pg_backend_pid()")?;
        let pid = text.parse().map_err(|_| Error::Failure(format!("pg_backend_pid() is {text:?}")))?;
        let name = usage::name(pid).unwrap_or_else(|| "not there".to_string());
        if !name.starts_with("postgres") {
            return Err(Error::Use(format!(
                "--server-pid-cpu: process {pid} is {name}; the server runs on another machine, or in a container of \
                 its own"
            )));
        }
        Ok(Worker::Process(pid))
    }
}

fn type_oid(connection: &mut Connection, kind: ParameterType) -> Result<u32, Error> {
    let name = kind.name();
    let found =
        connection.simple_value(&format!("SELECT '{name}'::regtype::oid")).map_err(during("--param-type"))?;
    found.parse().map_err(|_| Error::Failure(format!("the type {name} has the number {found:?}")))
}

/// The type of the statement's parameter, from its oid.
fn parameter_type(
    connection: &mut Connection,
    oid: u32,
    wanted: Option<ParameterType>,
) -> Result<ParameterType, Error> {
    let found = connection.simple_value(&format!("SELECT typname FROM pg_type WHERE oid = {oid}"));
    let name = found.map_err(during("the type of $1"))?;
    match ParameterType::from_name(&name) {
        Some(kind) if wanted.is_none_or(|wanted| wanted == kind) => Ok(kind),
        _ => Err(Error::Use(format!(
            "--statement: its parameter $1 has the type {name}; {} is wanted",
            wanted.map_or("vector or halfvec, as in $1::vector,", ParameterType::name)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_quoted() {
        let setting = |name: &str, value: &str| Setting { name: name.into(), value: value.into() };
        assert_eq!(Connection::set_sql(&setting("hnsw.ef_search", "40")), "SET hnsw.ef_search = '40'");
        assert_eq!(Connection::set_sql(&setting("search_path", "a'b")), "SET search_path = 'a''b'");
    }
}
