//! PodGroup and Queue of scheduling.volcano.sh.
