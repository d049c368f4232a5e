//! Bad input, damaged files, full disks and interruptions give a clear error, and nothing is lost.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Folder, Run, ibin, json_lines, nearest, unchanged, vectors};

#[test]
fn invalid_vectors_are_named() {
    let folder = Folder::new();
    for (name, metric, value) in
        [("nan", "l2", f32::NAN), ("infinite", "l2", f32::INFINITY), ("negative", "ip", f32::NEG_INFINITY)]
    {
        let mut items = vectors(100, 8, 1);
        items[41][3] = value;
        folder.fbin("items.fbin", &items);
        let error = folder.run(&format!("build items.fbin -o i --metric {metric}")).error(2);
        assert!(error.contains("41"), "{name}: {error}");
    }
    let mut items = vectors(100, 8, 1);
    items[41].fill(0.0);
    folder.fbin("items.fbin", &items);
    let error = folder.run("build items.fbin -o i --metric cosine").error(2);
    assert!(error.contains("41"), "{error}");
    assert_eq!(folder.names(), ["items.fbin"]);
    folder.run("build items.fbin -o i --metric l2").ok();
}

#[test]
fn invalid_queries_are_named() {
    let folder = Folder::new();
    folder.index(&vectors(100, 8, 1), "--metric cosine");
    for value in [f32::NAN, f32::INFINITY, 0.0] {
        let mut queries = vectors(10, 8, 2);
        queries[7] = vec![value; 8];
        folder.fbin("queries.fbin", &queries);
        let error = folder.run("search items.pagehop queries.fbin").error(2);
        assert!(error.contains("query 7 of queries.fbin"), "{error}");
    }
    folder.fbin("queries.fbin", &vectors(10, 9, 2));
    let error = folder.run("search items.pagehop queries.fbin").error(2);
    assert!(error.contains("queries.fbin has 9 dimensions, items.pagehop has 8"), "{error}");
}

#[test]
fn ids_that_repeat_are_refused() {
    let folder = Folder::new();
    folder.fbin("items.fbin", &vectors(100, 8, 1));
    let ids: String = (0..100).map(|row| format!("{}\n", 1000 + row % 99)).collect();
    folder.write("ids.txt", ids);
    let error = folder.run("build items.fbin -o i --ids ids.txt").error(2);
    assert!(error.contains("1000"), "{error}");
    assert!(!folder.path("i").exists());
}

#[test]
fn a_k_above_the_rows_finds_all_rows() {
    let folder = Folder::new();
    let items = vectors(30, 8, 1);
    folder.index(&items, "");
    folder.fbin("queries.fbin", &items[..1]);
    let found = folder.run("search items.pagehop queries.fbin -k 1000").ok();
    let mut ids: Vec<u64> = found.lines().map(|line| line.split('\t').nth(1).unwrap().parse().unwrap()).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..30), "{found}");

    // It is planned and answered as in Python: for k rows, of which there are 30.
    let line = "search items.pagehop queries.fbin -k 40 -o found.npy --json";
    let summary = &json_lines(&folder.run(line).ok())[0]["summary"];
    assert_eq!((&summary["k"], &summary["hits"]), (&40.into(), &30.into()));
    let ids = fs::read(folder.path("found.npy")).unwrap().split_off(128);
    let ids = ids.as_chunks().0.iter().map(|&id| i64::from_le_bytes(id));
    assert_eq!(ids.skip(30).collect::<Vec<_>>(), [-1; 10]);
    let summary = folder.run("search items.pagehop queries.fbin -k 40 --truth found.npy --json").ok();
    assert_eq!(json_lines(&summary).last().unwrap()["summary"]["recall"], 1.0);
    let all: Vec<u64> = nearest(&items, &items[0], 30);
    folder.write("truth.ibin", ibin(&[all]));
    let summary = folder.run("search items.pagehop queries.fbin -k 40 --truth truth.ibin --json").ok();
    assert_eq!(json_lines(&summary).last().unwrap()["summary"]["recall"], 1.0);
}

