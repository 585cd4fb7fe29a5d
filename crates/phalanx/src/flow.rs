//! `phalanx jobflow` and `phalanx jobtemplate`: JobFlows and JobTemplates of a live cluster, as vcctl has them.
use anyhow::{Result, bail};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use phalanx_api::flow::{JobFlow, JobTemplate};
use phalanx_runtime::objects::{Kind, Wanted};
use serde_json::Value;

use crate::exit::{BadInput, print};
use crate::remote::output::Data;
use crate::remote::table::{Column, table};
use crate::remote::times::{Millis, since};
use crate::remote::{self, Connection, Namespaces, Remote, manifest, required};

/// Commands of `jobflow` and `jobtemplate`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Create the objects of a YAML file
    Create(Create),
    /// List objects
    List(List),
    /// Show an object in one line
    Get(Named),
    /// Delete an object, or those of a YAML file
    Delete(Delete),
    /// Print an object, or all of a namespace
    Describe(Describe),
}

/// Flags of `create`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Create {
    /// A YAML file, or - for standard input
    #[arg(short, long, value_name = "FILE", default_value = "", hide_default_value = true)]
    file: String,
    #[command(flatten)]
    connection: Connection,
}

/// Flags of `list`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct List {
    #[command(flatten)]
    namespaces: Namespaces,
    /// The objects themselves
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Data>,
    #[command(flatten)]
    connection: Connection,
}

/// An object.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Named {
    /// The name
    #[arg(short = 'N', long, value_name = "NAME")]
    name: Option<String>,
    /// The namespace; that of the context unless it is given
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// Flags of `delete`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Delete {
    /// A YAML file, or - for standard input, in place of a name
    #[arg(short, long, value_name = "FILE", default_value = "", hide_default_value = true)]
    file: String,
    #[command(flatten)]
    object: Named,
}

/// Flags of `describe`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Describe {
    /// yaml or json
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT", default_value_t = Data::Yaml)]
    format: Data,
    #[command(flatten)]
    object: Named,
}

/// What differs between both kinds.
trait Flows: Kind {
    /// The command.
    const COMMAND: &str;
    /// The kind in messages.
    const NOUN: &str;
    /// Whether lists show phase and age.
    const RUNS: bool;
}

impl Flows for JobFlow {
    const COMMAND: &str = "jobflow";
    const NOUN: &str = "jobflow";
    const RUNS: bool = true;
}

impl Flows for JobTemplate {
    const COMMAND: &str = "jobtemplate";
    const NOUN: &str = "job template";
    const RUNS: bool = false;
}

pub(crate) fn flows(command: &Command) -> Result<()> {
    run::<JobFlow>(command)
}

pub(crate) fn templates(command: &Command) -> Result<()> {
    run::<JobTemplate>(command)
}

fn run<K: Flows>(command: &Command) -> Result<()> {
    let named = |what: &str| format!("{} {what}", K::COMMAND);
    match command {
        Command::Create(args) => remote::run(&named("create"), create::<K>(args)),
        Command::List(args) => remote::run(&named("list"), list::<K>(args)),
        Command::Get(args) => remote::run(&named("get"), get::<K>(args)),
        Command::Delete(args) => remote::run(&named("delete"), delete::<K>(args)),
        Command::Describe(args) => remote::run(&named("describe"), describe::<K>(args)),
    }
}

async fn create<K: Flows>(args: &Create) -> Result<()> {
    let objects = in_file::<K>(&args.file)?;
    let remote = args.connection.open().await?;
    let mut faults = Vec::new();
    for object in objects {
        let namespace = home(&remote, &object);
        match remote.objects.create::<K>(Some(namespace), &object).await {
            Ok(_) => print(&format!("Created {}: {namespace}/{}\n", K::kind(&()), name(&object)))?,
            Err(error) => faults.push(format!("Failed to create {}: {error:#}", K::kind(&()))),
        }
    }
    all_well(&faults)
}

async fn list<K: Flows>(args: &List) -> Result<()> {
    let remote = args.connection.open().await?;
    let namespace = args.namespaces.of(&remote);
    let objects = remote.objects.list::<K>(namespace, Wanted::All).await?;
    if let Some(data) = args.output {
        return print(&data.list(objects)?);
    }
    if objects.is_empty() {
        return print("No resources found\n");
    }
    print(&lines::<K>(&objects, Millis::now()))
}

