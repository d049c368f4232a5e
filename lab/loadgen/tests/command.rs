//! Tests of the whole command, with a server that implements only the necessary part of the
//! protocol, in a thread of the test.
//!
//! The server answers every execution with the ids 0 to 9. It refuses a vector that does not have
//! two components, or whose first component is negative.
#![expect(clippy::big_endian_bytes, reason = "the protocol is big-endian")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use serde_json::Value;

const STATEMENT: &str = "SELECT id FROM items ORDER BY embedding <-> $1 LIMIT 10";

/// Starts a server. Returns its port.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || converse(stream));
        }
    });
    port
}

/// Answers messages until the client ends the connection.
fn converse(mut stream: TcpStream) -> Option<()> {
    let mut has_parameter = false;
    let mut answer = message(b'R', &[0; 4]);
    answer.extend(message(b'S', b"server_version\x0018.4\0"));
    read(&mut stream)?;
    loop {
        answer.extend(message(b'Z', b"I"));
        stream.write_all(&answer).ok()?;
        answer.clear();
        loop {
            let mut tag = [0];
            stream.read_exact(&mut tag).ok()?;
            let body = read(&mut stream)?;
            match tag[0] {
                b'Q' => answer.extend(simple(&String::from_utf8_lossy(&body))),
                b'P' => has_parameter = body.windows(2).any(|bytes| bytes == b"$1"),
                b'D' if has_parameter => answer.extend(message(b't', b"\0\x01\0\0\x3e\x80")),
                b'D' => answer.extend(message(b't', b"\0\0")),
                b'B' => match has_parameter.then(|| trouble(&body)).flatten() {
                    Some(text) => answer.extend(message(b'E', format!("SERROR\0C22000\0M{text}\0\0").as_bytes())),
                    None => answer.extend(rows()),
                },
                b'X' => return None,
                _ => {}
            }
            if tag[0] == b'D' {
                answer.extend(message(b'T', b"\0\x01id\0\0\0\0\x01\0\x01\0\0\0\x14\0\x08\xff\xff\xff\xff\0\0"));
            }
            if [b'Q', b'S'].contains(&tag[0]) {
                break;
            }
        }
    }
}

/// The body of a message whose tag was read.
fn read(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[tag], &length[..], body].concat()
}

fn row(values: &[&[u8]]) -> Vec<u8> {
    let mut body = (values.len() as u16).to_be_bytes().to_vec();
    for value in values {
        body.extend((value.len() as u32).to_be_bytes());
        body.extend(*value);
    }
    message(b'D', &body)
}

fn rows() -> Vec<u8> {
    (0..10_u64).flat_map(|id| row(&[&id.to_be_bytes()])).collect()
}

/// The row that a statement of the simple protocol returns.
fn simple(sql: &str) -> Vec<u8> {
    for (start, values) in [
        ("EXPLAIN", &[&b"->  Index Scan using items_x on items"[..]][..]),
        ("SELECT typname", &[b"vector"]),
        ("SELECT pg_backend_pid", &[b"1"]),
        ("SELECT generic_plans", &[b"7", b"5"]),
        ("SELECT blks_read", &[b"3", b"4"]),
        ("SHOW", &[b"41"]),
    ] {
        if sql.starts_with(start) {
            return row(values);
        }
    }
    Vec::new()
}

/// What is wrong with the parameter of a Bind message. Its body has two texts, a format, a count, a
/// length, a vector and a format.
fn trouble(body: &[u8]) -> Option<String> {
    let vector = &body[1 + "loadgen\0".len() + 4 + 2 + 4..body.len() - 4];
    if vector[..2] != [0, 2] {
        return Some(format!("different vector dimensions 2 and {}", vector[1]));
    }
    (vector[4] & 0x80 != 0).then(|| "no negative numbers".to_string())
}

/// Runs the command against the server at `port`.
fn run(port: u16, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagehop-loadgen"));
    command.args(["postgres", "--url", &format!("postgres://me@127.0.0.1:{port}/x"), "--warmup", "0"]);
    command.args(more).output().unwrap()
}

/// The text on standard error, and the exit code.
fn failure(output: &Output) -> (String, i32) {
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code().unwrap())
}

/// A file of numbers for this test.
fn file(name: &str, numbers: &[u32]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>()).unwrap();
    path
}

