//! Whole cycles: events in, decisions out.
mod admission;
mod budgets;
mod chases;
mod claims;
mod cluster;
mod denied;
mod endings;
mod eviction_properties;
mod evictions;
mod gangs;
mod grouping;
mod hdrf;
mod lines;
mod long_searches;
mod more_plugins;
mod moves;
#[path = "../../src/testing.rs"]
mod objects;
mod oracle;
mod oracle_beside;
mod oracle_claims;
mod oracle_gangs;
mod oracle_leaving;
mod oracle_queues;
mod oracle_rules;
mod oracle_shares;
mod orders;
mod parked;
mod parked_cases;
mod parked_kinds;
mod pools;
mod properties;
mod queues;
mod random;
mod reclaims;
mod refusals;
mod repairs;
mod reservations;
mod settings;
mod small;
mod trees;
mod undo;
mod writes;

// What `objects` imports; it is compiled into the library's own tests too.
use phalanx_core::{annotation, conf, event, id, plugin, world};
