//! No acknowledged commit is lost, however the index is opened and whatever happens to the names of
//! its files: relative paths, links, other mounts, copies, and cleaners that remove files in use.
//!
//! The other process is this program, which starts itself again: see [`Other`].

#[path = "../support/mod.rs"]
mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use pagehop_engine::{CreateOptions, Error, Index};
use pagehop_store::{AddOptions, NewIndexFile, OpenOptions, add, create, open};
use support::{Scratch, this_command, this_program};

/// Set for the child, which carries out orders.
const CHILD: &str = "PAGEHOP_TEST_IDENTITY";
const DIM: usize = 4;

fn writing() -> OpenOptions {
    OpenOptions { write: true, ..OpenOptions::default() }
}

fn reading() -> OpenOptions {
    OpenOptions::default()
}

/// Adds `count` rows in one commit. Their ids begin at `first`.
macro_rules! add_rows {
    ($index:expr, $first:expr, $count:expr) => {{
        let (first, count): (u64, u64) = ($first, $count);
        let ids: Vec<u64> = (first..first + count).collect();
        let vectors: Vec<f32> =
            ids.iter().flat_map(|&id| (0..DIM as u64).map(move |at| (id * 7 + at) as f32)).collect();
        add(&$index, &ids, &vectors, AddOptions::default(), &mut |_| ControlFlow::Continue(()))
    }};
}

fn rows_of<P: pagehop_engine::Pages>(index: &Index<P>) -> u64 {
    index.info().unwrap().rows
}

/// The number of rows that a process sees which opens the index at `path` now.
fn rows_at(path: &Path) -> Result<u64, Error> {
    Ok(open(path, &reading())?.info()?.rows)
}

#[track_caller]
fn expect_error(result: Result<impl Sized, Error>, words: &[&str]) -> Error {
    let error = result.err().expect("an error");
    for word in words {
        assert!(error.to_string().contains(word), "{error}, expected {word:?}");
    }
    error
}

/// An index without rows.
fn empty(path: &Path) {
    create(path, DIM, &CreateOptions::default(), false).unwrap();
}

/// Makes an index with 100 rows in its log, which is not closed.
fn unclosed(path: &Path) {
    empty(path);
    let index = open(path, &writing()).unwrap();
    add_rows!(index, 0, 100).unwrap();
    drop(index);
    assert!(beside(path, "-log").exists());
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Another process. Each line on its input is an order.
struct Other {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn new() -> Self {
        Self::of(&mut this_command())
    }

    fn of(command: &mut Command) -> Self {
        command.args(["--exact", "child_carries_out_orders", "--nocapture"]).env(CHILD, "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output).lines() }
    }

    /// A process with its own mounts, where `from` is also at `to`; `None` if the system does not
    /// allow it.
    fn with_mount(from: &Path, to: &Path) -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", r#"mount --bind "$0" "$1" && shift 1 && exec "$@""#]);
        command.args([from, to]).args(this_program());
        let probe =
            Command::new("unshare").args(["-m", "sh", "-c", r#"mount --bind "$0" "$1""#]).args([from, to]).output();
        match probe {
            Ok(output) if output.status.success() => Some(Self::of(&mut command)),
            Ok(output) => {
                println!("skipped: no mounts here: {}", String::from_utf8_lossy(&output.stderr));
                None
            }
            Err(error) => {
                println!("skipped: unshare cannot be run: {error}");
                None
            }
        }
    }

    /// The answer of the child to an order.
    #[track_caller]
    fn ask(&mut self, order: &str, path: &Path) -> String {
        writeln!(self.input, "{order} {}", path.display()).unwrap();
        let answer = self.output.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, answer) = line.split_once("answer: ")?;
            Some(answer.to_owned())
        });
        answer.unwrap_or_else(|| panic!("the child ended before it answered {order:?}"))
    }

    fn kill(self) {}

    /// Ends the child, which does not close what it has open.
    fn leave(mut self) {
        writeln!(self.input, "leave ").unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

/// Runs as a child: see [`Other`].
#[test]
fn child_carries_out_orders() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let (mut index, mut sink) = (None, None);
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (order, path) = line.split_once(' ').unwrap();
        let path = Path::new(path);
        let opened = |options| match open(path, &options) {
            Ok(opened) => (Some(opened), "open".to_owned()),
            Err(error) => (None, error.to_string()),
        };
        let answer = match order {
            "go" => {
                std::env::set_current_dir(path).unwrap();
                "gone".into()
            }
            "create" => {
                empty(path);
                "created".into()
            }
            "begin" => {
                sink = Some(NewIndexFile::create(path, false).unwrap());
                "begun".into()
            }
            "finish" => {
                let mut sink = sink.take().unwrap();
                pagehop_engine::create(DIM, &CreateOptions::default(), &mut sink).unwrap();
                sink.finish().unwrap();
                "finished".into()
            }
            "read" | "write" => {
                let (opened, answer) = opened(if order == "write" { writing() } else { reading() });
                index = opened;
                answer
            }
            "add" => match add_rows!(index.as_ref().unwrap(), rows_of(index.as_ref().unwrap()), 100) {
                Ok(_) => "added".into(),
                Err(error) => error.to_string(),
            },
            "rows" => {
                index.as_ref().unwrap().info().map_or_else(|error| error.to_string(), |info| info.rows.to_string())
            }
            "close" => index
                .take()
                .unwrap()
                .into_pages()
                .close()
                .map_or_else(|error| error.to_string(), |()| "closed".into()),
            // Nothing is dropped, as in a program that ends without closing the index.
            "leave" => std::process::exit(0),
            _ => panic!("unknown order {order:?}"),
        };
        println!("\nanswer: {answer}");
    }
}

// The modules follow the macro that they use.
mod logs;
mod names;
mod places;