#[test]
fn one_vector_and_identical_vectors_are_indexed() {
    let folder = Folder::new();
    for rows in [1, 2, 10_000] {
        let items = vec![vec![0.25; 16]; rows];
        folder.index(&items, "--overwrite");
        folder.fbin("queries.fbin", &items[..1]);
        let found = folder.run("search items.pagehop queries.fbin -k 10").ok();
        assert_eq!(found.lines().count(), rows.min(10), "{found}");
        assert!(found.lines().all(|line| line.split('\t').nth(2) == Some("0")), "{found}");
        folder.run("check items.pagehop").ok();
    }
}

#[test]
fn extreme_dimensions_build_and_search() {
    let folder = Folder::new();
    for dim in [1, 2, 63, 1536, 4096] {
        let items = vectors(40, dim, 9);
        folder.index(&items, "--overwrite");
        folder.fbin("queries.fbin", &items[5..6]);
        let found = folder.run("search items.pagehop queries.fbin -k 1 --slack inf").ok();
        assert!(found.starts_with("0\t5\t"), "{dim} dimensions: {found}");
        folder.run("check items.pagehop").ok();
    }
}

#[test]
fn too_little_memory_is_refused_at_the_start() {
    let folder = Folder::new();
    folder.fbin("items.fbin", &vectors(20_000, 64, 1));
    let error = folder.run("build items.fbin -o i --memory 1KiB").error(1);
    assert!(error.contains("memory"), "{error}");
    assert!(!folder.path("i").exists());
}

/// The exit code of a command that cannot read its index. Of `check`, 1 means that it is damaged.
fn unreadable(line: &str) -> i32 {
    if line.starts_with("check") { 2 } else { 1 }
}

#[test]
fn a_check_says_damaged_only_of_what_it_has_read() {
    let folder = Folder::new();
    folder.write("text.pagehop", "name,vector\n".repeat(5000));
    for (name, reason) in [("missing.pagehop", "cannot open"), ("text.pagehop", "not a Pagehop index")] {
        let run = folder.run(&format!("check {name} --json"));
        assert_eq!(run.stdout, "", "nothing is said of an index that was not read");
        let error = run.error(2);
        assert!(error.contains(name) && error.contains(reason), "{error}");
        assert!(folder.run(&format!("check {name}")).error(2).contains(name));
    }
    let index = folder.index(&vectors(100, 16, 1), "");
    let output = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = folder.command("check items.pagehop").stdout(output).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "the result was not written: {index:?}");
}

#[test]
fn a_file_that_is_no_index_is_refused() {
    let folder = Folder::new();
    folder.fbin("queries.fbin", &vectors(1, 8, 1));
    folder.write("empty.pagehop", "");
    folder.write("text.pagehop", "name,vector\n".repeat(5000));
    folder.write("zero.pagehop", vec![0; 65536]);
    fs::create_dir(folder.path("folder.pagehop")).unwrap();
    for name in ["empty", "text", "zero", "folder"] {
        for line in ["info $", "check $", "search $ queries.fbin"] {
            let file = format!("{name}.pagehop");
            let error = folder.run(&line.replace('$', &file)).error(unreadable(line));
            assert!(error.contains(&file), "pagehop {line}: {error}");
        }
    }
}

#[test]
fn a_truncated_index_is_refused() {
    let folder = Folder::new();
    let index = folder.index(&vectors(500, 32, 1), "");
    folder.fbin("queries.fbin", &vectors(5, 32, 2));
    let whole = fs::read(&index).unwrap();
    for length in [1, 100, 8191, 8192, 8193, whole.len() / 2, whole.len() - 1] {
        fs::write(&index, &whole[..length]).unwrap();
        for line in ["check items.pagehop", "search items.pagehop queries.fbin"] {
            // One byte does not show that the file was an index.
            let error = folder.run(line).error(if length == 1 { unreadable(line) } else { 1 });
            assert!(error.contains("items.pagehop"), "{length} bytes: {error}");
        }
    }
}

