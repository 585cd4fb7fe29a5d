//! What answers mean for a subject and its errand.
use std::time::Duration;

use phalanx_cluster::event::Key;
use phalanx_controllers::{Change, Kind, Object, Target};

use super::super::errand::{Ask, Failure};
use super::super::hyper_nodes::regarded;
use super::super::queue::Subject;
use super::super::store::Watched;
use super::super::table::Identity;
use super::super::write::{Answer, Brought, type_of};
use super::{Came, Machine};
use crate::outbox::request::Moment;

impl Machine {
    pub(super) fn judge(&mut self, subject: &Subject, ask: Ask, came: Came, now: Moment) {
        match (ask, came) {
            (Ask::Write(change), Came::Answer(answer)) => self.written(subject, change, answer, now),
            (Ask::Renew(..), Came::Answer(Answer::Done(brought))) => self.bring(subject, brought, now),
            (Ask::Compare(object), Came::Answer(Answer::Done(brought))) => {
                self.compare(subject, &object, brought, now);
            }
            (Ask::Read(uid, ..), Came::Answer(Answer::Done(brought))) => {
                self.keep(subject, &uid, brought, now);
            }
            (Ask::Read(uid, ..), Came::Answer(Answer::NotFound(_))) => {
                self.keep(subject, &uid, Brought::Nothing, now);
            }
            (_, Came::SshKey(Some(key))) => {
                self.memory.entry(subject.clone()).or_default().ssh_key = Some(key);
                self.queue.mark(subject, now.instant);
            }
            (Ask::Probe(probe, _), Came::Probed(true)) => {
                self.memory.entry(subject.clone()).or_default().passed.insert(probe);
                self.queue.mark(subject, now.instant);
            }
            (_, Came::Probed(_)) => {}
            // It was there a moment ago, or it will be read with the next try.
            (_, Came::Answer(Answer::NotFound(_) | Answer::Conflict(_) | Answer::Done(_))) => {
                self.fail(subject, Failure::Passing, None);
            }
            (_, Came::Answer(Answer::Passing(_, after))) => self.fail(subject, Failure::Passing, after),
            (_, Came::Answer(Answer::Refused(_)) | Came::SshKey(None)) => {
                self.fail(subject, Failure::Refused, None);
            }
        }
    }

    fn written(&mut self, subject: &Subject, change: Change, answer: Answer, now: Moment) {
        match (change, answer) {
            (Change::Delete(_), Answer::Done(Brought::Seen(seen))) if seen.is_terminating() => {
                self.bring(subject, Brought::Seen(seen), now);
            }
            // Another object of this name is not the one that was to be deleted.
            (Change::Delete(target), Answer::Done(_) | Answer::NotFound(_) | Answer::Conflict(_)) => {
                self.gone(subject, &target, now);
            }
            (Change::Create(Object::Job(job)), Answer::Done(brought)) => {
                self.tell_created(subject, job.metadata.name.as_deref().unwrap_or_default(), now);
                self.bring(subject, brought, now);
            }
            (_, Answer::Done(brought)) => self.bring(subject, brought, now),
            (Change::Join(pod, _), Answer::NotFound(_)) => self.gone(subject, &pod, now),
            // The API server was busy with the pod, or another one has its name: a watch will tell.
            (Change::Join(..), Answer::Conflict(_)) => self.fail(subject, Failure::Passing, None),
            (Change::Create(object), Answer::Conflict(_)) => {
                if let Some(errand) = self.errands.get_mut(subject) {
                    errand.first(Ask::Compare(object));
                }
            }
            (
                Change::Replace(object) | Change::Status { object, .. },
                Answer::Conflict(_) | Answer::NotFound(_),
            ) => {
                self.fail(subject, Failure::Passing, None);
                let key = Identity::of(object.metadata()).key;
                if let Some(errand) = self.errands.get_mut(subject) {
                    errand.first(Ask::Renew(object.kind(), key));
                }
            }
            (_, Answer::Passing(_, after)) => self.fail(subject, Failure::Passing, after),
            (change, Answer::NotFound(message) | Answer::Conflict(message) | Answer::Refused(message)) => {
                self.refused(subject, &change, &message, now);
            }
        }
    }

