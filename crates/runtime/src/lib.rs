//! The shell on the API server: watches, outbox, status, events.
