//! `phalanx crds`: printed and written.
use crate::run::{folder, phalanx, phalanx_in};

#[test]
fn definitions_are_printed_or_written_to_a_folder() {
    let printed = phalanx(&["crds"]);
    for name in ["podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh"] {
        assert!(printed.text().contains(name), "{name}");
    }
    let folder = folder(&[]);
    assert_eq!(phalanx_in(folder.path(), &["crds", "--dir", "out"], "").text(), "");
    let mut files: Vec<String> = std::fs::read_dir(folder.path().join("out"))
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    files.sort();
    let mut parts: Vec<String> = printed.stdout.split("---\n").map(ToOwned::to_owned).collect();
    parts.sort();
    assert_eq!(files, parts);
}

#[test]
fn a_folder_that_cannot_be_created_is_an_error() {
    let folder = folder(&[("file", "")]);
    let ran = phalanx_in(folder.path(), &["crds", "--dir", "file/x"], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert_eq!(ran.stderr, "error: --dir file/x: cannot be created: Not a directory\n");
}