    /// A CronJob or a JobFlow has made a Job.
    fn tell_created(&mut self, subject: &Subject, job: &str, now: Moment) {
        let reason = if subject.kind == Kind::CronJob { "SuccessfulCreate" } else { "Created" };
        self.tell_subject(subject, false, reason, format!("created Job {job}"), now.instant);
    }

    /// Takes in what an answer says.
    fn bring(&mut self, subject: &Subject, brought: Brought, now: Moment) {
        match brought {
            Brought::Seen(seen) => self.seen(*seen, now.instant),
            Brought::Made(object) => {
                if let Some(uid) = self.store.jobs.uid(&subject.key).map(str::to_owned) {
                    self.store.keep_made(&uid, *object);
                    self.queue.mark(subject, now.instant);
                }
            }
            Brought::Nothing => {}
        }
    }

    fn gone(&mut self, subject: &Subject, target: &Target, now: Moment) {
        let key = Key::new(&target.namespace, &target.name);
        let watched = Watched::of(target.kind);
        for kind in watched {
            let concerned = self.store.remove(*kind, &key, &target.uid);
            self.mark(&concerned, now.instant);
        }
        if watched.is_empty()
            && let Some(uid) = self.store.jobs.uid(&subject.key).map(str::to_owned)
        {
            self.store.drop_made(&uid, target.kind, &target.name);
        }
    }

    /// Where an object was to be made stands another one: as good, if the same object controls it. Claims are shared,
    /// of a HyperNode its label tells who made it, and, as in Volcano, somebody's Service or NetworkPolicy does for the pods.
    fn compare(&mut self, subject: &Subject, wanted: &Object, brought: Brought, now: Moment) {
        let wanted_id = Identity::of(wanted.metadata());
        let id = match &brought {
            Brought::Seen(seen) => seen.id.clone(),
            Brought::Made(object) => Identity::of(object.metadata()),
            Brought::Nothing => return self.fail(subject, Failure::Passing, None),
        };
        let ours = id.controller_uid().is_some() && id.controller_uid() == wanted_id.controller_uid();
        if ours || matches!(wanted.kind(), Kind::Claim | Kind::HyperNode) {
            return self.bring(subject, brought, now);
        }
        let (_, kind) = type_of(wanted.kind());
        let message =
            format!("{kind} {} is there already, and is not controlled by this object", id.key.name);
        self.warn(subject, "FailedCreate", message, now.instant);
        match wanted.kind() {
            Kind::Service | Kind::NetworkPolicy => self.bring(subject, brought, now),
            _ => self.stumble(subject, Failure::Passing),
        }
    }

    /// What a plugin made, if it made it for this Job. After the last of these the Job is reconciled.
    fn keep(&mut self, subject: &Subject, uid: &str, brought: Brought, now: Moment) {
        self.queue.mark(subject, now.instant);
        self.store.made.entry(uid.to_owned()).or_default();
        if let Brought::Made(object) = brought
            && Identity::of(object.metadata()).controller_uid() == Some(uid)
        {
            self.store.keep_made(uid, *object);
        }
    }

    fn refused(&mut self, subject: &Subject, change: &Change, message: &str, now: Moment) {
        let reason = match change {
            Change::Create(_) => "FailedCreate",
            Change::Delete(_) => "FailedDelete",
            Change::Replace(_) | Change::Status { .. } | Change::Join(..) | Change::Note(_) => "FailedUpdate",
        };
        self.warn(&regarded(subject, change), reason, message.to_owned(), now.instant);
        self.stumble(subject, Failure::Refused);
    }

    /// One change failed for what stands in it. The others of a JobFlow, and those of other HyperNodes, go on: they need
    /// not wait for each other.
    fn stumble(&mut self, subject: &Subject, failure: Failure) {
        match self.errands.get_mut(subject) {
            Some(errand) if matches!(subject.kind, Kind::JobFlow | Kind::HyperNode) => {
                errand.failure = errand.failure.max(Some(failure));
            }
            Some(errand) => errand.fail(failure),
            None => {}
        }
    }

    fn fail(&mut self, subject: &Subject, failure: Failure, after: Option<Duration>) {
        if let Some(errand) = self.errands.get_mut(subject) {
            errand.fail(failure);
            errand.after = errand.after.max(after);
        }
    }
}
