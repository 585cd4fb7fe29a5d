//! Bugs that a run plants between the parts of a process, to show that the checkers find them: what one part tells
//! another is dropped, doubled or changed, as if the part were wrong.

macro_rules! planted {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// A bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Planted {
            $($(#[doc = $doc])* $name,)*
        }

        impl Planted {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// What it does.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc,)*).trim_start(),)*
                }
            }
        }
    };
}

planted! {
    /// `minMember` is read as one less: an off-by-one error of gangs.
    MinMemberOffByOne,
    /// Nodes are read with one core more than they have.
    NodeOffByOne,
    /// The capability of a queue is read with one core more.
    CapabilityOffByOne,
    /// The last bind of a gang of several pods is never sent.
    BindLost,
    /// A pod is bound to the node of another pod of the same decision.
    BindElsewhere,
    /// Each bind is sent once more, to another node.
    BindDoubled,
    /// That a bind was carried out is told as a failure.
    BoundIsFailure,
    /// No answer to a bind counts as a refusal, though the bind may have been carried out.
    SilenceIsRefusal,
    /// A refused bind counts as carried out.
    RefusalIsDone,
    /// A write that is to be tried again, after a conflict, 429, 500 or silence, counts as carried out.
    ConflictIsDone,
    /// The actions of scheduler.conf are read without `preempt` and `reclaim`.
    NoEvictingActions,
    /// Evictions are never sent.
    EvictionLost,
    /// Another pod is evicted than was decided.
    EvictionOfAnother,
    /// A pod of each gang that runs is evicted once, and nobody waits for its node.
    EvictionInVain,
    /// Beside each victim, another pod of its gang is evicted.
    EvictionTooMany,
    /// Changes of the status of PodGroups are not written.
    StatusLost,
    /// That the status of a PodGroup was written is told as a conflict, so that it is written again and again.
    StatusWrittenForEver,
    /// The first status of each PodGroup is written and no later one.
    StatusFrozen,
    /// A deletion of a pod is not told to the Cluster.
    PodDeletionLost,
    /// A deletion of a PodGroup is not told to the Cluster.
    PodGroupDeletionLost,
    /// A deletion of a node is not told to the Cluster.
    NodeDeletionLost,
    /// A relist does not take out what is gone.
    RelistKeepsGone,
    /// A watch that breaks off goes on with what is new, without what it missed.
    MissedChanges,
    /// Nodes are read as ready.
    ReadinessLost,
    /// Nodes are read as not cordoned.
    CordonLost,
    /// The scheduler reads queues as open.
    QueueStateLost,
    /// A gang that is refused keeps the place of its first pod: a Statement is not undone as a whole.
    UndoIncomplete,
    /// A change of a job that waits is not told to the backlog, so that the job is not tried again for it.
    JobChangeLost,
    /// Cycles run for changes only, not at the times that the core asked for.
    WakeUpLost,
    /// The outbox sends when a decision or an answer has come, not when time has.
    RetryLost,
    /// Writes leave without a look at the lease.
    NoFence,
    /// A lease is taken over although its holder renews it.
    LeaseStolen,
    /// Two processes lead at once, without a lease.
    NoLease,
    /// The controllers read Jobs with one replica more than they have.
    ReplicasOffByOne,
    /// The controllers never make the second pod of a Job.
    PodCreationLost,
    /// The controllers read action RestartPod as RestartTask.
    RestartPodIsRestartTask,
    /// The controllers delete no pods.
    JobPodDeletionLost,
    /// The controllers put no pod into the PodGroup that they made for it.
    JoinLost,
    /// The controllers do not delete the PodGroup of a Job that has ended.
    PodGroupKept,
    /// A Job counts as completed once one of its pods has succeeded.
    JobCompletedEarly,
    /// That a Job is completed is never written.
    JobEndLost,
    /// A restart of a Job counts as a retry in each status that is written after it.
    RetryCountedTwice,
    /// A restart of a Job does not count as a retry.
    RetryNotCounted,
}
