//! scheduler.conf: text to configuration, with positions.
