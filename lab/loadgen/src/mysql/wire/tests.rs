//! Packets made by hand, and one greeting that MariaDB 11.8.6 sent.

use super::*;
use crate::incoming::Drops;

/// MariaDB's first packet, without its header.
const GREETING: &[u8] = b"\x0a11.8.6-MariaDB\x00\x03\x00\x00\x00abcdefgh\x00\xfe\xff\x2d\x02\x00\xff\x81\x15\
    \x00\x00\x00\x00\x00\x00\x3d\x00\x00\x00ijklmnopqrst\x00mysql_native_password\x00";

fn fields(rest: &[u8]) -> Fields<'_> {
    Fields { rest }
}

/// A column definition with this type.
fn definition(kind: u8, flags: u8) -> Vec<u8> {
    let mut body = b"\x03def\x01d\x01t\x01t\x02id\x02id\x0c\x3f\x00\x0b\x00\x00\x00".to_vec();
    body.extend([kind, flags, 0, 0, 0, 0]);
    body
}

#[test]
fn an_execution_with_one_blob_has_these_bytes() {
    let mut out = Outgoing::default();
    out.execute(7, Some(&[0xaa, 0xbb]));
    assert_eq!(out.bytes(), b"\x11\0\0\0\x17\x07\0\0\0\0\x01\0\0\0\0\x01\xfc\0\x02\xaa\xbb");
    out.clear();
    out.execute(7, None);
    assert_eq!(out.bytes(), b"\x0a\0\0\0\x17\x07\0\0\0\0\x01\0\0\0");
}

#[test]
fn the_other_commands_have_these_bytes() {
    let mut out = Outgoing::default();
    out.query("A");
    out.prepare("B");
    out.quit();
    assert_eq!(out.bytes(), b"\x02\0\0\0\x03A\x02\0\0\0\x16B\x01\0\0\0\x01");
}

#[test]
fn a_login_names_the_database_only_if_there_is_one() {
    let mut out = Outgoing::default();
    out.login(1, "me", &[9], "db", "p");
    assert_eq!(out.bytes()[..4], [42, 0, 0, 1]);
    assert_eq!(out.bytes()[4..8], [0x0d, 0xa2, 0x08, 0x01]);
    assert!(out.bytes().ends_with(b"me\0\x01\x09db\0p\0"));
    out.clear();
    out.login(1, "me", &[], "", "p");
    assert_eq!(out.bytes()[4], 0x05);
    assert!(out.bytes().ends_with(b"\0me\0\0p\0"));
}

