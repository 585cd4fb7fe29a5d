//! The page beside a scheduler that answers.
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use phalanx_view::{VIEW_PATH, View, live_page, security_policy};

use crate::samples;
use phalanx_testkit::browser::Browser;

/// What the scheduler answers.
struct Answers {
    /// The token that it takes.
    token: &'static str,
    view: View,
}

/// Serves the page and the view below a path, as a proxy does; returns the address.
fn serve(answers: &Arc<Mutex<Answers>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answers = Arc::clone(answers);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let answers = Arc::clone(&answers);
            thread::spawn(move || answer(&stream.unwrap(), &answers.lock().unwrap()));
        }
    });
    format!("http://{address}/proxy/")
}

fn answer(stream: &TcpStream, answers: &Answers) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let expected = format!("x-phalanx-token: {}", answers.token);
    let known = headers.iter().any(|line| line.to_lowercase() == expected);
    let (status, body) = match path.strip_prefix("/proxy/") {
        Some("") => ("200 OK", live_page()),
        Some(VIEW_PATH) if known => ("200 OK", answers.view.to_json()),
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
    let answers = Arc::new(Mutex::new(Answers { token: "secret", view }));
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
