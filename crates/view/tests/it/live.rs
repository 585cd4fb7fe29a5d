//! The page beside a scheduler that answers.
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use phalanx_explain::{Patience, Question, Subject};
use phalanx_testkit::TestCluster;
use phalanx_testkit::browser::Browser;
use phalanx_view::{VIEW_PATH, View, live_page, page, security_policy};

use crate::samples;

/// What the scheduler answers.
pub(crate) struct Answers {
    /// The token that it takes.
    pub(crate) token: &'static str,
    pub(crate) view: View,
    /// What it says of the gang that is asked about.
    pub(crate) explain: String,
}

/// What a scheduler says of a gang.
pub(crate) fn explain(test: &TestCluster, name: &str) -> String {
    let question = Question { subject: Subject::PodGroup, namespace: "ns".into(), name: name.into() };
    let answer = question.answer(&test.snapshot(), &[], &Patience::default());
    serde_json::to_string(&answer.unwrap()).unwrap()
}

/// Opens the page of a scheduler in a tab that has its token.
pub(crate) fn open_with_token(browser: &mut Browser, address: &str) {
    browser.open(address);
    browser.eval("sessionStorage.setItem('phalanx-token', 'secret')");
    browser.call("Page.reload", &serde_json::json!({}));
    browser.wait("document.getElementById('status').textContent.startsWith('Live')");
    // The page asked without a token first.
    browser.errors.clear();
}

/// Serves the page and the view below a path, as a proxy does; returns the address.
pub(crate) fn serve(answers: &Arc<Mutex<Answers>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answers = Arc::clone(answers);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let answers = Arc::clone(&answers);
            thread::spawn(move || answer(&stream.unwrap(), &answers));
        }
    });
    format!("http://{address}/proxy/")
}

fn answer(stream: &TcpStream, answers: &Mutex<Answers>) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    // Not before the request is here: a browser opens connections on which it asks nothing yet.
    let answers = answers.lock().unwrap();
    let expected = format!("x-phalanx-token: {}", answers.token);
    let known = headers.iter().any(|line| line.to_lowercase() == expected);
    let (status, body) = match path.strip_prefix("/proxy/") {
        Some("") => ("200 OK", live_page()),
        Some(VIEW_PATH) if known => ("200 OK", answers.view.to_json()),
        Some("api/v1/explain/podgroup/ns/vision") if known => ("200 OK", answers.explain.clone()),
        Some(VIEW_PATH) => ("401 Unauthorized", "expected a token".to_owned()),
        _ => ("404 Not Found", String::new()),
    };
    let kind = if body.starts_with('{') { "application/json" } else { "text/html; charset=utf-8" };
    let length = body.len();
    // The browser may have gone.
    let _ = write!(
        &mut &*stream,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\
         content-security-policy: {}\r\n\r\n{body}",
        security_policy()
    );
}

#[test]
fn the_live_page_asks_for_a_token_once_and_follows_the_scheduler() {
    let Some(mut browser) = Browser::start() else { return };
    let view = View { begin: None, ..samples::view(5, 9) };
    let answers = Arc::new(Mutex::new(Answers { token: "secret", view, explain: String::new() }));
    browser.open(&serve(&answers));
    browser.wait("!document.getElementById('token').hidden");
    assert_eq!(browser.text("document.activeElement.id"), "token-text");
    browser.eval("document.getElementById('token-text').value = 'secret'");
    browser.eval("document.querySelector('#token button').click()");
    browser.wait("document.getElementById('summary-title').textContent.startsWith('6 gangs (24 pods) wait')");
    assert_eq!(browser.eval("document.getElementById('token').hidden"), true);
    assert_eq!(browser.text("sessionStorage.getItem('phalanx-token')"), "secret");
    assert_eq!(browser.eval("localStorage.length"), 0);

    // What the reader chose stays while the view changes.
    browser.eval("document.querySelectorAll('.total')[1].click()");
    browser.eval("document.getElementById('filter-text').focus()");
    answers.lock().unwrap().view = View { begin: None, ..samples::view(5, 12) };
    browser.wait("document.getElementById('summary-title').textContent.startsWith('8 gangs (32 pods) wait')");
    assert_eq!(browser.seen("queues-title"), "Queues: cpu");
    assert_eq!(browser.text("document.activeElement.id"), "filter-text");

    // A tab that is loaded again knows its token.
    browser.call("Page.reload", &serde_json::json!({}));
    browser.wait("document.getElementById('summary-title').textContent.startsWith('8 gangs (32 pods) wait')");
    answers.lock().unwrap().token = "other";
    browser.wait("!document.getElementById('token').hidden");
    assert!(browser.seen("status").contains("expected a token"), "{}", browser.seen("status"));
}

#[test]
fn an_open_gang_says_what_explain_says_of_it() {
    let Some(mut browser) = Browser::start() else { return };
    let racks = samples::racks();
    let answers = Answers { token: "secret", view: racks.view(), explain: explain(&racks.test, "vision") };
    let address = serve(&Arc::new(Mutex::new(answers)));
    open_with_token(&mut browser, &address);
    browser.eval("location.hash = '#podgroup=ns/vision'");
    browser.wait("document.querySelector('tr.detail')?.innerText.includes('It would run')");
    let detail = browser.text("document.querySelector('tr.detail').innerText");
    for part in [
        "with highestTierAllowed 2 in its networkTopology",
        "number 1 of 1 waiting in queue research",
        "nvidia.com/gpu: queue research 128, queue production 108",
        "rack-",
        "room for 3 of 4",
    ] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    assert_eq!(browser.errors, [""; 0]);

    // A page on a file says how to ask.
    let _page = browser.show(&page(&racks.view()), "#podgroup=ns/vision");
    let detail = browser.text("document.querySelector('tr.detail').innerText");
    assert!(detail.contains("phalanx explain podgroup vision -n ns -f FILES"), "{detail}");
}

#[test]
fn a_search_that_was_not_finished_is_told_and_of_many_nodes_a_few_are_named() {
    let Some(mut browser) = Browser::start() else { return };
    let racks = samples::racks();
    let mut answer: serde_json::Value = serde_json::from_str(&explain(&racks.test, "vision")).unwrap();
    let job = &mut answer["jobs"][0];
    job["remedies"] = serde_json::json!({"found": [], "alone": false, "unfinished": true, "tried": true});
    let names: Vec<String> = (0..5_000).map(|at| format!("node-{at}")).collect();
    let constraint = serde_json::json!({"text": "Insufficient cpu", "nodes": 5_000, "names": names});
    job["why"]["constraints"] = serde_json::json!([constraint]);
    let answers = Answers { token: "secret", view: racks.view(), explain: answer.to_string() };
    open_with_token(&mut browser, &serve(&Arc::new(Mutex::new(answers))));
    browser.eval("location.hash = '#podgroup=ns/vision'");
    browser
        .wait("document.querySelector('tr.detail')?.innerText.includes('Not all changes that might help')");
    let detail = browser.text("document.querySelector('tr.detail').innerText");
    assert!(detail.contains("node-4 and 4995 more: Insufficient cpu"), "{detail}");
    assert_eq!(browser.errors, [""; 0]);
}
