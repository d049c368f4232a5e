//! The client, with servers that answer from a script.

use super::*;
use crate::address::Scheme;
use crate::client::scripted;

const WELCOME: &[u8] =
    b"\x52\0\0\0\x0a11.8.6-MariaDB\x00\x03\x00\x00\x00abcdefgh\x00\xfe\xff\x2d\x02\x00\xff\x81\x15\
    \x00\x00\x00\x00\x00\x00\x3d\x00\x00\x00ijklmnopqrst\x00mysql_native_password\x00";
const OK: &[u8] = b"\x07\0\0\x02\0\0\0\x02\0\0\0";
fn address(password: Option<&str>) -> Address {
    let mut address = Address::parse(Scheme::Mysql, "mysql://me@localhost/x", None).unwrap();
    address.password = password.map(str::to_string);
    address
}

fn welcomed(answers: &'static [&'static [u8]]) -> (Connection, std::thread::JoinHandle<Vec<Vec<u8>>>) {
    // The server sends first, but the script waits for the client, so one byte is sent before.
    let (mut socket, server) = scripted(answers);
    socket.send(b"\0").unwrap();
    (Connection::log_in(socket, &address(None)).unwrap(), server)
}

#[test]
fn a_query_brings_the_ids_of_its_rows() {
    const PREPARED: &[u8] = b"\x0c\0\0\x01\0\x07\0\0\0\x01\0\x01\0\0\0\0\
        \x17\0\0\x02\x03def\0\0\0\x01?\0\x0c\x3f\x00\x00\x00\x00\x00\xfc\x80\x00\x00\x00\x00\
        \x1d\0\0\x03\x03def\x01d\x01t\x01t\x02id\x02id\x0c\x3f\x00\x0b\x00\x00\x00\x03\x20\x00\x00\x00\x00";
    const ROWS: &[u8] = b"\x01\0\0\x01\x01\
        \x1d\0\0\x02\x03def\x01d\x01t\x01t\x02id\x02id\x0c\x3f\x00\x0b\x00\x00\x00\x03\x20\x00\x00\x00\x00\
        \x06\0\0\x03\0\0\x02\x01\0\0\x02\0\0\x04\0\x04\x07\0\0\x05\xfe\0\0\x02\0\0\0";
    let (mut connection, server) = welcomed(&[WELCOME, OK, PREPARED, ROWS]);
    assert_eq!(connection.server_version, "11.8.6-MariaDB");
    connection.prepared = connection.parse("SELECT id").unwrap();
    let Statement { id, parameters, first } = connection.prepared.clone();
    assert_eq!((id, parameters, first.unwrap().name.as_str()), (7, 1, "id"));
    let mut ids = vec![Some(9)];
    connection.ask(Some(&[1, 2, 3]), &mut ids).unwrap();
    assert_eq!(ids, [Some(258), None]);
    let heard = server.join().unwrap();
    assert!(heard[1][3] == 1 && heard[1].windows(5).any(|bytes| bytes == b"me\0\0x"), "{:?}", heard[1]);
    assert_eq!(heard[2], b"\x0a\0\0\0\x16SELECT id");
    assert!(heard[3].ends_with(b"\x17\x07\0\0\0\0\x01\0\0\0\0\x01\xfc\0\x03\x01\x02\x03"));
}

#[test]
fn rows_come_as_text_without_preparing() {
    const ROWS: &[u8] = b"\x01\0\0\x01\x01\
        \x1d\0\0\x02\x03def\x01d\x01t\x01t\x02id\x02id\x0c\x3f\x00\x0b\x00\x00\x00\x03\x20\x00\x00\x00\x00\
        \x03\0\0\x03\x0241\x01\0\0\x04\xfb\x07\0\0\x05\xfe\0\0\x02\0\0\0";
    let (mut connection, server) = welcomed(&[WELCOME, OK, ROWS]);
    assert_eq!(connection.query("SELECT"), Ok(vec![vec![Some("41".into())], vec![None]]));
    server.join().unwrap();
}

#[test]
fn an_error_is_told_and_the_connection_goes_on() {
    const ERROR: &[u8] = b"\x0e\0\0\x01\xff\x28\x04#42000wrong";
    const AGAIN: &[u8] = b"\x07\0\0\x01\0\0\0\x02\0\0\0";
    let (mut connection, server) = welcomed(&[WELCOME, OK, ERROR, AGAIN]);
    let text = "ERROR 1064 (42000): wrong".to_string();
    assert_eq!(connection.ask(None, &mut Vec::new()), Err(Trouble::Refused(text)));
    assert_eq!(connection.query("DO 1"), Ok(Vec::new()));
    server.join().unwrap();
}

#[test]
fn what_no_server_would_say_ends_the_connection() {
    for (said, what) in [
        (&b"\x01\0\0\x05\0"[..], "packet 5 came for 1"),
        (b"\x01\0\0\x01\xfb", "LOAD DATA LOCAL"),
        (b"\x03\0\0\x01\xfc\xff\xff", "65535 columns"),
        (b"\x00\0\0\x01", "ends early"),
        (b"\x01\0\0\x01\x01\x01\0\0\x02\x03", "ends early"),
        (b"\xff\xff\xff\x01", "16 MB"),
        (b"\x05\0\0\x01\0", "closed"),
    ] {
        let said: &'static [u8] = said;
        let answers: &'static [&'static [u8]] = Box::leak(Box::new([WELCOME, OK, said]));
        let (mut connection, server) = welcomed(answers);
        let Err(Trouble::Lost(text)) = connection.query("SELECT") else { panic!("{what}") };
        assert!(text.contains(what), "{text}");
        server.join().unwrap();
    }
}

#[test]
fn the_server_may_ask_for_a_proof_with_another_salt() {
    const SWITCH: &[u8] = b"\x2c\0\0\x02\xfemysql_native_password\0ABCDEFGHIJKLMNOPQRST\0";
    const OK_4: &[u8] = b"\x07\0\0\x04\0\0\0\x02\0\0\0";
    let (mut socket, server) = scripted(&[WELCOME, SWITCH, OK_4]);
    socket.send(b"\0").unwrap();
    Connection::log_in(socket, &address(Some("secret"))).unwrap();
    let heard = server.join().unwrap();
    let proof = password::proof("secret", b"ABCDEFGHIJKLMNOPQRST");
    assert_eq!(heard[2], [&[20, 0, 0, 3][..], &proof].concat());
}

#[test]
fn who_is_not_let_in_is_told_why() {
    for (said, what) in [
        (&b"\x0f\0\0\x02\xff\x15\x04#28000no, me"[..], "ERROR 1045 (28000): no, me"),
        (b"\x10\0\0\x02\xfeclient_ed25519\0", "asks for client_ed25519 of user \"me\""),
        (b"\x01\0\0\x02\x01", "more than a password"),
    ] {
        let said: &'static [u8] = said;
        let answers: &'static [&'static [u8]] = Box::leak(Box::new([WELCOME, said]));
        let (mut socket, server) = scripted(answers);
        socket.send(b"\0").unwrap();
        let text = Connection::log_in(socket, &address(None)).unwrap_err().to_string();
        assert!(text.contains(what), "{text}");
        server.join().unwrap();
    }
}
