//! scheduler.conf edited under a running scheduler.
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use phalanx_conf::{Doc, Known};
use phalanx_runtime::metrics::Metrics;
use phalanx_runtime::reload::{ConfError, ConfFile, Rules};

fn known() -> Known {
    let doc = |name| Doc { name, args: &[] };
    Known {
        plugins: ["gang", "priority"].map(doc).to_vec(),
        actions: ["enqueue", "allocate", "backfill"].map(doc).to_vec(),
        ..Known::default()
    }
}

fn rules() -> Rules {
    Rules { known: known(), strict: false }
}

fn conf(actions: &str) -> String {
    format!("actions: \"{actions}\"\ntiers:\n- plugins:\n  - name: gang\n")
}

#[test]
fn a_good_edit_takes_effect_and_a_bad_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scheduler.conf");
    fs::write(&path, conf("enqueue, allocate")).unwrap();
    let mut file = ConfFile::open(Some(&path), rules()).unwrap();
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
fn a_configmap_that_swaps_its_links_is_reloaded() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let version = |name: &str, actions: &str| {
        fs::create_dir(root.join(name)).unwrap();
        fs::write(root.join(name).join("scheduler.conf"), conf(actions)).unwrap();
    };
    version("..1", "enqueue, allocate");
    symlink("..1", root.join("..data")).unwrap();
    symlink(Path::new("..data").join("scheduler.conf"), root.join("scheduler.conf")).unwrap();
    let mut file = ConfFile::open(Some(&root.join("scheduler.conf")), rules()).unwrap();
    version("..2", "allocate, backfill");
    symlink("..2", root.join("..data_tmp")).unwrap();
    fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
    fs::remove_dir_all(root.join("..1")).unwrap();
    assert_eq!(file.poll().unwrap().unwrap().actions, ["allocate", "backfill"]);
}

#[test]
fn an_invalid_file_at_the_start_is_an_error_with_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scheduler.conf");
    assert!(matches!(ConfFile::open(Some(&path), rules()), Err(ConfError::Unreadable { .. })));
    fs::write(&path, "actions: [\n").unwrap();
    let error = ConfFile::open(Some(&path), rules()).unwrap_err().to_string();
    assert!(error.contains("scheduler.conf:1:"), "{error}");
}

/// `plugin` for `plugins`: Volcano takes the file, and starts gangs in parts from then on.
#[test]
fn a_reload_that_would_lose_all_plugins_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scheduler.conf");
    fs::write(&path, conf("allocate, backfill")).unwrap();
    let mut file = ConfFile::open(Some(&path), rules()).unwrap();
    fs::write(&path, conf("allocate, backfill").replace("plugins:", "plugin:")).unwrap();
    let error = file.poll().unwrap().unwrap_err().to_string();
    assert!(error.contains("unknown key \"plugin\""), "{error}");
    assert_eq!(file.conf().tiers[0].plugins[0].name, "gang");
}

#[test]
fn a_strict_scheduler_refuses_warnings_and_what_is_not_supported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scheduler.conf");
    let strict = || Rules { strict: true, ..rules() };
    for (plugin, expected) in [
        ("magic", "unknown plugin \"magic\""),
        ("usage", "Volcano's plugin \"usage\" is not in this version"),
    ] {
        fs::write(&path, conf("allocate, backfill") + &format!("  - name: {plugin}\n")).unwrap();
        ConfFile::open(Some(&path), rules()).unwrap();
        let error = ConfFile::open(Some(&path), strict()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    fs::write(&path, conf("allocate, backfill")).unwrap();
    ConfFile::open(Some(&path), strict()).unwrap();
}

// What sha256sum prints.
const FIRST: &str = "d00c391a5e9172267a59b75533a77d8d2ed078e0960b33162310065e424b9bf4";
const SECOND: &str = "9af9404b1685dc94fc5f0a180c844362e742d5f15304b02d0d369d5a13c3fdfa";

/// With a paused clock, which goes on when all tasks wait.
#[tokio::test(start_paused = true)]
async fn metrics_name_the_configuration_in_force_and_whether_the_last_was_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scheduler.conf");
    fs::write(&path, "actions: \"allocate, backfill\"\ntiers: [{plugins: [{name: gang}]}]\n").unwrap();
    let file = ConfFile::open(Some(&path), rules()).unwrap();
    let since = file.in_force().since.as_second();
    let metrics = Metrics::default();
    let has =
        |line: &str| assert!(metrics.render().lines().any(|found| found == line), "{}", metrics.render());
    let info = |sha256| format!("phalanx_conf_info{{sha256=\"{sha256}\"}} 1");
    let edits = async {
        let polled = || tokio::time::sleep(std::time::Duration::from_secs(2));
        polled().await;
        has(&info(FIRST));
        has(&format!("phalanx_conf_loaded_timestamp_seconds {since}"));
        has("phalanx_conf_last_reload_successful 1");
        fs::write(&path, "actions: alocate\n").unwrap();
        polled().await;
        has(&info(FIRST));
        has("phalanx_conf_last_reload_successful 0");
        fs::write(&path, "actions: \"allocate, backfill\"\ntiers: [{plugins: [{name: priority}]}]\n")
            .unwrap();
        polled().await;
        has(&info(SECOND));
        has("phalanx_conf_last_reload_successful 1");
        assert!(!metrics.render().contains(FIRST));
        fs::remove_file(&path).unwrap();
        polled().await;
        has("phalanx_conf_last_reload_successful 0");
        fs::write(&path, "actions: \"allocate, backfill\"\ntiers: [{plugins: [{name: priority}]}]\n")
            .unwrap();
        polled().await;
        has("phalanx_conf_last_reload_successful 1");
    };
    tokio::select! {
        () = file.follow(&metrics, |_| ()) => panic!("a file is followed for ever"),
        () = edits => {}
    }
}
