//! The corpus: files that both kinds of runs begin with.
use std::fs;
use std::path::{Path, PathBuf};

use phalanx_fuzzing::TARGETS;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The files of a target, by name.
pub(crate) fn files(target: &str) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder().join("corpus").join(target)).unwrap();
    let named =
        |path: PathBuf| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap());
    let mut files: Vec<_> = entries.map(|entry| named(entry.unwrap().path())).collect();
    files.sort();
    files
}

#[test]
fn each_target_has_a_corpus_of_small_files_and_is_run_by_cargo_fuzz() {
    let manifest = fs::read_to_string(folder().join("Cargo.toml")).unwrap();
    for target in TARGETS {
        let files = files(target.name);
        assert!(files.len() >= 5, "{}: {} files", target.name, files.len());
        for (name, bytes) in files {
            assert!(bytes.len() <= 8 << 10, "{}/{name}: {} bytes", target.name, bytes.len());
        }
        let program = folder().join("fuzz_targets").join(format!("{}.rs", target.name));
        let program = fs::read_to_string(program).unwrap();
        assert!(program.contains(&format!("phalanx_fuzzing::{}(", target.name)), "{program}");
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)));
    }
}
