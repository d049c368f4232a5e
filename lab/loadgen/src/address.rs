//! Where a server is: `postgres://user:password@host:port/database?host=...`, as libpq reads it.
//!
//! A host that begins with `/` is the folder of a Unix socket. It may stand in the query part (`?host=/tmp`) or,
//! with its slashes as `%2F`, before the port.

use std::fmt;

use crate::errors::Error;

const PORT: u16 = 5432;

/// A server, a database and who asks.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) password: Option<String>,
}

impl Address {
    /// Reads a URL; `default_user` stands in where it names none.
    pub(crate) fn parse(url: &str, default_user: Option<&str>) -> Result<Self, Error> {
        read(url, default_user).map_err(|what| Error::Use(format!("--url: {what}")))
    }

    /// The path of the Unix socket, if it is one.
    pub(crate) fn socket_path(&self) -> Option<String> {
        self.host.starts_with('/').then(|| format!("{}/.s.PGSQL.{}", self.host, self.port))
    }
}

/// Names the server; never the password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.socket_path() {
            Some(path) => f.write_str(&path),
            None => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{self}/{}", self.user, self.database)
    }
}

fn read(url: &str, default_user: Option<&str>) -> Result<Address, String> {
    let rest = ["postgres://", "postgresql://"].into_iter().find_map(|scheme| url.strip_prefix(scheme));
    let rest = rest.ok_or("it must begin with postgres://")?;
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
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(format!("{pair:?} has no value"))?;
        let value = decode(value)?;
        match name {
            "host" => host = value,
            "port" => port = value,
            "user" => user = value,
            "dbname" => database = value,
            "password" => password = Some(value),
            "sslmode" if ["disable", "allow", "prefer"].contains(&value.as_str()) => {}
            "sslmode" => return Err(format!("sslmode={value}: this client has no TLS")),
            _ => return Err(format!("the option {name:?} is not known; host, port, user, password, dbname are")),
        }
    }
    if host.is_empty() {
        return Err("it names no host: postgres://user@HOST/database, or ?host=/folder/of/socket".to_string());
    }
    if user.is_empty() {
        user = default_user.ok_or("it names no user: postgres://USER@host/database")?.to_string();
    }
    if database.is_empty() {
        database.clone_from(&user);
    }
    let port = if port.is_empty() { Ok(PORT) } else { port.parse() };
    let port = port.map_err(|_| "the port is a number up to 65535")?;
    Ok(Address { host, port, user, database, password })
}

/// `host:port`, where the host may be an IPv6 address in brackets.
fn split_port(server: &str) -> Result<(&str, &str), String> {
    if let Some(rest) = server.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or("the bracket of an IPv6 address is open")?;
        return Ok((host, port.strip_prefix(':').unwrap_or(port)));
    }
    Ok(server.split_once(':').unwrap_or((server, "")))
}

/// Replaces `%2F` and its like.
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

    #[test]
    fn every_part_may_be_given_or_left_out() {
        let full = read("postgres://me:s%40%3A@db.example:5433/items", None).unwrap();
        assert_eq!(format!("{full:?}"), "me@db.example:5433/items");
        assert_eq!(full.password.as_deref(), Some("s@:"));
        let short = read("postgresql://localhost", Some("me")).unwrap();
        assert_eq!(format!("{short:?}"), "me@localhost:5432/me");
        assert_eq!(read("postgres://me@[::1]:7/x", None).unwrap().host, "::1");
    }

    #[test]
    fn a_folder_is_a_unix_socket() {
        for url in ["postgres://me@/x?host=/tmp/s&port=5433", "postgres://me@%2Ftmp%2Fs:5433/x"] {
            let address = read(url, None).unwrap();
            assert_eq!(address.to_string(), "/tmp/s/.s.PGSQL.5433");
            assert_eq!(address.database, "x");
        }
        assert_eq!(read("postgres://me@localhost/x", None).unwrap().socket_path(), None);
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
            let found = read(url, None).unwrap_err();
            assert!(found.contains(what), "{url}: {found}");
        }
    }
}
