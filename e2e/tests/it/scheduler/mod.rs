//! The scheduler on a real API server: the program as its users run it.

mod affinity;
mod bad_objects;
mod cluster;
mod conf;
mod definitions;
mod deploy;
mod devices;
mod evictions;
mod faults;
mod gangs;
mod leases;
mod outside;
mod places;
mod podgroups;
mod pools;
mod proxy;
mod queues;
mod quiet;
mod refusals;
mod restarts;
mod server;
mod sound;
mod still;
mod volcano;
mod volumes;
mod workloads;