#[test]
fn a_flipped_byte_anywhere_is_found() {
    let folder = Folder::new();
    let index = folder.index(&vectors(200, 16, 1), "");
    folder.fbin("queries.fbin", &vectors(5, 16, 2));
    let expected = folder.run("search items.pagehop queries.fbin").ok();
    let whole = fs::read(&index).unwrap();
    // With this step every page is damaged once, and each part of a page on some page.
    for at in (0..whole.len()).step_by(4096 + 37).chain([whole.len() - 1]) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&index, &damaged).unwrap();
        let run = folder.run("check items.pagehop --json");
        assert_eq!(run.code, Some(1), "byte {at}: {run:?}");
        assert_eq!(json_lines(&run.stdout)[0]["ok"], false, "byte {at}: {run:?}");
        let error = folder.run("check items.pagehop").error(1);
        assert!(error.contains("items.pagehop"), "byte {at}: {error}");
        // A search may not read the damaged bytes, but it must not give another answer.
        let run = folder.run("search items.pagehop queries.fbin");
        if run.code == Some(0) {
            assert_eq!(run.stdout, expected, "byte {at}");
        } else {
            run.error(1);
        }
    }
}

#[test]
fn a_file_size_limit_leaves_the_old_index() {
    let folder = Folder::new();
    let index = folder.index(&vectors(100, 16, 1), "");
    let before = fs::read(&index).unwrap();
    folder.fbin("more.fbin", &vectors(5000, 16, 1));
    // The limit of 64 KiB stands for a full disk: a write fails after a part of its bytes.
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$@\" build more.fbin -o items.pagehop --overwrite";
    let error = Run::of(&mut folder.shell(script)).error(1);
    assert!(error.contains("items.pagehop"), "{error}");
    assert!(unchanged(&index, &before));
    assert_eq!(folder.names(), ["items.fbin", "items.pagehop", "more.fbin"]);
}

/// Whether a build has made its unfinished file in `folder`. When it does so, it already listens
/// for SIGINT.
///
/// The mask of caught signals in /proc cannot be used: an emulator catches SIGINT from its start.
/// The file has no name, or a hidden name if the file system has no files without names.
fn has_begun(process: u32, folder: &Folder) -> bool {
    // A process that is starting or has ended has no files to list.
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    let folder = fs::canonicalize(folder.path("")).unwrap();
    files.filter_map(|file| fs::read_link(file.ok()?.path()).ok()).any(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        file.parent() == Some(&folder) && (name.ends_with(" (deleted)") || name.starts_with('.'))
    })
}

/// Sends `signal` to a build soon after it began. Returns how the build ended.
fn signal_a_build(folder: &Folder, signal: &str) -> (Option<i32>, Option<i32>) {
    folder.fbin("many.fbin", &vectors(100_000, 64, 1));
    let mut command = folder.command("build many.fbin -o items.pagehop --overwrite --threads 1");
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    // On a busy machine it may take long until a process begins.
    while !has_begun(child.id(), folder) {
        assert!(child.try_wait().unwrap().is_none(), "the build was over before its file was seen");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(200));
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success(), "the build was over before it could be stopped");
    let status = child.wait().unwrap();
    (status.code(), status.signal())
}

#[test]
fn an_interrupted_build_leaves_the_old_index() {
    let folder = Folder::new();
    let index = folder.index(&vectors(100, 16, 1), "");
    let before = fs::read(&index).unwrap();
    for (signal, ended) in [("-INT", (Some(130), None)), ("-KILL", (None, Some(9)))] {
        assert_eq!(signal_a_build(&folder, signal), ended, "{signal}");
        assert!(unchanged(&index, &before), "{signal}");
        assert_eq!(folder.names(), ["items.fbin", "items.pagehop", "many.fbin"], "{signal}");
    }
}

#[test]
fn without_permission_nothing_is_touched() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let index = folder.index(&vectors(100, 16, 1), "");
    let closed = folder.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    fs::set_permissions(&index, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&index).is_ok() {
        eprintln!("skipped: this user may read everything");
        return;
    }
    for (line, name) in [
        ("build items.fbin -o closed/i", "closed/i"),
        ("info items.pagehop", "items.pagehop"),
        ("check items.pagehop", "items.pagehop"),
    ] {
        let error = folder.run(line).error(unreadable(line));
        assert!(error.contains(name), "pagehop {line}: {error}");
    }
}
