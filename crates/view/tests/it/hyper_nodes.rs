//! HyperNodes in the view and on the page.
use phalanx_testkit::browser::Browser;
use phalanx_view::page;

use crate::samples::{Racks, racks};

#[test]
fn hyper_nodes_have_sums_and_gangs_have_the_lowest_one_that_holds_them() {
    let view = racks().view();
    let list = &view.state.hyper_nodes.list;
    let names: Vec<&str> = list.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["core", "spine-0", "spine-1", "rack-0", "rack-1", "rack-2", "rack-3"]);
    let parent = |at: usize| list[at].parent.map(|parent| list[parent as usize].name.as_str());
    assert_eq!([parent(0), parent(1), parent(4)], [None, Some("core"), Some("spine-0")]);
    assert_eq!((list[0].nodes, list[3].nodes), (32, 8));
    let gpus = view.state.resources.iter().position(|it| it.name == "nvidia.com/gpu").unwrap();
    assert_eq!((list[0].used[gpus], list[0].allocatable[gpus]), (236_000, 256_000));
    let domain = |name: &str| {
        let gang = view.gangs.list.iter().find(|gang| gang.name == format!("ns/{name}")).unwrap();
        gang.domain.map(|at| list[at as usize].tier)
    };
    assert_eq!(["llm-70b", "diffusion", "vision"].map(domain), [Some(2), Some(1), None]);
    let rack = view.state.nodes.list[0].hyper_node.map(|at| list[at as usize].name.as_str());
    assert_eq!((view.state.nodes.list[0].name.as_str(), rack), ("gpu-0-0", Some("rack-0")));
}

#[test]
fn the_page_draws_the_tree_with_the_gangs_in_it() {
    let Some(mut browser) = Browser::start() else { return };
    let _page = browser.show(&page(&racks().view()), "");
    let tree = browser.seen("topology");
    for part in ["core", "spine-1", "rack-3", "236 of 256", "ns/diffusion", "in one HyperNode of tier 1"] {
        assert!(tree.contains(part), "{part}: {tree}");
    }
    assert!(!tree.contains("gpu-0-0"), "racks are closed at first: {tree}");
    // By keyboard.
    browser.eval("document.querySelector('[data-key=\"hypernode=rack-0\"]').focus()");
    browser.press("Enter", 13);
    browser.wait("document.getElementById('topology').innerText.includes('gpu-0-0')");
    browser.eval("redraw()");
    assert!(browser.seen("topology").contains("gpu-0-0"), "it stays open when the page is drawn anew");
    let focused = browser.text("document.activeElement.getAttribute('data-key')");
    assert_eq!(focused, "hypernode=rack-0");
    // A gang links to its HyperNode, also where that is closed.
    browser.eval("document.querySelector('[data-key=\"hypernode=core\"]').click()");
    browser.wait("!document.getElementById('topology').innerText.includes('rack-3')");
    browser.eval("location.hash = '#podgroup=ns/speech'");
    browser.wait("document.querySelector('tr.detail')?.innerText.includes('(tier 1)')");
    browser.eval("document.querySelector('tr.detail a[href^=\"#hypernode\"]').click()");
    browser.wait("document.activeElement.getAttribute('data-key')?.startsWith('hypernode=rack-')");
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn a_tree_of_many_hyper_nodes_is_drawn_in_part() {
    let Some(mut browser) = Browser::start() else { return };
    let view = Racks::of(600, 8).gangs(&[("llm", "research", 16, 1)]).view();
    assert_eq!(view.state.hyper_nodes.list.len(), 901);
    let _page = browser.show(&page(&view), "");
    let rows = "document.querySelectorAll('#topology summary').length";
    assert_eq!(browser.eval(rows), 49, "301 rows of two tiers are too many");
    assert!(browser.seen("topology").contains("Show 252 more"));
    browser.eval("location.hash = '#hypernode=rack-599'");
    browser.wait("document.activeElement.getAttribute('data-key') === 'hypernode=rack-599'");
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn sub_groups_are_shown_in_their_hyper_nodes() {
    let view = Racks::of(2, 8).sub_groups("moe", 2, 12).view();
    let places: Vec<(&str, u32, &str)> = view.gangs.list[0]
        .sub_groups
        .iter()
        .map(|it| (&*it.name, it.placed, &*view.state.hyper_nodes.list[it.domain as usize].name))
        .collect();
    assert_eq!(places, [("replica/0", 12, "rack-0"), ("replica/1", 12, "rack-1")]);
    let Some(mut browser) = Browser::start() else { return };
    let _page = browser.show(&page(&view), "#hypernode=rack-1");
    browser.wait("document.getElementById('topology').innerText.includes('replica/1 of ns/moe (12)')");
    assert!(browser.seen("topology").contains("1 sub-group"));
    browser.eval("location.hash = '#podgroup=ns/moe'");
    let detail = "document.querySelector('tr.detail')?.innerText";
    browser.wait(&format!("{detail}.includes('replica/0 (12 pods) in rack-0 (tier 1)')"));
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn a_cluster_without_hyper_nodes_has_no_tree() {
    let Some(mut browser) = Browser::start() else { return };
    let _page = browser.show(&page(&crate::samples::view(2, 3)), "");
    assert_eq!(browser.eval("document.getElementById('topology').hidden"), true);
    assert!(!browser.seen("nav").contains("Network"));
}
