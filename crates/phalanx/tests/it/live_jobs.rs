//! `phalanx job`: requests, messages and exit codes.
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::api_server::{ApiServer, refusal};
use crate::run::{folder, phalanx_in};

const JOBS: &str = "/apis/batch.volcano.sh/v1alpha1/namespaces/test/jobs";

#[test]
fn run_creates_a_job_and_says_so() {
    let server = ApiServer::always(&json!({"metadata": {"name": "train"}}));
    let ran =
        server.phalanx(&["job", "run", "-n", "test", "-N", "train", "-r", "3", "-m", "2", "-i", "nginx"]);
    assert_eq!(ran.text(), "run job train successfully\n");
    let [request] = &server.seen()[..] else { panic!("{:?}", server.lines()) };
    assert_eq!(request.line, format!("POST {JOBS}"));
    assert_eq!(request.body["spec"]["minAvailable"], 2);
    assert_eq!(request.body["spec"]["tasks"][0]["replicas"], 3);
}

#[test]
fn run_creates_the_job_of_a_file_in_its_namespace() {
    let folder = folder(&[("job.yaml", "metadata: {name: a, namespace: test}\nspec: {minAvailable: 1}\n")]);
    let file = folder.path().join("job.yaml");
    let server = ApiServer::always(&json!({"metadata": {"name": "a"}}));
    let ran = server.phalanx(&["job", "run", "-f", file.to_str().unwrap()]);
    assert_eq!(ran.text(), "run job a successfully\n");
    assert_eq!(server.lines(), [format!("POST {JOBS}")]);
    server.phalanx(&["job", "run", "-n", "other", "-f", file.to_str().unwrap()]).text();
    assert_eq!(server.lines()[1], "POST /apis/batch.volcano.sh/v1alpha1/namespaces/other/jobs");
}

#[test]
fn list_asks_for_a_namespace_or_for_all() {
    let server = ApiServer::always(&json!({"items": null}));
    for (flags, path) in [
        (&[][..], "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"),
        (&["-n", "test"], JOBS),
        (&["-n", "test", "--all-namespaces"], "/apis/batch.volcano.sh/v1alpha1/jobs"),
        (&["--all-namespaces=false", "-n=test"], JOBS),
        (&["-n", ""], "/apis/batch.volcano.sh/v1alpha1/jobs"),
    ] {
        let ran = server.phalanx(&[&["job", "list"], flags].concat());
        assert_eq!(ran.text(), "No resources found\n");
        assert_eq!(server.lines().pop().unwrap(), format!("GET {path}"), "{flags:?}");
    }
}

#[test]
fn view_shows_a_job_with_its_events() {
    let event = |name: &str, uid: &str, message: &str| {
        json!({
            "metadata": {"name": name}, "involvedObject": {"uid": uid}, "type": "Normal",
            "reason": "ExecuteAction", "message": message,
        })
    };
    let earlier = event("a.2", "u0", "another's of this name");
    let events = json!({"items": [event("a.1", "u1", "mine"), event("ab.1", "u1", "another's"), earlier]});
    let server = ApiServer::start(move |line| match line {
        line if line.ends_with("/events") => (200, events.clone()),
        _ => {
            (200, json!({"metadata": {"name": "a", "namespace": "test", "uid": "u1"}, "spec": {"tasks": []}}))
        }
    });
    let ran = server.phalanx(&["job", "view", "-n", "test", "-N", "a"]);
    assert!(ran.text().starts_with("Name:       \ta\nNamespace:  \ttest\n"), "{ran:?}");
    assert!(ran.text().contains("mine") && !ran.text().contains("another's"), "{ran:?}");
    let events = "GET /api/v1/namespaces/test/events?&fieldSelector=involvedObject.name%3Da";
    assert_eq!(server.lines(), [format!("GET {JOBS}/a"), events.to_owned()]);
    let yaml = server.phalanx(&["job", "view", "-n", "test", "-N", "a", "-o", "yaml"]);
    assert!(yaml.text().starts_with("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n"), "{yaml:?}");
}

#[test]
fn view_without_the_right_to_list_events_still_shows_the_job() {
    let server = ApiServer::start(|line| match line {
        line if line.ends_with("/events") => refusal(403, "events is forbidden"),
        _ => (200, json!({"metadata": {"name": "a"}})),
    });
    let ran = server.phalanx(&["job", "view", "-N", "a"]);
    assert!(ran.text().ends_with("Events: \t<none>\n"), "{ran:?}");
    assert_eq!(ran.stderr, "Failed to list events: events is forbidden\n");
}