#[test]
fn lengths_are_read_as_they_are_written() {
    for bytes in [0, 1, 250, 251, 3136, 65_535, 65_536, 1 << 20] {
        let mut body = Vec::new();
        length(&mut body, bytes);
        assert_eq!(fields(&body).length(), Ok(bytes));
    }
    assert_eq!(fields(b"\xfe\0\0\0\x01\0\0\0\0").length(), Ok(1 << 24));
    for wrong in [&b""[..], b"\xfb", b"\xff", b"\xfc\0", b"\xfd\0\0", b"\xfe\0"] {
        assert!(fields(wrong).length().is_err(), "{wrong:?}");
    }
    assert!(fields(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff").string().is_err());
    assert!(fields(b"\x05abc").string().is_err());
}

#[test]
fn packets_come_apart_however_they_arrive() {
    let bytes = b"\x02\0\0\x01\x01a\0\0\0\x02\x01\0\0\x03\xfb";
    let read_all = |from: &mut dyn Read| {
        let mut from = from;
        let mut incoming = Incoming::new();
        assert_eq!(incoming.next(&mut from), Ok(1));
        assert_eq!(incoming.body().text_value(), Ok(Some(&b"a"[..])));
        assert_eq!(incoming.next(&mut from), Ok(2));
        assert!(incoming.body().u8().is_err());
        assert_eq!(incoming.next(&mut from), Ok(3));
        assert_eq!(incoming.body().text_value(), Ok(None));
        assert!(incoming.next(&mut from).unwrap_err().contains("closed"));
    };
    read_all(&mut &bytes[..]);
    read_all(&mut Drops(bytes));
}

#[test]
fn a_packet_that_would_go_on_is_refused() {
    let text = Incoming::new().next(&mut &b"\xff\xff\xff\0"[..]).unwrap_err();
    assert!(text.contains("16 MB"), "{text}");
}

#[test]
fn a_greeting_gives_its_salt_and_its_version() {
    let greeting = Greeting::read(fields(GREETING)).unwrap();
    assert_eq!(greeting, Greeting { version: "11.8.6-MariaDB".into(), salt: b"abcdefghijklmnopqrst".to_vec() });
    let old = [b"\x0a5.5.5-10.4.1\0", &GREETING[16..]].concat();
    assert_eq!(Greeting::read(fields(&old)).unwrap().version, "10.4.1");
}

#[test]
fn a_greeting_that_is_cut_anywhere_is_refused() {
    let needed = GREETING.len() - "\0mysql_native_password\0".len();
    for bytes in 0..needed {
        assert!(Greeting::read(fields(&GREETING[..bytes])).is_err(), "{bytes}");
    }
    let refused = |greeting: &[u8]| Greeting::read(fields(greeting)).unwrap_err();
    assert!(refused(b"\x09").contains("protocol 9"));
    assert!(refused(b"\xff\x10\x04Too many connections").contains("ERROR 1040: Too many"));
    let mut unable = GREETING.to_vec();
    let high = unable.windows(2).position(|bytes| bytes == b"\xff\x81").unwrap();
    unable[high + 1] = 0; // no answers without packets that only end them
    assert!(refused(&unable).contains("lacks abilities of the protocol (0x1000000)"));
}

#[test]
fn the_first_column_comes_out_of_a_binary_row() {
    let long = Field::read(fields(&definition(3, 0))).unwrap();
    assert_eq!((long.name.as_str(), long.is_integer), ("id", true));
    assert_eq!(fields(b"\0\0\x02\x01\0\0").first_value(1, &long), Ok(Some(&[2, 1, 0, 0][..])));
    assert_eq!(fields(b"\0\x04").first_value(1, &long), Ok(None));
    // For seven columns there are two bytes of nulls.
    assert_eq!(fields(b"\0\0\0\x02\x01\0\0rest").first_value(7, &long), Ok(Some(&[2, 1, 0, 0][..])));
    let text = Field::read(fields(&definition(253, 0))).unwrap();
    assert_eq!(fields(b"\0\0\x02ab").first_value(1, &text), Ok(Some(&b"ab"[..])));
    for cut in [&b""[..], b"\0", b"\0\0", b"\0\0\x01\x02\x03"] {
        assert!(fields(cut).first_value(1, &long).is_err(), "{cut:?}");
    }
}

#[test]
fn integers_have_a_sign_or_none() {
    let integer = |kind, flags, value: &[u8]| Field::read(fields(&definition(kind, flags))).unwrap().integer(value);
    assert_eq!(integer(3, 0, &[0xfe, 0xff, 0xff, 0xff]), Some(-2));
    assert_eq!(integer(3, 0x20, &[0xfe, 0xff, 0xff, 0xff]), Some(0xffff_fffe));
    assert_eq!(integer(1, 0, &[5]), Some(5));
    assert_eq!(integer(8, 0x20, &[0xff; 8]), None);
    assert_eq!(integer(8, 0, &[0xff; 8]), Some(-1));
    assert_eq!(integer(5, 0, &[0; 8]), None);
    assert_eq!(integer(3, 0, &[]), None);
}

#[test]
fn a_definition_that_is_cut_anywhere_is_refused() {
    let whole = definition(3, 0);
    for bytes in 0..whole.len() - 3 {
        assert!(Field::read(fields(&whole[..bytes])).is_err(), "{bytes}");
    }
}

#[test]
fn an_error_is_told_with_its_code_and_state() {
    assert_eq!(error_text(fields(b"\xff\x28\x04#42000wrong")), Ok("ERROR 1064 (42000): wrong".into()));
    assert_eq!(error_text(fields(b"\xff\x10\x04wrong")), Ok("ERROR 1040: wrong".into()));
    assert_eq!(error_text(fields(b"\xff\x10\x04#42")), Ok("ERROR 1040: #42".into()));
    assert!(error_text(fields(b"\xff\x10")).is_err());
}
