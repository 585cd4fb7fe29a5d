//! The report as one page without other files: figures, gangs, queues, and a bar for every resource of every node.
use super::{NodeOutcome, Report, Usage, alike, amounts, percent};

const STYLE: &str = "body{font:14px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;color:#1d2733}\
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}\
td,th{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #dde3ea;vertical-align:top}\
.ok{color:#1a7f37}.wait{color:#b35900}.nodes{display:grid;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr));gap:1rem}\
figure{margin:0}figcaption{font-weight:600;overflow-wrap:anywhere}svg{width:100%;height:auto;display:block}text{font-size:10px;fill:#1d2733}";

impl Report {
    /// The report as a page without links to anything outside.
    pub fn to_html(&self) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Phalanx simulation</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>Phalanx simulation</h1>\n<p>{}</p>\n{}{}{}{}{}</body>\n</html>\n",
            escape(&self.summary()),
            self.html_controlled(),
            self.html_gangs(),
            self.html_queues(),
            self.html_waiting(),
            self.html_nodes(),
        )
    }

    fn html_controlled(&self) -> String {
        let flows = self.job_flows.iter().map(|(name, flow)| {
            let completed = format!("{}/{}", flow.completed.len(), flow.steps);
            vec![escape(name), escape(&flow.phase), completed, escape(&flow.message)]
        });
        let crons = self.cron_jobs.iter().map(|(name, cron)| {
            let last = cron.last.as_deref().unwrap_or("-");
            vec![escape(name), cron.started.to_string(), cron.active.to_string(), escape(last)]
        });
        let jobs = self.jobs.iter().map(|(name, job)| {
            let mut cells = vec![escape(name), escape(&job.phase), job.retries.to_string()];
            cells.extend(job.pods.in_order().map(|count| count.to_string()));
            let history = job.history.iter().map(ToString::to_string);
            let told: Vec<String> = history.chain([job.message.clone()]).map(|line| escape(&line)).collect();
            cells.push(told.join("<br>"));
            cells
        });
        let of_jobs = ["Job", "Phase", "Retries", "Waiting", "Running", "Succeeded", "Failed", "History"];
        table("JobFlows", &["JobFlow", "Phase", "Completed", "Warning"], flows)
            + &table("CronJobs", &["CronJob", "Started", "Active", "Last"], crons)
            + &table("Jobs", &of_jobs, jobs)
    }

    fn html_gangs(&self) -> String {
        let rows = self.pod_groups.iter().map(|(name, group)| {
            let class = if group.reasons.is_empty() { "ok" } else { "wait" };
            let phase = format!("<span class=\"{class}\">{}</span>", escape(&group.phase));
            let counts = [group.min_member, group.placed(), group.waiting].map(|count| count.to_string());
            let [min, placed, waiting] = counts;
            let reasons = group.problem.iter().chain(&group.reasons);
            let reasons: Vec<String> = reasons.map(|reason| escape(reason)).collect();
            vec![escape(name), escape(&group.queue), phase, min, placed, waiting, reasons.join("<br>")]
        });
        table("PodGroups", &["PodGroup", "Queue", "Phase", "Min", "Placed", "Waiting", "Reasons"], rows)
    }

    fn html_queues(&self) -> String {
        let rows = self.queues.iter().map(|(name, queue)| {
            let (allocated, deserved) = (amounts(&queue.allocated), amounts(&queue.deserved));
            let share = percent(queue.share);
            let problem = escape(queue.problem.as_deref().unwrap_or_default());
            let figures = [escape(&allocated), escape(&deserved), problem];
            [escape(name), queue.weight.to_string(), share].into_iter().chain(figures).collect()
        });
        table("Queues", &["Queue", "Weight", "Share", "Allocated", "Deserved", "Problem"], rows)
    }

    fn html_waiting(&self) -> String {
        let rows = alike(&self.pods).into_iter().map(|kind| vec![escape(&kind.to_string())]);
        table("Waiting pods without a PodGroup", &["Reasons"], rows)
    }

    fn html_nodes(&self) -> String {
        let mut html = String::from("<h2>Nodes</h2>\n<div class=\"nodes\">\n");
        for (name, node) in &self.nodes {
            html.push_str(&figure(name, node));
        }
        html + "</div>\n"
    }
}

fn table(title: &str, heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let body: String = rows.map(|cells| line("td", &cells)).collect();
    if body.is_empty() {
        return String::new();
    }
    let heads: Vec<String> = heads.iter().map(ToString::to_string).collect();
    format!("<h2>{title}</h2>\n<table>\n{}{body}</table>\n", line("th", &heads))
}

fn line(cell: &str, cells: &[String]) -> String {
    let between = format!("</{cell}><{cell}>");
    format!("<tr><{cell}>{}</{cell}></tr>\n", cells.join(&between))
}

const BAR_HEIGHT: usize = 14;

fn figure(name: &str, node: &NodeOutcome) -> String {
    let height = node.resources.len() * BAR_HEIGHT;
    let bars: String = node.resources.iter().enumerate().map(|(row, usage)| bar(row, usage)).collect();
    format!(
        "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 240 {height}\" role=\"img\">{bars}</svg></figure>\n",
        escape(name)
    )
}

fn bar(row: usize, usage: &Usage) -> String {
    let top = row * BAR_HEIGHT;
    let width = usage.ratio.clamp(0.0, 1.0) * 240.0;
    let colour = if usage.ratio > 0.9 { "#f2b263" } else { "#8fc1e8" };
    let text = format!("{} {} / {}", usage.name, usage.used, usage.allocatable);
    format!(
        "<rect y=\"{top}\" width=\"240\" height=\"12\" fill=\"#eef2f6\"/>\
         <rect y=\"{top}\" width=\"{width:.1}\" height=\"12\" fill=\"{colour}\"/>\
         <text x=\"3\" y=\"{}\">{}</text>",
        top + 10,
        escape(&text)
    )
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::GroupOutcome;

    #[test]
    fn the_page_needs_no_other_file_and_escapes_names() {
        let mut report = Report::default();
        let group = GroupOutcome {
            phase: "Pending".into(),
            reasons: vec!["a < b".into()],
            ..GroupOutcome::default()
        };
        report.pod_groups.insert("a/<script>".into(), group);
        let usage = Usage { name: "cpu".into(), used: "6".into(), allocatable: "4".into(), ratio: 1.5 };
        report.nodes.insert("n\"1".into(), NodeOutcome { pods: 1, resources: vec![usage] });
        let html = report.to_html();
        for part in ["a/&lt;script&gt;", "a &lt; b", "n&quot;1", "width=\"240.0\"", "cpu 6 / 4"] {
            assert!(html.contains(part), "{part}");
        }
        for part in ["<script", "http", "src=", "href="] {
            assert!(!html.contains(part), "{part}");
        }
    }
}
