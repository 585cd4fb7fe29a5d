//! `phalanx queue`: requests, messages and exit codes.
use serde_json::{Value, json};

use crate::api_server::{ApiServer, refusal};

const QUEUES: &str = "/apis/scheduling.volcano.sh/v1beta1/queues";
const GROUPS: &str = "/apis/scheduling.volcano.sh/v1beta1/podgroups";

const TITLES: &str =
    "Name                     Weight  State   Parent  Inqueue Pending Running Unknown Completed";

/// Two queues, and PodGroups of them and of one that is gone.
fn residual() -> ApiServer {
    let named =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"weight": 1}, "status": {"state": "Open"}});
    let group = |queue: &str| json!({"spec": {"queue": queue}, "status": {"phase": "Running"}});
    let queues = json!({"items": [named("testQueue1"), named("testQueue2")]});
    let groups = json!({"items": [group("testQueue1"), group("testQueue2"), group("testQueue3")]});
    ApiServer::start(move |line| match line {
        line if line.ends_with("queues") => (200, queues.clone()),
        line if line.ends_with("podgroups") => (200, groups.clone()),
        _ => (200, named("testQueue1")),
    })
}

#[test]
fn list_counts_pod_groups_by_queue() {
    let server = residual();
    let line = |name: &str| {
        format!("{name}               1       Open            0       0       1       0       0       \n")
    };
    let expected = format!("{TITLES}\n{}{}", line("testQueue1"), line("testQueue2"));
    assert_eq!(server.phalanx(&["queue", "list"]).text(), expected);
    assert_eq!(server.lines(), [format!("GET {QUEUES}"), format!("GET {GROUPS}")]);
    let json = server.phalanx(&["queue", "list", "-o", "json"]).json();
    assert_eq!(json["items"][1]["metadata"]["name"], "testQueue2");
}

#[test]
fn get_shows_one_queue() {
    let server = residual();
    let ran = server.phalanx(&["queue", "get", "-n", "testQueue1"]);
    let line = "testQueue1               1       Open            0       0       1       0       0       ";
    assert_eq!(ran.text(), format!("{TITLES}\n{line}\n"));
    assert_eq!(server.lines(), [format!("GET {QUEUES}/testQueue1"), format!("GET {GROUPS}")]);
    let yaml = server.phalanx(&["queue", "get", "-n", "testQueue1", "-o", "yaml"]);
    assert!(yaml.text().contains("kind: Queue\n"), "{yaml:?}");
}

#[test]
fn an_empty_list_says_so() {
    let server = ApiServer::always(&json!({"items": []}));
    assert_eq!(server.phalanx(&["queue", "list"]).text(), "No resources found\n");
}

#[test]
fn lists_of_pod_groups_that_are_refused_are_errors_in_vcctls_words() {
    let server = ApiServer::start(|line| match line {
        line if line.ends_with("podgroups") => refusal(403, "forbidden"),
        line if line.ends_with("queues") => (200, json!({"items": [{}]})),
        _ => (200, json!({})),
    });
    let list = server.phalanx(&["queue", "list"]);
    assert_eq!((list.code, &*list.stderr), (1, "error: failed to list podgroups with err: forbidden\n"));
    let get = server.phalanx(&["queue", "get", "-n", "q"]);
    assert_eq!(get.stderr, "error: failed to list podgroup for queue q with err: forbidden\n");
}

#[test]
fn create_creates_a_queue_and_closes_it_on_request() {
    let server = ApiServer::always(&json!({"metadata": {"name": "q", "uid": "u1"}}));
    let ran = server.phalanx(&["queue", "create", "-n", "q", "-w", "4"]);
    assert_eq!((ran.text(), server.lines()), ("", vec![format!("POST {QUEUES}")]));
    assert_eq!(server.seen()[0].body["spec"], json!({"weight": 4}));
    server.phalanx(&["queue", "create", "-n", "q", "--state", "Closed"]).text();
    let commands = "POST /apis/bus.volcano.sh/v1alpha1/namespaces/default/commands";
    assert_eq!(server.lines()[1..], [&*format!("POST {QUEUES}"), &format!("GET {QUEUES}/q"), commands]);
}

#[test]
fn operate_opens_closes_and_changes_queues() {
    let commands = "POST /apis/bus.volcano.sh/v1alpha1/namespaces/default/commands";
    for (flags, method, body) in [
        (&["-a", "open"][..], commands.to_owned(), json!("OpenQueue")),
        (&["-a", "close"], commands.to_owned(), json!("CloseQueue")),
        (&["-a", "update", "-w", "3"], format!("PATCH {QUEUES}/q"), Value::Null),
    ] {
        let server = ApiServer::always(&json!({"metadata": {"name": "q", "uid": "u1"}}));
        let ran = server.phalanx(&[&["queue", "operate", "-n", "q"], flags].concat());
        assert_eq!(ran.text(), "", "vcctl prints nothing");
        let request = server.seen().pop().unwrap();
        assert_eq!((&request.line, &request.body["action"]), (&method, &body), "{flags:?}");
    }
}

#[test]
fn what_is_missing_is_named_in_vcctls_words() {
    let server = ApiServer::always(&json!({}));
    for (args, expected) in [
        (&["get"][..], "name is mandatory to get the particular queue details"),
        (&["delete"], "queue name must be specified"),
        (&["operate"], "queue name must be specified"),
        (&["operate", "-n", "q"], "action can not be null"),
        (
            &["operate", "-n", "q", "-a", "update"],
            "when update queue q, weight must be specified, the value must be greater than 0",
        ),
        (&["operate", "-n", "q", "-a", "x"], "action x invalid, valid actions are open, close and update"),
    ] {
        let ran = server.phalanx(&[&["queue"], args].concat());
        assert_eq!((ran.code, ran.stderr), (2, format!("error: {expected}\n")));
    }
    assert_eq!(server.lines(), [""; 0]);
}

#[test]
fn delete_deletes_without_a_word() {
    let server = ApiServer::always(&json!({"metadata": {"name": "q"}}));
    assert_eq!(server.phalanx(&["queue", "delete", "-n", "q"]).text(), "");
    assert_eq!(server.lines(), [format!("DELETE {QUEUES}/q")]);
}
