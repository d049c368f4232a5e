//! Helpers of all tests of the command: a folder, files of vectors, and a way to run the command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The words that run the program, with the emulator that runs this test, if there is one.
fn program() -> Vec<String> {
    let emulator = std::env::var("PAGEHOP_TEST_EMULATOR").ok();
    emulator.into_iter().chain([env!("CARGO_BIN_EXE_pagehop").to_string()]).collect()
}

/// A folder for one test. It is removed when this is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("pagehop-cli-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The path of a file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file into the folder.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes a .fbin file into the folder.
    pub(crate) fn fbin(&self, name: &str, vectors: &[Vec<f32>]) -> PathBuf {
        self.write(name, fbin(vectors))
    }

    /// The names of all files in the folder, also of hidden ones, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The command with the words of `line`, to be run in this folder.
    pub(crate) fn command(&self, line: &str) -> Command {
        let program = program();
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]).args(line.split_whitespace()).current_dir(&self.0).stdin(Stdio::null());
        command
    }

    /// A shell that runs `script` in this folder. The script's arguments, `"$@"`, are the command.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut shell = Command::new("bash");
        shell.args(["-c", script, "bash"]).args(program()).current_dir(&self.0);
        shell
    }

    /// Runs `pagehop` with the words of `line` in this folder.
    pub(crate) fn run(&self, line: &str) -> Run {
        Run::of(&mut self.command(line))
    }

    /// Builds `items.pagehop` over `vectors`.
    pub(crate) fn index(&self, vectors: &[Vec<f32>], options: &str) -> PathBuf {
        self.fbin("items.fbin", vectors);
        self.run(&format!("build items.fbin -o items.pagehop --quiet {options}")).ok();
        self.path("items.pagehop")
    }

    /// The report of `info` about `index`.
    pub(crate) fn info(&self, index: &str) -> serde_json::Value {
        json_lines(&self.run(&format!("info {index} --json")).ok()).remove(0)
    }

    /// The number of rows of `index`.
    pub(crate) fn rows(&self, index: &str) -> u64 {
        self.info(index)["rows"].as_u64().unwrap()
    }
}

/// A command that runs beside the test. It is killed when this is dropped.
pub(crate) struct Running(Child);

impl Running {
    /// Starts `line`, which adds to `index`, and waits until the index has `rows` rows.
    pub(crate) fn add(folder: &Folder, line: &str, index: &str, rows: u64) -> Self {
        let child = folder.command(line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut running = Self(child);
        let began = Instant::now();
        while folder.rows(index) < rows {
            assert!(running.0.try_wait().unwrap().is_none(), "the command ended before {rows} rows were seen");
            assert!(began.elapsed() < Duration::from_secs(600), "{rows} rows did not come");
        }
        running
    }

    /// Sends a signal, such as `-STOP`.
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap();
        assert!(sent.success(), "the command has ended already");
    }

    /// Kills the command.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits until the command ends. Returns its code and its standard error.
    pub(crate) fn end(mut self) -> Run {
        let (mut text, mut stderr) = (Vec::new(), self.0.stderr.take().unwrap());
        std::io::Read::read_to_end(&mut stderr, &mut text).unwrap();
        let code = self.0.wait().unwrap().code();
        Run { code, stdout: String::new(), stderr: String::from_utf8(text).unwrap() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The exit code of a command, and its output.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Runs `command` to its end.
    pub(crate) fn of(command: &mut Command) -> Self {
        command.output().unwrap().into()
    }

    /// Standard output. Fails unless the run succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    /// Standard error. Fails unless the run ended with `code` and one error, without a panic.
    #[track_caller]
    pub(crate) fn error(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        self.stderr
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// `rows` vectors around a few centers, from `seed`.
pub(crate) fn vectors(rows: usize, dim: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let centers: Vec<Vec<f32>> = (0..8).map(|_| (0..dim).map(|_| next() * 4.0).collect()).collect();
    (0..rows).map(|row| centers[row % 8].iter().map(|&center| center + next()).collect()).collect()
}

/// The bytes of a .fbin file.
pub(crate) fn fbin(vectors: &[Vec<f32>]) -> Vec<u8> {
    let dim = vectors.first().map_or(0, Vec::len);
    let mut bytes = (vectors.len() as u32).to_le_bytes().to_vec();
    bytes.extend((dim as u32).to_le_bytes());
    bytes.extend(vectors.iter().flatten().flat_map(|x| x.to_le_bytes()));
    bytes
}

/// The numbers of the `k` vectors nearest to `query`, by squared Euclidean distance.
pub(crate) fn nearest(vectors: &[Vec<f32>], query: &[f32], k: usize) -> Vec<u64> {
    let distance = |vector: &[f32]| -> f32 { vector.iter().zip(query).map(|(x, y)| (x - y) * (x - y)).sum() };
    let mut order: Vec<(f32, u64)> =
        vectors.iter().zip(0..).map(|(vector, number)| (distance(vector), number)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    order.truncate(k);
    order.into_iter().map(|(_, number)| number).collect()
}

/// The bytes of a .ibin file.
pub(crate) fn ibin(rows: &[Vec<u64>]) -> Vec<u8> {
    let mut bytes = (rows.len() as u32).to_le_bytes().to_vec();
    bytes.extend((rows[0].len() as u32).to_le_bytes());
    bytes.extend(rows.iter().flatten().flat_map(|&id| (id as u32).to_le_bytes()));
    bytes
}

/// Each line of `text` as JSON.
pub(crate) fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether the bytes of `path` are still those `before`.
pub(crate) fn unchanged(path: &Path, before: &[u8]) -> bool {
    fs::read(path).is_ok_and(|now| now == before)
}
