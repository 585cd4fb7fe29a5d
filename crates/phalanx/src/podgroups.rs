//! How PodGroups are made for pods without one: flags of `controllers`, and of `scheduler --controllers`.
use std::path::Path;

use anyhow::Result;
use phalanx_runtime::controllers::OwnerTable;
use serde_json::Value;

use crate::exit::{BadInput, all_of, plain};
use crate::flag;

/// Flags of the PodGroup controller.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PodGroups {
    /// A YAML list of kinds whose objects may be the owner of a gang, beside those that are built in
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    podgroup_owners: String,
    /// Owners of pods state minMember of the PodGroup, and their annotations pass to it
    #[arg(long, default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = flag::boolean(), value_name = "BOOL")]
    inherit_owner_annotations: bool,
}

impl PodGroups {
    /// The kinds whose objects may be the owner of a gang.
    pub(crate) fn owners(&self) -> Result<OwnerTable> {
        let (file, builtin) = (&self.podgroup_owners, OwnerTable::builtin());
        let table = if file.is_empty() {
            builtin
        } else {
            builtin.with(&read(file)?).map_err(|mistakes| told(file, &mistakes))?
        };
        Ok(if self.inherit_owner_annotations { table } else { OwnerTable::default() })
    }
}

fn told(file: &str, mistakes: &[String]) -> BadInput {
    let line = |mistake: &String| format!("--podgroup-owners {file}: {mistake}");
    all_of(&mistakes.iter().map(line).collect::<Vec<_>>())
}

fn read(file: &str) -> Result<Value, BadInput> {
    let text = std::fs::read_to_string(Path::new(file)).map_err(|error| told(file, &[plain(&error)]))?;
    serde_yaml::from_str(&text).map_err(|error| told(file, &[error.to_string()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str, inherit: bool) -> Result<OwnerTable> {
        let name = format!("phalanx-owners-{}-{}.yaml", std::process::id(), text.len());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, text)?;
        let podgroup_owners = file.display().to_string();
        let table = PodGroups { podgroup_owners, inherit_owner_annotations: inherit }.owners();
        std::fs::remove_file(&file)?;
        table
    }

    #[test]
    fn a_file_extends_the_table_and_mistakes_name_file_row_and_field() {
        let builtin = OwnerTable::builtin().rows().len();
        let rows = "- apiVersion: example.com/v1\n  kind: Gang\n  minMember: spec.size\n";
        assert_eq!(table(rows, true).unwrap().rows().len(), builtin + 1);
        assert_eq!(table(rows, false).unwrap().rows().len(), 0, "owners say nothing");
        let wrong = "- kind: Gang\n- apiVersion: example.com/v1\n  kind: Gang\n  per: ''\n";
        let told = table(wrong, true).unwrap_err().to_string();
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines.len(), 2, "{told}");
        assert!(lines[0].contains(".yaml: row 1: missing field `apiVersion`"), "{told}");
        assert!(lines[1].contains(".yaml: row 2: per"), "{told}");
        let missing = PodGroups { podgroup_owners: "/nowhere.yaml".into(), inherit_owner_annotations: true };
        assert!(missing.owners().unwrap_err().to_string().starts_with("--podgroup-owners /nowhere.yaml: "));
    }
}
