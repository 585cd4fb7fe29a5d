//! `phalanx conf`: check, diff, show.
use crate::run::{folder, phalanx, phalanx_in};

const BAD: &str = "actions: \"enqueue, alocate\"\ntiers:\n- plugins:\n  - name: gang\n    enableJobOrdr: true\n  - name: ganng\n";

#[test]
fn check_prints_each_problem_with_its_place_and_fails() {
    let folder = folder(&[("conf.yaml", BAD)]);
    let ran = phalanx_in(folder.path(), &["conf", "check", "conf.yaml"], "");
    assert_eq!(ran.code, 2, "{ran:?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(
        lines.iter().any(|line| line.starts_with("conf.yaml:5:5: ") && line.contains("enableJobOrdr")),
        "{lines:?}"
    );
    assert!(
        lines.iter().any(|line| line.starts_with("conf.yaml:6:11: warning: ") && line.contains("ganng")),
        "{lines:?}"
    );
    assert!(lines[0].starts_with("conf.yaml:1:") && lines[0].contains(": error: "), "{lines:?}");
    assert_eq!(ran.stderr, "error: conf.yaml: errors: 1, warnings: 2\n");
}

#[test]
fn check_is_silent_on_the_files_that_are_shipped() {
    for entry in std::fs::read_dir(crate::run::repository().join("config")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let ran = phalanx(&["conf", "check", "--strict", path.to_str().unwrap()]);
            assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
        }
    }
}

#[test]
fn warnings_fail_only_when_strict() {
    let folder = folder(&[(
        "conf.yaml",
        "actions: \"allocate\"\ntiers:\n- plugins:\n  - name: gang\n    note: mine\n",
    )]);
    let plain = phalanx_in(folder.path(), &["conf", "check", "conf.yaml"], "");
    assert_eq!(plain.code, 0, "{plain:?}");
    assert!(plain.stdout.starts_with("conf.yaml:5:5: warning: "), "{plain:?}");
    let strict = phalanx_in(folder.path(), &["conf", "check", "--strict", "conf.yaml"], "");
    assert_eq!((strict.code, strict.stdout), (2, plain.stdout));
}

#[test]
fn diff_tells_what_differs_in_meaning() {
    let ran = phalanx(&["conf", "diff", "config/default.yaml", "config/helm-default.yaml"]);
    assert!(ran.text().lines().any(|line| line.contains("binpack")), "{ran:?}");
    assert_eq!(phalanx(&["conf", "diff", "config/default.yaml", "config/default.yaml"]).text(), "");
}

#[test]
fn what_show_prints_means_the_same_as_the_file() {
    let shown = phalanx(&["conf", "show", "config/helm-default.yaml"]);
    let folder = folder(&[("shown.yaml", shown.text())]);
    let original = crate::run::repository().join("config/helm-default.yaml");
    let ran = phalanx_in(folder.path(), &["conf", "diff", original.to_str().unwrap(), "shown.yaml"], "");
    assert_eq!(ran.text(), "");
    assert_eq!(phalanx(&["conf", "show"]).text(), phalanx(&["conf", "show", "config/default.yaml"]).text());
}

#[test]
fn the_reference_page_is_fresh() {
    let page =
        std::fs::read_to_string(crate::run::repository().join("docs/reference/scheduler-conf.md")).unwrap();
    let fresh = phalanx(&["conf", "reference"]);
    assert!(fresh.text() == page, "stale: phalanx conf reference > docs/reference/scheduler-conf.md");
}
