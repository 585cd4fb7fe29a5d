//! `phalanx top`: queues and what waits in them, again and again on a terminal.
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Result;
use phalanx_explain::{Alike, QueueRow, Top, amounts, rounded, waited};

use crate::exit::{counted, painted};
use crate::flag;
use crate::remote::output::Form;
use crate::remote::table::{Column, table};
use crate::remote::{self, Connection};
use crate::scheduler_api::{SchedulerArgs, VIEWER};

/// Rows of a table on a terminal, which would scroll away.
const ROWS_ON_TERMINAL: usize = 20;
/// Clears the terminal and goes to its upper left corner.
const BEGIN: &str = "\x1b[H\x1b[2J";

/// Flags of `top`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    scheduler: SchedulerArgs,
    #[command(flatten)]
    connection: Connection,
    /// Only jobs of this namespace, and the queues in which they wait; without it, of all namespaces
    #[arg(short, long, value_name = "NAMESPACE", value_parser = flag::namespace())]
    namespace: Option<String>,
    /// Seconds between two looks, on a terminal
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// How to show it
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    output: Form,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let wide = args.output == Form::Wide;
    let live = (wide || args.output == Form::Text) && io::stdout().is_terminal();
    remote::run("show queues", async {
        let place = args.scheduler.place_or_usual()?;
        let mut client = args.scheduler.open(&place, &args.connection, VIEWER).await?;
        let namespace = args.namespace.as_deref();
        if live {
            loop {
                let shown = match client.top(namespace).await {
                    Ok(top) => painted(&cut(&text(&top, ROWS_ON_TERMINAL, wide), columns())),
                    Err(error) => {
                        // Another replica may lead by now.
                        if let Ok(other) = args.scheduler.open(&place, &args.connection, VIEWER).await {
                            client = other;
                        }
                        format!("{error:#}\n")
                    }
                };
                let mut out = io::stdout().lock();
                write!(out, "{BEGIN}{shown}")?;
                out.flush()?;
                drop(out);
                tokio::time::sleep(Duration::from_secs(args.interval)).await;
            }
        }
        let top = client.top(namespace).await?;
        args.output.print(&top, |_| text(&top, usize::MAX, wide))
    })
}

/// How many letters a line of the terminal takes.
fn columns() -> usize {
    terminal_size::terminal_size().map_or(usize::MAX, |(width, _)| usize::from(width.0))
}

/// Lines that are too long end with an ellipsis.
fn cut(text: &str, width: usize) -> String {
    let line = |line: &str| match line.char_indices().nth(width) {
        None => format!("{line}\n"),
        Some(_) => line.chars().take(width.saturating_sub(1)).chain("…\n".chars()).collect(),
    };
    text.lines().map(line).collect()
}

fn text(top: &Top, rows: usize, wide: bool) -> String {
    let queues: Vec<QueueRow> = top.queues.iter().take(rows).cloned().collect();
    let waiting: Vec<Alike> = top.waiting.iter().take(rows).cloned().collect();
    let mut text = table(&queue_columns(wide), &queues);
    let hidden = top.queues.len() - queues.len();
    if hidden > 0 {
        text.extend(["and ", &counted(hidden, "more queue"), "\n"]);
    }
    text.push('\n');
    if top.waiting.is_empty() {
        return text + "nothing waits\n";
    }
    let now = top.at.as_second();
    text += &table(&waiting_columns(now), &waiting);
    let hidden = top.left_out + top.waiting.iter().skip(rows).map(|row| row.jobs).sum::<usize>();
    if hidden > 0 {
        text.extend(["and ", &counted(hidden, "more job"), " that waited less long\n"]);
    }
    text
}

fn queue_columns(wide: bool) -> Vec<Column<QueueRow>> {
    let shown = if wide { amounts } else { rounded };
    let figures = move |of: &_| shown(of).replace("nothing", "-");
    let more = [
        Column::longest("PARENT", 2, |row: &QueueRow| row.parent.clone().unwrap_or_else(|| "-".to_owned())),
        Column::longest("WEIGHT", 2, |row: &QueueRow| row.weight.to_string()),
    ];
    let first = Column::longest("QUEUE", 2, |row: &QueueRow| row.name.clone());
    let rest = [
        Column::longest("WAITING", 2, |row: &QueueRow| row.waiting.to_string()),
        Column::longest("SHARE", 2, |row: &QueueRow| {
            row.share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0))
        }),
        Column::longest("ALLOCATED", 2, move |row: &QueueRow| figures(&row.allocated)),
        Column::longest("DESERVED", 2, move |row: &QueueRow| figures(&row.deserved)),
        Column::longest("REQUESTED", 0, move |row: &QueueRow| figures(&row.requested)),
    ];
    std::iter::once(first).chain(more.into_iter().filter(|_| wide)).chain(rest).collect()
}

fn waiting_columns(now: i64) -> Vec<Column<Alike>> {
    vec![
        Column::longest("QUEUE", 2, |row: &Alike| row.queue.clone()),
        Column::longest("FIRST", 2, |row: &Alike| row.first.clone()),
        Column::longest("JOBS", 2, |row: &Alike| row.jobs.to_string()),
        Column::longest("PODS", 2, |row: &Alike| row.pods.to_string()),
        Column::longest("WAITED", 2, move |row: &Alike| waited(now - row.since.as_second())),
        Column::longest("STOPPED AT", 2, |row: &Alike| {
            row.gate.map_or("-".to_owned(), |gate| gate.to_string())
        }),
        Column::longest("REASON", 0, |row: &Alike| row.reason.clone()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_longer_than_the_terminal_are_cut() {
        assert_eq!(cut("cpu 32\n\ncpu 32, gpu 8\n", 6), "cpu 32\n\ncpu 3…\n");
    }

    #[test]
    fn queues_and_waiting_jobs_are_tables() {
        let top: Top = serde_json::from_value(serde_json::json!({
            "at": "2026-01-01T00:01:00Z",
            "queues": [{
                "name": "q", "parent": null, "weight": 1, "allocated": {"cpu": "3"}, "deserved": {"cpu": "4"},
                "requested": {}, "share": 0.75, "waiting": 7,
            }],
            "waiting": [{
                "queue": "q", "jobs": 2, "pods": 4, "first": "a/b", "since": "2026-01-01T00:00:00Z",
                "gate": "nodes", "reason": "no room",
            }],
            "leftOut": 5,
        }))
        .unwrap();
        let expected = "\
QUEUE  WAITING  SHARE  ALLOCATED  DESERVED  REQUESTED
q      7        75 %   cpu 3      cpu 4     -

QUEUE  FIRST  JOBS  PODS  WAITED  STOPPED AT  REASON
q      a/b    2     4     1m      nodes       no room
and 5 more jobs that waited less long
";
        assert!(text(&top, 9, true).starts_with("QUEUE  PARENT  WEIGHT  WAITING"));
        let text = text(&top, 9, false);
        let shown = text.lines().map(|line| line.trim_end().to_owned() + "\n").collect::<Vec<_>>().concat();
        assert_eq!(shown, expected);
    }
}
