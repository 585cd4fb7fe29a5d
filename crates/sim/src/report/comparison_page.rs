//! How two runs of a cluster differ, as a page: what differs first.
use phalanx_view::{Section, escape, plain_page, plain_table};

use super::comparison::{Comparison, GroupEnd, Sides};
use super::people;
use super::table::spread;
use crate::run_time::ExpectedStart;

/// The number of rows of a table; the rest is counted.
const ROWS_MAX: usize = 500;

impl Comparison {
    /// As a page without links to anything outside; `names` are those of the runs.
    pub fn to_html(&self, names: [&str; 2]) -> String {
        let [first, second] = names;
        let parts = [
            ("differs", "What differs".to_owned(), self.headlines(names)),
            ("groups", "PodGroups that come to another end".to_owned(), self.groups(names)),
            ("queues", "Queues: allocated".to_owned(), self.queue_rows(names)),
            ("evictions", "Pods that are evicted in one of them only".to_owned(), self.eviction_rows(names)),
            ("pods", "Pods without a PodGroup".to_owned(), self.pod_rows(names)),
            ("elsewhere", "PodGroups on other nodes".to_owned(), self.elsewhere_page(names)),
            ("starts", format!("Expected starts in {second}"), self.starts()),
            ("runs", "The runs".to_owned(), self.runs(names)),
        ];
        let sections = parts.into_iter().filter(|(_, _, body)| !body.is_empty());
        let sections: Vec<Section> = sections.map(|(id, title, body)| Section { id, title, body }).collect();
        plain_page(&format!("Phalanx simulation: {first} and {second}"), "", &sections)
    }

    /// What differs, a line each.
    fn headlines(&self, [first, second]: [&str; 2]) -> String {
        let groups = &self.pod_groups;
        let placed =
            |pick: fn(&Sides<GroupEnd>) -> &GroupEnd| groups.values().map(|it| pick(it).placed).sum::<u32>();
        let mut lines = Vec::new();
        if !groups.is_empty() {
            let [before, after] = [placed(|it| &it.before), placed(|it| &it.after)];
            let what = counted(groups.len(), "PodGroup comes", "PodGroups come");
            lines.push(format!(
                "{what} to another end: of them {before} pods are placed in {first}, {after} in {second}"
            ));
        }
        for (name, evicted) in [(first, &self.evictions.before), (second, &self.evictions.after)] {
            if !evicted.is_empty() {
                lines
                    .push(format!("{} evicted in {name} only", counted(evicted.len(), "pod is", "pods are")));
            }
        }
        for (name, pods) in [(first, &self.waiting_pods.before), (second, &self.waiting_pods.after)] {
            if !pods.is_empty() {
                let what =
                    counted(pods.len(), "pod without a PodGroup waits", "pods without a PodGroup wait");
                lines.push(format!("{what} in {name} only"));
            }
        }
        if !self.elsewhere.is_empty() {
            let what = counted(self.elsewhere.len(), "PodGroup comes", "PodGroups come");
            lines.push(format!("{what} to the same end on other nodes"));
        }
        if lines.is_empty() {
            lines.push("No difference in what is placed, waits or is evicted".to_owned());
        }
        let items: Vec<String> = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
        format!("<ul>\n{}</ul>\n", items.concat())
    }

    fn groups(&self, [first, second]: [&str; 2]) -> String {
        let why = |end: &GroupEnd| end.reasons.join("; ");
        let row = |(name, sides): (&String, &Sides<GroupEnd>)| {
            let Sides { before, after } = sides;
            let nodes = |end: &GroupEnd| {
                if end.nodes.is_empty() { String::new() } else { format!(" on {}", spread(&end.nodes)) }
            };
            let reasons = if after.reasons.is_empty() { why(before) } else { why(after) };
            vec![name.clone(), before.shown() + &nodes(before), after.shown() + &nodes(after), reasons]
        };
        rows(&["PodGroup", first, second, "Why it waits"], self.pod_groups.iter().map(row))
    }

    fn queue_rows(&self, [first, second]: [&str; 2]) -> String {
        let row = |(name, sides): (&String, &Sides<_>)| {
            vec![name.clone(), people(&sides.before), people(&sides.after)]
        };
        rows(&["Queue", first, second], self.queues.iter().map(row))
    }

    fn eviction_rows(&self, [first, second]: [&str; 2]) -> String {
        let of = |name: &str, evicted: &std::collections::BTreeMap<String, String>| {
            let row = |(pod, why): (&String, &String)| vec![pod.clone(), name.to_owned(), why.clone()];
            evicted.iter().map(row).collect::<Vec<_>>()
        };
        let all = of(first, &self.evictions.before).into_iter().chain(of(second, &self.evictions.after));
        rows(&["Pod", "Evicted in", "Why"], all)
    }

    fn pod_rows(&self, [first, second]: [&str; 2]) -> String {
        let why = |cells: Vec<String>| {
            let reasons = cells.first().and_then(|name| self.waiting_reasons.get(name));
            let reasons = reasons.map(|reasons| reasons.join("; ")).unwrap_or_default();
            cells.into_iter().chain([reasons]).collect()
        };
        let head = format!("Why it waits in {second}");
        rows(&["Pod", first, second, &head], self.single_pod_rows().map(why))
    }

    fn elsewhere_page(&self, [first, second]: [&str; 2]) -> String {
        rows(&["PodGroup", first, second], self.elsewhere_rows())
    }

    fn starts(&self) -> String {
        let row = |kind: &str, (name, start): (&String, &ExpectedStart)| {
            vec![format!("{kind} {name}"), start.to_string()]
        };
        let groups = self.expected_starts.iter().map(|of| row("PodGroup", of));
        let pods = self.expected_pod_starts.iter().map(|of| row("Pod", of));
        rows(&["Of", "Expected start"], groups.chain(pods))
    }

    fn runs(&self, [first, second]: [&str; 2]) -> String {
        let row = |(name, summary): (&str, &String)| vec![name.to_owned(), summary.clone()];
        let both = [(first, &self.summaries.before), (second, &self.summaries.after)];
        rows(&["Configuration", "What came of it"], both.into_iter().map(row))
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A table of the first rows; nothing without any.
fn rows(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    let more = rows.len().saturating_sub(ROWS_MAX);
    rows.truncate(ROWS_MAX);
    let note = if more > 0 { format!("<p>and {more} more (-o json has all)</p>\n") } else { String::new() };
    plain_table(heads, rows.into_iter()) + &note
}
