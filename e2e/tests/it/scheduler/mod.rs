//! The scheduler on a real API server: the program as its users run it.

mod affinity;
mod bad_objects;
mod cluster;
mod conf;
mod definitions;
mod deploy;
mod devices;
mod evictions;
mod gangs;
mod outside;
mod places;
mod podgroups;
mod policies;
mod pools;
mod queues;
mod quiet;
mod refusals;
mod restarts;
mod server;
mod still;
mod volcano;
mod volumes;
mod workloads;
