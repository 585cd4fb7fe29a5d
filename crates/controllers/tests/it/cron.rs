//! The CronJob controller in virtual time.

use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use phalanx_api::batch::{CronJob, Job, JobPhase, JobState, JobStatus};
use phalanx_controllers::cron::{Observed, reconcile};
use phalanx_controllers::{Change, Object};

struct Clock {
    now: Timestamp,
    cron: CronJob,
    jobs: Vec<Job>,
    zone: Option<TimeZone>,
    notes: Vec<String>,
    /// The controller is killed before its status is written.
    crashes: bool,
}

impl Clock {
    /// A CronJob made at midnight.
    fn new(spec: &str) -> Self {
        let text = format!("metadata: {{name: nightly, namespace: vision, uid: c}}\nspec: {{{spec}}}");
        let mut cron: CronJob = serde_yaml::from_str(&text).unwrap();
        let now: Timestamp = "2026-11-23T00:00:00Z".parse().unwrap();
        cron.metadata.creation_timestamp = Some(Time(now));
        Self { now, cron, jobs: Vec::new(), zone: Some(TimeZone::UTC), notes: Vec::new(), crashes: false }
    }

    /// Time passes, then the controller reconciles; twice, the second time without a change.
    fn wait(&mut self, minutes: i64) -> &mut Self {
        self.now += minutes.minutes();
        for _ in 0..3 {
            let seen = Observed { cron: &self.cron, jobs: &self.jobs, zone: self.zone.clone() };
            for change in reconcile(&seen, self.now).changes {
                self.apply(change);
            }
        }
        self
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Create(Object::Job(mut job)) => {
                job.metadata.uid.clone_from(&job.metadata.name);
                job.metadata.creation_timestamp = Some(Time(self.now));
                assert!(self.jobs.iter().all(|one| one.metadata.name != job.metadata.name), "made twice");
                self.jobs.push(*job);
            }
            Change::Delete(target) => {
                self.jobs.retain(|job| job.metadata.name.as_ref() != Some(&target.name));
            }
            Change::Status { object: Object::CronJob(cron), .. } if !self.crashes => {
                self.cron.status = cron.status;
            }
            Change::Status { .. } => {}
            Change::Note(note) => self.notes.push(note.message),
            change => panic!("{change:?}"),
        }
    }

    /// All Jobs that run end so.
    fn end(&mut self, phase: &JobPhase) {
        let time = Some(Time(self.now));
        for job in self.jobs.iter_mut().filter(|job| job.status.is_none()) {
            let state = JobState {
                phase: Some(phase.clone()),
                last_transition_time: time.clone(),
                ..JobState::default()
            };
            job.status = Some(JobStatus { state, ..JobStatus::default() });
        }
    }

    /// Times of day of the Jobs that are there.
    fn times(&self) -> Vec<String> {
        let minutes = |job: &Job| -> i64 {
            job.metadata.name.as_ref().unwrap().rsplit('-').next().unwrap().parse().unwrap()
        };
        let time = |job: &Job| Timestamp::from_second(minutes(job) * 60).unwrap();
        self.jobs.iter().map(|job| time(job).strftime("%H:%M").to_string()).collect()
    }
}

#[test]
fn jobs_start_at_their_times_and_are_named_after_them() {
    let mut clock =
        Clock::new("schedule: '*/10 * * * *', jobTemplate: {metadata: {labels: {a: b}}, spec: {queue: q}}");
    assert_eq!(clock.wait(9).times(), [""; 0]);
    assert_eq!(clock.wait(1).times(), ["00:10"]);
    let job = &clock.jobs[0];
    assert_eq!(job.metadata.name.as_deref(), Some("nightly-29923210"));
    assert_eq!((job.spec.queue.as_str(), job.metadata.labels.as_ref().unwrap()["a"].as_str()), ("q", "b"));
    let annotations = job.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations["volcano.sh/cronjob-scheduled-timestamp"], "2026-11-23T00:10:00Z");
    assert_eq!(clock.cron.status.as_ref().unwrap().active.len(), 1);
    clock.end(&JobPhase::Completed);
    clock.wait(1);
    let status = clock.cron.status.clone().unwrap();
    assert_eq!(
        (status.active.len(), status.last_successful_time.unwrap().0.to_string()),
        (0, "2026-11-23T00:10:00Z".to_owned())
    );
    let seen = Observed { cron: &clock.cron, jobs: &clock.jobs, zone: clock.zone.clone() };
    let next = reconcile(&seen, clock.now).next.unwrap();
    assert_eq!(next.to_string(), "2026-11-23T00:20:00Z");
}

#[test]
fn a_controller_that_was_away_starts_the_last_job_only() {
    let mut clock = Clock::new("schedule: '*/10 * * * *'");
    assert_eq!(clock.wait(65).times(), ["01:00"]);
}

