//! Wrong use of the command: the exit code is 2, standard error says what is wrong, and no file
//! changes.

use crate::support::{Folder, unchanged, vectors};

#[test]
fn wrong_arguments_are_refused_with_code_2() {
    let folder = Folder::new();
    for (line, expected) in [
        ("build", "<VECTORS>"),
        ("build v.npy", "--output"),
        ("build v.npy -o i --metric manhattan", "l2, ip, cosine"),
        ("build v.npy -o i --vectors half", "codes, float16, float32"),
        ("build v.npy -o i --memory lots", "size \"lots\""),
        ("build v.npy -o i --memory -1", "-1"),
        ("build v.npy -o i --threads 4097", "from 0 to 4096"),
        ("delete i ids.txt --auto-vacuum=-0.1", "it must be a number from 0 on, or `off`"),
        ("add i v.npy --auto-vacuum nan", "it must be a number from 0 on, or `off`"),
        ("calibrate i --auto-vacuum off", "'--auto-vacuum'"),
        ("retrain i --auto-vacuum off", "'--auto-vacuum'"),
        ("vacuum i --auto-vacuum off", "'--auto-vacuum'"),
        ("build v.npy -o i --seed=-3", "-3"),
        ("search i q.npy -k 0", "from 1 to"),
        ("search i q.npy -k 99999999999999999999", "from 1 to"),
        ("search i q.npy --search-list 0", "from 1 to"),
        ("search i q.npy --slack -1", "-1"),
        ("search i q.npy --slack=nan", "from 0 up"),
        ("search i q.npy --beam-width 1000", "from 1 to"),
        ("search i q.npy --cache 1XB", "unknown unit"),
        ("search i q.npy --output found.txt", "must end in .npy"),
        ("search i q.npy --recall 0", "above 0 and at most 1"),
        ("search i q.npy --recall 1.1", "above 0 and at most 1"),
        ("search i q.npy --recall 0.9 --slack 0.1", "cannot be used with"),
        ("recall i --recall 1.5", "above 0 and at most 1"),
        ("recall i --samples 0", "from 1 to"),
        ("recall i --samples 5 --queries q.npy", "cannot be used with"),
        ("calibrate", "<INDEX>"),
        ("search i", "<QUERIES>"),
        ("info", "<INDEX>"),
        ("check i --repair", "--repair"),
        ("create i", "--dim"),
        ("create i --dim 3 --metric manhattan", "l2, ip, cosine"),
        ("create i --dim 0", "0 dimensions"),
        ("create i --dim 4097", "4097 dimensions"),
        ("add i", "<VECTORS>"),
        ("add i v.npy --batch 0", "from 1 to"),
        ("add i v.npy --durability never", "commit, checkpoint"),
        ("delete i", "<IDS>"),
        ("vacuum", "<INDEX>"),
        ("checkpoint", "<INDEX>"),
        ("frobnicate", "frobnicate"),
    ] {
        let error = folder.run(line).error(2);
        assert!(error.contains(expected), "pagehop {line}: {error}");
    }
    assert!(folder.names().is_empty());
}

#[test]
fn help_and_version_go_to_standard_output() {
    let folder = Folder::new();
    let help = folder.run("--help").ok();
    for word in [
        "build",
        "create",
        "add",
        "delete",
        "vacuum",
        "checkpoint",
        "search",
        "calibrate",
        "recall",
        "info",
        "check",
    ] {
        assert!(help.contains(word), "{help}");
        assert!(folder.run(&format!("{word} --help")).ok().contains("Usage"));
    }
    assert!(help.contains("Exit codes: 0 success; 1 failure"), "{help}");
    assert!(folder.run("--version").ok().starts_with("pagehop "));
}

#[test]
fn missing_files_are_named() {
    let folder = Folder::new();
    folder.fbin("v.fbin", &vectors(10, 4, 1));
    folder.write("ids.txt", "1\n");
    for (line, name) in [
        ("build missing.npy -o i", "missing.npy"),
        ("build v.fbin -o i --ids missing.txt", "missing.txt"),
        ("build v.fbin -o no/such/folder/i", "no/such/folder"),
        ("search missing.pagehop v.fbin", "missing.pagehop"),
        ("info missing.pagehop", "missing.pagehop"),
        ("create no/such/folder/i --dim 4", "no/such/folder"),
        ("add missing.pagehop v.fbin", "missing.pagehop"),
        ("delete missing.pagehop ids.txt", "missing.pagehop"),
        ("vacuum missing.pagehop", "missing.pagehop"),
        ("checkpoint missing.pagehop", "missing.pagehop"),
        ("add v.fbin missing.npy", "missing.npy"),
        ("delete v.fbin missing.txt", "missing.txt"),
    ] {
        let error = folder.run(line).error(1);
        assert!(error.contains(name), "pagehop {line}: {error}");
    }
    assert_eq!(folder.names(), ["ids.txt", "v.fbin"]);
}

#[test]
fn a_file_is_overwritten_only_with_the_option() {
    let folder = Folder::new();
    let v = folder.fbin("v.fbin", &vectors(10, 4, 1));
    let precious = folder.write("precious", "not to be lost");
    for line in ["build v.fbin -o precious", "create precious --dim 4"] {
        let error = folder.run(line).error(2);
        assert!(error.contains("precious exists already; --overwrite"), "{error}");
    }
    assert!(unchanged(&precious, b"not to be lost"));

    let before = std::fs::read(&v).unwrap();
    for line in ["build v.fbin -o v.fbin --overwrite", "build v.fbin -o ./../$/v.fbin --overwrite"] {
        let folder_name = folder.path("");
        let folder_name = folder_name.file_name().unwrap().to_str().unwrap();
        let error = folder.run(&line.replace('$', folder_name)).error(2);
        assert!(error.contains("while it is read"), "{error}");
    }
    assert!(unchanged(&v, &before));

    let error = folder.run("build v.fbin -o . --overwrite").error(2);
    assert!(error.contains("not a file"), "{error}");
}

#[test]
fn bad_vectors_end_a_build_before_it_begins() {
    let folder = Folder::new();
    folder.write("v.csv", "1,2,3");
    folder.write("cut.fbin", [1, 0, 0, 0, 4, 0, 0, 0, 0]);
    folder.fbin("v.fbin", &vectors(3, 4, 1));
    folder.write("ids.txt", "1\n2\n");
    for (line, expected) in [
        ("build v.csv -o i", "must end in .npy"),
        ("build cut.fbin -o i", "24 bytes in all; the file has 9, 15 fewer"),
        ("build v.fbin -o i --ids ids.txt", "holds 2 ids for 3 vectors"),
    ] {
        let error = folder.run(line).error(1);
        assert!(error.contains(expected), "pagehop {line}: {error}");
    }
    assert!(!folder.path("i").exists());
}
