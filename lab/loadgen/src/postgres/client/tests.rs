//! The client, with servers that answer from a script.

use super::*;
use crate::address::Scheme;
use crate::client::scripted;

const READY: &[u8] = b"Z\0\0\0\x05I";

fn address() -> Address {
    Address::parse(Scheme::Postgres, "postgres://me@localhost/x", None).unwrap()
}

const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0S\0\0\0\x18server_version\x0018.4\0Z\0\0\0\x05I";

#[test]
fn a_query_brings_the_ids_of_its_rows() {
    const ROWS: &[u8] = b"2\0\0\0\x04D\0\0\0\x12\0\x01\0\0\0\x08\0\0\0\0\0\0\x01\x02\
        D\0\0\0\x0a\0\x01\xff\xff\xff\xffC\0\0\0\x0dSELECT 2\0Z\0\0\0\x05I";
    let (socket, server) = scripted(&[WELCOME, ROWS]);
    let mut connection = Connection::log_in(socket, &address()).unwrap();
    assert_eq!(connection.server_version, "18.4");
    let mut ids = vec![Some(9)];
    connection.ask(Some(&[1, 2, 3]), &mut ids).unwrap();
    assert_eq!(ids, [Some(258), None]);
    let heard = server.join().unwrap();
    assert!(heard[0].windows(8).any(|bytes| bytes == b"user\0me\0"));
    assert!(heard[1].starts_with(b"B") && heard[1].ends_with(b"S\0\0\0\x04"));
}

#[test]
fn a_statement_is_described() {
    const DESCRIBED: &[u8] = b"1\0\0\0\x04t\0\0\0\x0a\0\x01\0\0\x3e\x80T\0\0\0\x1b\0\x01id\0\0\0\0\x01\0\x01\
        \0\0\0\x14\0\x08\xff\xff\xff\xff\0\0Z\0\0\0\x05I";
    let (socket, server) = scripted(&[WELCOME, DESCRIBED]);
    let mut connection = Connection::log_in(socket, &address()).unwrap();
    let prepared = connection.parse("SELECT id", &[]).unwrap();
    assert_eq!(prepared.parameter_oids, [16_000]);
    assert_eq!(prepared.columns, [Field { name: "id".into(), type_oid: 20 }]);
    server.join().unwrap();
}

#[test]
fn an_error_is_told_and_the_connection_goes_on() {
    const ERROR: &[u8] = b"E\0\0\0\x25SERROR\0C22000\0Mdifferent\0Dno\0P7\0\0Z\0\0\0\x05I";
    let (socket, server) = scripted(&[WELCOME, ERROR, READY]);
    let mut connection = Connection::log_in(socket, &address()).unwrap();
    let text = "ERROR 22000: different; no (at character 7)".to_string();
    assert_eq!(connection.ask(None, &mut Vec::new()), Err(Trouble::Refused(text)));
    assert_eq!(connection.query("SELECT"), Ok(Vec::new()));
    server.join().unwrap();
}

#[test]
fn a_connection_that_ends_is_lost() {
    let (socket, server) = scripted(&[WELCOME]);
    let mut connection = Connection::log_in(socket, &address()).unwrap();
    server.join().unwrap();
    assert!(matches!(connection.ask(None, &mut Vec::new()), Err(Trouble::Lost(_))));
}

#[test]
fn the_last_words_of_a_server_are_told() {
    const LAST: &[u8] = b"E\0\0\0\x1aSFATAL\0C57P01\0Mended\0\0";
    let (socket, server) = scripted(&[WELCOME, LAST]);
    let mut connection = Connection::log_in(socket, &address()).unwrap();
    let text = "FATAL 57P01: ended".to_string();
    assert_eq!(connection.ask(None, &mut Vec::new()), Err(Trouble::Lost(text)));
    server.join().unwrap();
}

#[test]
fn ways_to_log_in_that_are_not_known_are_named() {
    let (socket, server) = scripted(&[b"R\0\0\0\x0c\0\0\0\x05salt"]);
    let Err(Trouble::Lost(text)) = Connection::log_in(socket, &address()) else { panic!() };
    assert!(text.contains("MD5") && text.contains("pg_hba.conf"), "{text}");
    server.join().unwrap();
}

#[test]
fn a_server_that_knows_no_scram_of_ours_is_refused() {
    const ASKS: &[u8] = b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0";
    const SCRIPTS: [(&[&[u8]], &str); 3] = [
        (&[b"R\0\0\0\x0f\0\0\0\x0aOTHER\0\0"], "knows no SCRAM-SHA-256"),
        (&[ASKS, b"R\0\0\0\x0e\0\0\0\x0br=mine"], "SCRAM message \"r=mine\" is none"),
        (&[ASKS, b"R\0\0\0\x08\0\0\0\0"], "left the log-in with request 0"),
    ];
    let with_password = Address::parse(Scheme::Postgres, "postgres://me:secret@localhost/x", None).unwrap();
    for (script, what) in SCRIPTS {
        let (socket, server) = scripted(script);
        let Err(Trouble::Lost(text)) = Connection::log_in(socket, &with_password) else { panic!() };
        assert!(text.contains(what), "{text}");
        server.join().unwrap();
    }
}

#[test]
fn a_password_is_sent_where_it_is_asked_for() {
    const ASK: &[u8] = b"R\0\0\0\x08\0\0\0\x03";
    let (socket, server) = scripted(&[ASK, WELCOME]);
    let with = Address { password: Some("secret".into()), ..address() };
    Connection::log_in(socket, &with).unwrap();
    assert_eq!(server.join().unwrap()[1], b"p\0\0\0\x0bsecret\0");
    let (socket, server) = scripted(&[ASK]);
    assert!(Connection::log_in(socket, &address()).unwrap_err().to_string().contains("asks for a password"));
    server.join().unwrap();
}
