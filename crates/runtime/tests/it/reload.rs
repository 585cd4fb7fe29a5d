//! scheduler.conf edited under a running scheduler.
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use phalanx_conf::{Doc, Known};
use phalanx_runtime::reload::{ConfError, ConfFile};

fn known() -> Known {
    let doc = |name| Doc { name, args: &[] };
    Known {
        plugins: ["gang", "priority"].map(doc).to_vec(),
        actions: ["enqueue", "allocate", "backfill"].map(doc).to_vec(),
        ..Known::default()
    }
}

fn conf(actions: &str) -> String {
    format!("actions: \"{actions}\"\ntiers:\n- plugins:\n  - name: gang\n")
}

#[test]
fn a_good_edit_takes_effect_and_a_bad_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scheduler.conf");
    fs::write(&path, conf("enqueue, allocate")).unwrap();
    let mut file = ConfFile::open(Some(&path), known()).unwrap();
    assert!(file.poll().is_none(), "nothing changed");
    fs::write(&path, conf("allocate")).unwrap();
    assert_eq!(file.poll().unwrap().unwrap().actions, ["allocate"]);
    fs::write(&path, conf("allocate, alocate")).unwrap();
    let error = file.poll().unwrap().unwrap_err().to_string();
    assert!(error.contains("scheduler.conf:1:") && error.contains("alocate"), "{error}");
    assert!(file.poll().is_none(), "the same mistake is reported once");
    assert_eq!(file.conf().actions, ["allocate"]);
    fs::remove_file(&path).unwrap();
    assert!(matches!(file.poll(), Some(Err(ConfError::Unreadable { .. }))));
    assert!(file.poll().is_none(), "said once");
    fs::write(&path, conf("backfill")).unwrap();
    assert_eq!(file.poll().unwrap().unwrap().actions, ["backfill"]);
}

/// A mounted ConfigMap: the file is a link through `..data`, which is swapped for a link to another folder.
#[test]
fn a_config_map_that_swaps_its_links_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let version = |name: &str, actions: &str| {
        fs::create_dir(root.join(name)).unwrap();
        fs::write(root.join(name).join("scheduler.conf"), conf(actions)).unwrap();
    };
    version("..1", "enqueue, allocate");
    symlink("..1", root.join("..data")).unwrap();
    symlink(Path::new("..data").join("scheduler.conf"), root.join("scheduler.conf")).unwrap();
    let mut file = ConfFile::open(Some(&root.join("scheduler.conf")), known()).unwrap();
    version("..2", "allocate, backfill");
    symlink("..2", root.join("..data_tmp")).unwrap();
    fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
    fs::remove_dir_all(root.join("..1")).unwrap();
    assert_eq!(file.poll().unwrap().unwrap().actions, ["allocate", "backfill"]);
}

#[test]
fn a_bad_file_at_the_start_is_an_error_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scheduler.conf");
    assert!(matches!(ConfFile::open(Some(&path), known()), Err(ConfError::Unreadable { .. })));
    fs::write(&path, "actions: [\n").unwrap();
    let error = ConfFile::open(Some(&path), known()).unwrap_err().to_string();
    assert!(error.contains("scheduler.conf:1:"), "{error}");
}
