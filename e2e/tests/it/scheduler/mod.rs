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
mod queues;
mod quiet;
mod restarts;
mod volumes;
mod workloads;