#[test]
fn a_controller_that_was_killed_before_its_status_makes_no_second_job() {
    let mut clock = Clock::new("schedule: '*/10 * * * *'");
    clock.crashes = true;
    assert_eq!(clock.wait(12).times(), ["00:10"]);
    clock.end(&JobPhase::Completed);
    assert_eq!(clock.wait(3).times(), ["00:10"]);
    clock.crashes = false;
    clock.wait(0);
    let last = clock.cron.status.clone().unwrap().last_schedule_time.unwrap();
    assert_eq!(last.0.to_string(), "2026-11-23T00:10:00Z");
}

#[test]
fn jobs_at_the_same_time() {
    for (policy, expected) in
        [("Allow", vec!["00:10", "00:20"]), ("Forbid", vec!["00:10"]), ("Replace", vec!["00:20"])]
    {
        let mut clock = Clock::new(&format!("schedule: '*/10 * * * *', concurrencyPolicy: {policy}"));
        assert_eq!(clock.wait(10).wait(11).times(), expected, "{policy}");
        let told = "the Job that was due at 2026-11-23T00:20:00Z waits until the one that runs has ended";
        assert_eq!(
            clock.notes.last().is_some_and(|note| note == told),
            policy == "Forbid",
            "{:?}",
            clock.notes
        );
        if policy == "Forbid" {
            clock.end(&JobPhase::Completed);
            assert_eq!(clock.wait(1).times(), ["00:10", "00:20"], "what was left out starts late");
        }
    }
}

#[test]
fn a_job_beyond_its_deadline_is_left_out() {
    for (late, expected) in [(1, vec!["00:10"]), (3, vec![])] {
        let mut clock = Clock::new("schedule: '*/10 * * * *', startingDeadlineSeconds: 120");
        assert_eq!(clock.wait(10 + late).times(), expected, "{late} minutes late");
    }
}

#[test]
fn a_suspended_cron_job_starts_nothing() {
    let mut clock = Clock::new("schedule: '*/10 * * * *', suspend: true");
    assert_eq!(clock.wait(30).times(), [""; 0]);
    clock.cron.spec.suspend = false;
    assert_eq!(clock.wait(1).times(), ["00:30"]);
}

#[test]
fn old_jobs_are_deleted() {
    let mut clock =
        Clock::new("schedule: '*/10 * * * *', successfulJobsHistoryLimit: 2, failedJobsHistoryLimit: 0");
    for phase in [
        JobPhase::Completed,
        JobPhase::Failed,
        JobPhase::Completed,
        JobPhase::Terminated,
        JobPhase::Completed,
    ] {
        clock.wait(10);
        clock.end(&phase);
        clock.wait(0);
    }
    assert_eq!(clock.times(), ["00:30", "00:50"]);
}

#[test]
fn schedules() {
    for (schedule, zone, expected) in [
        ("30 5 * * *", 0, vec!["05:30"]),
        ("30 5 * * *", 2, vec!["03:30"]),
        ("@hourly", 0, vec!["23:00"]),
        ("@every 90m", 0, vec!["22:30"]),
        ("0 12 23 11 *", 0, vec!["12:00"]),
        ("0 12 * * MON", 0, vec!["12:00"]),
        ("0 12 * * TUE", 0, vec![]),
        // Either the day of the month or that of the week.
        ("0 12 1 * MON", 0, vec!["12:00"]),
        ("0 12 31 2 *", 0, vec![]),
    ] {
        let mut clock = Clock::new(&format!("schedule: '{schedule}'"));
        clock.zone = Some(TimeZone::fixed(Offset::from_hours(zone).unwrap()));
        assert_eq!(clock.wait(23 * 60 + 59).times(), expected, "{schedule}");
        assert!(clock.notes.is_empty(), "{schedule}: {:?}", clock.notes);
    }
}

#[test]
fn a_cron_job_that_cannot_be_read_starts_nothing_and_says_why() {
    for (spec, zone, message) in [
        ("schedule: '61 * * * *'", Some(TimeZone::UTC), "spec.schedule: \"61 * * * *\""),
        ("schedule: 'often'", Some(TimeZone::UTC), "spec.schedule: \"often\""),
        ("schedule: '@every 1s'", Some(TimeZone::UTC), "expected a minute or more"),
        ("schedule: '* * * * *', timeZone: Mars/Base", None, "spec.timeZone: \"Mars/Base\" is not known"),
    ] {
        let mut clock = Clock::new(spec);
        clock.zone = zone;
        assert_eq!(clock.wait(100).times(), [""; 0], "{spec}");
        assert!(clock.notes[0].contains(message), "{:?}", clock.notes);
    }
}
