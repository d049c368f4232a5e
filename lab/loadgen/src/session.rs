//! The preparation before the clock starts: connections, settings, the prepared statement, queries
//! and the plan.

use crate::address::Address;
use crate::args::{Args, Setting};
use crate::client::{Client, Prepared, during};
use crate::errors::Error;
use crate::matrix;
use crate::parameter::{ParameterType, Queries};
use crate::plan::Plan;
use crate::usage::Worker;

/// Executions on the first connection before its plan is read. After five, PostgreSQL decides
/// whether to use a generic plan.
const TRIALS: usize = 6;

/// Prepared connections, and the queries that they will send.
#[derive(Debug)]
pub(crate) struct Session<C> {
    pub(crate) connections: Vec<C>,
    /// The process or thread of the server for each connection. Empty unless the server's CPU is
    /// measured.
    pub(crate) workers: Vec<Worker>,
    pub(crate) queries: Option<Queries>,
    pub(crate) plan: Plan,
    /// Every setting that was made, as the server shows it.
    pub(crate) settings: Vec<(String, String)>,
}

impl<C: Client> Session<C> {
    /// Opens the connections for `args` at `address`. The parameter has the type `wanted`, or the
    /// type that the server chooses.
    pub(crate) fn open(args: &Args, address: &Address, wanted: Option<ParameterType>) -> Result<Self, Error> {
        let vectors = args.queries.as_deref().map(matrix::read_vectors).transpose()?;
        let (first, prepared) = open_connection::<C>(args, address, wanted)?;
        let queries = match (prepared.parameter, &vectors) {
            (None, None) => None,
            (Some(kind), Some(vectors)) => {
                let path = args.queries.as_deref().unwrap_or("".as_ref()).display();
                Some(Queries::new(kind, vectors).map_err(|what| Error::Use(format!("{path}: {what}")))?)
            }
            (None, Some(_)) => return Err(Error::Use("--queries: the statement has no parameter".to_string())),
            (Some(_), None) => return Err(Error::Use("the statement has a parameter: give --queries".to_string())),
        };
        let (workers, settings, plan) = (Vec::new(), Vec::new(), Plan::default());
        let mut session = Self { connections: vec![first], workers, queries, plan, settings };
        for _ in 1..args.connections {
            session.connections.push(open_connection(args, address, wanted)?.0);
        }
        session.try_all(args)?;
        if args.server_pid_cpu {
            session.workers = session.connections.iter_mut().map(C::worker).collect::<Result<_, _>>()?;
        }
        session.look(args)?;
        Ok(session)
    }

    /// Executes the statement on every connection, and makes the settings again.
    fn try_all(&mut self, args: &Args) -> Result<(), Error> {
        let parameter = self.queries.as_ref().map(|queries| queries.encoded.get(0));
        let what = match (&args.queries, &self.queries) {
            (Some(path), Some(queries)) => format!("query 0 of {} (dim {})", path.display(), queries.dim),
            _ => "the statement".to_string(),
        };
        let mut ids = Vec::new();
        for (number, connection) in self.connections.iter_mut().enumerate() {
            for _ in 0..if number == 0 { TRIALS } else { 1 } {
                connection.execute(parameter, &mut ids).map_err(during(&what))?;
            }
            // PostgreSQL accepts any setting of an extension that is not loaded, and drops invalid
            // ones without a word when the extension is loaded. The statement has loaded it, so
            // that invalid settings are errors now.
            set_all(connection, args)?;
        }
        Ok(())
    }

    /// Reads the plan and the settings, after the statement has loaded the extensions that it
    /// needs.
    fn look(&mut self, args: &Args) -> Result<(), Error> {
        let connection = &mut self.connections[0];
        self.plan = connection.plan(&args.statement, self.queries.as_ref()).map_err(during("EXPLAIN"))?;
        if let Some(name) = &args.require_index {
            self.plan.require(name)?;
        }
        for Setting { name, .. } in &args.set {
            let shown = connection.simple_value(&C::show_sql(name)).map_err(during(format!("--set {name}")))?;
            self.settings.push((name.clone(), shown));
        }
        Ok(())
    }
}

/// Opens a connection, makes its settings and prepares the statement.
fn open_connection<C: Client>(
    args: &Args,
    address: &Address,
    wanted: Option<ParameterType>,
) -> Result<(C, Prepared), Error> {
    let mut connection = C::open(address).map_err(during(format!("cannot connect to {address}")))?;
    set_all(&mut connection, args)?;
    let prepared = connection.prepare(&args.statement, wanted)?;
    Ok((connection, prepared))
}

fn set_all<C: Client>(connection: &mut C, args: &Args) -> Result<(), Error> {
    for setting in &args.set {
        let sql = C::set_sql(setting);
        connection.simple(&sql).map_err(during(&sql))?;
    }
    Ok(())
}
