//! MariaDB: the statements that read its settings, plans, blocks and threads.

mod client;
mod password;
mod plan;
mod wire;

use crate::address::{Address, Scheme};
use crate::args::Setting;
use crate::client::{Client, Prepared, Rows, Trouble, during};
use crate::errors::Error;
use crate::parameter::{ParameterType, Queries};
use crate::plan::Plan;
use crate::usage::{self, Worker};

pub(crate) use client::Connection;

/// Names of the server's program in command lines.
const SERVERS: [&str; 2] = ["mariadbd", "mysqld"];

impl Client for Connection {
    const SCHEME: Scheme = Scheme::Mysql;

    fn open(address: &Address) -> Result<Self, Trouble> {
        Self::connect(address)
    }

    fn server_version(&self) -> &str {
        &self.server_version
    }

    fn simple(&mut self, sql: &str) -> Result<Rows, Trouble> {
        self.query(sql)
    }

    fn prepare(&mut self, sql: &str, _: Option<ParameterType>) -> Result<Prepared, Error> {
        self.prepared = self.parse(sql).map_err(during("--statement"))?;
        let parameter = match self.prepared.parameters {
            0 => None,
            1 => Some(ParameterType::Blob),
            count => {
                return Err(Error::Use(format!("--statement: it has {count} parameters; it may have one ? alone")));
            }
        };
        Ok(Prepared { parameter })
    }

    fn execute(&mut self, parameter: Option<&[u8]>, ids: &mut Vec<Option<i64>>) -> Result<(), Trouble> {
        self.ask(parameter, ids)
    }

    /// MariaDB does not accept a quoted number as a number.
    fn set_sql(setting: &Setting) -> String {
        let Setting { name, value } = setting;
        match value.parse::<f64>() {
            Ok(_) => format!("SET SESSION {name} = {value}"),
            Err(_) => format!("SET SESSION {name} = {}", quoted(value)),
        }
    }

    fn show_sql(name: &str) -> String {
        format!("SELECT @@SESSION.{name}")
    }

    fn plan(&mut self, sql: &str, queries: Option<&Queries>) -> Result<Plan, Trouble> {
        let using = queries.map(|queries| format!(" USING x'{}'", hex(queries.encoded.get(0)))).unwrap_or_default();
        let explain = quoted(&format!("EXPLAIN {sql}"));
        Ok(plan::read(&self.simple(&format!("EXECUTE IMMEDIATE {explain}{using}"))?))
    }

    /// Blocks of the whole server, which InnoDB counts. A vector index has its own cache; reads
    /// from that are not included.
    fn blocks(&mut self) -> Result<(f64, f64), Trouble> {
        let mut counter = |name: &str| {
            let sql = format!("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_{name}'");
            let row = self.simple(&sql)?.into_iter().next().unwrap_or_default();
            let value = row.into_iter().nth(1).flatten().and_then(|text| text.parse::<f64>().ok());
            value.ok_or_else(|| Trouble::Refused(format!("{sql}: no number came back")))
        };
        let (read, asked) = (counter("reads")?, counter("read_requests")?);
        Ok((read, asked - read))
    }

    fn worker(&mut self) -> Result<Worker, Error> {
        let handling = self.simple_value("SELECT @@thread_handling")?;
        if handling != "one-thread-per-connection" {
            return Err(Error::Use(format!(
                "--server-pid-cpu: the server has thread_handling={handling}; no thread belongs to a connection"
            )));
        }
        let sql = "SELECT tid FROM information_schema.processlist WHERE id = CONNECTION_ID()";
        let text = self.simple_value(sql).map_err(during("--server-pid-cpu"))?;
        let thread = text.parse().map_err(|_| Error::Failure(format!("the connection's thread is {text:?}")))?;
        let process = usage::process_of(thread);
        let name = process.and_then(usage::command_line).unwrap_or_else(|| "not there".to_string());
        match process {
            Some(process) if SERVERS.iter().any(|server| name.contains(server)) => {
                Ok(Worker::Thread { process, thread })
            }
            _ => Err(Error::Use(format!(
                "--server-pid-cpu: thread {thread} is of {name}; the server runs on another machine, or in a container \
                 of its own"
            ))),
        }
    }
}

/// `text` as an SQL literal.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_not_quoted_and_texts_are() {
        let sql = |value: &str| Connection::set_sql(&Setting { name: "x".into(), value: value.into() });
        assert_eq!(sql("20"), "SET SESSION x = 20");
        assert_eq!(sql("-0.5"), "SET SESSION x = -0.5");
        assert_eq!(sql("ON"), "SET SESSION x = 'ON'");
        assert_eq!(sql("1; DROP"), "SET SESSION x = '1; DROP'");
        assert_eq!(sql("a'b\\"), "SET SESSION x = 'a''b\\\\'");
    }
}
