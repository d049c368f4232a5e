//! The address of a server: `postgres://user:password@host:port/database?host=...`, as libpq reads
//! it, or the same with `mysql://`.
//!
//! A PostgreSQL host that begins with `/` is the folder of a Unix socket. It can be in the query
//! part (`?host=/tmp`) or, with its slashes as `%2F`, before the port. For MySQL's protocol, the
//! query part names the socket: `?socket=/tmp/s.sock`.

use std::fmt;

use crate::errors::Error;

/// The kinds of URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Postgres,
    Mysql,
}

impl Scheme {
    /// The prefixes of URLs of this kind; errors name the first.
    fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::Postgres => &["postgres://", "postgresql://"],
            Self::Mysql => &["mysql://", "mariadb://"],
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Postgres => 5432,
            Self::Mysql => 3306,
        }
    }

    /// The environment variables with the user and the password, for a URL that has none.
    pub(crate) fn variables(self) -> (&'static str, &'static str) {
        match self {
            Self::Postgres => ("PGUSER", "PGPASSWORD"),
            Self::Mysql => ("MYSQL_USER", "MYSQL_PWD"),
        }
    }
}

/// A server, a database, and the user who logs in.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The path of the Unix socket, if there is one.
    pub(crate) socket: Option<String>,
    pub(crate) user: String,
    /// In MySQL's protocol it may be empty: then no database is chosen.
    pub(crate) database: String,
    pub(crate) password: Option<String>,
}

impl Address {
    /// Reads a URL. `default_user` is used if the URL names no user.
    pub(crate) fn parse(scheme: Scheme, url: &str, default_user: Option<&str>) -> Result<Self, Error> {
        read(scheme, url, default_user).map_err(|what| Error::Use(format!("--url: {what}")))
    }
}

/// Shows the server, but not the password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(path) => f.write_str(path),
            None => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{self}/{}", self.user, self.database)
    }
}

fn read(scheme: Scheme, url: &str, default_user: Option<&str>) -> Result<Address, String> {
    let rest = scheme.prefixes().iter().find_map(|prefix| url.strip_prefix(prefix));
    let rest = rest.ok_or_else(|| format!("it must begin with {}", scheme.prefixes()[0]))?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (server, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (person, server) = server.rsplit_once('@').unwrap_or(("", server));
    let (user, password) = match person.split_once(':') {
        Some((user, password)) => (user, Some(decode(password)?)),
        None => (person, None),
    };
    let (host, port) = split_port(server)?;
    let (mut host, mut port) = (decode(host)?, port.to_string());
    let (mut user, mut password, mut database) = (decode(user)?, password, decode(database)?);
    let mut socket = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(format!("{pair:?} has no value"))?;
        let value = decode(value)?;
        match name {
            "host" => host = value,
            "socket" if scheme == Scheme::Mysql => socket = Some(value),
            "port" => port = value,
            "user" => user = value,
            "dbname" => database = value,
            "password" => password = Some(value),
            "sslmode" if ["disable", "allow", "prefer"].contains(&value.as_str()) => {}
            "sslmode" => return Err(format!("sslmode={value}: this client has no TLS")),
            _ => return Err(format!("the option {name:?} is not known; host, port, user, password, dbname are")),
        }
    }
    let prefix = scheme.prefixes()[0];
    if host.is_empty() && socket.is_none() {
        let other = if scheme == Scheme::Mysql { "?socket=/path/of/socket" } else { "?host=/folder/of/socket" };
        return Err(format!("it names no host: {prefix}user@HOST/database, or {other}"));
    }
    if user.is_empty() {
        user = default_user.ok_or_else(|| format!("it names no user: {prefix}USER@host/database"))?.to_string();
    }
    let port = if port.is_empty() { Ok(scheme.port()) } else { port.parse() };
    let port = port.map_err(|_| "the port is a number up to 65535")?;
    if scheme == Scheme::Postgres {
        if database.is_empty() {
            database.clone_from(&user);
        }
        socket = host.starts_with('/').then(|| format!("{host}/.s.PGSQL.{port}"));
    }
    Ok(Address { host, port, socket, user, database, password })
}

/// `host:port`, where the host may be an IPv6 address in brackets.
fn split_port(server: &str) -> Result<(&str, &str), String> {
    if let Some(rest) = server.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or("the bracket of an IPv6 address is open")?;
        return Ok((host, port.strip_prefix(':').unwrap_or(port)));
    }
    Ok(server.split_once(':').unwrap_or((server, "")))
}

/// Decodes percent escapes such as `%2F`.
fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err("a % is not followed by two hexadecimal digits".to_string());
        };
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| "what its % stand for is not text".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn postgres(url: &str, default_user: Option<&str>) -> Result<Address, String> {
        read(Scheme::Postgres, url, default_user)
    }

    #[test]
    fn a_socket_of_mysql_is_named_by_its_path() {
        let address = read(Scheme::Mysql, "mysql://me@/x?socket=/tmp/s.sock", None).unwrap();
        assert_eq!((address.to_string(), address.database.as_str()), ("/tmp/s.sock".to_string(), "x"));
        let address = read(Scheme::Mysql, "mariadb://me:p@host", None).unwrap();
        assert_eq!(format!("{address:?}"), "me@host:3306/");
        assert!(read(Scheme::Mysql, "mysql://me@/x", None).unwrap_err().contains("?socket="));
        assert!(read(Scheme::Mysql, "postgres://me@host", None).unwrap_err().contains("mysql://"));
        assert!(postgres("postgres://me@host?socket=/x", None).is_err());
    }

    #[test]
    fn every_part_may_be_given_or_left_out() {
        let full = postgres("postgres://me:s%40%3A@db.example:5433/items", None).unwrap();
        assert_eq!(format!("{full:?}"), "me@db.example:5433/items");
        assert_eq!(full.password.as_deref(), Some("s@:"));
        let short = postgres("postgresql://localhost", Some("me")).unwrap();
        assert_eq!(format!("{short:?}"), "me@localhost:5432/me");
        assert_eq!(postgres("postgres://me@[::1]:7/x", None).unwrap().host, "::1");
    }

    #[test]
    fn a_folder_is_a_unix_socket() {
        for url in ["postgres://me@/x?host=/tmp/s&port=5433", "postgres://me@%2Ftmp%2Fs:5433/x"] {
            let address = postgres(url, None).unwrap();
            assert_eq!(address.to_string(), "/tmp/s/.s.PGSQL.5433");
            assert_eq!(address.database, "x");
        }
        assert_eq!(postgres("postgres://me@localhost/x", None).unwrap().socket, None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (url, what) in [
            ("mysql://me@host", "postgres://"),
            ("postgres://me@/x", "no host"),
            ("postgres://host", "no user"),
            ("postgres://me@host:port", "65535"),
            ("postgres://me@host:70000", "65535"),
            ("postgres://me@host?sslmode=require", "TLS"),
            ("postgres://me@host?target=any", "\"target\" is not known"),
            ("postgres://me%4@host", "hexadecimal"),
        ] {
            let found = postgres(url, None).unwrap_err();
            assert!(found.contains(what), "{url}: {found}");
        }
    }
}