#[test]
fn suspend_and_resume_create_commands() {
    for (what, action) in [("suspend", "AbortJob"), ("resume", "ResumeJob")] {
        let server = ApiServer::always(&json!({"metadata": {"name": "a", "namespace": "test", "uid": "u1"}}));
        let ran = server.phalanx(&["job", what, "-n", "test", "-N", "a"]);
        assert_eq!((ran.text(), &*ran.stderr), ("", ""), "vcctl prints nothing");
        let commands = "POST /apis/bus.volcano.sh/v1alpha1/namespaces/test/commands";
        assert_eq!(server.lines(), [format!("GET {JOBS}/a"), commands.to_owned()]);
        let command = server.seen().pop().unwrap().body;
        assert_eq!(command["action"], action);
        assert_eq!((&command["target"]["uid"], &command["target"]["kind"]), (&json!("u1"), &json!("Job")));
    }
}

#[test]
fn delete_deletes_and_says_so() {
    let server = ApiServer::always(&json!({"metadata": {"name": "testJob"}}));
    let ran = server.phalanx(&["job", "delete", "-n", "test", "-N", "testJob"]);
    assert_eq!(ran.text(), "delete job testJob successfully\n");
    assert_eq!(server.lines(), [format!("DELETE {JOBS}/testJob")]);
}

#[test]
fn without_a_name_nothing_is_asked_of_the_api_server() {
    let server = ApiServer::always(&json!({}));
    for (what, expected) in [
        ("run", "job name cannot be left blank"),
        ("view", "job name (specified by --name or -N) is mandatory to view a particular job"),
        ("suspend", "job name is mandatory to suspend a particular job"),
        ("resume", "job name is mandatory to resume a particular job"),
        ("delete", "job name is mandatory to delete a particular job"),
    ] {
        let ran = server.phalanx(&["job", what]);
        assert_eq!((ran.code, ran.stderr), (2, format!("error: {expected}\n")));
    }
    assert_eq!(server.lines(), [""; 0]);
}

#[test]
fn what_the_api_server_refuses_is_one_line() {
    let server = ApiServer::start(|_| refusal(404, "jobs.batch.volcano.sh \"a\" not found"));
    for what in ["view", "suspend", "resume", "delete"] {
        let ran = server.phalanx(&["job", what, "-N", "a"]);
        let expected = "error: jobs.batch.volcano.sh \"a\" not found\n";
        assert_eq!((ran.code, &*ran.stderr), (1, expected), "{what}");
    }
    let ran = server.phalanx(&["job", "view", "-N", "a/b"]);
    assert_eq!(ran.stderr, "error: invalid resource name \"a/b\": [may not contain '/']\n");
}

#[test]
fn a_request_is_sent_again_when_the_api_server_asks_for_it() {
    let asked = AtomicUsize::new(0);
    let server = ApiServer::start(move |_| {
        if asked.fetch_add(1, Ordering::Relaxed) > 0 {
            return (200, json!({"items": []}));
        }
        let (code, mut status) = refusal(429, "storage is (re)initializing");
        status["details"] = json!({"retryAfterSeconds": 1});
        (code, status)
    });
    assert_eq!(server.phalanx(&["job", "list"]).text(), "No resources found\n");
    assert_eq!(server.lines().len(), 2);
}

#[test]
fn an_api_server_that_is_not_there_is_an_error_of_one_line() {
    let folder = folder(&[]);
    for args in [&["job", "list"][..], &["queue", "list"], &["job", "run", "-N", "a"]] {
        let ran = phalanx_in(folder.path(), &[args, &["--master", "http://127.0.0.1:1"]].concat(), "");
        let expected = "error: the API server http://127.0.0.1:1/ cannot be reached: ";
        assert!(ran.code == 1 && ran.stderr.starts_with(expected), "{ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    }
    let ran = phalanx_in(folder.path(), &["job", "list", "--kubeconfig", "none"], "");
    assert_eq!(
        (ran.code, &*ran.stderr),
        (2, "error: --kubeconfig none: cannot be read: No such file or directory\n")
    );
}