fn queries(name: &str, dim: u32, values: &[f32]) -> String {
    let rows = values.len() as u32 / dim;
    let numbers: Vec<u32> = [rows, dim].into_iter().chain(values.iter().map(|value| value.to_bits())).collect();
    file(name, &numbers).display().to_string()
}

#[test]
fn a_run_is_reported_in_json() {
    let port = serve();
    let queries = queries("q.fbin", 2, &[1.0, 2.0, 3.0, 4.0]);
    let base = ["--statement", STATEMENT, "--queries", &queries, "--json", "--blocks"];
    let more = ["--connections", "2", "--count", "20", "--set", "a.b=41", "--require-index", "items_x"];
    let output = run(port, &[&base[..], &more].concat());
    assert!(output.status.success(), "{output:?}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&value["count"], &value["errors"], &value["rows_short_count"]), (&20.into(), &0.into(), &0.into()));
    assert_eq!(value["plan"]["indexes"][0], "items_x");
    assert_eq!(value["settings"]["a.b"], "41");
    assert_eq!(value["queries"]["dim"], 2);
    assert_eq!(value["blocks"]["read_per_query"], 0.0);
    assert!(value["latency_us_p50"].as_f64().unwrap() > 0.0 && value["qps"].as_f64().unwrap() > 0.0);
    assert!(value["client_cpu_us_per_query"].as_f64().unwrap() > 0.0);
}

#[test]
fn every_request_is_kept_where_wanted() {
    let queries = queries("kept.fbin", 2, &[1.0, 2.0, 3.0, 4.0]);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("answers.npy");
    let answers = path.display().to_string();
    let more = ["--statement", STATEMENT, "--queries", &queries, "--count", "5", "-k", "11", "--answers", &answers];
    let output = run(serve(), &more);
    assert!(output.status.success(), "{output:?}");
    let bytes = fs::read(path).unwrap();
    let values: Vec<i64> = bytes.rchunks(8).map(|part| i64::from_le_bytes(part.try_into().unwrap())).collect();
    let values: Vec<i64> = values[..5 * 13].iter().rev().copied().collect();
    for (number, row) in values.chunks(13).enumerate() {
        assert_eq!(row[0], number as i64 % 2, "queries in turns");
        assert!(row[1] > 0, "a latency");
        assert_eq!(row[2..], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1]);
    }
}

#[test]
fn a_statement_without_a_parameter_is_measured_for_people() {
    let output =
        run(serve(), &["--statement", "SELECT id FROM items ORDER BY id LIMIT 10", "--count", "3", "-k", "11"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("requests                    3 in"), "{text}");
    assert!(text.contains("answers below 11 rows       3"), "{text}");
}

#[test]
fn requests_that_fail_are_counted_and_told() {
    let queries = queries("negative.fbin", 2, &[1.0, 2.0, -3.0, 4.0]);
    let output = run(serve(), &["--statement", STATEMENT, "--queries", &queries, "--count", "6", "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&value["count"], &value["errors"]), (&3.into(), &3.into()));
    let (text, code) = failure(&output);
    assert!(
        text.contains("3 of 6 requests failed, the first: query 1: ERROR 22000: no negative numbers"),
        "{text}"
    );
    assert_eq!(code, 1);
}

#[test]
fn what_cannot_be_measured_is_said_before_the_clock_starts() {
    let port = serve();
    let wide = queries("wide.fbin", 3, &[1.0, 2.0, 3.0]);
    let right = queries("right.fbin", 2, &[1.0, 2.0]);
    let plain = "SELECT id FROM items";
    for (more, code, what) in [
        (
            vec!["--statement", STATEMENT, "--queries", &wide],
            1,
            "(dim 3): ERROR 22000: different vector dimensions",
        ),
        (vec!["--statement", STATEMENT], 2, "give --queries"),
        (vec!["--statement", plain, "--queries", &right], 2, "the statement has no parameter"),
        (vec!["--statement", plain, "--require-index", "other"], 1, "index other:\n->  Index Scan using items_x"),
        (vec!["--statement", STATEMENT, "--queries", &right, "--param-type", "bit"], 2, "vector, halfvec"),
    ] {
        let output = run(port, &more);
        let (text, found) = failure(&output);
        assert!(text.contains(what) && found == code, "{more:?}: {found} {text}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (text, code) = failure(&run(port, &["--statement", "SELECT 1"]));
    assert!(text.contains(&format!("cannot connect to 127.0.0.1:{port}: Connection refused")), "{text}");
    assert_eq!(code, 1);
}
