//! The pictures of the pages in docs/, made anew by `PHALANX_PICTURES=docs/how-to cargo test -p phalanx-view pictures`.
use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use phalanx_testkit::browser::Browser;
use phalanx_view::page;
use serde_json::json;

use crate::live::{Answers, explain, open_with_token, serve};
use crate::samples::{self, racks};

/// Writes what the browser shows, of so many pixels.
fn write(browser: &mut Browser, name: &str, (width, height): (u32, u32)) {
    let Some(folder) = std::env::var_os("PHALANX_PICTURES") else { return };
    // Tests run in the folder of their package.
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": 1});
    let shot = browser.call("Page.captureScreenshot", &json!({"clip": clip, "captureBeyondViewport": true}));
    let picture = STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
    std::fs::write(repository.join(folder).join(name), picture).unwrap();
}

#[test]
fn pictures_of_the_live_page_show_a_waiting_gang_and_the_network() {
    let Some(mut browser) = Browser::start() else { return };
    let racks = racks();
    let answers = Answers { token: "secret", view: racks.view(), explain: explain(&racks.test, "vision") };
    let size = json!({"width": 1180, "height": 1000, "deviceScaleFactor": 1, "mobile": false});
    browser.call("Emulation.setDeviceMetricsOverride", &size);
    open_with_token(&mut browser, &serve(&Arc::new(Mutex::new(answers))));
    assert!(browser.seen("summary-title").starts_with("1 gang (4 pods) waits, 3 run"));
    browser.eval("location.hash = '#podgroup=ns/vision'");
    browser.wait("document.querySelector('tr.detail')?.innerText.includes('It would run')");
    browser.eval("scrollTo(0, 0); document.activeElement.blur()");
    let height =
        browser.eval("Math.ceil(document.getElementById('gangs').getBoundingClientRect().bottom + scrollY)");
    write(&mut browser, "live-page.png", (1180, height.as_u64().unwrap_or(1000) as u32));
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn pictures_of_a_page_in_a_file_show_what_waits_and_why() {
    let Some(mut browser) = Browser::start() else { return };
    browser.look(1180, 1000, false);
    let _small = browser.show(&page(&samples::view(5, 9)), "");
    assert!(browser.seen("summary-title").starts_with("6 gangs (24 pods) wait, 3 run"));
    write(&mut browser, "page.png", (1180, 1000));
    browser.look(1180, 1000, true);
    let _large = browser.show(&page(&samples::view(5000, 10_000)), "");
    browser.eval("document.querySelectorAll('.total')[1].click()");
    assert_eq!(browser.seen("nodes-title"), "Nodes: cpu");
    write(&mut browser, "page-large.png", (1180, 1000));
    assert_eq!(browser.errors, [""; 0]);
}
