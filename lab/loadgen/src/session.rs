//! Everything before the clock: connections, settings, the prepared statement, queries, truth and the plan.

use crate::address::Address;
use crate::args::{PostgresArgs, Setting};
use crate::client::{Connection, Prepared, Trouble};
use crate::errors::Error;
use crate::matrix::{self, Matrix};
use crate::parameter::{self, Encoded, ParameterType};
use crate::plan::Plan;
use crate::recall::Truth;
use crate::usage;

/// Executions on the first connection before its plan is asked for. The server decides after five whether to plan
/// for each parameter anew.
const TRIALS: usize = 6;
/// smallint, integer and bigint, by their fixed numbers in pg_type.
const INTEGER_OIDS: [u32; 3] = [21, 23, 20];

/// Connections that are ready, and what they will be asked.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) connections: Vec<Connection>,
    /// The server's process of each connection.
    pub(crate) pids: Vec<u32>,
    pub(crate) queries: Option<Queries>,
    pub(crate) truth: Option<Truth>,
    pub(crate) plan: Plan,
    /// Every setting that was made, as the server says it.
    pub(crate) settings: Vec<(String, String)>,
}

/// Parameters that are ready to be sent.
#[derive(Debug)]
pub(crate) struct Queries {
    pub(crate) kind: ParameterType,
    pub(crate) dim: usize,
    pub(crate) encoded: Encoded,
    first_text: String,
}

impl Session {
    /// Opens everything that `args` ask for at `address`.
    pub(crate) fn open(args: &PostgresArgs, address: &Address) -> Result<Self, Error> {
        let vectors = args.queries.as_deref().map(matrix::read_vectors).transpose()?;
        let mut first = open_connection(args, address)?;
        let prepared = prepare(&mut first, args, None)?;
        let kind = parameter_type(&mut first, &prepared, args.param_type)?;
        let (queries, declared) = match (kind, &vectors) {
            (None, None) => (None, None),
            (Some((kind, oid)), Some(vectors)) => (Some(Queries::new(kind, vectors, args)?), Some(oid)),
            (None, Some(_)) => return Err(Error::Use("--queries: the statement has no parameter $1".to_string())),
            (Some(_), None) => return Err(Error::Use("the statement has a parameter: give --queries".to_string())),
        };
        let truth = open_truth(args, &prepared, queries.as_ref())?;
        let mut session = Self {
            connections: vec![first],
            pids: Vec::new(),
            queries,
            truth,
            plan: Plan::default(),
            settings: vec![],
        };
        for _ in 1..args.connections {
            let mut connection = open_connection(args, address)?;
            prepare(&mut connection, args, declared)?;
            session.connections.push(connection);
        }
        session.try_all(args)?;
        session.learn_pids(args.server_pid_cpu)?;
        session.look(args)?;
        Ok(session)
    }

    /// Executes the statement on every connection.
    fn try_all(&mut self, args: &PostgresArgs) -> Result<(), Error> {
        let parameter = self.queries.as_ref().map(|queries| queries.encoded.get(0));
        let what = match (&args.queries, &self.queries) {
            (Some(path), Some(queries)) => format!("query 0 of {} (dim {})", path.display(), queries.dim),
            _ => "the statement".to_string(),
        };
        let mut ids = Vec::new();
        for (number, connection) in self.connections.iter_mut().enumerate() {
            for _ in 0..if number == 0 { TRIALS } else { 1 } {
                connection.execute(parameter, &mut ids).map_err(|trouble| failure(&trouble).during(&what))?;
            }
            // The server believes every name and value of an extension that is not loaded, and drops them in silence
            // when it comes. Now that it is there it says what is wrong.
            set_all(connection, args)?;
        }
        Ok(())
    }

    fn learn_pids(&mut self, must_be_here: bool) -> Result<(), Error> {
        for connection in &mut self.connections {
            let text = connection.simple_value("SELECT pg_backend_pid()").map_err(|trouble| failure(&trouble))?;
            let pid = text.parse().map_err(|_| Error::Failure(format!("pg_backend_pid() is {text:?}")))?;
            let name = usage::name(pid).unwrap_or_else(|| "not there".to_string());
            if must_be_here && !name.starts_with("postgres") {
                return Err(Error::Use(format!(
                    "--server-pid-cpu: process {pid} is {name}; the server runs on another machine, or in a \
                     container of its own"
                )));
            }
            self.pids.push(pid);
        }
        Ok(())
    }