async fn get<K: Flows>(args: &Named) -> Result<()> {
    let missing = format!("name is mandatory to get the particular {} details", K::NOUN);
    let name = required(args.name.as_deref(), &missing)?;
    let remote = args.connection.open().await?;
    let object = remote.objects.get::<K>(Some(remote.namespace(args.namespace.as_deref())), name).await?;
    print(&lines::<K>(&[object], Millis::now()))
}

async fn delete<K: Flows>(args: &Delete) -> Result<()> {
    let object = &args.object;
    if !args.file.is_empty() {
        return delete_all::<K>(&in_file::<K>(&args.file)?, &object.connection.open().await?).await;
    }
    let missing = format!("{} name must be specified", K::NOUN);
    let wanted = required(object.name.as_deref(), &missing)?;
    let remote = object.connection.open().await?;
    let namespace = remote.namespace(object.namespace.as_deref());
    let found = remote.objects.get::<K>(Some(namespace), wanted).await?;
    delete_all::<K>(&[found], &remote).await
}

async fn delete_all<K: Flows>(objects: &[Value], remote: &Remote) -> Result<()> {
    let mut faults = Vec::new();
    for object in objects {
        let (namespace, name) = (home(remote, object), name(object));
        match remote.objects.delete::<K>(Some(namespace), name).await {
            Ok(()) => print(&format!("Deleted {}: {namespace}/{name}\n", K::kind(&())))?,
            Err(error) => faults.push(format!("Failed to delete {}: {error:#}", K::kind(&()))),
        }
    }
    all_well(&faults)
}

async fn describe<K: Flows>(args: &Describe) -> Result<()> {
    let object = &args.object;
    let remote = object.connection.open().await?;
    let namespace = remote.namespace(object.namespace.as_deref());
    let objects = match object.name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => vec![remote.objects.get::<K>(Some(namespace), name).await?],
        None => remote.objects.list::<K>(Some(namespace), Wanted::All).await?,
    };
    let texts = objects.into_iter().map(|object| args.format.one(object)).collect::<Result<Vec<_>>>()?;
    print(&texts.join("\n\n"))
}

fn in_file<K: Flows>(file: &str) -> Result<Vec<Value>, BadInput> {
    manifest::text(file).and_then(|text| manifest::objects::<K>(file, &text)).map_err(BadInput)
}

/// The namespace of an object of a file.
fn home<'a>(remote: &'a Remote, object: &'a Value) -> &'a str {
    remote.namespace(object["metadata"]["namespace"].as_str().filter(|namespace| !namespace.is_empty()))
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn all_well(faults: &[String]) -> Result<()> {
    if faults.is_empty() { Ok(()) } else { bail!(faults.join("\n")) }
}

fn lines<K: Flows>(objects: &[Value], now: Millis) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let age = move |object: &Value| {
        let created: Option<Time> =
            serde_json::from_value(object["metadata"]["creationTimestamp"].clone()).ok();
        since(created.as_ref(), now)
    };
    let mut columns = vec![
        Column::longest("Name", 4, |object: &Value| name(object).to_owned()),
        Column::longest("Namespace", 4, move |object: &Value| text(&object["metadata"]["namespace"])),
    ];
    if K::RUNS {
        columns.push(Column::longest("Phase", 4, move |object: &Value| {
            text(&object["status"]["state"]["phase"])
        }));
        columns.push(Column::longest("Age", 4, age));
    }
    table(&columns, objects)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The tables of vcctl's own tests.
    #[test]
    fn lists_have_vcctls_columns() {
        let object = json!({
            "metadata": {"name": "test-jobflow", "namespace": "default", "creationTimestamp": "2026-01-28T08:00:00Z"},
            "status": {"state": {"phase": "Succeed"}},
        });
        let now: Time = serde_json::from_str("\"2026-01-31T08:00:00Z\"").unwrap();
        let now = Millis(now.0.as_millisecond());
        assert_eq!(
            lines::<JobFlow>(std::slice::from_ref(&object), now),
            "Name            Namespace    Phase      Age    \ntest-jobflow    default      Succeed    3d     \n"
        );
        assert_eq!(
            lines::<JobTemplate>(&[object], now),
            "Name            Namespace    \ntest-jobflow    default      \n"
        );
    }
}
