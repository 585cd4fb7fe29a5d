//! The node attributes that node selector terms read.
use phalanx_cluster::event::{NodeTerm, Operator, Requirement};
use phalanx_framework::plugin::{Attribute, Values};

/// The attributes that decide whether a node matches a term.
pub(crate) fn reads(term: &NodeTerm) -> impl Iterator<Item = (Attribute, Values)> + '_ {
    let label = |requirement: &Requirement| Attribute::Label(requirement.key.clone());
    let labels = term.labels.iter().map(move |requirement| (label(requirement), values(requirement)));
    labels.chain(term.fields.iter().map(|requirement| (Attribute::Name, values(requirement))))
}

fn values(requirement: &Requirement) -> Values {
    match requirement.operator {
        Operator::In | Operator::NotIn => Values::These(requirement.values.clone()),
        Operator::Exists | Operator::DoesNotExist => Values::These(Vec::new()),
        Operator::Gt | Operator::Lt => Values::All,
    }
}