    /// Asks for the plan and the settings, once the statement has loaded what it needs.
    fn look(&mut self, args: &PostgresArgs) -> Result<(), Error> {
        let connection = &mut self.connections[0];
        let text = self.queries.as_ref().map(|queries| queries.first_text.as_str());
        self.plan = Plan::ask(connection, text).map_err(|trouble| failure(&trouble).during("EXPLAIN"))?;
        if let Some(name) = &args.require_index {
            self.plan.require(name)?;
        }
        for Setting { name, .. } in &args.set {
            let shown = connection.simple_value(&format!("SHOW {name}"));
            let shown = shown.map_err(|trouble| failure(&trouble).during(format!("--set {name}")))?;
            self.settings.push((name.clone(), shown));
        }
        Ok(())
    }
}

impl Queries {
    fn new(kind: ParameterType, vectors: &Matrix<f32>, args: &PostgresArgs) -> Result<Self, Error> {
        let path = args.queries.as_deref().unwrap_or("".as_ref()).display();
        let encoded = Encoded::new(kind, &vectors.values, vectors.width)
            .map_err(|what| Error::Use(format!("{path}: {what}")))?;
        Ok(Self { kind, dim: vectors.width, encoded, first_text: parameter::as_text(vectors.row(0)) })
    }
}

/// What a server or a connection said, as the end of the command.
pub(crate) fn failure(trouble: &Trouble) -> Error {
    Error::Failure(trouble.to_string())
}

/// A connection with its settings.
fn open_connection(args: &PostgresArgs, address: &Address) -> Result<Connection, Error> {
    let mut connection = Connection::open(address)
        .map_err(|trouble| failure(&trouble).during(format!("cannot connect to {address}")))?;
    set_all(&mut connection, args)?;
    Ok(connection)
}

fn set_all(connection: &mut Connection, args: &PostgresArgs) -> Result<(), Error> {
    for setting in &args.set {
        let sql = setting.sql();
        connection.simple(&sql).map_err(|trouble| failure(&trouble).during(&sql))?;
    }
    Ok(())
}

/// Prepares the statement; `declared` is the type of its parameter, if it is known already.
fn prepare(connection: &mut Connection, args: &PostgresArgs, declared: Option<u32>) -> Result<Prepared, Error> {
    let declared = match (declared, args.param_type) {
        (None, Some(kind)) => vec![type_oid(connection, kind)?],
        (declared, _) => Vec::from_iter(declared),
    };
    let prepared = connection.prepare(&args.statement, &declared);
    prepared.map_err(|trouble| failure(&trouble).during("--statement"))
}

fn type_oid(connection: &mut Connection, kind: ParameterType) -> Result<u32, Error> {
    let name = kind.name();
    let found = connection.simple_value(&format!("SELECT '{name}'::regtype::oid"));
    let found = found.map_err(|trouble| failure(&trouble).during("--param-type"))?;
    found.parse().map_err(|_| Error::Failure(format!("the type {name} has the number {found:?}")))
}

/// The type of the statement's parameter, with its number in pg_type; none if it has no parameter.
fn parameter_type(
    connection: &mut Connection,
    prepared: &Prepared,
    wanted: Option<ParameterType>,
) -> Result<Option<(ParameterType, u32)>, Error> {
    let oid = match prepared.parameter_oids[..] {
        [] => return Ok(None),
        [oid] => oid,
        _ => {
            let count = prepared.parameter_oids.len();
            return Err(Error::Use(format!("--statement: it has {count} parameters; it may have $1 alone")));
        }
    };
    let found = connection.simple_value(&format!("SELECT typname FROM pg_type WHERE oid = {oid}"));
    let name = found.map_err(|trouble| failure(&trouble).during("the type of $1"))?;
    match ParameterType::from_name(&name) {
        Some(kind) if wanted.is_none_or(|wanted| wanted == kind) => Ok(Some((kind, oid))),
        _ => Err(Error::Use(format!(
            "--statement: its parameter $1 has the type {name}; {} is wanted",
            wanted.map_or("vector or halfvec, as in $1::vector,", ParameterType::name)
        ))),
    }
}

fn open_truth(args: &PostgresArgs, prepared: &Prepared, queries: Option<&Queries>) -> Result<Option<Truth>, Error> {
    let (Some(path), Some(queries)) = (&args.truth, queries) else { return Ok(None) };
    match prepared.columns.first() {
        Some(column) if INTEGER_OIDS.contains(&column.type_oid) => {}
        Some(column) => {
            let name = &column.name;
            return Err(Error::Use(format!("--truth: recall needs integers, the first column, {name}, has none")));
        }
        None => return Err(Error::Use("--truth: the statement gives no column".to_string())),
    }
    let ids = matrix::read_ids(path)?;
    Truth::new(ids, args.rows, queries.encoded.len()).map(Some).map_err(|error| error.during(path.display()))
}
