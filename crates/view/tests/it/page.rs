//! The page as a reader sees and uses it.
use phalanx_view::{EvictedPod, page};
use serde_json::json;

use crate::samples::{self, HOSTILE, view};
use phalanx_testkit::browser::Browser;

#[test]
fn the_page_needs_no_other_file() {
    let text = page(&view(2, 3));
    for part in ["http://", "https://", " src=", "@import", "url(", " onclick=", " style="] {
        assert!(!text.contains(part), "{part}");
    }
    assert!(!page(&samples::hostile()).contains("<img"), "data stays in its element");
}

#[test]
fn the_page_says_first_what_waits_and_why() {
    let Some(mut browser) = Browser::start() else { return };
    let _page = browser.show(&page(&view(5, 9)), "");
    let first = browser.seen("summary-title");
    assert!(first.starts_with("6 gangs (24 pods) wait, 3 run"), "{first}");
    let why = browser.seen("why-list");
    assert!(why.contains("6 gangs") && why.contains("Insufficient nvidia.com/gpu"), "{why}");
    let queues = browser.seen("queues");
    for part in ["production", "research", "Share: allocated of deserved"] {
        assert!(queues.contains(part), "{part}: {queues}");
    }
    let nodes = browser.seen("nodes");
    assert!(nodes.contains("node-0000") && nodes.contains("A pod gets at most"), "{nodes}");
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn names_and_messages_are_text_whatever_they_hold() {
    let Some(mut browser) = Browser::start() else { return };
    let _page = browser.show(&page(&samples::hostile()), "");
    assert_eq!(browser.eval("window.hit === undefined && document.images.length === 0"), true);
    assert_eq!(browser.eval("document.scripts.length"), 2);
    assert!(browser.seen("gangs").contains(HOSTILE));
    assert!(browser.seen("evictions").contains(HOSTILE));
    // What is injected all the same is not run.
    browser.eval("{ const it = document.createElement('script'); it.textContent = 'window.hit = 1'; document.body.append(it); }");
    assert_eq!(browser.eval("window.hit === undefined"), true);
}

#[test]
fn gangs_are_filtered_sorted_and_turned_over() {
    let Some(mut browser) = Browser::start() else { return };
    let _page = browser.show(&page(&view(5, 300)), "");
    assert!(browser.seen("filter-count").contains("295 gangs"), "{}", browser.seen("filter-count"));
    assert!(browser.seen("pager").contains("1 to 25 of 295"), "{}", browser.seen("pager"));
    browser.eval("document.querySelector('#pager button:last-of-type').click()");
    assert!(browser.seen("pager").contains("26 to 50 of 295"));
    browser.eval("{ const it = document.getElementById('filter-text'); it.value = 'gang-00007'; it.dispatchEvent(new Event('input')); }");
    assert_eq!(browser.seen("filter-count"), "1 gang");
    browser.eval("document.querySelector('#why-list button').click()");
    assert_eq!(browser.eval("document.getElementById('filter-kind').hidden"), false);
    browser.eval("document.getElementById('filter-kind').click()");
    browser.eval("document.querySelector('#gangs-table th button').click()");
    let first = browser.text("document.querySelector('#gangs-table tbody a').textContent");
    assert_eq!(first, "ns/gang-00000");
    browser.eval("document.querySelector('#gangs-table th button').click()");
    let last = browser.text("document.querySelector('#gangs-table tbody a').textContent");
    assert_eq!(last, "ns/gang-00299");
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn an_anchor_opens_its_gang_on_whatever_page_it_is() {
    let Some(mut browser) = Browser::start() else { return };
    let _page = browser.show(&page(&view(5, 300)), "#podgroup=ns/gang-00290");
    let detail = browser.text("document.querySelector('tr.detail').innerText");
    for part in ["Insufficient nvidia.com/gpu", "least missing, on node node-", "minMember 4", "created"] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    assert_eq!(browser.text("document.activeElement.textContent"), "ns/gang-00290");
    // One that runs is found though the page shows those that wait.
    browser.eval("location.hash = '#podgroup=ns/gang-00000'");
    browser.wait("document.querySelector('tr.detail').innerText.includes('node-0')");
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn evictions_name_the_preemptor_and_the_reason() {
    let Some(mut browser) = Browser::start() else { return };
    let mut view = view(5, 9);
    view.evicted.total = 1;
    view.evicted.list.push(EvictedPod {
        at: 5000,
        pod: "ns/low-0".into(),
        group: None,
        action: "preempt",
        by: Some("ns/gang-00000".into()),
        reason: "preempted by ns/gang-00000, priority 100".into(),
    });
    let _page = browser.show(&page(&view), "");
    let evictions = browser.seen("evictions");
    for part in ["after 5 s", "ns/low-0", "ns/gang-00000", "preempt", "priority 100"] {
        assert!(evictions.contains(part), "{part}: {evictions}");
    }
    assert!(browser.seen("summary-title").contains("1 pod was evicted"));
}

#[test]
fn the_page_works_by_keyboard() {
    let Some(mut browser) = Browser::start() else { return };
    let _page = browser.show(&page(&view(200, 400)), "");
    browser.press("Tab", 9);
    assert_eq!(browser.text("document.activeElement.textContent"), "Skip to the gangs");
    let outline = "getComputedStyle(document.activeElement).outlineStyle";
    assert_eq!(browser.text(outline), "solid", "focus is visible");
    let mut reached = Vec::new();
    for _ in 0..400 {
        browser.press("Tab", 9);
        reached.push(
            browser.text("document.activeElement.getAttribute('data-key') || document.activeElement.id"),
        );
        if reached.last().is_some_and(|it| it == "next") {
            break;
        }
    }
    for key in [
        "nav=queues",
        "total=nvidia.com/gpu",
        "kind=0",
        "filter-state",
        "filter-text",
        "sort=name",
        "next",
        "cells",
    ] {
        assert!(reached.iter().any(|it| it == key), "{key} is not reached: {reached:?}");
    }
    browser.eval("document.querySelector('.cells').focus()");
    browser.press("ArrowRight", 39);
    browser.press("ArrowRight", 39);
    let second = browser.text("busy(current, ui.resource).having[1].node.name");
    assert!(browser.seen("nodes-detail").starts_with(&second), "{second}: {}", browser.seen("nodes-detail"));
    let unnamed = "[...document.querySelectorAll('button, input, select, a')].filter((it) => !(it.textContent.trim() || \
                   it.getAttribute('aria-label') || it.labels?.length)).length";
    assert_eq!(browser.eval(unnamed), 0, "all controls have names");
}

#[test]
fn a_choice_of_resource_keeps_the_focus_and_changes_queues_and_nodes() {
    let Some(mut browser) = Browser::start() else { return };
    let _page = browser.show(&page(&view(5, 9)), "");
    assert_eq!(browser.seen("queues-title"), "Queues: nvidia.com/gpu");
    browser.eval("document.querySelectorAll('.total')[1].focus()");
    browser.press("Enter", 13);
    assert_eq!(browser.text("document.activeElement.getAttribute('data-key')"), "total=cpu");
    assert_eq!([browser.seen("queues-title"), browser.seen("nodes-title")], ["Queues: cpu", "Nodes: cpu"]);
    let bars = browser.eval(
        "[...document.querySelectorAll('#queues-table .used')].some((it) => parseFloat(it.style.width) > 0)",
    );
    assert_eq!(bars, true, "the policy lets bars have their width");
}

#[test]
fn a_narrow_screen_cuts_off_nothing() {
    let Some(mut browser) = Browser::start() else { return };
    browser.look(360, 740, false);
    let _page = browser.show(&page(&view(5, 60)), "#podgroup=ns/gang-00001");
    let width = browser.eval("document.documentElement.scrollWidth");
    assert!(width.as_u64().unwrap() <= 360, "{width}");
    let cut = "[...document.querySelectorAll('#why-list p, #gangs-table td')].filter((it) => it.scrollWidth > it.clientWidth + 1 || \
               it.getBoundingClientRect().right > 361).length";
    assert_eq!(browser.eval(cut), 0);
}

#[test]
fn a_dark_page_is_dark_and_texts_stay_legible() {
    let Some(mut browser) = Browser::start() else { return };
    // The contrast of text and ground, as WCAG counts it.
    let contrast = "(() => { const paint = (name, of) => { const it = document.createElement('canvas').getContext('2d'); \
        it.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name); it.fillRect(0, 0, 1, 1); \
        const [r, g, b] = [...it.getImageData(0, 0, 1, 1).data].map((x) => x / 255).map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); \
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; }; const card = paint('--card'); \
        return ['--ink', '--soft', '--wait', '--good', '--bad', '--link'].map((name) => { const one = paint(name); \
        return (Math.max(one, card) + 0.05) / (Math.min(one, card) + 0.05); }); })()";
    for dark in [false, true] {
        browser.look(1000, 700, dark);
        let _page = browser.show(&page(&view(5, 9)), "");
        let ratios = browser.eval(contrast);
        assert!(ratios.as_array().unwrap().iter().all(|it| it.as_f64().unwrap() >= 4.5), "{dark}: {ratios}");
        let ground = browser.text("getComputedStyle(document.body).backgroundColor");
        assert_eq!(ground == "rgb(246, 247, 249)", !dark, "{ground}");
    }
}

#[test]
fn texts_are_those_of_people() {
    let Some(mut browser) = Browser::start() else { return };
    let _page = browser.show(&page(&view(1, 1)), "");
    for (expression, expected) in [
        ("amount('milli', 22_500_000)", "22.5k"),
        ("amount('milli', 500)", "0.5"),
        ("amount('core', 500)", "500m"),
        ("amount('byte', 56 * 2 ** 40)", "56Ti"),
        ("amount('count', 1234)", "1234"),
        ("percent(1, 3)", "33 %"),
        ("percent(999, 1000)", "99 %"),
        ("percent(1, 1000)", "< 1 %"),
        ("percent(1, 0)", "–"),
        ("duration(12_000_000)", "3 h 20 min"),
        ("duration(0)", "0 s"),
        ("duration(90_061_000)", "1 d 1 h"),
    ] {
        assert_eq!(browser.eval(expression), json!(expected), "{expression}");
    }
    for (resource, quantity) in [
        ("cpu", "22500"),
        ("cpu", "500m"),
        ("cpu", "5818182m"),
        ("nvidia.com/gpu", "0.5"),
        ("nvidia.com/gpu", "40k"),
        ("memory", "57344Gi"),
        ("memory", "1610612736"),
        ("pods", "5500"),
    ] {
        let shown = browser.eval(&format!("people('{resource}', '{quantity}')"));
        assert_eq!(shown, json!(phalanx_resource::for_people(resource, quantity)), "as commands say it");
    }
}

#[test]
fn five_thousand_nodes_and_ten_thousand_gangs_are_drawn_at_once() {
    let Some(mut browser) = Browser::start() else { return };
    let mut view = view(60, 90);
    let (nodes, gangs) = (view.state.nodes.list.clone(), view.gangs.list.clone());
    view.state.nodes.list = nodes.iter().cycle().take(5000).cloned().collect();
    view.gangs.list = gangs.iter().cycle().take(10_000).cloned().collect();
    for (at, node) in view.state.nodes.list.iter_mut().enumerate() {
        node.name = format!("node-{at:05}");
    }
    for (at, gang) in view.gangs.list.iter_mut().enumerate() {
        gang.name = format!("ns/gang-{at:05}");
    }
    let text = page(&view);
    assert!(text.len() < 5 << 20, "{} bytes", text.len());
    let _page = browser.show(&text, "");
    let elements = browser.eval("document.querySelectorAll('*').length").as_u64().unwrap();
    assert!(elements < 10_000, "{elements} elements");
    let height = browser.eval("document.documentElement.scrollHeight").as_u64().unwrap();
    assert!(height < 15_000, "{height} pixels high");
    assert_eq!(browser.errors, [""; 0]);
}
